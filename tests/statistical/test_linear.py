"""Linear pairs of builder and integrator against their exact discrete law: exactly, over chains, and made wrong.

First without sampling: a step is affine in the phase, in its random numbers and in the batch, so its values at unit
vectors are the whole chain. Then over many chains of `kernel.step`, which sees what the map cannot: keys and draws.
"""

import zlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from tests.statistical import linear_cases
from tests.statistical.chains import advance
from tests.statistical.discrete_law import LinearChain, deviation
from tests.statistical.linear_cases import CENTRE, Case, Rows, as_array, as_tree
from tests.statistical.one_step import OneStep, one_step

CHAINS = 20_000
LIMIT = 4.5  # standard errors
WRONG = 9.0  # standard errors that a wrong sampler must show
EARLY, LATE = 3, 40  # numbers of the steps that are looked at
TEMPERATURES = (0.5, 1.0, 2.0)
MODES = [pytest.param(None, id="exact"), pytest.param(False, id="noisy"), pytest.param(True, id="compensated")]


def by_name(cases: list[Case]) -> list[Any]:
    return [pytest.param(case, id=case.name) for case in cases]


def all_cases(shaped=as_array) -> list[Case]:
    makers = (linear_cases.position_cases, linear_cases.momentum_cases, linear_cases.mixed_cases)
    return [case for maker in makers for case in maker(shaped)]


# -- exactly ------------------------------------------------------------------------------------------


def gap(found: OneStep, law: LinearChain) -> float:
    pairs = zip((found.transition, found.offset, found.noise), (law.transition, law.offset, law.noise), strict=True)
    return max(float(np.max(np.abs(a - b))) for a, b in pairs)


@pytest.mark.parametrize("compensate", MODES)
@pytest.mark.parametrize("case", by_name(all_cases()))
def test_one_step_is_that_of_the_law(case, compensate):
    batches = None if compensate is None else Rows(case.gradient_noise)
    steps = one_step(case.kernel(compensate), case.step_size, TEMPERATURES, jnp.asarray(CENTRE), batches)
    for temperature, step in zip(TEMPERATURES, steps, strict=True):
        assert gap(step, case.law(temperature, compensate)) < 1e-12


@pytest.mark.parametrize("case", by_name([case for case in all_cases(as_tree) if "scalar" not in case.name]))
def test_one_step_of_a_position_with_two_leaves(case):
    position = jax.tree.map(jnp.asarray, as_tree(CENTRE))
    steps = one_step(case.kernel(True, as_tree), case.step_size, TEMPERATURES, position, Rows(case.gradient_noise))
    for temperature, step in zip(TEMPERATURES, steps, strict=True):
        assert gap(step, case.law(temperature, True)) < 1e-12


# -- over many chains ---------------------------------------------------------------------------------


class Deviations(NamedTuple):
    """Largest distances from the law of the joint phase, in standard errors, early and late."""

    early: float
    late: float


def deviations(case: Case, compensate: bool | None, temperature: float, steps_per_key: int = 1, **wrong: Any):
    """From off-centre starts with the covariance of the discrete law, which the chains then have at every step.

    The early mean sees the sign of Q, which no stationary covariance does; the late covariance sees everything that
    is wrong by a little in every step. `wrong` replaces a part of the kernel.
    """
    law, kernel = case.law(temperature, compensate), case.kernel(compensate, **wrong)
    mean = law.mean + np.linspace(1.5, -2.0, len(law.mean))
    state = kernel.init(jnp.asarray(CENTRE), jax.random.key(0), temperature)
    normals = np.random.default_rng(29).standard_normal((CHAINS, len(mean)))
    starts = mean + normals @ np.linalg.cholesky(law.covariance).T
    many = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (CHAINS, *leaf.shape)), state)
    many = many._replace(phase=type(state.phase)(*jnp.split(jnp.asarray(starts), len(state.phase), axis=1)))

    key = jax.random.fold_in(jax.random.key(17), zlib.crc32(f"{case.name} {compensate} {temperature}".encode()))
    batches = None if compensate is None else Rows(case.gradient_noise)
    found, done = [], 0
    for number in (EARLY, LATE):
        many = advance(
            kernel, many, jax.random.fold_in(key, number), case.step_size, number - done,
            temperature=temperature, batches=batches, steps_per_key=steps_per_key,
        )  # fmt: skip
        done = number
        found.append(max(deviation(np.hstack(many.phase), law.after(number, mean, law.covariance))))
    return Deviations(*found)


@pytest.mark.parametrize("compensate", MODES)
@pytest.mark.parametrize("case", by_name(linear_cases.position_cases() + linear_cases.momentum_cases()))
def test_chains_have_the_discrete_law(case, compensate):
    found = {temperature: deviations(case, compensate, temperature) for temperature in TEMPERATURES}
    print(found)
    assert all(max(value) < LIMIT for value in found.values()), found
