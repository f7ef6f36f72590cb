"""Gradients at draws, of targets in memory and of data on disk."""

import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.diagnostics.stein import gradients_at_draws
from ergodica.errors import InputError

ALL = np.ones(2, bool)


def posterior(data):
    return eg.Posterior(
        lambda q: -jnp.sum(q["w"] ** 2) / 2,
        lambda q, rows: -((rows - q["w"][0]) ** 2) / 2 - 0 * q["b"],
        data,
        init={"w": jnp.zeros(2), "b": jnp.zeros(())},
    )


def test_gradients_are_those_of_all_data_in_the_order_of_the_leaves(tmp_path):
    rng = np.random.default_rng(0)
    data = rng.normal(size=30)
    draws = {"w": rng.normal(size=(2, 9, 2)), "b": rng.normal(size=(2, 9))}
    positions, gradients = gradients_at_draws(draws, posterior(data), ALL)
    np.testing.assert_array_equal(positions[:, :, 0], draws["b"])
    np.testing.assert_array_equal(positions[:, :, 1:], draws["w"])
    expected = draws["w"] + np.stack([30 * draws["w"][..., 0] - data.sum(), np.zeros((2, 9))], axis=-1)
    np.testing.assert_allclose(gradients[:, :, 1:], expected, rtol=1e-10)
    np.save(tmp_path / "rows.npy", data)
    on_disk = posterior(np.load(tmp_path / "rows.npy", mmap_mode="r"))
    _, streamed = gradients_at_draws(draws, on_disk, ALL)
    np.testing.assert_allclose(streamed, gradients, rtol=1e-10)


def test_draws_are_spread_over_good_chains_and_limited():
    x = np.random.default_rng(0).normal(size=(4, 5000))
    target = eg.Density(lambda q: q**2 / 2)
    positions, gradients = gradients_at_draws({"position": x}, target, np.array([True, False, True, True]))
    assert positions.shape == gradients.shape == (3, 666, 1)
    assert positions[1, -1, 0] == x[2, -1]


def test_draws_of_another_target_are_refused():
    target = eg.Density(lambda q: jnp.sum(q), init=jnp.ones(3))
    with pytest.raises(InputError, match="give the target of this run"):
        gradients_at_draws({"position": np.zeros((2, 9, 2))}, target, ALL)
