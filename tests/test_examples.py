"""README's commands and the example scripts run as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.selection import long_unless


def stem(path: Path) -> str:
    return path.stem


ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples").glob("*.py"))
SHORTENED = {"audit_blackjax": ["--quick"]}  # scripts of minutes, which have a shorter way
HOW_TOS = (  # pages whose blocks are one program
    "constrained_parameters",
    "predictions",
    *(pytest.param(page, marks=pytest.mark.long) for page in ("bayesian_network", "matrix_factorisation")),
)
SHORT = ("first_sampler", "own_recipe", "is_it_right")


@pytest.mark.parametrize("script", long_unless(SCRIPTS, *SHORT, name=stem), ids=stem)
def test_example_runs(script):
    # ArviZ 0.23 warns of its own next version when it is imported
    strict = ["-W", "error", "-W", "ignore::FutureWarning:arviz"]
    command = [sys.executable, *strict, script, *SHORTENED.get(script.stem, [])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    if script.stem == "own_recipe":
        *found, truth = (float(x) for x in re.findall(r"\d+\.\d+", done.stdout))
        # 4 chains of 20,000 steps of 0.1: about 3,000 effective draws, sd of q^2 is 0.9
        assert all(abs(x - truth) < 4.5 * 0.9 / 3000**0.5 for x in found), done.stdout


@pytest.mark.parametrize("name", HOW_TOS)
def test_how_to_runs_as_printed(name, tmp_path):
    page = (ROOT / "docs" / "how-to" / f"{name}.md").read_text()
    program = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    strict = ["-W", "error", "-W", "ignore::FutureWarning:arviz"]
    settings = os.environ | {"MPLBACKEND": "Agg"}
    command = [sys.executable, *strict, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    shown = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    # figures may differ between machines, not what is printed beside them
    words = [re.sub(r"\d", "0", text) for text in (done.stdout, *shown)]
    assert all(text in words[0] for text in words[1:])


def test_learned_scales_run_as_printed():
    page = (ROOT / "docs" / "how-to" / "precondition.md").read_text()
    (program,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "import" in block)
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    plain, preconditioned, whitened = (int(n) for n in re.findall(r"effective draws (\d+)", done.stdout))
    assert plain < preconditioned / 2 < whitened / 4


def test_readme_shows_the_examples():
    readme = (ROOT / "README.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    lines = {line.strip() for script in SCRIPTS for line in script.read_text().splitlines()}
    shown = [line.split("  # leaves")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]
    strays = [line for line in shown if line not in lines and not line.startswith(("import", "run.posterior"))]
    assert not strays
