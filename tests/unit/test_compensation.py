"""The noise that a step injects, its cuts and the largest admissible step, against dense NumPy.

Everything but the normals is fixed, so a step is linear in them: its matrix F is read off, and F F^T is the covariance.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import expm

import ergodica as eg
from ergodica.tree import Layout
from tests.oracle.stationarity import QUICK

TARGET = eg.gallery.gaussian(2)
START = jnp.array([0.3, -0.2])
PSD = np.array([[1.2, 0.5], [0.5, 0.8]])
OTHER = np.array([[2.0, -0.7], [-0.7, 3.0]])
SKEW = np.array([[0.0, -1.3], [1.3, 0.0]])
ONE = np.eye(2)


def positive_part(matrix):
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0)) @ vectors.T, int(np.sum(values < -1e-13 * np.abs(values).max()))


def largest_step(d, b, temperature):
    """2 T / lambda_max(D^+1/2 B D^+1/2), 0 where B leaves the range of D."""
    values, vectors = np.linalg.eigh(d)
    inside = values > 1e-12 * np.abs(values).max()
    outside = vectors[:, ~inside]
    if outside.size and np.abs(outside.T @ b @ outside).max() > 1e-12:
        return 0.0
    half = vectors[:, inside] / np.sqrt(values[inside])
    return 2 * temperature / np.linalg.eigvalsh(half.T @ b @ half).max()


class Case(NamedTuple):
    """A recipe with its noise slot's D, how gradient noise enters it (D + Q, or R), its mass, and V."""

    recipe: eg.Recipe
    d: np.ndarray
    through: np.ndarray
    v: Any
    mass: np.ndarray = ONE

    @property
    def covariance(self):
        v = np.asarray(self.v, float)
        return v if v.ndim == 2 else np.diag(np.broadcast_to(v, 2))

    @property
    def b(self):
        return self.through @ self.covariance @ self.through.T


DIAGONAL, V_DIAGONAL = np.array([0.4, 1.3]), np.array([3.0, 1.0])
POSITION_CASES = {
    "scalars": Case(eg.sgld(0.7), 0.7 * ONE, 0.7 * ONE, 2.0),
    "diagonals": Case(eg.sgld(DIAGONAL), np.diag(DIAGONAL), np.diag(DIAGONAL), V_DIAGONAL),
    "scalar and diagonal": Case(eg.sgld(0.7), 0.7 * ONE, 0.7 * ONE, V_DIAGONAL),
    "scalar and dense": Case(eg.sgld(0.7), 0.7 * ONE, 0.7 * ONE, OTHER),
    "dense": Case(eg.sgld(PSD), PSD, PSD, OTHER),
    "with a curl": Case(eg.irreversible_langevin(SKEW, PSD), PSD, PSD + SKEW, V_DIAGONAL),
}
MOMENTUM_CASES = {
    "scalars": Case(eg.sghmc(0.8, 1.7), 0.8 * ONE, ONE, 2.0, 1.7 * ONE),
    "diagonals": Case(eg.sghmc(DIAGONAL), np.diag(DIAGONAL), ONE, V_DIAGONAL),
    "dense": Case(eg.sghmc(PSD, OTHER), PSD, ONE, V_DIAGONAL, OTHER),
    "constant metric": Case(
        eg.sgrhmc(np.diag([0.5, 2.0])), np.diag([0.5, 2.0]), np.diag(np.sqrt([0.5, 2.0])), OTHER, ONE
    ),
}
CASES = {f"position, {name}": case for name, case in POSITION_CASES.items()} | {
    f"momentum, {name}": case for name, case in MOMENTUM_CASES.items()
}
TEMPERATURES = (0.5, 1.0, 2.0)


def measured(case, integrator, slot):
    """(eps, T) -> (F F^T of the slot's noise, cuts, largest step)."""
    kernel = eg.Kernel(TARGET, case.recipe, integrator, gradient_noise=case.v)
    state = kernel.init(START, jax.random.key(0))

    def linear(step_size, temperature):
        def image(normal):
            new, info = kernel.step_with(state, {slot: normal}, step_size, None, temperature)
            return getattr(new.phase, slot), info

        origin, info = image(jnp.zeros(2))
        columns = jnp.stack([image(e)[0] - origin for e in jnp.eye(2)], axis=1)
        return columns @ columns.T, info.cuts, info.largest_step

    return jax.jit(linear, compiler_options=QUICK)


@pytest.mark.parametrize("name", CASES)
def test_euler_injects_2_t_d_less_eps_b(name):
    case, slot = CASES[name], name.split(",")[0]
    step = measured(case, eg.Euler(), slot)
    for temperature in TEMPERATURES:
        limit = largest_step(case.d, case.b, temperature)
        for eps in (0.5 * limit, 1.5 * limit):
            got, cuts, largest = step(eps, temperature)
            expected, count = positive_part(eps * (2 * temperature * case.d - eps * case.b))
            np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(largest, limit, rtol=1e-9)
            assert cuts == count
            assert (cuts > 0) == (eps > limit)


@pytest.mark.parametrize("name", MOMENTUM_CASES)
def test_the_splitting_injects_its_friction_less_two_half_kicks(name):
    """T (M - a M a^T) - (eps/2)^2 (1 + a) R V R^T (1 + a)^T with a = exp(-eps D M^-1), one kick before friction."""
    case = MOMENTUM_CASES[name]
    step = measured(case, eg.Splitting(), "momentum")
    for temperature in TEMPERATURES:
        limit = largest_step(case.d, case.b, temperature)
        for eps in (0.2 * limit, 2.5 * limit):
            a = expm(-eps * case.d @ np.linalg.inv(case.mass))
            friction = temperature * (case.mass - a @ case.mass @ a.T)
            kicks = (eps / 2) ** 2 * (ONE + a) @ case.b @ (ONE + a).T
            expected, count = positive_part(friction - kicks)
            got, cuts, largest = step(eps, temperature)
            np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-11)
            np.testing.assert_allclose(largest, limit, rtol=1e-9)
            assert cuts == count


# -- where B leaves the range of D --------------------------------------------------------------------


def info_of(recipe, v, integrator, target=TARGET, start=START, step_size=1e-3):
    kernel = eg.Kernel(target, recipe, integrator, gradient_noise=v)
    state = kernel.init(start, jax.random.key(0))
    return jax.jit(lambda s: kernel.step(s, jax.random.key(1), step_size)[1], compiler_options=QUICK)(state)


@pytest.mark.parametrize("integrator", [eg.Euler(), eg.Splitting()], ids=lambda i: type(i).__name__)
@pytest.mark.parametrize(
    "friction", [np.array([1.0, 0.0]), np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.5, 0.5], [0.5, 0.5]])]
)
def test_no_step_is_admissible_where_d_is_zero_in_a_direction(friction, integrator):
    info = info_of(eg.sghmc(friction), 2.0, integrator)
    assert info.largest_step == 0
    assert info.cuts == 1


def test_a_direction_without_noise_of_either_kind_does_no_harm():
    info = info_of(eg.sgld(np.array([1.0, 0.0])), np.array([2.0, 0.0]), eg.Euler())
    assert info.largest_step == 1.0  # 2 D / (D V D)
    assert info.cuts == 0


def test_gradient_noise_in_a_slot_without_d_leaves_no_admissible_step():
    """D on the position, a momentum as in HMC: the noise of the gradient enters both, and can be met in one."""
    recipe = eg.Recipe(
        energy={"momentum": eg.Gaussian()},
        diffusion={"position": eg.Constant(1.0)},
        curl={("momentum", "position"): eg.Constant(1.0)},
    )
    info = info_of(recipe, 2.0, eg.Euler())
    assert info.largest_step == 0
    assert info.cuts == 2


def test_noise_that_enters_two_slots_is_compensated_jointly():
    recipe = eg.Recipe(
        energy={"momentum": eg.Gaussian()},
        diffusion={"position": eg.Constant(0.7), "momentum": eg.Constant(PSD)},
        curl={("momentum", "position"): eg.Constant(1.0)},
    )
    d = np.block([[PSD, 0 * ONE], [0 * ONE, 0.7 * ONE]])  # momentum, then position
    through = np.concatenate([ONE, 0.7 * ONE])
    b = through @ OTHER @ through.T
    kernel = eg.Kernel(TARGET, recipe, eg.Euler(), gradient_noise=OTHER)
    state = kernel.init(START, jax.random.key(0))
    layout = Layout.of({"momentum": START, "position": START})

    @jax.jit
    def image(normal, step_size):
        new, info = kernel.step_with(state, layout.unravel(normal), step_size)
        return layout.ravel(new.phase._asdict()), info

    limit = largest_step(d, b, 1.0)
    for eps in (0.5 * limit, 1.5 * limit):
        origin, info = image(jnp.zeros(4), eps)
        factor = np.stack([image(e, eps)[0] - origin for e in jnp.eye(4)], axis=1)
        expected, count = positive_part(eps * (2 * d - eps * b))
        np.testing.assert_allclose(factor @ factor.T, expected, atol=1e-11)
        np.testing.assert_allclose(info.largest_step, limit, rtol=1e-9)
        assert info.cuts == count


def test_cuts_are_counted_in_numbers_on_a_tree_with_a_scalar():
    start = {"scalar": jnp.asarray(0.3), "vector": jnp.array([0.1, 0.2, 0.4])}
    target = eg.Density(lambda q: q["scalar"] ** 2 + jnp.sum(q["vector"] ** 2))
    noise = {"scalar": np.asarray(50.0), "vector": np.array([50.0, 1.0, 50.0])}
    assert info_of(eg.sgld(1.0), noise, eg.Euler(), target, start, step_size=0.1).cuts == 3
    assert info_of(eg.sgld(1.0), 50.0, eg.Euler(), target, start, step_size=0.1).cuts == 4


def test_noise_that_is_compensated_needs_no_more_than_the_data_bring():
    """PerExample knows nothing before the first batch, so the first step injects all of 2 D."""
    target = eg.gallery.logistic_regression(rows=30, features=2)
    kernel = eg.Kernel(target, eg.sgld(1.0), gradient_noise=eg.PerExample())
    batch = jax.tree.map(jnp.asarray, target.rows(slice(0, 10)))
    state = kernel.init(target.init, jax.random.key(0))
    step = jax.jit(lambda state: kernel.step(state, jax.random.key(1), 0.01, batch), compiler_options=QUICK)
    state, first = step(state)
    assert np.isinf(first.largest_step)
    second = step(state)[1]
    np.testing.assert_allclose(second.largest_step, 2 / np.max(state.noise.variance), rtol=1e-12)
