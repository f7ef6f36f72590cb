"""Samplers whose discrete law has no closed form: the bias vanishes with the step, at the stated order.

Steps are as large as they can be with terms beyond eps^(p+1) still below the standard errors; times are in units of
time. Temperatures other than 1 are there for the T in T Gamma and 2 T D, low ones also to tame a thermostat.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import kv

import ergodica as eg
from ergodica.targets.base import Truth
from tests.selection import long_unless
from tests.statistical import bias
from tests.statistical.discrete_law import aboba

EULER, SPLITTING = eg.Euler(), eg.Splitting()


# -- metrics: bounded, for an Euler step explodes where a metric grows fast -----------------------------


def wave(z):
    return 1 + 0.5 * jnp.sin(z.position / 2)


def matrix(q):
    a, b = q[0], q[1]
    mixed = 0.3 * jnp.sin(a - b)
    return jnp.stack([jnp.stack([1 + 0.4 * jnp.tanh(b), mixed]), jnp.stack([mixed, 0.8 + 0.3 * jnp.cos(a)])])


def second_moment(q):
    return jnp.stack([1 + 0.5 * jnp.sin(q[0] + q[1]), 1 + 0.5 * jnp.cos(q[0])])


def wave_matrix(z):
    return wave(z)[:, None]


WAVE, DENSE = eg.Elementwise(wave), eg.Dense(lambda z: matrix(z.position))


# -- targets ------------------------------------------------------------------------------------------

ONE_PEAK = eg.gallery.one_peak()
TWO_DIMENSIONS = eg.gallery.gaussian(covariance=[[1.0, 0.5], [0.5, 0.8]])
GAMMA = eg.Density(
    lambda q: jnp.sum(q - 3 * jnp.log(q)),
    init=jnp.ones(1),
    domain=eg.positive,
    truth=Truth(jnp.full(1, 4.0), jnp.full((1, 1), 4.0), lambda key: jax.random.gamma(key, 4.0, (1,))),
)
GUMBEL = eg.Density(
    lambda q: jnp.sum(q + jnp.exp(-q)),
    init=jnp.ones(1),
    truth=Truth(jnp.full(1, np.euler_gamma), jnp.full((1, 1), np.pi**2 / 6), lambda key: jax.random.gumbel(key, (1,))),
)
EXPONENTIAL = eg.Density(  # its force does not vanish at the wall
    lambda q: jnp.sum(q),
    init=jnp.ones(1),
    domain=eg.positive,
    truth=Truth(jnp.ones(1), jnp.ones((1, 1)), lambda key: jax.random.exponential(key, (1,))),
)


class Case(NamedTuple):
    """A sampler, the order stated for it, and what it is measured with."""

    target: Any
    recipe: eg.Recipe
    integrator: Any
    order: int
    step_size: float
    time: float
    temperature: float = 1.0


CASES = {
    "sgrld/wave/euler": Case(ONE_PEAK, eg.sgrld(WAVE), EULER, 1, 0.1, 20, 2.0),
    "sgrld/fisher/euler": Case(TWO_DIMENSIONS, eg.sgrld(eg.fisher(matrix)), EULER, 1, 0.1, 4),
    "sgrld/expanded_mean/euler": Case(GAMMA, eg.sgrld(eg.expanded_mean()), EULER, 1, 0.1, 20),
    "psgld/euler": Case(TWO_DIMENSIONS, eg.psgld(second_moment, 0.1), EULER, 1, 0.1, 10, 0.5),
    "sgrhmc/wave/euler": Case(ONE_PEAK, eg.sgrhmc(WAVE), EULER, 1, 0.1, 20, 2.0),
    "sgrhmc/dense/euler": Case(TWO_DIMENSIONS, eg.sgrhmc(DENSE), EULER, 1, 0.1, 4, 0.5),
    "gsgrhmc/euler": Case(ONE_PEAK, eg.gsgrhmc(), EULER, 1, 0.1, 20),
    "sgnht/euler": Case(TWO_DIMENSIONS, eg.sgnht(), EULER, 1, 0.1, 10, 0.5),
    "coordinate_sgnht/euler": Case(GUMBEL, eg.coordinate_sgnht(), EULER, 1, 0.1, 20),
    "riemannian_sgnht/euler": Case(ONE_PEAK, eg.riemannian_sgnht(WAVE), EULER, 1, 0.1, 20, 0.5),
    "relativistic_sghmc/euler": Case(ONE_PEAK, eg.relativistic_sghmc(2.0, 1.0, 2.0), EULER, 1, 0.1, 20),
    "sgrld/wall/euler": Case(EXPONENTIAL, eg.sgrld(WAVE), EULER, 1, 0.1, 20),
    "sgrhmc/wall/splitting": Case(EXPONENTIAL, eg.sgrhmc(WAVE), SPLITTING, 2, 0.8, 300),
    "sgrhmc/wave/splitting": Case(ONE_PEAK, eg.sgrhmc(WAVE), SPLITTING, 2, 0.6, 40, 2.0),
    "sgrhmc/dense/splitting": Case(TWO_DIMENSIONS, eg.sgrhmc(DENSE), SPLITTING, 2, 0.5, 30, 0.5),
    "sgrhmc/expanded_mean/splitting": Case(GAMMA, eg.sgrhmc(eg.expanded_mean()), SPLITTING, 2, 0.4, 150),
    "gsgrhmc/splitting": Case(ONE_PEAK, eg.gsgrhmc(), SPLITTING, 1, 0.1, 20),
    "sgnht/splitting": Case(TWO_DIMENSIONS, eg.sgnht(), SPLITTING, 2, 0.2, 20, 0.5),
    "coordinate_sgnht/splitting": Case(GUMBEL, eg.coordinate_sgnht(), SPLITTING, 2, 0.15, 20),
    "riemannian_sgnht/splitting": Case(ONE_PEAK, eg.riemannian_sgnht(WAVE), SPLITTING, 2, 0.4, 40, 0.25),
    # the same metric as a matrix: a coupling that mixes coordinates has an exponential of its own
    "riemannian_sgnht/dense/splitting": Case(
        ONE_PEAK, eg.riemannian_sgnht(eg.Dense(wave_matrix)), SPLITTING, 2, 0.4, 40, 0.25
    ),
    "relativistic_sghmc/splitting": Case(ONE_PEAK, eg.relativistic_sghmc(2.0, 1.0, 2.0), SPLITTING, 2, 0.6, 20),
}


# Gamma in D, Gamma in Q, an energy that is read, a thermostat; every builder has its deterministic tests in tests/laws
SHORT = ("sgrld/wave/euler", "sgrhmc/wave/splitting", "gsgrhmc/splitting", "coordinate_sgnht/splitting")


def true_law(case):
    """Mean and covariance of every slot under exp(-H/T)."""
    d = len(case.target.truth.mean)
    heat = case.temperature
    law = {"position": (np.asarray(case.target.truth.mean), np.asarray(case.target.truth.covariance) * heat)}
    for name, energy in case.recipe.energy.items():
        if isinstance(energy, eg.Gaussian):
            law[name] = np.zeros(d), heat * np.eye(d)
        elif isinstance(energy, eg.Relativistic):
            b = float(energy.mass * energy.speed**2) / heat
            law[name] = np.zeros(d), np.eye(d) * float(energy.mass * energy.speed) ** 2 * kv(2, b) / b / kv(1, b)
        else:
            n = d if energy.per_coordinate else 1
            law[name] = np.full(n, float(energy.center)), heat * np.eye(n) / (1 if energy.per_coordinate else d)
    return law


def measured(case):
    kernel = eg.Kernel(case.target, case.recipe, case.integrator)
    return bias.measure(
        kernel, true_law(case), jax.random.key(0), case.step_size, time=case.time, temperature=case.temperature
    )


@pytest.mark.parametrize("name", long_unless(CASES, *SHORT))
def test_the_bias_vanishes_at_the_stated_order(name):
    case = CASES[name]
    found = measured(case)
    # there was a bias to see at every step
    assert np.max(np.min(np.abs(found.deviation), axis=0)) > 9
    assert np.max(np.abs(bias.extrapolate(found, case.order))) < 4.5
    order = bias.observed_order(found)
    assert abs(order.value - case.order) < 4.5 * order.error
    # and its order is known well enough to rule out the other one
    assert abs(order.value - (3 - case.order)) > 4.5 * order.error


class Dropped(eg.Recipe):
    """The same sampler with Gamma = 0."""

    def gamma(self, point, key=None):
        return {}


@pytest.mark.parametrize(
    "name", long_unless(["sgrld/wave/euler", "sgrhmc/wave/splitting", "gsgrhmc/splitting"], "sgrld/wave/euler")
)
def test_without_gamma_the_bias_stays(name):
    case = CASES[name]
    wrong = Dropped(case.recipe.energy, case.recipe.diffusion, case.recipe.curl)
    found = measured(case._replace(recipe=wrong))
    assert np.max(np.abs(bias.extrapolate(found, case.order))) > 9


class Louder:
    """Mixin: noise 5 % too large."""

    def finish(self, recipe, phase, evaluations, draws, setting, noise):
        draws = jax.tree.map(lambda x: 1.05 * x, draws)
        return super().finish(recipe, phase, evaluations, draws, setting, noise)


class LouderEuler(Louder, eg.Euler):
    pass


class LouderSplitting(Louder, eg.Splitting):
    pass


@pytest.mark.parametrize(
    ("name", "integrator"),
    [
        ("sgrld/wave/euler", LouderEuler()),
        pytest.param("sgrhmc/wave/splitting", LouderSplitting(), marks=pytest.mark.long),
    ],
)
def test_with_too_much_noise_the_bias_stays(name, integrator):
    case = CASES[name]
    found = measured(case._replace(integrator=integrator))
    assert np.max(np.abs(bias.extrapolate(found, case.order))) > 9


# -- the measurement itself ---------------------------------------------------------------------------


def test_the_measured_bias_is_that_of_the_exact_discrete_law():
    case = Case(ONE_PEAK, eg.sghmc(), SPLITTING, 2, 0.6, 20)
    found = measured(case)
    for level in range(3):
        law = aboba(1.0, [0.0], diffusion=1.0, eps=case.step_size / 2**level)
        (q, _), (_, r) = law.covariance - np.eye(2)
        assert np.all(np.abs(found.value[level] - [0, q, 0, r]) < 4.5 * found.error[level])
    assert np.all(found.error[:, [1, 3]] < 2e-4)


@pytest.mark.parametrize("order", [1, 2])
def test_extrapolation_and_order_of_a_known_series(order):
    steps = 0.5 ** np.arange(3)[:, None]
    series = bias.Bias(0.1 * steps**order - 0.02 * steps ** (order + 1), np.full((3, 1), 1e-5))
    assert abs(bias.extrapolate(series, order)) < 1e-6
    found = bias.observed_order(series)
    assert abs(found.value - order) < 0.02
    assert found.error < 0.02
    shifted = series._replace(value=series.value + 1e-3)
    assert bias.extrapolate(shifted, order) > 9


def test_errors_with_controls_are_honest_and_smaller():
    rng = np.random.default_rng(5)
    scores = []
    for _ in range(300):
        controls = rng.standard_normal((400, 20)) ** 3
        left = 0.1 * rng.standard_normal(400) * (1 + np.abs(controls[:, 0]))
        mean, error = bias.mean_and_error((1 + controls.sum(axis=1) + left)[:, None], controls)
        scores.append((mean[0] - 1) / error[0])
        assert error[0] < 0.1 * np.std(controls.sum(axis=1)) / np.sqrt(400)
    assert abs(np.mean(scores)) < 4.5 / np.sqrt(300)
    assert 0.8 < np.std(scores) < 1.2
