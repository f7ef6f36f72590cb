"""`ergodica sample`: a run, its file, taking it up; and one clear line for every mistake."""

import json
import os
import signal
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import ergodica as eg
from ergodica.cli import commands, main
from ergodica.driver import checkpoint, load, pace
from ergodica.output import blocks

MODEL = """
import jax.numpy as jnp
import numpy as np
import ergodica as eg

def bowl(q):
    return jnp.sum(q**2) / 2

target = eg.Density(bowl, init=np.zeros(2))
no_start = eg.Density(bowl)
init = np.ones(2)
too_long = np.ones(3)
recipe = eg.sgld(0.5)
falls = eg.Density(lambda q: -jnp.sum(q**4), init=np.full(1, 5.0))
bad_data = lambda: eg.Posterior(bowl, lambda q, x: -((x - q) ** 2), np.array([1.0, np.nan]), init=np.zeros(()))
noisy = eg.Posterior(lambda q: -q**2 / 2, lambda q, x: -((x - q) ** 2) / 2, np.linspace(-2, 2, 200), init=np.zeros(()))
rows = eg.Posterior(lambda q: -q**2, lambda q, x: -((x - q) ** 2), np.arange(5.0), init=np.zeros(()))

def edge(q):
    return jnp.sum(q**2) / 2 - jnp.where(q[0] > 50, q[0] ** 4, jnp.zeros(()))

def spread(key):
    import jax
    from ergodica.driver.keys import Purpose, step_keys
    second = step_keys(0, 1, jnp.zeros((1,), jnp.int32), Purpose.START)[0]
    return jnp.where(jax.random.key_data(key)[0] == jax.random.key_data(second)[0], 60.0, 0.5) * jnp.ones(1)

edged = eg.Density(edge)

def falling(step):
    return 0.02 / (1 + step)
"""
PLAIN = ["--steps", "40", "--step-size", "0.1", "--chains", "2"]
ENOUGH = ["--steps", "6000", "--step-size", "0.5", "--chains", "2"]


@pytest.fixture
def model(tmp_path, monkeypatch):
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "broken.py").write_text('raise ValueError("one\\ntwo")')
    monkeypatch.chdir(tmp_path)
    yield "model.py:target"
    sys.modules.pop("model", None)


def call(*arguments):
    """Exit code, standard output and error of the command, through its entry point."""
    result = CliRunner().invoke(commands, ["sample", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_a_run_its_file_and_json(model):
    done = call(model, "--sampler", "sghmc", *ENOUGH, "--out", "run.nc", "--json")
    assert done.exit_code == 0, done.output
    outcome = json.loads(done.stdout)
    assert (outcome["draws"], outcome["chains"], outcome["frozen"]) == (6000, 2, [])
    assert (outcome["passed"], outcome["undecided"], outcome["wrong"]) == (True, False, [])
    run = load("run.nc")
    np.testing.assert_allclose(outcome["mean"]["position"], run.posterior.mean((0, 1)))
    same = eg.sample(eg.Density(bowl, init=np.zeros(2)), eg.sghmc(), steps=6000, step_size=0.5, chains=2)
    np.testing.assert_allclose(run.posterior, same.posterior, rtol=1e-12)
    again = call(model, "--sampler", "sghmc", *ENOUGH, "--out", "run.nc", "--resume")
    assert again.exit_code == 0
    assert again.stdout.endswith("Nothing wrong was found; ergodica diagnose run.nc has all of the verdict\n")
    assert sorted(os.listdir())[-1] == "run.nc"


def bowl(q):
    return (q**2).sum() / 2


def test_halve_start_and_a_recipe_of_ones_own(model):
    done = call("model.py:no_start", "--sampler", "model.py:recipe", *PLAIN, "--out", "run.nc", "--halve")
    assert done.exit_code == 1, done.output
    assert "WRONG  bulk ESS" in done.stdout  # 40 steps are too few
    run = load("run.nc")
    assert run.halved.settings["step_size"] == 0.05
    assert run.settings["recipe"]["diffusion"]["position"].startswith("Constant")


def test_undecided_is_exit_code_0_with_the_command_that_decides(model):
    """Langevin has no thermometer: its law may be too wide by any factor, and every other check is fine."""
    done = call(model, "--sampler", "sgld", *ENOUGH, "--out", "run.nc")
    assert done.exit_code == 0, done.output
    assert "unsure width of the law" in done.stdout
    assert "Not decided; this decides: the same command with --resume --halve" in done.stdout
    assert f"ergodica diagnose run.nc --target {model}" in done.stdout
    halved = call(model, "--sampler", "sgld", *ENOUGH, "--out", "run.nc", "--resume", "--halve", "--json")
    outcome = json.loads(halved.stdout)
    assert not outcome["undecided"]
    assert outcome["wrong"] == ["bias of sds"]  # 1 / (1 - h/2) of the variance, h = 0.5
    assert halved.exit_code == 1


def test_a_hot_run_is_exit_code_1(model):
    """Batches of two of 200 rows heat an SGHMC of this step a hundred times; a run that samples that is no success."""
    settings = ["--steps", "4000", "--step-size", "0.02", "--batch-size", "2", "--chains", "2"]
    done = call("model.py:noisy", "--sampler", "sghmc", *settings)
    assert done.exit_code == 1
    assert "WRONG  kinetic temperature" in done.stdout


def test_a_frozen_chain_is_exit_code_1(model):
    arguments = ["--sampler", "sgld", "--init", "model.py:spread", *PLAIN]
    done = call("model.py:edged", *arguments)
    assert done.exit_code == 1
    assert "ergodica: chain 1 " in done.stderr
    assert "chain 1 is non-finite since step" in done.stdout


def test_nothing_accepted_is_exit_code_1(model):
    done = call(model, "--sampler", "hmc", "--steps", "4", "--step-size", "1e30", "--chains", "1")
    assert done.exit_code == 1
    assert done.stderr.startswith("ergodica: chain 0: none of the steps kept was accepted")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_have_their_exit_codes(model, monkeypatch, number, code):
    monkeypatch.setattr(pace, "SECONDS", 0.0)
    original = blocks.BlockFile.append
    calls = iter(range(10**9))

    def append(self, block):
        if next(calls) == 50:
            os.kill(os.getpid(), number)
        original(self, block)

    monkeypatch.setattr(blocks.BlockFile, "append", append)
    done = call(model, "--sampler", "sgld", *PLAIN, "--out", "run.nc")
    assert done.exit_code == code
    assert "--resume" in done.stderr
    assert (checkpoint.part_folder("run.nc") / checkpoint.FILE).exists()


@pytest.mark.parametrize(
    ("target", "arguments", "words"),
    [
        ("model.py:target", ["--sampler", "sghcm"], "no sampler 'sghcm': did you mean sghmc?"),
        ("model.py:target", ["--sampler", "sgld", "--step-size", "tiny"], "expected a number, or module:schedule"),
        ("nowhere:target", ["--sampler", "sgld"], "no module 'nowhere'"),
        ("model.py:nothing", ["--sampler", "sgld"], "has no 'nothing'"),
        ("model.py:init", ["--sampler", "sgld"], "expected an eg.Density"),
        ("model.py:bad_data", ["--sampler", "sgld"], "NaN or infinite values"),
        ("model.py:rows", ["--sampler", "sgld", "--batch-size", "6"], "from 1 to 5"),
        ("model.py:target", ["--sampler", "sgld", "--init", "model.py:too_long"], "shape"),
        ("model.py:target", ["--sampler", "sgld", "--out", "model.py"], "exists already"),
        ("model.py:target", ["--sampler", "sgld", "--resume"], "resume=True"),
        ("model.py:target", ["--sampler", "sghmc", "--option", "fricton=1"], "no option 'fricton'"),
        ("model.py:target", ["--sampler", "sgrld"], "needs --option inverse_metric"),
        ("model.py:target", ["--sampler", "sghmc", "--option", "friction"], "name=value"),
        ("model.py:falls", ["--sampler", "sgld", "--out", "run.nc"], "no chain is finite for more than"),
        ("model.py:target", ["--sampler", "sgld", "--thin", "0"], "thin is 0"),
        ("broken.py:target", ["--sampler", "sgld"], "broken.py could not be imported: ValueError: one two"),
        ("broken:target", ["--sampler", "sgld"], "broken could not be imported: ValueError: one two"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(model, monkeypatch, capsys, target, arguments, words):
    before = sorted(os.listdir())
    monkeypatch.setattr(sys, "argv", ["ergodica", "sample", target, *PLAIN, *arguments])
    with pytest.raises(SystemExit) as raised:
        main()
    assert raised.value.code == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.strip().splitlines()) == 1
    assert [name for name in sorted(os.listdir()) if name != "__pycache__"] == before


def test_estimators_schedules_and_shared_batches_are_there(model):
    settings = ["--batch-size", "2", "--estimator", "svrg", "--step-size", "model.py:falling", "--share-batches"]
    call("model.py:rows", "--sampler", "sgld", *PLAIN, *settings, "--out", "run.nc")
    run = load("run.nc")
    assert "Svrg" in run.settings["estimator"]
    assert run.settings["share_batches"]
    np.testing.assert_allclose(run.stats["step_size"][0], 0.02 / (1 + np.arange(40)), rtol=1e-6)
    assert repr(run) == "Run(2 chains of 40 draws: position)"
