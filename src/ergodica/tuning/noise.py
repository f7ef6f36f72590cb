"""The noise of minibatch gradients, in units of the posterior: what a draw costs (docs/explanation/tuning.md).

With control variates a row adds h_i(q) - h_i(c). In whitened coordinates, q = c + R u, that is G_i = R^T [h_i(q) -
h_i(c)], and a batch of n of N rows has the noise W = (W_1 / n) (1 - n/N), W_1 = N^2 cov_i(G_i), averaged over draws of
the posterior. R is turned so that W_1 is diagonal.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.compiling import sound_filter_jit
from ergodica.targets import Posterior
from ergodica.targets.posterior import blocks
from ergodica.tree import Layout
from ergodica.tuning.laplace import Laplace, Peak

DRAWS = 32  # of Laplace's Gaussian
FEWEST_EACH = 4  # draws that every row is looked at with
FULL_ROWS = 20_000  # up to which every row meets every draw
MOST_ROWS = 1_000_000  # of larger data blocks are picked at random
BLOCK_NUMBERS = 2**21  # of per-row gradients held at a time


class Noise(NamedTuple):
    """Of a batch of one row."""

    values: np.ndarray
    """The diagonal of W_1 over the temperature, in the directions of `root`."""
    root: np.ndarray
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
    is_dense = peak.root.ndim == 2
    root = jnp.asarray(peak.root, layout.dtype)
    centre, bare = found.position(peak.point), target.without_data()
    total: Any = 0.0
    sums, counts = np.zeros((DRAWS, layout.size)), np.zeros(DRAWS)
    looked, share = 0.0, min(1.0, MOST_ROWS / target.size)
    for number, (rows, weights, _) in enumerate(blocks(target, longest)):
        if rng.random() > share:
            continue
        # a share of the draws for each block, in turn; always as many, so that one program serves
        chosen = (np.arange(each) * groups + number) % DRAWS
        positions = jax.vmap(layout.unravel)(jnp.asarray(points[chosen], layout.dtype))
        square, means = _block_moments(bare, centre, positions, rows, jnp.asarray(weights, layout.dtype), root, layout)
        total = total + np.asarray(square, np.float64)
        for place, draw in enumerate(chosen):
            sums[draw] += np.asarray(means[place], np.float64)
            counts[draw] += weights.sum()
        looked += (each + 1) * weights.sum() / target.size
    count = counts.sum()
    means = [sums[k] / counts[k] for k in range(DRAWS) if counts[k]]
    if not is_dense:
        values = total / count - np.mean([mean**2 for mean in means], axis=0)
        return Noise(target.size**2 / temperature * np.maximum(values, 0), peak.root, looked)
    covariance = total / count - np.mean([np.outer(mean, mean) for mean in means], axis=0)
    values, vectors = np.linalg.eigh(covariance)
    values = target.size**2 / temperature * np.maximum(values, 0)
    return Noise(values, peak.root @ vectors, looked)


@sound_filter_jit
def _block_moments(
    target: Posterior, centre: PyTree, positions: PyTree, rows: PyTree, weights: Any, root: Any, layout: Layout
) -> tuple[Any, Any]:
    """sum_i G_i G_i^T over rows and positions (its diagonal where R is one), and sum_i G_i for each position."""

    def flat(position: PyTree) -> Any:
        return jax.vmap(layout.ravel)(target.example_gradients(position, rows))

    before = flat(centre)

    def one(carry: Any, position: PyTree) -> tuple[Any, Any]:
        change = flat(position) - before
        change = (change @ root if root.ndim == 2 else change * root) * jnp.sqrt(weights)[:, None]
        square = change.T @ change if root.ndim == 2 else jnp.sum(change**2, axis=0)
        return carry + square, jnp.sum(change, axis=0)

    blank = jnp.zeros((layout.size,) * root.ndim, layout.dtype)
    return jax.lax.scan(one, blank, positions)


def turned(found: Laplace, noise: Noise | None) -> Peak:
    """The peak with its root turned to the directions of the noise."""
    return found.peak if noise is None else found.peak._replace(root=noise.root)
