"""The position's variance is proportional to the temperature, for every builder and integrator.

On a Gaussian target exp(-U/T) has the covariance T K^-1. Linear pairs: exactly, from the map of one step. The others:
over chains, at a step and half of it, extrapolated by the stated order, so that no allowance for the step is needed.
"""

import zlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from tests.selection import long_unless
from tests.statistical import linear_cases
from tests.statistical.chains import mean_and_error, run_chains
from tests.statistical.one_step import one_step

TEMPERATURES = (0.5, 1.0, 2.0)
LIMIT = 4.5  # standard errors
WRONG = 9.0
CHAINS = 4_000
WARM_UP, TIME = 3.0, 8.0

# -- linear pairs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", linear_cases.position_cases() + linear_cases.momentum_cases(), ids=lambda c: c.name)
def test_linear_covariance_is_proportional_to_temperature(case):
    # Euler's bias c1 eps + c2 eps^2 at eps = 0.008, 0.004 leaves about c2 eps^2 / 2 after extrapolation
    start, kernel = jnp.asarray(linear_cases.CENTRE), case.kernel(None)
    coarse, fine = (one_step(kernel, step_size, TEMPERATURES, start) for step_size in (0.008, 0.004))
    exact = np.linalg.inv(linear_cases.PRECISION)
    for temperature, one, half in zip(TEMPERATURES, coarse, fine, strict=True):
        np.testing.assert_allclose(one.transition, coarse[1].transition, rtol=0, atol=1e-13)
        np.testing.assert_allclose(one.offset, coarse[1].offset, rtol=0, atol=1e-13)
        np.testing.assert_allclose(one.noise, temperature * coarse[1].noise, rtol=0, atol=1e-13)
        limit = 2 * half.chain().covariance - one.chain().covariance
        np.testing.assert_allclose(limit[: len(exact), : len(exact)], temperature * exact, rtol=0, atol=1e-3)


# -- the others ---------------------------------------------------------------------------------------

PRECISION = np.array([[1.3, 0.5], [0.5, 0.8]])


def potential(position):
    # as sums of products: see linear_cases.log_likelihood
    return jnp.sum(position * (jnp.asarray(PRECISION) @ position)) / 2


def products(phase):
    return phase.position[:, None] * phase.position[None, :]


def inverse_metric(position):
    """Of each coordinate by itself; small in the middle, so that a wrong correction changes the variance most."""
    return 0.3 + position**2 / (1 + position**2)


def of_position(z):
    return inverse_metric(z.position)


def second_moment(position):
    return 0.2 + position**2


class Pair(NamedTuple):
    """A recipe that is not linear, with an integrator of a stated order; order 0: exact at every step."""

    name: str
    recipe: eg.Recipe
    integrator: Any
    order: int
    step_size: float
    resample_every: int | None = None

    def kernel(self) -> eg.Kernel:
        target = eg.Density(potential, init=jnp.zeros(2))
        return eg.Kernel(target, self.recipe, self.integrator, resample_every=self.resample_every)


def both(name: str, recipe: eg.Recipe, splitting_order: int = 2) -> list[Pair]:
    return [
        Pair(f"{name} Euler", recipe, eg.Euler(), 1, 0.05),
        Pair(f"{name} Splitting", recipe, eg.Splitting(), splitting_order, 0.2 if splitting_order == 2 else 0.05),
    ]


METRIC = eg.Elementwise(of_position)
PAIRS = [
    Pair("sgrld elementwise", eg.sgrld(METRIC), eg.Euler(), 1, 0.05),
    Pair("sgrld potential", eg.sgrld(eg.potential_scaled(0.7, 1.0)), eg.Euler(), 1, 0.05),
    Pair("psgld", eg.psgld(second_moment, 0.4), eg.Euler(), 1, 0.05),
    *both("sgrhmc", eg.sgrhmc(METRIC)),
    *both("gsgrhmc", eg.gsgrhmc(0.8, 1.0), splitting_order=1),
    *both("sgnht", eg.sgnht(2.0)),
    *both("coordinate_sgnht", eg.coordinate_sgnht(2.0)),
    *both("riemannian_sgnht", eg.riemannian_sgnht(METRIC)),
    *both("relativistic", eg.relativistic_sghmc(2.0, 1.0, 1.5)),
    Pair("sghmc resampled", eg.sghmc(0.5), eg.Splitting(), 2, 0.2, resample_every=3),
    Pair("hmc", eg.hmc(0.8), eg.Leapfrog(steps=4), 0, 1.0),
]


def moments(kernel: eg.Kernel, step_size: float, temperature: float, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The mean of q q^T over time and chains and its standard error, from starts that have the exact law."""
    seed = zlib.crc32(f"{name} {step_size} {temperature}".encode())
    root = np.linalg.cholesky(temperature * np.linalg.inv(PRECISION))
    starts = np.random.default_rng(seed).standard_normal((CHAINS, 2)) @ root.T
    per_chain = run_chains(
        kernel, jnp.asarray(starts), jax.random.key(seed), step_size, round(TIME / step_size),
        temperature=temperature, burn_in=round(WARM_UP / step_size), observe=products,
    )  # fmt: skip
    return mean_and_error(per_chain)


def deviation_at(pair: Pair, temperature: float, kernel: eg.Kernel | None = None) -> float:
    """How far the extrapolated variance is from T K^-1, in standard errors."""
    kernel = pair.kernel() if kernel is None else kernel
    fine, error = moments(kernel, pair.step_size / 2, temperature, pair.name)
    if pair.order:
        coarse, coarse_error = moments(kernel, pair.step_size, temperature, pair.name)
        weight = 2**pair.order
        fine, error = (weight * fine - coarse) / (weight - 1), np.hypot(weight * error, coarse_error) / (weight - 1)
    return float(np.max(np.abs(fine - temperature * np.linalg.inv(PRECISION)) / error))


SHORT = ("sgrld elementwise", "sgrhmc Splitting", "gsgrhmc Euler", "sgnht Splitting", "hmc")


@pytest.mark.parametrize("pair", long_unless(PAIRS, *SHORT, name=lambda pair: pair.name), ids=lambda pair: pair.name)
def test_variance_is_proportional_to_temperature(pair):
    found = {temperature: deviation_at(pair, temperature) for temperature in TEMPERATURES}
    assert max(found.values()) < LIMIT, found


def potential_of_cold_correction(position):
    """Where Gamma lacks its T the drift is -D U' + Gamma = -D (U + (T - 1) log D)' + T Gamma, D a function of each
    coordinate: the right sampler of another potential, here at T = 2."""
    return potential(position) + jnp.sum(jnp.log(inverse_metric(position)))


def test_correction_without_the_temperature_is_noticed():
    pair = PAIRS[0]
    wrong = eg.Kernel(eg.Density(potential_of_cold_correction), pair.recipe, pair.integrator)
    found = deviation_at(pair, 2.0, wrong)
    assert found > WRONG
