"""The friction part of a splitting against matrix exponentials, and its derivative where eigenvalues meet."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import ergodica as eg
from ergodica.integrators.friction import coupling_decay, relaxation
from ergodica.tree import Combination

MATRICES = {
    "meeting": np.diag([0.3, 0.3, 1.2]),
    "apart": np.array([[1.0, 0.4, 0.1], [0.4, 0.8, -0.3], [0.1, -0.3, 0.5]]),
    "small": 1e-6 * np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]),
}


@pytest.mark.parametrize("name", MATRICES)
def test_relaxation_is_the_exponential_and_the_root_of_what_is_lost(name):
    x = MATRICES[name]
    kept, fresh = relaxation(jnp.asarray(x))
    np.testing.assert_allclose(kept, expm(-x), rtol=0, atol=1e-14)
    np.testing.assert_allclose(fresh, fresh.T, rtol=0, atol=1e-14)
    lost = np.eye(3) - expm(-2 * x)
    np.testing.assert_allclose(fresh @ fresh, lost, rtol=0, atol=1e-9 * np.max(np.abs(lost)) + 1e-15)


@pytest.mark.parametrize("name", ["meeting", "apart"])
def test_relaxation_has_the_derivative_of_finite_differences(name):
    x, h = MATRICES[name], 1e-5
    change = np.array([[0.3, -0.7, 0.2], [-0.7, 0.5, 0.4], [0.2, 0.4, -0.6]])
    _, slopes = jax.jvp(relaxation, (jnp.asarray(x),), (jnp.asarray(change),))
    above, below = (relaxation(jnp.asarray(x + sign * h * change)) for sign in (1, -1))
    for slope, up, down in zip(slopes, above, below, strict=True):
        np.testing.assert_allclose(slope, (up - down) / (2 * h), rtol=0, atol=1e-8)


def test_relaxation_of_a_negative_friction_is_nan():
    assert np.all(np.isnan(relaxation(jnp.asarray([[1.0, 2.0], [2.0, 1.0]]))[0]))


def test_gradient_through_dense_friction_where_eigenvalues_meet():
    target = eg.gallery.gaussian(2)

    def after(c):
        kernel = eg.Kernel(target, eg.sghmc(friction=c * jnp.eye(2)), eg.Splitting())
        state = kernel.init(jnp.ones(2), jax.random.key(0))
        return jnp.sum(kernel.step(state, jax.random.key(1), 0.1)[0].phase.momentum)

    slope = jax.grad(after)(1.5)
    assert abs((after(1.5 + 1e-5) - after(1.5 - 1e-5)) / 2e-5 - slope) < 1e-7


@pytest.mark.parametrize("level", [-3.0, 0.0, 2.0, 40.0])
def test_a_coupling_that_mixes_coordinates_decays_exactly(level):
    matrix = level * np.array([[1.0, 0.3], [0.3, 0.8]])
    momentum = np.array([0.7, -1.1])
    moved = coupling_decay(
        lambda r: Combination.of(jnp.asarray(matrix) @ r), Combination.of(jnp.asarray(momentum)), 0.4, False
    )
    np.testing.assert_allclose(moved.value(), expm(-0.4 * matrix) @ momentum, rtol=1e-12, atol=1e-12)


def test_a_thermostat_with_a_dense_metric_stays_finite_at_large_steps():
    # a midpoint step in place of the exponential lost about 760 of 2,000 such chains
    metric = jnp.array([[1.0, 0.3], [0.3, 0.8]])
    kernel = eg.Kernel(
        eg.gallery.gaussian(covariance=[[1.0, 0.5], [0.5, 0.8]]), eg.riemannian_sgnht(metric), eg.Splitting()
    )

    @jax.jit
    def run(keys):
        states = jax.vmap(kernel.init, in_axes=(None, 0))(jnp.ones(2), keys)
        step = jax.vmap(lambda s, k: kernel.step(s, k, 0.8)[0])
        return jax.lax.fori_loop(
            0, 60, lambda n, s: step(s, jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, n)), states
        )

    assert np.all(np.isfinite(run(jax.random.split(jax.random.key(3), 500)).phase.position))
