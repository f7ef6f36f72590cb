"""A run that met another temperature than the one asked for says so at its end, in one line, with what to do."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg

ROWS = np.linspace(-2, 2, 200)
TARGET = eg.Posterior(lambda q: -(q**2) / 2, lambda q, x: -((x - q) ** 2) / 2, ROWS, init=np.zeros(()))
SETTINGS = {"steps": 1000, "step_size": 0.02, "chains": 2, "progress": False}


def test_a_hot_run_is_warned_of():
    """Batches of two of 200 rows, and no word of it for a law a hundred times too wide."""
    with pytest.warns(UserWarning, match="not the law asked for") as met:
        eg.sample(TARGET, eg.sghmc(), batch_size=2, **SETTINGS)
    (words,) = [str(one.message) for one in met]
    assert "\n" not in words
    assert "where 1 was asked for" in words
    assert "larger batches, estimator=eg.ControlVariates()" in words
    assert "a smaller step" in words


@pytest.mark.parametrize("changes", [{}, {"temperature": 5.0}])
def test_a_run_at_its_temperature_is_not(changes):
    bowl = eg.Density(lambda q: jnp.sum(q**2) / 2, init=np.zeros(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        eg.sample(bowl, eg.sghmc(), **SETTINGS | {"step_size": 0.3} | changes)
        eg.sample(bowl, eg.sgld(), **SETTINGS | {"step_size": 0.3})
