"""Minibatches of data in memory: contiguous windows of a shuffled copy at random offsets.

Every row is in a window with the same chance, so the gradient is unbiased; a window is one slice, where gathering
random rows reads all over memory. The first n - 1 rows are appended, so that a window that wraps around is a slice too.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.phase import BatchPair


class Windows(eqx.Module):
    """Windows of `length` rows; in pairs at independent offsets where the recipe reads z.potential."""

    rows: PyTree
    length: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    is_paired: bool = eqx.field(static=True)

    def __init__(self, target: Any, batch_size: int, is_paired: bool, seed: int):
        self.size, self.is_paired = target.size, is_paired
        self.length = batch_size // 2 if is_paired else batch_size
        order = np.random.default_rng(seed).permutation(self.size)
        wrapped = np.concatenate([order, order[: self.length - 1]])
        self.rows = jax.tree.map(lambda leaf: jnp.asarray(np.take(leaf, wrapped, axis=0)), target.data)

    def offsets(self, first: Array, second: Array) -> Array:
        """Where a step's windows begin, from its keys."""
        keys = (first, second) if self.is_paired else (first,)
        return jnp.stack([jax.random.randint(key, (), 0, self.size) for key in keys])

    def at(self, offsets: Array) -> PyTree:
        parts = [
            jax.tree.map(lambda leaf, o=o: jax.lax.dynamic_slice_in_dim(leaf, o, self.length), self.rows)
            for o in offsets
        ]
        return BatchPair(*parts) if self.is_paired else parts[0]
