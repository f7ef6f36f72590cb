"""How wide a posterior is around its mode: R with R R^T = H^-1, H the second derivatives of the potential.

Up to 2,000 numbers R is a matrix. Above, the diagonal of H scales every number first, and then Lanczos's method finds
the directions along which the scaled H is furthest from the unit matrix: R is a diagonal with few directions corrected.
What is left between the least and the largest curvature is what the forms of law.py call l.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.compiling import sound_filter_jit
from ergodica.operators import LowRank
from ergodica.targets import Posterior, Target
from ergodica.targets.posterior import blocks
from ergodica.tree import Layout

EXACT_DIAGONAL = 20_000  # numbers up to which the diagonal of H is exact
DIAGONAL_PROBES, DIAGONAL_ROUNDS = 32, 3  # products for the diagonal of a larger H
NUMBERS_TOGETHER = 32
LANCZOS_PRODUCTS = 40
NEAR_CURVATURE = 2.0  # directions within this factor of 1 are left as they are
CONVERGED_RESIDUAL = 0.1  # of a direction, relative to its curvature


class PosteriorRoot(NamedTuple):
    """R: a matrix, or a diagonal S with corrections along orthonormal directions V, S (I + V diag(e) V^T)."""

    main: np.ndarray
    """(d, d), or (d,) for a diagonal."""
    vectors: np.ndarray | None = None
    """V, (d, k)."""
    factors: np.ndarray | None = None
    """e, (k,)."""

    @property
    def is_dense(self) -> bool:
        return self.main.ndim == 2

    def pushed(self, u: np.ndarray) -> np.ndarray:
        """R u, for a vector or for rows of them."""
        if self.is_dense:
            return u @ self.main.T
        if self.vectors is not None and self.factors is not None:
            u = u + (u @ self.vectors * self.factors) @ self.vectors.T
        return u * self.main

    def pulled(self, x: np.ndarray) -> np.ndarray:
        """R^-1 x."""
        if self.is_dense:
            return np.linalg.solve(self.main, x.T).T
        x = x / self.main
        if self.vectors is not None and self.factors is not None:
            # (I + V e V^T)^-1 = I - V e / (1 + e) V^T, as V is orthonormal
            x = x - (x @ self.vectors * (self.factors / (1 + self.factors))) @ self.vectors.T
        return x

    def drawn(self, gradients: Any) -> Any:
        """R^T g, for rows of gradients."""
        if self.is_dense:
            return gradients @ self.main
        gradients = gradients * self.main
        if self.vectors is not None and self.factors is not None:
            gradients = gradients + (gradients @ self.vectors * self.factors) @ self.vectors.T
        return gradients

    def log_determinant(self) -> float:
        if self.is_dense:
            return float(np.linalg.slogdet(self.main)[1])
        more = 0.0 if self.factors is None else float(np.sum(np.log1p(self.factors)))
        return float(np.sum(np.log(self.main))) + more

    def turned(self, turn: np.ndarray) -> "PosteriorRoot":
        """R times a matrix, of a dense R."""
        return PosteriorRoot(self.main @ turn)

    def wider(self, widths: np.ndarray) -> "PosteriorRoot":
        """R S for a diagonal S, of an R that is not dense: its own directions are kept as they are."""
        return self._replace(main=self.main * widths)

    def scale(self, layout: Layout) -> Any:
        """For `eg.sghmc(scale=...)`."""
        main = jnp.asarray(self.main, layout.dtype)
        if self.is_dense:
            return main
        if self.vectors is None or self.factors is None:
            return layout.unravel(main)
        return LowRank(main, jnp.asarray(self.vectors, layout.dtype), jnp.asarray(self.factors, layout.dtype))

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: value for name, value in self._asdict().items() if value is not None}


def low_rank_root(target: Target, position: PyTree, layout: Layout) -> tuple[PosteriorRoot, float, float, int]:
    """R; the least curvature left (the largest is 1), the least of all, and how many products with H it took."""
    rng, size, product = np.random.default_rng(0), layout.size, product_of(target, position, layout)
    if size <= EXACT_DIAGONAL:
        diagonal, count = exact_diagonal(target, position, layout), size
    else:
        diagonal, count = probed_diagonal(product, size, rng), DIAGONAL_PROBES * DIAGONAL_ROUNDS
    floor = 1e-10 * float(np.max(np.abs(diagonal), initial=0.0))
    widths = 1 / np.sqrt(np.maximum(np.abs(diagonal), max(floor, 1e-300)))
    values, vectors, residuals = _lanczos(lambda v: widths * product(widths * v), size, rng)
    is_known = residuals < CONVERGED_RESIDUAL * np.maximum(np.abs(values), 1e-12)
    is_far = (values > NEAR_CURVATURE) | (values < 1 / NEAR_CURVATURE)
    fixed = is_known & is_far & (values > 0)
    left = values[~fixed & (values > 0)]
    lowest, highest = (float(left.min()), float(left.max())) if len(left) else (1.0, 1.0)
    lowest, highest = min(lowest, 1.0), max(highest, 1.0)
    # the largest that is left becomes 1, and so do the directions that are corrected
    root = PosteriorRoot(widths / math.sqrt(highest))
    if fixed.any():
        root = root._replace(vectors=vectors[:, fixed], factors=np.sqrt(highest / values[fixed]) - 1)
    return root, lowest / highest, float(values.min()), count + LANCZOS_PRODUCTS


def probed_diagonal(product: Callable[[np.ndarray], np.ndarray], size: int, rng: np.random.Generator) -> np.ndarray:
    """diag H = E[v * H v] over random signs v, in a few rounds: each scales by what the one before has found."""
    widths = np.ones(size)
    for _ in range(DIAGONAL_ROUNDS):
        total = np.zeros(size)
        for _ in range(DIAGONAL_PROBES):
            signs = rng.choice([-1.0, 1.0], size)
            total += signs * widths * product(widths * signs) / DIAGONAL_PROBES
        widths = widths / np.sqrt(np.maximum(np.abs(total), 1e-3 * max(float(np.median(np.abs(total))), 1e-300)))
    return 1 / widths**2


def exact_diagonal(target: Target, position: PyTree, layout: Layout) -> np.ndarray:
    """The second derivative along each number, some numbers at a time."""
    bare, size = target.without_data(), layout.size
    parts = list(blocks(target)) if isinstance(target, Posterior) else [(None, None, None)]
    total = np.zeros(size)
    for rows, weights, prior in parts:
        for start in range(0, size, NUMBERS_TOGETHER):
            numbers = np.minimum(np.arange(start, start + NUMBERS_TOGETHER), size - 1)
            found = np.asarray(_block_diagonal(bare, position, rows, weights, prior, numbers, layout), np.float64)
            count = min(NUMBERS_TOGETHER, size - start)
            total[start : start + count] += found[:count]
    return total


def _lanczos(
    product: Callable[[np.ndarray], np.ndarray], size: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ritz values, vectors and residuals, with every vector made orthogonal to all before it, twice."""
    count = min(LANCZOS_PRODUCTS, size)
    basis, diagonal, beside = np.zeros((count, size)), np.zeros(count), np.zeros(count)
    vector = rng.standard_normal(size)
    vector /= np.linalg.norm(vector)
    for step in range(count):
        basis[step] = vector
        image = product(vector)
        diagonal[step] = float(vector @ image)
        for _ in range(2):
            image = image - basis[: step + 1].T @ (basis[: step + 1] @ image)
        beside[step] = float(np.linalg.norm(image))
        if beside[step] < 1e-10:
            count = step + 1
            break
        vector = image / beside[step]
    inner = np.diag(diagonal[:count]) + np.diag(beside[: count - 1], 1) + np.diag(beside[: count - 1], -1)
    values, turn = np.linalg.eigh(inner)
    return values, basis[:count].T @ turn, np.abs(beside[count - 1] * turn[-1])


def product_of(target: Target, position: PyTree, layout: Layout) -> Callable[[np.ndarray], np.ndarray]:
    """v -> H v, from all data."""
    bare = target.without_data()

    def product(v: np.ndarray) -> np.ndarray:
        vector, total = jnp.asarray(v, layout.dtype), np.zeros(layout.size)
        parts = blocks(target) if isinstance(target, Posterior) else [(None, None, None)]
        for rows, weights, prior in parts:
            total += np.asarray(_block_product(bare, position, rows, weights, prior, vector, layout), np.float64)
        return total

    return product


def _share_product(
    target: Target, position: PyTree, rows: PyTree, weights: Any, prior: Any, vector: Any, layout: Layout
) -> Any:
    def slope(flat: Any) -> Any:
        if isinstance(target, Posterior):
            return layout.ravel(jax.grad(target.share)(layout.unravel(flat), rows, weights, prior))
        return layout.ravel(target.evaluate(layout.unravel(flat), None)[1])

    return jax.jvp(slope, (layout.ravel(position),), (vector,))[1]


_block_product = sound_filter_jit(_share_product)


@sound_filter_jit
def _block_diagonal(
    target: Target, position: PyTree, rows: PyTree, weights: Any, prior: Any, numbers: Any, layout: Layout
) -> Any:
    def entry(number: Any) -> Any:
        unit = jnp.zeros(layout.size, layout.dtype).at[number].set(1)
        return _share_product(target, position, rows, weights, prior, unit, layout)[number]

    return jax.vmap(entry)(numbers)
