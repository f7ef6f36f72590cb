"""What fields see of the phase, and cross-fitting: z.potential comes from another batch than the gradient."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.phase import Point, phase_type
from ergodica.recipe import evaluate
from tests.oracle.stationarity import QUICK

DATA = np.array([0.2, 1.9, -1.1, 2.6])
WINDOWS = jnp.asarray(DATA[(np.arange(4)[:, None] + np.arange(2)[None]) % 4])  # 2 rows at each of the 4 offsets
POSITION = jnp.array([0.7, -0.4])


def log_likelihood(q, x):
    return -((x - q[0]) ** 2) / 2 - 0.1 * (x * q[1]) ** 2


TARGET = eg.Posterior(lambda q: -jnp.sum(q**2) / 2, log_likelihood, DATA)


def batch_potential(q, window):
    """U~ written out: N/n = 2."""
    return -2 * jnp.sum(log_likelihood(q, window)) + jnp.sum(q**2) / 2


def metric(q, window):
    return 1.5 * jnp.sqrt(batch_potential(q, window) + 1.5)


def mean_metric(q, power=1.0):
    """D-bar: the mean over windows of G^-1 (power 1) or G^-1/2 (power 1/2) at their potentials."""
    return jnp.mean(jax.vmap(lambda w: metric(q, w) ** power)(WINDOWS))


quick_jit = partial(jax.jit, compiler_options=QUICK)


def expected_drift(recipe, phase):
    """(pairs of batches, T) -> the mean drift over them."""

    def mean(pairs, temperature):
        drifts = jax.vmap(lambda pair: recipe.drift(TARGET, phase, eg.BatchPair(*pair), temperature))(pairs)
        return jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), drifts)

    return quick_jit(mean)


@quick_jit
def langevin_drift(q):
    """-D-bar grad U + div D-bar, and the covariance of G^-1 and the gradient over windows."""
    right = -mean_metric(q) * jax.grad(TARGET.potential)(q) + jax.grad(mean_metric)(q)
    metrics = jax.vmap(lambda w: metric(q, w))(WINDOWS)
    slopes = jax.vmap(jax.grad(batch_potential), in_axes=(None, 0))(q, WINDOWS)
    return right, jnp.mean((metrics - jnp.mean(metrics))[:, None] * slopes, axis=0)


INDEPENDENT = jnp.stack([jnp.stack([a, b]) for a in WINDOWS for b in WINDOWS])
SAME = jnp.stack([jnp.stack([a, a]) for a in WINDOWS])


@pytest.mark.parametrize("batches", [WINDOWS, INDEPENDENT.reshape(-1, 2)], ids=["windows", "pairs"])
def test_batches_are_unbiased(batches):
    slopes = quick_jit(jax.vmap(lambda w: jax.grad(TARGET.potential)(POSITION, w)))(batches)
    np.testing.assert_allclose(jnp.mean(slopes, axis=0), quick_jit(jax.grad(TARGET.potential))(POSITION), rtol=1e-11)


def test_cross_fitted_sgrld_has_the_drift_of_the_mean_metric():
    """E f = -D-bar grad U + T div D-bar: a recipe for exp(-U), whatever the batches say of the potential."""
    recipe, phase = eg.sgrld(eg.potential_scaled()), phase_type(("position",))(POSITION)
    right, _ = langevin_drift(POSITION)
    np.testing.assert_allclose(expected_drift(recipe, phase)(INDEPENDENT, 1.0).position, right, rtol=1e-12)


def test_the_same_batch_for_both_is_biased_by_their_covariance():
    recipe, phase = eg.sgrld(eg.potential_scaled()), phase_type(("position",))(POSITION)
    right, covariance = langevin_drift(POSITION)
    got = expected_drift(recipe, phase)(SAME, 1.0).position
    np.testing.assert_allclose(got - right, -covariance, rtol=1e-10)
    assert np.max(np.abs(covariance / right)) > 1


def test_cross_fitted_gsgrhmc_has_the_drift_of_the_mean_metric():
    momentum = jnp.array([0.8, 1.3])
    phase = phase_type(("position", "momentum"))(POSITION, momentum)

    @quick_jit
    def right(q, temperature):
        root, slope = jax.value_and_grad(mean_metric)(q, 0.5)
        push = -root * jax.grad(TARGET.potential)(q) + temperature * slope - mean_metric(q) * momentum
        return root * momentum, push

    mean = expected_drift(eg.gsgrhmc(), phase)
    for temperature in (1.0, 2.0):
        for got, expected in zip(mean(INDEPENDENT, temperature), right(POSITION, temperature), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_each_potential_meets_the_other_gradient():
    pair = eg.BatchPair(WINDOWS[0], WINDOWS[1])
    first, second = quick_jit(lambda q: evaluate(TARGET, q, pair, reads_potential=True))(POSITION)
    value_and_slope = quick_jit(jax.value_and_grad(batch_potential))
    for evaluation, own, other in ((first, *pair), (second, pair.second, pair.first)):
        np.testing.assert_allclose(evaluation.gradient, value_and_slope(POSITION, own)[1], rtol=1e-11)
        np.testing.assert_allclose(evaluation.potential, value_and_slope(POSITION, other)[0], rtol=1e-11)
        np.testing.assert_allclose(evaluation.potential_gradient, value_and_slope(POSITION, other)[1], rtol=1e-11)


def test_full_data_is_evaluated_once_and_serves_both():
    (whole,) = evaluate(TARGET, POSITION, None, reads_potential=True)
    assert whole.potential_gradient is whole.gradient


def test_a_view_notes_what_is_read_and_takes_replacements():
    names = ("position", "momentum")
    point = Point(phase_type(names)(POSITION, 2 * POSITION), jnp.asarray(3.0), POSITION, 0.5)
    noted: set[str] = set()
    view = point.view(noted, momentum=5 * POSITION)
    np.testing.assert_array_equal(view.momentum, 5 * POSITION)
    assert noted == {"momentum"}
    assert view.potential == 3.0
    assert view.temperature == 0.5
    assert noted == {"momentum", "potential"}
    assert point.view(potential=4.0).potential == 4.0
    with pytest.raises(eg.InputError, match=r"z.speed.*z.position, z.momentum"):
        _ = view.speed


def test_phases_of_equal_slots_are_of_one_type():
    assert phase_type(("position", "momentum")) is phase_type(("position", "momentum"))
    assert eg.sghmc().slots == ("position", "momentum")
