"""Points where a law lives, to look at a sampler there: short Metropolis-adjusted Langevin chains.

A certificate's checks hold at every point or at none, so the points need not be exact draws; they must not be special
(symmetric, at the mode, on one side), and they must be where the density is.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array

TARGET_ACCEPTANCE = 0.6
SHORT_EVERY = 4  # a step in four is ten times shorter: a walker that starts where the slope is steep is stuck without


def settle(
    potential: Callable[[Array], Array], starts: Array, key: Array, steps: int = 400, temperature: float = 1.0
) -> Array:
    """Where walkers (n, dim) from `starts` are after so many steps towards exp(-potential/T).

    A proposal where the potential is not finite is refused, which also keeps walkers inside a domain. One step size
    serves all walkers and follows their acceptance. A walker whose start is not finite stays.
    """
    energy = jax.vmap(jax.value_and_grad(lambda q: potential(q) / temperature))
    dim = starts.shape[-1]

    def advance(i, carry):
        q, value, slope, log_step = carry
        is_short = i % SHORT_EVERY == SHORT_EVERY - 1
        step = jnp.exp(log_step) * jnp.where(is_short, 0.1, 1.0)
        noise_key, test_key = jax.random.split(jax.random.fold_in(key, i))
        noise = jax.random.normal(noise_key, q.shape, q.dtype)
        moved = q - step**2 / 2 * slope + step * noise
        moved_value, moved_slope = energy(moved)
        back = (q - moved + step**2 / 2 * moved_slope) / step
        log_ratio = value - moved_value + jnp.sum(noise**2 - back**2, axis=-1) / 2
        is_fine = jnp.isfinite(log_ratio) & jnp.all(jnp.isfinite(moved_slope), axis=-1)
        chance = jnp.where(is_fine, jnp.exp(jnp.minimum(log_ratio, 0.0)), 0.0)
        is_taken = jax.random.uniform(test_key, chance.shape, q.dtype) < chance
        pick = is_taken[:, None]
        gain = jnp.where(is_short, 0.0, 2.0 / jnp.sqrt(1.0 + i))
        log_step = log_step + gain * (jnp.mean(chance) - TARGET_ACCEPTANCE)
        return (
            jnp.where(pick, moved, q),
            jnp.where(is_taken, moved_value, value),
            jnp.where(pick, moved_slope, slope),
            log_step,
        )

    value, slope = energy(starts)
    first_step = jnp.asarray(-jnp.log(dim) / 6, starts.dtype)
    return jax.lax.fori_loop(0, steps, advance, (starts, value, slope, first_step))[0]
