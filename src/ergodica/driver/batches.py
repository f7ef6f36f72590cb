"""Minibatches of data in memory: contiguous windows of a shuffled copy at random offsets.

Every row is in a window with the same chance, so the gradient is unbiased; a window is one slice, where gathering
random rows reads all over memory. The first n - 1 rows are appended, so that a window that wraps around is a slice too.

For one shuffle the variance of the windows' gradients is off its mean over shuffles by about sqrt(4 n / 3 N): where a
run compensates for it and n > N/50, rows are gathered instead.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.phase import BatchPair


def batches_for(target: Any, batch_size: int, is_paired: bool, is_compensated: bool, seed: int) -> "Windows | Gathers":
    """Windows, or independent gathers where the variance of one shuffle's windows would be too far off."""
    length = batch_size // 2 if is_paired else batch_size
    if is_compensated and 50 * batch_size > target.size:
        return Gathers(jax.tree.map(jnp.asarray, target.data), length, target.size, is_paired)
    return Windows(target, length, is_paired, seed)


class Gathers(eqx.Module):
    """`length` rows drawn without replacement for every step; in pairs, each drawn independently."""

    rows: PyTree
    length: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    is_paired: bool = eqx.field(static=True)

    def places(self, first: Array, second: Array) -> Array:
        """What a step's batches hang on: its keys."""
        return jnp.stack([first, second] if self.is_paired else [first])

    def at(self, places: Array) -> PyTree:
        chosen = [jax.random.permutation(key, self.size)[: self.length] for key in places]
        return _batch([jax.tree.map(lambda leaf, i=index: leaf[i], self.rows) for index in chosen])


class Windows(eqx.Module):
    """Windows of `length` rows; in pairs at independent offsets where the recipe reads z.potential."""

    rows: PyTree
    length: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    is_paired: bool = eqx.field(static=True)

    def __init__(self, target: Any, length: int, is_paired: bool, seed: int):
        self.size, self.is_paired, self.length = target.size, is_paired, length
        order = np.random.default_rng(seed).permutation(self.size)
        wrapped = np.concatenate([order, order[: self.length - 1]])
        self.rows = jax.tree.map(lambda leaf: jnp.asarray(np.take(leaf, wrapped, axis=0)), target.data)

    def places(self, first: Array, second: Array) -> Array:
        """Where a step's windows begin, from its keys."""
        keys = (first, second) if self.is_paired else (first,)
        return jnp.stack([jax.random.randint(key, (), 0, self.size) for key in keys])

    def at(self, places: Array) -> PyTree:
        def window(offset: Array) -> PyTree:
            return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, offset, self.length), self.rows)

        return _batch([window(offset) for offset in places])


def _batch(parts: list[PyTree]) -> PyTree:
    return BatchPair(*parts) if len(parts) == 2 else parts[0]
