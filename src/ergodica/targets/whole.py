"""Sums over all data, block by block, added up in float64 on the host.

One compiled function serves every block: all have the same length, and the last one overlaps the one before it, with
weight 0 for the rows that were counted there.
"""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.compiling import sound_filter_jit
from ergodica.targets.values import position_dtype
from ergodica.tree import Layout

BLOCK_BYTES = 1 << 25
HESSIAN_NUMBERS = 1 << 24  # of a block's rows times the position: what forward over reverse holds at a time


def blocks(target: Any, longest: int | None = None) -> Iterator[tuple[PyTree, np.ndarray, np.ndarray]]:
    """(rows, weights, weight of the prior) of equal shapes that cover all data and the prior once."""
    size = target.size
    row_bytes = max(1, sum(leaf.nbytes for leaf in jax.tree.leaves(target.rows(slice(0, 1)))))
    length = max(1, min(size, BLOCK_BYTES // row_bytes, longest or size))
    length = -(-size // -(-size // length))
    for start in range(0, size, length):
        first = min(start, size - length)
        weights = (np.arange(first, first + length) >= start).astype(np.float32)
        yield target.rows(slice(first, first + length)), weights, np.asarray(start == 0, np.float32)


def evaluate_all(target: Any, position: PyTree) -> tuple[Array, PyTree]:
    """The potential and its gradient from all data, outside `jit`."""
    bare, parts = target.without_data(), []
    for rows, weights, prior_weight in blocks(target):
        part = _block(bare, position, rows, weights, prior_weight)
        parts.append(jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), part))
    value, gradient = jax.tree.map(lambda *leaves: sum(leaves), *parts)
    return (
        jnp.asarray(value, position_dtype(position)),
        jax.tree.map(lambda leaf, like: jnp.asarray(leaf, like.dtype), gradient, position),
    )


def hessian_all(target: Any, position: PyTree) -> np.ndarray:
    """The matrix of second derivatives of the potential from all data, in the order of `ravel_pytree`."""
    position = jax.tree.map(jnp.asarray, position)
    layout = Layout.of(position)
    bare, total = target.without_data(), np.zeros((layout.size, layout.size))
    if target.size is None:
        return np.asarray(_density_hessian(bare, position, layout), np.float64)
    for rows, weights, prior_weight in blocks(target, max(1, HESSIAN_NUMBERS // layout.size)):
        total += np.asarray(_block_hessian(bare, position, rows, weights, prior_weight, layout), np.float64)
    return total


@sound_filter_jit
def _block(target: Any, position: PyTree, rows: PyTree, weights: Any, prior_weight: Any) -> tuple[Array, PyTree]:
    return jax.value_and_grad(target.share)(position, rows, weights, prior_weight)


@sound_filter_jit
def _density_hessian(target: Any, position: PyTree, layout: Layout) -> Array:
    return jax.hessian(lambda vector: target.potential(layout.unravel(vector)))(layout.ravel(position))


@sound_filter_jit
def _block_hessian(
    target: Any, position: PyTree, rows: PyTree, weights: Any, prior_weight: Any, layout: Layout
) -> Array:
    def share(vector: Array) -> Array:
        return target.share(layout.unravel(vector), rows, weights, prior_weight)

    return jax.hessian(share)(layout.ravel(position))
