"""The correction by simulation: with state-dependent D and Q only the right Gamma gives the right moments."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg

CHAINS = 16_000
TIME = 4.0  # several relaxation times, from a start in the law: what is wrong has drifted away by then


def diffusion(z):
    q = z.position
    return jnp.exp(0.7 * jnp.tanh(jnp.stack([q[0] + 0.5 * q[1], q[1] - 0.5 * q[0]])))


def curl(z):
    q = z.position
    entry = 1.5 * jnp.tanh(q[0] - 0.6 * q[1])
    return jnp.stack([jnp.stack([0 * entry, -entry]), jnp.stack([entry, 0 * entry])])


class Dropped(eg.Recipe):
    """Gamma = 0."""

    def gamma(self, point, key=None):
        return {}


class OppositeSign(eg.Recipe):
    """-Gamma."""

    def gamma(self, point, key=None):
        return {slot: value.scaled(-1) for slot, value in super().gamma(point, key).items()}


class OtherIndex(eg.Recipe):
    """sum_j d/dz_j (D_ji + Q_ji)."""

    def gamma(self, point, key=None):
        blocks = (self.diffusion["position"], self.curl["position", "position"])
        first, second = (block.divergence(point, "position", "position", True, key) for block in blocks)
        return {"position": first + second}


@eqx.filter_jit
def simulate(kernel, steps, step_size, temperature, seed):
    """The positions of all chains at the end, started from the law N(0, T) itself."""
    start = jnp.sqrt(temperature) * jax.random.normal(jax.random.key(seed), (CHAINS, 2))
    state = jax.vmap(kernel.init, in_axes=(0, None))(start, jax.random.key(0))

    def advance(state, key):
        step = jax.vmap(lambda s, k: kernel.step(s, k, step_size, None, temperature)[0])
        return step(state, jax.random.split(key, CHAINS)), None

    state, _ = jax.lax.scan(advance, state, jax.random.split(jax.random.key(seed + 1), steps))
    return state.phase.position


def moments(positions, temperature):
    """Five moments less what they are under N(0, T), and their standard errors."""
    x, y = np.asarray(positions).T / np.sqrt(temperature)
    each = np.stack([x, y, x**2 - 1, y**2 - 1, x * y])
    return each.mean(axis=1), each.std(axis=1) / np.sqrt(CHAINS)


def run(kind, step_size, temperature=1.0, seed=31):
    recipe = kind(diffusion={"position": eg.Diagonal(diffusion)}, curl={("position", "position"): eg.Dense(curl)})
    kernel = eg.Kernel(eg.gallery.gaussian(2), recipe, eg.Euler())
    numbers = (jnp.asarray(number) for number in (step_size, temperature, seed))
    return moments(simulate(kernel, round(TIME / step_size), *numbers), temperature)


@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_the_right_gamma_gives_the_right_moments(temperature):
    (coarse, coarse_error), (fine, fine_error) = (
        run(eg.Recipe, step, temperature, seed) for step, seed in ((0.04, 31), (0.02, 47))
    )
    # Euler's bias is of order one in the step: twice the finer less the coarser has none of it
    deviation = np.abs(2 * fine - coarse) / np.hypot(2 * fine_error, coarse_error)
    assert np.max(deviation) < 4.5


@pytest.mark.parametrize("kind", [Dropped, OppositeSign, OtherIndex])
def test_a_wrong_gamma_is_far_off(kind):
    deviation, error = run(kind, 0.04)
    assert np.max(np.abs(deviation) / error) > 40
