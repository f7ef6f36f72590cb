"""Running mean and variance of draws too many or too large to keep (Welford, 1962; Chan, Golub and LeVeque, 1979).

In the compiled loop a few hundred draws at a time in the precision of the position, then merged in float64: a mean of a
million draws in float32 would stand still, its next correction being below rounding.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import tree

MERGED_AFTER = 1_000  # draws


class Running(NamedTuple):
    """How many draws, their mean, and the sum of squares about it; trees like the position."""

    number: Array | np.ndarray
    mean: PyTree
    spread: PyTree


def no_moments(position: PyTree) -> Running:
    zeros = jax.tree.map(jnp.zeros_like, position)
    return Running(jnp.zeros((), jnp.int32), zeros, zeros)


def add_draw(moments: Running, draw: PyTree, is_kept: Array) -> Running:
    """Welford's step; no change where `is_kept` is false."""
    count = moments.number + is_kept.astype(jnp.int32)
    divisor = jnp.maximum(count, 1)

    def mean_of(mean: Array, x: Array) -> Array:
        return mean + jnp.where(is_kept, (x - mean) / tree.cast(divisor, x), jnp.zeros_like(x))

    means = jax.tree.map(mean_of, moments.mean, draw)

    def spread_of(spread: Array, x: Array, old: Array, new: Array) -> Array:
        return spread + jnp.where(is_kept, (x - old) * (x - new), jnp.zeros_like(x))

    return Running(count, means, jax.tree.map(spread_of, moments.spread, draw, moments.mean, means))


def merged(first: Running, second: Running) -> Running:
    """Of both together, in float64 on the host."""
    n, m = int(first.number), int(second.number)
    if m == 0:
        return first
    share = m / (n + m)

    def mean_of(a: np.ndarray, b: Array) -> np.ndarray:
        return a + share * (np.asarray(b, np.float64) - a)

    def spread_of(s: np.ndarray, t: Array, a: np.ndarray, b: Array) -> np.ndarray:
        return s + np.asarray(t, np.float64) + n * share * (np.asarray(b, np.float64) - a) ** 2

    means = jax.tree.map(mean_of, first.mean, second.mean)
    spreads = jax.tree.map(spread_of, first.spread, second.spread, first.mean, second.mean)
    return Running(np.asarray(n + m), means, spreads)


def no_moments_yet(position: PyTree) -> Running:
    """On the host, in float64."""
    zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape), position)
    return Running(np.asarray(0), zeros, zeros)


def summed(chains: list[Running]) -> Any:
    """Count, mean and variance of each chain, leaves (chain, ...)."""
    from ergodica.output.labelled import Moments

    def variance(part: Running) -> PyTree:
        n = int(part.number)
        return jax.tree.map(lambda leaf: leaf / (n - 1) if n > 1 else np.full_like(leaf, np.nan), part.spread)

    def stack(parts: list[PyTree]) -> PyTree:
        return jax.tree.map(lambda *leaves: np.stack(leaves), *parts)

    counts = np.array([int(part.number) for part in chains])
    return Moments(counts, stack([part.mean for part in chains]), stack([variance(part) for part in chains]))
