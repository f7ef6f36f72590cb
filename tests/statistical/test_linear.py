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
from tests.statistical.discrete_law import LinearChain, boa, curl_of, deviation, euler
from tests.statistical.linear_cases import (
    CENTRE,
    DENSE,
    DIM,
    FRICTION,
    MASS,
    NOISE,
    PRECISION,
    SKEW,
    Case,
    PairedRows,
    Rows,
    as_array,
    as_tree,
)
from tests.statistical.one_step import OneStep, one_step

CHAINS = 8_000
LIMIT = 4.5  # standard errors
WRONG = 9.0  # standard errors that a wrong sampler must show
EARLY, LATE = 3, 25  # numbers of the steps that are looked at
TEMPERATURES = (0.5, 1.0, 2.0)
MODES = [pytest.param(None, id="exact"), pytest.param(False, id="noisy"), pytest.param(True, id="compensated")]


def by_name(cases: list[Case]) -> list[Any]:
    return [pytest.param(case, id=case.name) for case in cases]


def main_cases(shaped=as_array) -> list[Case]:
    return linear_cases.position_cases(shaped) + linear_cases.momentum_cases(shaped)


# -- exactly ------------------------------------------------------------------------------------------


def gap(found: OneStep, law: LinearChain) -> float:
    pairs = zip((found.transition, found.offset, found.noise), (law.transition, law.offset, law.noise), strict=True)
    return max(float(np.max(np.abs(a - b))) for a, b in pairs)


@pytest.mark.parametrize("compensate", MODES)
@pytest.mark.parametrize("case", by_name(main_cases()))
def test_one_step_is_that_of_the_law(case, compensate):
    batches = None if compensate is None else Rows(case.gradient_noise)
    steps = one_step(case.kernel(compensate), case.step_size, TEMPERATURES, jnp.asarray(CENTRE), batches)
    for temperature, step in zip(TEMPERATURES, steps, strict=True):
        assert gap(step, case.law(temperature, compensate)) < 1e-12


@pytest.mark.parametrize("case", by_name(linear_cases.mixed_cases()))
def test_one_step_where_structures_meet(case):
    steps = one_step(case.kernel(True), case.step_size, TEMPERATURES, jnp.asarray(CENTRE), Rows(case.gradient_noise))
    for temperature, step in zip(TEMPERATURES, steps, strict=True):
        assert gap(step, case.law(temperature, True)) < 1e-12


@pytest.mark.long  # trees are among the builders of tests/laws
@pytest.mark.parametrize("case", by_name([case for case in main_cases(as_tree) if "scalar" not in case.name]))
def test_one_step_of_a_position_with_two_leaves(case):
    position = jax.tree.map(jnp.asarray, as_tree(CENTRE))
    steps = one_step(case.kernel(True, as_tree), case.step_size, TEMPERATURES, position, Rows(case.gradient_noise))
    for temperature, step in zip(TEMPERATURES, steps, strict=True):
        assert gap(step, case.law(temperature, True)) < 1e-12


@pytest.mark.parametrize("compensate", MODES)
def test_one_step_with_diffusion_on_position_and_momentum(compensate):
    """The same gradient noise enters both slots, so that what is subtracted has blocks between them."""
    coupling = DENSE + SKEW
    recipe = eg.Recipe(
        energy={"momentum": eg.Gaussian(MASS)},
        diffusion={"position": eg.Constant(DENSE), "momentum": eg.Constant(FRICTION)},
        curl={("momentum", "position"): eg.Constant(coupling)},
    )
    kernel = eg.Kernel(linear_cases.posterior(), recipe, eg.Euler(), NOISE if compensate else None)
    batches = None if compensate is None else Rows(NOISE)
    steps = one_step(kernel, 0.2, TEMPERATURES, jnp.asarray(CENTRE), batches)
    given = dict(diffusion=(DENSE, FRICTION), eps=0.2, Q=curl_of(coupling, DIM, DIM), M=MASS)
    for temperature, step in zip(TEMPERATURES, steps, strict=True):
        law = euler(PRECISION, CENTRE, T=temperature, V=NOISE, compensate=compensate, **given)
        assert gap(step, law) < 1e-12


@pytest.mark.parametrize("compensate", MODES)
def test_one_step_that_kicks_first(compensate):
    """A curl that reads z.potential gets kick, friction, move; where its slope is 0 that is linear."""
    recipe = eg.Recipe(
        energy={"momentum": eg.Gaussian(MASS)},
        diffusion={"momentum": eg.Constant(FRICTION)},
        curl={("momentum", "position"): eg.Scaled(lambda z: 0.9 + 0.0 * z.potential)},
    )
    noise_of_pair = NOISE / 2
    kernel = eg.Kernel(linear_cases.posterior(), recipe, eg.Splitting(), noise_of_pair if compensate else None)
    batches = None if compensate is None else PairedRows(Rows(NOISE))
    steps = one_step(kernel, 0.4, TEMPERATURES, jnp.asarray(CENTRE), batches)
    given = dict(diffusion=FRICTION, eps=0.4, R=0.9, M=MASS)
    for temperature, step in zip(TEMPERATURES, steps, strict=True):
        law = boa(PRECISION, CENTRE, T=temperature, V=noise_of_pair, compensate=compensate, **given)
        assert gap(step, law) < 1e-12


# -- over many chains ---------------------------------------------------------------------------------


class Deviations(NamedTuple):
    """Largest distances from the law of the joint phase, in standard errors, early and late."""

    early: float
    late: float


def deviations(case: Case, compensate: bool | None, temperature: float, steps_per_key: int = 1, **wrong: Any):
    """From off-centre starts with the covariance of the discrete law, which the chains then have at every step.

    The early mean sees the sign of Q, which the stationary law of a splitting does not; the late covariance sees what
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


# What a mode changes is in the map of one step, exact above for every case; keys and draws are those of all modes. So
# matrices are run in each mode, numbers without batches, and vectors with all there is.
PAIRED = [
    (case, mode)
    for case in main_cases()
    for mode in (MODES if "dense" in case.name else MODES[:1] if "scalar" in case.name else MODES[2:])
    if case.is_run
]
RUN = [
    pytest.param(case, *mode.values, id=f"{case.name}-{mode.id}", marks=pytest.mark.long if i % 3 else ())
    for i, (case, mode) in enumerate(PAIRED)
]


@pytest.mark.parametrize(("case", "compensate"), RUN)
def test_chains_have_the_discrete_law(case, compensate):
    found = {temperature: deviations(case, compensate, temperature) for temperature in TEMPERATURES}
    assert all(max(value) < LIMIT for value in found.values()), found


# -- made wrong ---------------------------------------------------------------------------------------


class QuietEuler(eg.Euler):
    """Noise without the 2."""

    def draw(self, recipe, phase, key, setting):
        return jax.tree.map(lambda x: x / np.sqrt(2), super().draw(recipe, phase, key, setting))


class QuietSplitting(eg.Splitting):
    """Noise without the 2."""

    def draw(self, recipe, phase, key, setting):
        return jax.tree.map(lambda x: x / np.sqrt(2), super().draw(recipe, phase, key, setting))


class Unscaled(eg.Posterior):
    """A batch counted once, without N/n."""

    def potential(self, position, batch=None):
        return -jnp.sum(self._terms(position, self._rows_or_all(batch))) - self._log_prior(position)


def with_curl(recipe: eg.Recipe, curl: Any) -> eg.Recipe:
    (pair,) = recipe.curl
    return eg.Recipe(recipe.energy, recipe.diffusion, {pair: eg.Constant(curl)})


CASES = {case.name: case for case in main_cases()}
MISTAKES = [
    pytest.param("sgld dense", None, dict(integrator=QuietEuler()), id="no 2, Euler"),
    pytest.param("sghmc dense Splitting", None, dict(integrator=QuietSplitting()), id="no 2, Splitting"),
    pytest.param("irreversible dense", None, "curl", id="sign of Q, position"),
    pytest.param("sghmc dense Euler", None, "curl", id="sign of Q, Euler"),
    pytest.param("sghmc dense Splitting", None, "curl", id="sign of Q, Splitting"),
    pytest.param("sgld scalar", False, dict(target=linear_cases.posterior(Unscaled)), id="no N/n, Euler"),
    pytest.param("sghmc dense Splitting", True, dict(target=linear_cases.posterior(Unscaled)), id="no N/n, Splitting"),
    pytest.param("sgld dense", None, dict(steps_per_key=2), id="key used twice, Euler"),
    pytest.param("sghmc dense Splitting", True, dict(steps_per_key=2), id="key used twice, Splitting"),
    pytest.param("sgrld dense", True, dict(gradient_noise=None), id="not compensated, Euler"),
    pytest.param("sgrhmc dense Splitting", True, dict(gradient_noise=None), id="not compensated, Splitting"),
]


@pytest.mark.parametrize(("name", "compensate", "mistake"), MISTAKES)
def test_mistakes_are_noticed(name, compensate, mistake):
    case = CASES[name]
    if mistake == "curl":
        curl = case.curl if case.mass is None else np.eye(DIM)
        mistake = dict(recipe=with_curl(case.recipe, -curl))
    if not mistake.keys() & {"integrator", "steps_per_key"}:  # the map of one step has neither draws nor keys in it
        batches = None if compensate is None else Rows(case.gradient_noise)
        kernel = case.kernel(compensate, **mistake)
        steps = one_step(kernel, case.step_size, TEMPERATURES, jnp.asarray(CENTRE), batches)
        assert gap(steps[1], case.law(1.0, compensate)) > 0.01
    found = deviations(case, compensate, 1.0, **mistake)
    assert max(found) > WRONG, found
