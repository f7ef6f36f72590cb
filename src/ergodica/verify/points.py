"""Points where a law lives, to look at a sampler there: short Metropolis-adjusted Langevin chains.

A certificate's checks hold at every point or at none, so the points need not be exact draws; they must not be special
(symmetric, at the mode, on one side), and they must be where the density is. The loop is outside of what is compiled: a
compiled one, with random numbers in it, takes a second to compile, the energy and its gradient a tenth of that.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.compiling import quick_filter_jit

TARGET_ACCEPTANCE = 0.6
SHORT_EVERY = 4  # a step in four is ten times shorter: a walker that starts where the slope is steep is stuck without


@quick_filter_jit
def _energy(hamiltonian: Callable, temperature: Array, points: Array) -> tuple[Array, Array]:
    return jax.vmap(jax.value_and_grad(lambda z: hamiltonian(z) / temperature))(points)


def energies(hamiltonian: Callable, temperature: float, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """H / T and its gradient at points (n, dim)."""
    value, slope = _energy(hamiltonian, jnp.asarray(temperature), jnp.asarray(points))
    return np.asarray(value), np.asarray(slope)


def walk(
    hamiltonian: Callable, starts: np.ndarray, seed: int, steps: int, temperature: float
) -> tuple[np.ndarray, np.ndarray]:
    """Where walkers (n, dim) are after so many steps towards exp(-H/T), and their H / T.

    A proposal where H is not finite is refused, which also keeps walkers inside a domain.
    """
    rng = np.random.default_rng(seed)
    place, log_step = starts, -np.log(starts.shape[1]) / 6
    value, slope = energies(hamiltonian, temperature, place)
    for i in range(steps):
        is_short = i % SHORT_EVERY == SHORT_EVERY - 1
        step = np.exp(log_step) * (0.1 if is_short else 1.0)
        noise, level = rng.standard_normal(place.shape), rng.uniform(size=len(place))
        moved = place - step**2 / 2 * slope + step * noise
        moved_value, moved_slope = energies(hamiltonian, temperature, moved)
        with np.errstate(all="ignore"):
            back = (place - moved + step**2 / 2 * moved_slope) / step
            log_ratio = value - moved_value + np.sum(noise**2 - back**2, axis=-1) / 2
            chance = np.where(np.isfinite(log_ratio), np.exp(np.minimum(log_ratio, 0.0)), 0.0)
        is_taken = level < chance
        place = np.where(is_taken[:, None], moved, place)
        slope = np.where(is_taken[:, None], moved_slope, slope)
        value = np.where(is_taken, moved_value, value)
        if not is_short:
            log_step += 2.0 / np.sqrt(1.0 + i) * (chance.mean() - TARGET_ACCEPTANCE)
    return place, value
