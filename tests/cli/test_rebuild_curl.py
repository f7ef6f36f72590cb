import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ergodica.cli.rebuild_curl import rebuild_curl_command
from ergodica.errors import InputError

EXAMPLE = Path(__file__).parents[2] / "examples" / "hmc_sde.py"


def run(*arguments):
    return CliRunner().invoke(rebuild_curl_command, [str(argument) for argument in arguments])


def test_report_picture_and_json(tmp_path):
    picture = tmp_path / "q.png"
    done = run(f"{EXAMPLE}:sghmc", "--plot", picture, "--json", "--resolution", "128")
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["passed"]
    assert found["figures"]["error"] < 1e-8
    assert abs(found["figures"]["largest"] - 1) < 1e-9
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 100_000


def test_a_picture_to_be_scaled(tmp_path):
    assert run(f"{EXAMPLE}:sghmc", "--plot", tmp_path / "q.svg", "--resolution", "64").exit_code in (0, 1)
    assert (tmp_path / "q.svg").read_bytes().startswith(b"<?xml")


def test_words_and_exit_code_1():
    wrong = run(f"{EXAMPLE}:without_noise")
    assert wrong.exit_code == 1
    assert "does not leave exp(-H) invariant" in " ".join(wrong.output.split())
    assert not json.loads(run(f"{EXAMPLE}:without_noise", "--json").output)["passed"]
    coarse = run(f"{EXAMPLE}:sde", "--resolution", "20", "--method", "closed form")
    assert coarse.exit_code == 1
    assert "unique up to c/p" in coarse.output
    assert "raise the resolution" in " ".join(coarse.output.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((f"{EXAMPLE}:hamiltonian",), "expected an object with drift, diffusion, hamiltonian"),
        ((f"{EXAMPLE}:sde", "--box", "-6:6"), "in 1 dimensions"),
        ((f"{EXAMPLE}:sde", "--box", "six"), "expected low:high for each coordinate"),
        ((f"{EXAMPLE}:sde", "--box", "-1:1,-1:1"), "cuts off 60.6 %"),
        ((f"{EXAMPLE}:sde", "--resolution", "200000"), "TB of memory"),
    ],
)
def test_bad_input(arguments, words):
    done = run(*arguments)
    assert isinstance(done.exception, InputError)
    assert words in str(done.exception)
