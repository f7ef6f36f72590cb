"""Linear pairs of builder and integrator against their exact discrete law: exactly, over chains, and made wrong.

First without sampling: a step is affine in the phase, in its random numbers and in the batch, so its values at unit
vectors are the whole chain. Then over many chains of `kernel.step`, which sees what the map cannot: keys and draws.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from tests.statistical import linear_cases
from tests.statistical.discrete_law import LinearChain
from tests.statistical.linear_cases import CENTRE, Case, Rows, as_array, as_tree
from tests.statistical.one_step import OneStep, one_step

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
