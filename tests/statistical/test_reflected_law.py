"""Reflection keeps the law: exactly where the discrete chain has a closed form, elsewhere as steps go to zero."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.integrators import reflection
from tests.selection import long_unless

CHAINS = 10_000
SKEWED = np.array([[1.0, 0.6], [0.6, 1.5]])


@eqx.filter_jit
def simulate(kernel, start, steps, version, step_size, temperature, key):
    """The positions of all chains after `steps` steps, and the mean acceptance. Compiled anew for each `version`."""
    first, later = jax.random.split(key)
    states = jax.vmap(lambda q, k: kernel.init(q, k, temperature))(start, jax.random.split(first, CHAINS))

    def advance(states, key):
        step = jax.vmap(lambda s, k: kernel.step(s, k, step_size, None, temperature))
        states, info = step(states, jax.random.split(key, CHAINS))
        return states, jnp.mean(info.accepted)

    states, accepted = jax.lax.scan(advance, states, jax.random.split(later, steps))
    return states.phase.position, jnp.mean(accepted)


def run(target, recipe, integrator, start, steps, step_size, temperature=1.0, seed=8, version="right"):
    kernel = eg.Kernel(target, recipe, integrator)
    numbers = jnp.asarray(step_size), jnp.asarray(temperature), jax.random.key(seed)
    positions, accepted = simulate(kernel, start, steps, version, *numbers)
    return np.asarray(positions), float(accepted)


def mean_and_error(values):
    return values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values))


# -- on the half-line ---------------------------------------------------------------------------------

HALF_LINE = eg.Density(lambda q: jnp.sum(q), domain=eg.positive)


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_sgld_on_the_exponential_law_has_its_discrete_mean(temperature):
    """With its mirror image the chain is x - eps D sign(x) + sqrt(2 eps T D) n on the whole line. A stationary E x^2
    needs -2 eps D E|x| + eps^2 D^2 + 2 eps T D = 0, so E q = T + eps D / 2 at every step size."""
    d, eps = 0.8, 0.25 * temperature
    start = temperature * jax.random.exponential(jax.random.key(2), (CHAINS, 1))
    positions, _ = run(HALF_LINE, eg.sgld(d), eg.Euler(), start, 200, eps, temperature)
    assert positions.min() >= 0
    mean, error = mean_and_error(positions)
    assert abs(mean - (temperature + eps * d / 2)) < 4.5 * error
    assert abs(mean - temperature) > 5 * error  # the bias of the step is seen


# -- in a half-plane, with a direction of reflection that is not the normal --------------------------


def slanted_potential(q):
    return q[0] + (q[1] - 0.5 * q[0]) ** 2 / 2


SLANTED = eg.Density(slanted_potential, domain=eg.Box(np.array([0.0, -np.inf]), np.array([np.inf, np.inf])))
OBLIQUE = {
    "sgld, dense D": (eg.sgld(SKEWED), eg.Euler(), 0.04),
    "sghmc, dense mass": (eg.sghmc(0.4, SKEWED), eg.Splitting(), 0.3),
}


def slanted_moments(name, step_size, seed, version="right"):
    """Moments of q less their truth, and standard errors, after a time in which a wrong law would show."""
    recipe, integrator, _ = OBLIQUE[name]
    first = jax.random.exponential(jax.random.key(3), (CHAINS, 1))
    second = 0.5 * first + jax.random.normal(jax.random.key(4), (CHAINS, 1))
    start = jnp.concatenate([first, second], axis=1)
    positions, _ = run(SLANTED, recipe, integrator, start, round(6 / step_size), step_size, seed=seed, version=version)
    assert positions[:, 0].min() >= 0
    x, y = positions.T
    return mean_and_error(np.stack([x - 1, y - 0.5, x**2 - 2, y**2 - 1.5, x * y - 1], axis=1))


@pytest.mark.parametrize("name", long_unless(OBLIQUE, "sgld, dense D"))
def test_oblique_reflection_keeps_the_law_as_the_step_goes_to_zero(name):
    step_size, order = OBLIQUE[name][2], 1 if isinstance(OBLIQUE[name][1], eg.Euler) else 2
    (coarse, coarse_error), (fine, fine_error) = (
        slanted_moments(name, step, seed) for step, seed in ((step_size, 5), (step_size / 2, 6))
    )
    limit = (2**order * fine - coarse) / (2**order - 1)
    error = np.hypot(2**order * fine_error, coarse_error) / (2**order - 1)
    assert np.max(np.abs(limit) / error) < 4.5


@pytest.mark.parametrize("name", long_unless(OBLIQUE, "sgld, dense D"))
def test_reflection_along_the_normal_would_not(name, monkeypatch):
    monkeypatch.setattr(reflection, "is_entrywise", lambda *operators: True)
    deviation, error = slanted_moments(name, OBLIQUE[name][2], 5, version="along the normal")
    assert np.max(np.abs(deviation) / error) > 8


def test_trajectories_in_a_corner_are_exact_at_a_large_step():
    """A dense mass, two faces, long moves: many trajectories meet both faces."""
    start = jax.random.exponential(jax.random.key(7), (CHAINS, 2))
    kernel = (HALF_LINE, eg.hmc(SKEWED), eg.Leapfrog(steps=3))
    positions, accepted = run(*kernel, start, 25, 1.1)
    assert 0.4 < accepted < 0.97
    mean, error = mean_and_error(np.concatenate([positions - 1, positions**2 - 2], axis=1))
    assert np.max(np.abs(mean) / error) < 4.5
    cross, error = mean_and_error((positions[:, 0] - 1) * (positions[:, 1] - 1))
    assert abs(cross) < 4.5 * error
