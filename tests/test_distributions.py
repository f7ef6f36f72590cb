"""What is released: the wheel works in a clean environment outside the tree, the sdist can run its own tests."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import ergodica as eg
from tests.oldest import oldest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Files of the tree that these tests read: examples, benchmarks, README.
SOME_TESTS = (
    "tests/unit/test_gaussian_twin.py",
    "tests/unit/test_phase.py",
    "tests/test_examples.py::test_readme_shows_the_examples",
)
# In a process that sees nothing of the tree.
TRIAL = """
import ergodica as eg, importlib.util, pathlib
run = eg.sample(eg.gallery.gaussian(2), eg.sgld(), steps=20, step_size=0.1, chains=2, progress=False)
assert run.posterior.shape == (2, 20, 2), run.posterior.shape
assert importlib.util.find_spec("ergodica.paper") is None
assert (pathlib.Path(eg.__file__).parent / "py.typed").is_file()
for wanted in (lambda: eg.lda.LDA, lambda: run.plot("pictures")):
    try:
        wanted()
    except eg.InputError as error:
        print(error)
print(eg.__version__, eg.__file__)
"""


def do(*command: object, folder: Path, **environment: str) -> str:
    """What a command prints; it runs in `folder` without this process's paths."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=kept | environment, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_one_version():
    changelog = re.findall(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    citation = re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    assert [eg.__version__, changelog[0], *citation] == [PROJECT["version"]] * 3


def test_every_lower_bound_is_a_version():
    found = oldest(PROJECT)
    assert len(found) == len(set(found)) > 15
    with pytest.raises(ValueError, match=r"'numpy': expected name>=version"):
        oldest({"dependencies": ["numpy"], "optional-dependencies": {}})


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the sdist, and with the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    do(sys.executable, "-m", "build", "--outdir", folder, ROOT, folder=folder)
    return folder


@pytest.mark.long
def test_wheel_holds_the_package_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"ergodica/py.typed", "ergodica/__init__.pyi", "ergodica/lda/__init__.pyi"} <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"ergodica"}
    assert not [name for name in names if name.startswith("ergodica/paper/") or "test" in Path(name).stem.split("_")]


@pytest.mark.long
def test_wheel_works_in_a_clean_environment(built, tmp_path):
    venv.create(tmp_path / "clean", with_pip=True)
    programs = tmp_path / "clean" / ("Scripts" if os.name == "nt" else "bin")
    (wheel,) = built.glob("*.whl")
    do(programs / "python", "-m", "pip", "install", "-q", wheel, folder=tmp_path)
    printed = do(programs / "python", "-c", TRIAL, folder=tmp_path, JAX_PLATFORMS="cpu").splitlines()
    assert [line.rpartition(": ")[2] for line in printed[:2]] == [
        "pip install 'ergodica[lda]'",
        "pip install 'ergodica[plot]'",
    ]
    version, _, place = printed[2].partition(" ")
    assert version == PROJECT["version"]
    assert Path(place).is_relative_to(tmp_path)
    assert "Commands:" in do(programs / "ergodica", "--help", folder=tmp_path)


@pytest.mark.long
def test_sdist_runs_its_own_tests(built, tmp_path):
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    paths = os.pathsep.join(str(tree / part) for part in ("src", "paper/src"))
    pytest_here = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider")
    # every import of every test file; the last line has the time that it took
    collected = do(*pytest_here, "--collect-only", folder=tree, PYTHONPATH=paths).splitlines()[:-1]
    here = do(*pytest_here, "--collect-only", folder=ROOT, PYTHONPATH=os.pathsep.join(sys.path)).splitlines()[:-1]
    assert collected == here
    do(*pytest_here, *SOME_TESTS, folder=tree, PYTHONPATH=paths, JAX_PLATFORMS="cpu")
