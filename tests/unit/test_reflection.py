"""Reflection at the faces of a domain: stays inside, keeps the energy, keeps the law."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ergodica as eg
from ergodica.integrators.reflection import reflect
from ergodica.operators import DenseOperator, ScalarOperator
from ergodica.tree import Layout
from tests.selection import long_unless

LAYOUT = Layout.of(jnp.zeros(3))
MASS = np.array([[1.0, 0.3, 0.1], [0.3, 0.8, -0.2], [0.1, -0.2, 1.5]])
CURL = np.array([[1.0, 0.2, 0.0], [-0.1, 0.9, 0.3], [0.2, 0.0, 1.1]])


def dense(matrix):
    return DenseOperator(jnp.asarray(matrix), LAYOUT, LAYOUT)


@given(st.integers(0, 2), st.floats(0.01, 0.5), st.integers(0, 2**20))
def test_dense_reflection_keeps_the_energy_and_turns_the_normal_velocity(i, over, seed):
    rng = np.random.default_rng(seed)
    r = jnp.asarray(rng.normal(size=3))
    velocity = CURL.T @ np.linalg.solve(MASS, r)
    position = jnp.asarray(np.where(np.arange(3) == i, -over, 5.0))
    inside, turned = reflect(eg.positive, position, r, dense(CURL), dense(np.linalg.inv(MASS)))
    np.testing.assert_allclose(turned @ np.linalg.solve(MASS, turned), r @ np.linalg.solve(MASS, r), rtol=1e-10)
    np.testing.assert_allclose((CURL.T @ np.linalg.solve(MASS, turned))[i], -velocity[i], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(inside[i], over, rtol=1e-10)
    # the rest of the path has been walked with the new velocity
    spent = -over / velocity[i]
    path = position + spent * (CURL.T @ np.linalg.solve(MASS, turned) - velocity)
    np.testing.assert_allclose(inside, path, rtol=1e-8, atol=1e-10)


def test_without_momentum_a_dense_diffusion_sends_back_along_its_column():
    matrix = np.array([[1.0, 0.5, 0.0], [0.5, 2.0, 0.2], [0.0, 0.2, 1.0]])
    inside, _ = reflect(eg.positive, jnp.array([3.0, -0.4, 3.0]), diffusion=dense(matrix))
    np.testing.assert_allclose(inside, np.array([3.0, -0.4, 3.0]) + 0.8 * matrix[:, 1] / 2.0, rtol=1e-12)


def test_scalar_reflection_folds_and_flips():
    one = ScalarOperator(jnp.asarray(1.0), LAYOUT)
    inside, turned = reflect(eg.Box(-1, 1), jnp.array([0.5, 1.5, -3.25]), jnp.ones(3), one, one)
    np.testing.assert_allclose(inside, [0.5, 0.5, 0.75])
    np.testing.assert_allclose(turned, [1, -1, 1])


GAMMA = eg.Density(lambda q: jnp.sum(q - jnp.log(q)), init=jnp.ones(2), domain=eg.positive)  # Gamma(2, 1)
EXPONENTIAL = eg.Density(lambda q: jnp.sum(q), init=jnp.ones(2), domain=eg.positive)
SKEWED = np.array([[1.0, 0.6], [0.6, 1.5]])
CASES = {
    "sgld": (EXPONENTIAL, eg.sgld(), eg.Euler(), 2e-3, 1.0),
    "sgld, dense": (EXPONENTIAL, eg.sgld(SKEWED), eg.Euler(), 2e-3, 1.0),
    "sghmc": (EXPONENTIAL, eg.sghmc(), eg.Splitting(), 0.05, 1.0),
    "sghmc, dense mass": (EXPONENTIAL, eg.sghmc(1.0, SKEWED), eg.Splitting(), 0.05, 1.0),
    "sghmc, Euler": (EXPONENTIAL, eg.sghmc(), eg.Euler(), 0.01, 1.0),
    "sgrhmc": (GAMMA, eg.sgrhmc(eg.expanded_mean()), eg.Splitting(), 0.1, 2.0),
    "sgrld": (GAMMA, eg.sgrld(eg.expanded_mean()), eg.Euler(), 0.01, 2.0),
    "hmc": (EXPONENTIAL, eg.hmc(SKEWED), eg.Leapfrog(steps=5), 0.3, 1.0),
}


@pytest.mark.parametrize("name", long_unless(CASES, "sgld", "sghmc", "hmc", "sgrhmc"))
def test_law_on_the_half_line(name):
    target, recipe, integrator, step_size, mean = CASES[name]
    kernel = eg.Kernel(target, recipe, integrator)
    chains, steps = 2_000, int(min(3 / step_size, 1500))

    @eqx.filter_jit
    def run(key):
        shape = (chains, 2)
        start = jax.random.gamma(jax.random.fold_in(key, 0), mean, shape)
        states = jax.vmap(lambda q, k: kernel.init(q, k))(start, jax.random.split(jax.random.fold_in(key, 1), chains))

        def body(states, i):
            keys = jax.random.split(jax.random.fold_in(key, i + 2), chains)
            states, _ = jax.vmap(lambda s, k: kernel.step(s, k, step_size))(states, keys)
            return states, (jnp.min(states.phase.position), states.phase.position)

        _, (least, path) = jax.lax.scan(body, states, jnp.arange(steps))
        return jnp.min(least), jnp.mean(path, axis=0)

    least, means = run(jax.random.key(5))
    assert least >= 0
    means = np.asarray(means).mean(axis=1)
    error = means.std() / chains**0.5
    # Euler's reflected step is off by about the square root of the step; measured 0.6 sqrt(eps) on the exponential law
    allowance = 0.8 * step_size**0.5 if isinstance(integrator, eg.Euler) else 0.02
    assert abs(means.mean() - mean) < 4.5 * error + allowance


def test_curl_through_a_face_is_refused():
    kernel = eg.Kernel(EXPONENTIAL, eg.irreversible_langevin(np.array([[0.0, 1.0], [-1.0, 0.0]])))
    with pytest.raises(eg.InputError, match=r"does not vanish at the domain's face position\[0\] = 0"):
        kernel.init(jnp.ones(2), jax.random.key(0))
    vanishing = eg.Recipe(
        diffusion={"position": eg.Constant(1.0)},
        curl={
            ("position", "position"): eg.Dense(lambda z: jnp.prod(z.position) * jnp.array([[0.0, 1.0], [-1.0, 0.0]]))
        },
    )
    eg.Kernel(EXPONENTIAL, vanishing).init(jnp.ones(2), jax.random.key(0))
