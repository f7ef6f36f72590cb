"""The noise of minibatch gradients, in units of the posterior: what a draw costs (docs/explanation/tuning.md).

With control variates a row adds h_i(q) - h_i(c). In whitened coordinates, q = c + R u, that is G_i = R^T [h_i(q) -
h_i(c)], and a batch of n of N rows has the noise W = (W_1 / n) (1 - n/N), W_1 = N^2 cov_i(G_i), averaged over draws of
the posterior. R is turned so that W_1 is diagonal.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.compiling import sound_filter_jit
from ergodica.targets import Posterior
from ergodica.targets.posterior import blocks
from ergodica.tree import Layout
from ergodica.tuning.curvature import PosteriorRoot
from ergodica.tuning.laplace import Laplace

DRAWS = 32  # of Laplace's Gaussian
FEWEST_EACH = 4  # draws that every row is looked at with
FULL_ROWS = 20_000  # up to which every row meets every draw
MOST_ROWS = 1_000_000  # of larger data a sample is looked at, and with it
RARE_ROWS = 1_000  # every row of a feature that is seen in fewer than so many
BLOCK_NUMBERS = 2**21  # of per-row gradients held at a time


class Noise(NamedTuple):
    """Of a batch of one row."""

    values: np.ndarray
    """The diagonal of W_1 over the temperature, in the directions of `root`."""
    root: PosteriorRoot
    """R, turned."""
    passes: float
    """Over the data."""

    def of_batch(self, batch_size: int, rows: int) -> np.ndarray:
        return self.values / batch_size * (1 - batch_size / rows)


def noise_of(target: Posterior, found: Laplace, temperature: float, seed: int) -> Noise:
    """W_1 from 32 draws and all rows up to a million.

    With many rows each one meets some of the draws only, at least four: what matters in rare rows is that every one of
    them is looked at.
    """
    peak, layout = found.peak, found.layout
    rng = np.random.default_rng([seed, 11])
    points = peak.pushed(math.sqrt(temperature) * rng.standard_normal((DRAWS, layout.size)))
    each = int(np.clip(DRAWS * FULL_ROWS // target.size, FEWEST_EACH, DRAWS))
    groups = DRAWS // each
    longest = max(1, min(BLOCK_NUMBERS // layout.size, -(-target.size // groups)))
    is_dense = peak.root.is_dense
    root: Any = jax.tree.map(lambda x: jnp.asarray(x, layout.dtype), peak.root)
    centre, bare = found.position(peak.point), target.without_data()
    total: Any = 0.0
    sums, counts = np.zeros((DRAWS, layout.size)), np.zeros(DRAWS)
    looked = 0.0
    for number, (rows, weights) in enumerate(_looked_at(target, longest, rng)):
        # a share of the draws for each block, in turn; always as many, so that one program serves
        chosen = (np.arange(each) * groups + number) % DRAWS
        positions = jax.vmap(layout.unravel)(jnp.asarray(points[chosen], layout.dtype))
        square, means = _block_moments(bare, centre, positions, rows, jnp.asarray(weights, layout.dtype), root, layout)
        total = total + np.asarray(square, np.float64)
        for place, draw in enumerate(chosen):
            sums[draw] += np.asarray(means[place], np.float64)
            counts[draw] += weights.sum()
        looked += (each + 1) * np.count_nonzero(weights) / target.size
    count = counts.sum()
    means = [sums[k] / counts[k] for k in range(DRAWS) if counts[k]]
    if not is_dense:
        values = total / count - np.mean([mean**2 for mean in means], axis=0)
        return Noise(target.size**2 / temperature * np.maximum(values, 0), peak.root, looked)
    covariance = total / count - np.mean([np.outer(mean, mean) for mean in means], axis=0)
    values, vectors = np.linalg.eigh(covariance)
    values = target.size**2 / temperature * np.maximum(values, 0)
    return Noise(values, peak.root.turned(vectors), looked)


def _looked_at(target: Posterior, longest: int, rng: np.random.Generator) -> Iterator[tuple[PyTree, np.ndarray]]:
    """Rows in blocks of equal length, with the number of rows that each stands for: all rows, or a sample of them."""
    if target.size <= MOST_ROWS:
        for rows, weights, _ in blocks(target, longest):
            yield rows, weights
        return
    is_rare = rare_rows(target, longest)
    rare, others = np.flatnonzero(is_rare), np.flatnonzero(~is_rare)
    count = min(len(others), max(MOST_ROWS - len(rare), MOST_ROWS // 2))
    chosen = rng.choice(others, count, replace=False) if count < len(others) else others
    index = np.concatenate([rare, chosen])
    weights = np.concatenate([np.ones(len(rare)), np.full(len(chosen), len(others) / max(1, len(chosen)))])
    order = np.argsort(index)
    index, weights = index[order], weights[order]
    length = -(-len(index) // -(-len(index) // longest))
    for start in range(0, len(index), length):
        first = min(start, len(index) - length)
        is_new = np.arange(first, first + length) >= start
        yield target.rows(index[first : first + length]), weights[first : first + length] * is_new


def rare_rows(target: Posterior, longest: int) -> np.ndarray:
    """Which rows have a feature that fewer than RARE_ROWS rows have: an entry of a column that is mostly zero."""
    starts = range(0, target.size, longest)
    counts: list[Any] = []
    for start in starts:
        found = [np.count_nonzero(column, axis=0) for column in _columns(target, start, longest)]
        counts = found if not counts else [before + more for before, more in zip(counts, found, strict=True)]
    is_rare = np.zeros(target.size, bool)
    for start in starts:
        for column, count in zip(_columns(target, start, longest), counts, strict=True):
            rare = count < RARE_ROWS
            if rare.any():
                is_rare[start : start + len(column)] |= np.any(column[:, rare] != 0, axis=1)
    return is_rare


def _columns(target: Posterior, start: int, length: int) -> list[np.ndarray]:
    """The leaves of some rows that have columns, as matrices."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(target.rows(slice(start, start + length)))]
    return [leaf.reshape(len(leaf), -1) for leaf in leaves if leaf.ndim > 1]


@sound_filter_jit
def _block_moments(
    target: Posterior,
    centre: PyTree,
    positions: PyTree,
    rows: PyTree,
    weights: Any,
    root: PosteriorRoot,
    layout: Layout,
) -> tuple[Any, Any]:
    """sum_i G_i G_i^T over rows and positions (its diagonal where R is one), and sum_i G_i for each position."""

    def flat(position: PyTree) -> Any:
        return jax.vmap(layout.ravel)(target.example_gradients(position, rows))

    before = flat(centre)

    def one(carry: Any, position: PyTree) -> tuple[Any, Any]:
        change = flat(position) - before
        change = root.drawn(change)
        weighted = change * weights[:, None]
        square = weighted.T @ change if root.is_dense else jnp.sum(weighted * change, axis=0)
        return carry + square, jnp.sum(weighted, axis=0)

    blank = jnp.zeros((layout.size,) * (2 if root.is_dense else 1), layout.dtype)
    return jax.lax.scan(one, blank, positions)
