"""What a reading of the driver found: each of these was wrong."""

import importlib
import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.driver.minibatches import RowNumbers
from ergodica.errors import InputError

front = importlib.import_module("ergodica.driver.run_file")


def gaussian(q):
    return jnp.sum(q**2) / 2


def unfinished(monkeypatch, out, **changes):
    """A run that has made all its steps and was stopped before its file was written."""

    def stop(*_, **__):
        raise InputError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(front, "save_blocks", stop)
        with pytest.raises(InputError, match="the disk is full"):
            sampled(out, **changes)


def sampled(out, dtype=jnp.float64, **changes):
    target = eg.Density(gaussian, init=jnp.zeros(2, dtype))
    settings = {"steps": 30, "step_size": 0.1, "chains": 2, "progress": False, "resume": True} | changes
    return eg.sample(target, eg.sgld(), out=out, **settings)


def test_rows_are_drawn_for_the_steps_that_are_made(monkeypatch):
    asked = []
    rows = RowNumbers.rows
    monkeypatch.setattr(
        RowNumbers, "rows", lambda self, chain, first, n: asked.append(n) or rows(self, chain, first, n)
    )
    target = eg.Posterior(lambda q: -jnp.sum(q**2), lambda q, b: -((b - q[0]) ** 2), np.zeros(50), init=jnp.zeros(1))
    eg.sample(target, eg.sgld(), steps=20, step_size=1e-3, batch_size=7, chains=1, progress=False)
    assert sum(asked) == 20


def test_a_position_in_bfloat16_is_resumed(tmp_path, monkeypatch):
    whole = sampled(tmp_path / "whole.nc", jnp.bfloat16)
    unfinished(monkeypatch, tmp_path / "run.nc", dtype=jnp.bfloat16)
    assert sampled(tmp_path / "run.nc", jnp.bfloat16).posterior.tobytes() == whole.posterior.tobytes()


def test_moments_of_a_run_at_its_end_are_not_extended(tmp_path, monkeypatch):
    out = tmp_path / "run.nc"
    unfinished(monkeypatch, out, keep="moments")
    with pytest.raises(InputError, match="not be extended"):
        sampled(out, keep="moments", steps=60)
    assert (sampled(out, keep="moments").moments.count == 30).all()


def test_the_file_is_written_before_anybody_warns(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="temperature"):
            eg.sample(
                eg.Density(gaussian, init=jnp.zeros(2)), eg.sghmc(0.1), steps=600, step_size=0.15, chains=2,
                integrator=eg.Euler(), progress=False, out=tmp_path / "run.nc",
            )  # fmt: skip
    assert (tmp_path / "run.nc").exists()
