"""Linear pairs of builder and integrator against their exact discrete law: exactly, over chains, and made wrong.

First without sampling: the step is linear in the phase, in its random numbers and in the batch, so its derivatives
are the whole chain. Then over many chains of `kernel.step`, which sees what derivatives cannot: keys and draws.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import ergodica as eg
from ergodica.integrators import Setting, State
from tests.statistical import linear_cases
from tests.statistical.chains import advance
from tests.statistical.discrete_law import LinearChain, aboba, boa, cut, deviation, euler
from tests.statistical.linear_cases import CENTRE, DIM, NOISE, PRECISION, ROWS, Case, Rows, as_array, as_tree

CHAINS = 20_000
LIMIT = 4.5  # standard errors
WRONG = 9.0  # what a wrong sampler must exceed
TEMPERATURES = (0.5, 1.0, 2.0)
EARLY, LATE = 3, 37

MODES = [pytest.param(None, id="exact"), pytest.param(False, id="noisy"), pytest.param(True, id="compensated")]


def by_name(cases: list[Case]) -> list[Any]:
    return [pytest.param(case, id=case.name) for case in cases]


def all_cases(shaped=as_array) -> list[Case]:
    makers = (linear_cases.position_cases, linear_cases.momentum_cases, linear_cases.mixed_cases)
    return [case for maker in makers for case in maker(shaped)]


# -- exactly ------------------------------------------------------------------------------------------


class OneStep(NamedTuple):
    """z' = transition z + offset + injected N(0, 1) + gradient N(0, 1), read off a kernel by differentiation."""

    transition: np.ndarray
    offset: np.ndarray
    injected: np.ndarray
    gradient: np.ndarray

    @property
    def noise(self) -> np.ndarray:
        return self.injected @ self.injected.T + self.gradient @ self.gradient.T


def one_step(kernel: eg.Kernel, step_size: float, temperature: float, position, rows=None, pair=False) -> OneStep:
    state = kernel.init(position, jax.random.key(1), temperature)
    draws = kernel.integrator.draw(kernel.recipe, state.phase, jax.random.key(2), Setting(step_size, temperature))
    flat_phase, to_phase = ravel_pytree(state.phase)
    flat_draws, to_draws = ravel_pytree(draws)
    normals = jnp.zeros((2 if pair else 1, DIM))

    def step(phase, draws, normals):
        batch = None if rows is None else [rows.rows(normal) for normal in normals]
        batch = batch if batch is None else eg.BatchPair(*batch) if pair else batch[0]
        at = state._replace(phase=to_phase(phase))
        return ravel_pytree(kernel.step_with(at, to_draws(draws), step_size, batch, temperature)[0].phase)[0]

    zeros = jnp.zeros_like(flat_phase), jnp.zeros_like(flat_draws), normals
    jacobians = jax.jacfwd(step, argnums=(0, 1, 2))(flat_phase, flat_draws, normals + 0.3)
    transition, injected, gradient = (np.asarray(j).reshape(len(flat_phase), -1) for j in jacobians)
    return OneStep(transition, np.asarray(step(*zeros)), injected, gradient)


def assert_same(found: OneStep, law: LinearChain) -> None:
    np.testing.assert_allclose(found.transition, law.transition, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.offset, law.offset, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.noise, law.noise, rtol=0, atol=1e-12)


@pytest.mark.parametrize("compensate", MODES)
@pytest.mark.parametrize("case", by_name(all_cases()))
def test_one_step_is_that_of_the_law(case, compensate):
    rows = None if compensate is None else Rows(case.gradient_noise)
    kernel = case.kernel(compensate)
    for temperature in TEMPERATURES:
        found = one_step(kernel, case.step_size, temperature, jnp.asarray(CENTRE), rows)
        assert_same(found, case.law(temperature, compensate))


@pytest.mark.parametrize("case", by_name(all_cases(as_tree)))
def test_one_step_of_a_position_with_two_leaves(case):
    position = jax.tree.map(jnp.asarray, as_tree(CENTRE))
    found = one_step(case.kernel(True, as_tree), case.step_size, 0.5, position, Rows(case.gradient_noise))
    assert_same(found, case.law(0.5, True))
