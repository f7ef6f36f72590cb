"""ergodica audit."""

import json

import pytest
from click.testing import CliRunner

from ergodica.cli.audit import audit_command
from ergodica.errors import InputError
from ergodica.report import Check, Report

OWN = """
import jax
import jax.numpy as jnp
import ergodica as eg

target = eg.gallery.gaussian(2)

def step(key, x, h):
    return x - h * x + jnp.sqrt(2 * h) * jax.random.normal(key, x.shape, x.dtype)

def cold(key, x, h):
    return x - h * x + jnp.sqrt(h) * jax.random.normal(key, x.shape, x.dtype)

pair = (step, target)

def build(potential, temperature):
    return lambda key, x, h: x

number = 3
"""


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / "own_step.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)


def run(*arguments):
    return CliRunner().invoke(audit_command, arguments, catch_exceptions=False)


def test_a_right_step_passes_and_a_wrong_one_has_exit_code_1():
    right = run("own_step.py:pair", "--effort", "0.02")
    assert right.exit_code == 0, right.output
    assert right.output.startswith("PASSED")
    wrong = run("own_step.py:cold", "--target", "own_step.py:target", "--effort", "0.02", "--json")
    assert wrong.exit_code == 1
    assert json.loads(wrong.output)["figures"]["temperature"][2] < 0.8


def test_a_build_is_put_on_known_laws(monkeypatch):
    asked = {}

    def family(build, **settings):
        asked.update(settings, build=build)
        return Report("a family", (Check("a law", False, 1.0, 0.0, "words"),))

    monkeypatch.setattr("ergodica.cli.audit.audit_family", family)
    result = run("own_step.py:build", "--seed", "4", "--effort", "0.02")
    assert result.exit_code == 1
    assert result.output.startswith("NOT PASSED  a family")
    assert asked["build"].__name__ == "build"
    assert (asked["seed"], asked["effort"]) == (4, 0.02)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("own_step.py:step",), "Give --target"),
        (("own_step.py:number",), "expected a function"),
        (("own_step.py:nothing",), "has no 'nothing'"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        run(*arguments)
    assert "\n" not in str(caught.value)
