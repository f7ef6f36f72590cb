"""ergodica audit."""

import json
from functools import partial

import pytest

from ergodica.errors import InputError
from ergodica.report import Check, Report
from tests.cli.command import call

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

def build_with_more(potential, temperature, friction=1.0):
    return build(potential, temperature)

def by_keyword(key, x, *, step_size):
    return x

def with_default(key, x, step_size=0.1):
    return step(key, x, step_size)

anywhere = eg.Density(lambda x: 0.5 * jnp.sum(x**2))
begin = jnp.ones(2)
number = 3
"""


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    (tmp_path / "own_step.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)


run = partial(call, "audit")


def test_a_right_step_passes_and_a_wrong_one_has_exit_code_1():
    right = run("own_step.py:pair", "--effort", "0.02")
    assert right.exit_code == 0, right.output
    assert right.output.startswith("PASSED")
    wrong = run("own_step.py:cold", "--target", "own_step.py:target", "--effort", "0.02", "--json")
    assert wrong.exit_code == 1
    assert json.loads(wrong.output)["figures"]["temperature"][2] < 0.8


@pytest.mark.parametrize("name", ["build", "build_with_more"])
def test_a_build_is_put_on_known_laws(monkeypatch, name):
    asked = {}

    def family(build, **settings):
        asked.update(settings, build=build)
        return Report("a family", (Check("a law", False, 1.0, 0.0, "words"),))

    monkeypatch.setattr("ergodica.cli.verify.audit_family", family)
    result = run(f"own_step.py:{name}", "--seed", "4", "--effort", "0.02")
    assert result.exit_code == 1
    assert result.output.startswith("NOT PASSED  a family")
    assert asked["build"].__name__ == name
    assert (asked["seed"], asked["effort"]) == (4, 0.02)


def test_a_position_can_be_given(monkeypatch):
    asked = {}

    def one(step, target, position, **settings):
        asked.update(settings, position=position)
        return Report("a step", (Check("a law", True, 1.0, 0.0, "words"),))

    monkeypatch.setattr("ergodica.cli.verify.audit", one)
    spec = ("own_step.py:with_default", "--target", "own_step.py:anywhere", "--position", "own_step.py:begin")
    assert run(*spec).exit_code == 0
    assert asked["position"].shape == (2,)
    assert "temperature" not in asked


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("own_step.py:step",), "Give --target"),
        (("own_step.py:by_keyword",), "Give --target"),
        (("own_step.py:with_default",), "Give --target"),
        (("own_step.py:build", "--temperature", "2"), "--temperature is for step"),
        (("own_step.py:build", "--step-size", "0.1"), "--step-size is for step"),
        (("own_step.py:build", "--target", "own_step.py:target"), "--target is for step"),
        (("own_step.py:step", "--target", "own_step.py:anywhere"), "give --position module:position"),
        (("own_step.py:number",), "expected a function"),
        (("own_step.py:nothing",), "has no 'nothing'"),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        run(*arguments)
    assert "\n" not in str(caught.value)
