"""Without an optional package, what needs it says which extra to install; nothing else notices."""

import subprocess
import sys

import numpy as np
import pytest

import ergodica as eg
from ergodica.host.extras import require
from tests.cli.command import complaint

TOPICS = "eg.lda needs numba, which is not installed: pip install 'ergodica[lda]'"


def without(package: str, script: str) -> str:
    """What a process prints in which `package` cannot be imported."""
    code = f"import sys; sys.modules[{package!r}] = None\nimport ergodica as eg\n{script}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.rstrip("\n")


@pytest.mark.parametrize("name", ["LDA", "ExpandedMean", "gibbs"])
def test_topic_models_name_their_extra(name):
    assert without("numba", f"try: eg.lda.{name}\nexcept eg.InputError as error: print(error)") == TOPICS


def test_the_command_is_one_line_and_exit_code_2():
    script = "from ergodica.cli import main\nsys.argv = ['ergodica', 'lda', 'fit', 'demo', '--out', 'nowhere']\nmain()"
    code = f"import sys; sys.modules['numba'] = None\n{script}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (2, f"ergodica: {TOPICS}\n")


def test_a_corpus_is_read_without_numba():
    assert without("numba", "print(eg.lda.Documents.of([[0, 2, 2], [1]]).tokens)") == "4"


def test_pictures_name_their_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    expected = r"needs matplotlib, which is not installed: pip install 'ergodica\[plot\]'$"
    laws = eg.exact_law(eg.sgld(), eg.gallery.gaussian(2), step_size=[0.1, 0.2])
    with pytest.raises(eg.InputError, match=expected):
        laws.plot(tmp_path / "bias.png")
    run = eg.sample(eg.gallery.gaussian(2), eg.sgld(), steps=50, step_size=0.1, progress=False)
    with pytest.raises(eg.InputError, match=expected):
        run.plot(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_picture_is_refused_before_the_work(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = complaint(capsys, monkeypatch, "rebuild-curl", "no_such_file.py:sde", "--plot", tmp_path / "q.png")
    assert said.endswith("--plot needs matplotlib, which is not installed: pip install 'ergodica[plot]'\n")


def test_parquet_names_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    with pytest.raises(eg.InputError, match=r"eg\.data\.parquet needs pyarrow.*'ergodica\[parquet\]'$"):
        eg.data.parquet("rows.parquet")


def test_a_broken_package_speaks_for_itself(monkeypatch, tmp_path):
    (tmp_path / "half_installed.py").write_text("import nowhere_to_be_found\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nowhere_to_be_found"):
        require("half_installed", extra="plot", by="a test")


def test_what_is_there_is_returned():
    assert require("numpy", extra="plot", by="a test") is np
