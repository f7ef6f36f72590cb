"""`ergodica sample` without settings, and `ergodica tune`: exit codes, what is printed, and what is refused."""

import json
import os
import sys

import numpy as np
import pytest

from ergodica.driver import load
from tests.cli.command import call, complaint

MODEL = """
import jax
import jax.numpy as jnp
import numpy as np
import ergodica as eg

bowl = eg.Density(lambda q: jnp.sum(q**2) / 2, init=np.zeros(2))
no_start = eg.Density(lambda q: jnp.sum(q**2) / 2)
init = np.ones(2)

def pair(q):
    logs = jnp.log(jnp.array([0.3, 0.7]))
    return -jax.nn.logsumexp(logs - jnp.array([jnp.sum((q + 8) ** 2), jnp.sum((q - 8) ** 2)]) / 2)

two_modes = eg.Density(pair, init=np.full(2, -8.0))
gradients = eg.External(lambda q, batch, seed: q, np.zeros((4, 2)), init=np.zeros(2))
"""
LOOSE = ["--mean", "0.2", "--sd", "0.15"]
BY_HAND = ["--sampler", "sghmc", "--steps", "40", "--step-size", "0.1"]


@pytest.fixture(autouse=True)
def model(tmp_path, monkeypatch):
    (tmp_path / "tuned_model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("tuned_model", None)


def test_a_run_without_settings_its_file_and_json():
    done = call("sample", "tuned_model.py:bowl", "--out", "run.nc")
    assert done.exit_code == 0, done.output
    run = load("run.nc")
    assert run.tuning.words in done.stdout
    assert done.stdout.endswith("ergodica diagnose run.nc has all of the verdict\n")
    again = call("sample", "tuned_model.py:bowl", "--out", "run.nc", "--resume", "--json")
    outcome = json.loads(again.stdout)
    assert again.exit_code == 0
    assert (outcome["reached"], outcome["wrong"], outcome["decides"]) == (True, [], None)
    assert outcome["tuning"]["rungs"][-1]["steps"] == outcome["steps"]
    np.testing.assert_allclose(outcome["mean"]["position"], run.posterior.mean((0, 1)))


def test_not_reached_is_exit_code_1():
    done = call("sample", "tuned_model.py:two_modes", *LOOSE)
    assert done.exit_code == 1
    assert "NOT reached: every mean within 0.2 sd and every sd within 15%" in done.stdout
    assert "WRONG  R-hat" in done.stdout
    assert done.stdout.rstrip().endswith("WRONG")


def test_the_plan_alone():
    words = call("tune", "tuned_model.py:bowl", *LOOSE)
    assert words.exit_code == 0, words.output
    assert words.stdout.startswith("Plan for every mean within 0.2 sd and every sd within 15%")
    told = ["--chains", "2", "--seed", "3", "--temperature", "2", "--level", "0.9", "--r-hat", "1.05", "--json"]
    plan = json.loads(call("tune", "tuned_model.py:no_start", *told).stdout)  # `init` of its module
    assert (plan["method"], plan["chains"], plan["numbers"]) == ("Metropolis", 2, 2)
    assert {"reason", "step_size", "steps", "predicted"} <= plan.keys()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--steps", "40"], "--sampler and --step-size are missing: give --sampler, --steps and --step-size, or none"),
        (["--sampler", "sghmc", "--steps", "40"], "--step-size is missing"),
        (["--batch-size", "8"], "--batch-size is given without --sampler, --steps and --step-size"),
        (["--option", "friction=2", "--thin", "1"], "--option and --thin are given without"),
        (["--halve"], "--halve is given without"),
        ([*BY_HAND, "--mean", "0.1"], "--mean is for runs without --sampler, --steps and --step-size"),
        (["--mean", "3"], "expected mean and sd of at most 1"),
        (["--chains", "0"], "chains is 0"),
        (["--seed", "-1"], "seed is -1"),
        (["--temperature", "-1"], "temperature"),
        (["--resume"], "give its name as `out`"),
    ],
)
def test_refusals_are_one_line_and_exit_code_2(capsys, monkeypatch, arguments, words):
    before = sorted(os.listdir())
    assert words in complaint(capsys, monkeypatch, "sample", "tuned_model.py:bowl", *arguments)
    assert [name for name in sorted(os.listdir()) if name != "__pycache__"] == before


def test_a_target_that_cannot_be_tuned_for_is_one_line(capsys, monkeypatch):
    for command in ("sample", "tune"):
        assert "tuning needs a potential" in complaint(capsys, monkeypatch, command, "tuned_model.py:gradients")
    assert "chains is 0" in complaint(capsys, monkeypatch, "tune", "tuned_model.py:bowl", "--chains", "0")
