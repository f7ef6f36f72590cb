"""Gaussians in any dimension: standard, with a diagonal covariance, with a dense one."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.errors import InputError
from ergodica.targets.base import Truth
from ergodica.targets.density import Density
from ergodica.targets.gallery.numbers import array, count, floating

DENSE_TRUTH = 1000  # up to this dimension a diagonal covariance is also given as a (d, d) matrix


class StandardPotential(eqx.Module):
    """U = |x|² / 2."""

    def __call__(self, x: Array) -> Array:
        return 0.5 * jnp.sum(x * x)


class DiagonalPotential(eqx.Module):
    """U = sum_i ((x_i - mean_i) / deviation_i)² / 2."""

    mean: Array
    deviation: Array

    def __call__(self, x: Array) -> Array:
        return 0.5 * jnp.sum(((x - self.mean.astype(x.dtype)) / self.deviation.astype(x.dtype)) ** 2)


class DensePotential(eqx.Module):
    """U = |W (x - mean)|² / 2 with W = L^-1, where L L^T is the covariance."""

    mean: Array
    whitener: Array

    def __call__(self, x: Array) -> Array:
        return 0.5 * jnp.sum((self.whitener.astype(x.dtype) @ (x - self.mean.astype(x.dtype))) ** 2)


class DiagonalDraw(eqx.Module):
    """One draw of N(mean, diag(deviation²))."""

    mean: Array
    deviation: Array

    def __call__(self, key: Array) -> Array:
        return self.mean + self.deviation * jax.random.normal(key, self.mean.shape, self.mean.dtype)


class DenseDraw(eqx.Module):
    """One draw of N(mean, L L^T)."""

    mean: Array
    root: Array

    def __call__(self, key: Array) -> Array:
        return self.mean + self.root @ jax.random.normal(key, self.mean.shape, self.mean.dtype)


def gaussian(dim: int | None = None, *, mean: Any = None, covariance: Any = None, dtype: Any = None) -> Density:
    """N(mean, covariance) on vectors of length `dim`; by default standard, in one dimension.

    `covariance` is a number or a vector of variances (no d x d matrix is made: any dimension), or a dense matrix.
    `truth.covariance` is None for a diagonal one above 1,000 dimensions; `truth.variance` is always there.
    `init` is one standard deviation from the mean in each coordinate, where the gradient is not zero.

    >>> gaussian(covariance=[[1.0, 0.9], [0.9, 1.0]]).truth.mean.shape
    (2,)
    """
    dtype = floating(dtype)
    dim = _dimension(dim, mean, covariance)
    center = np.zeros(dim) if mean is None else _finite(mean, "mean")
    spread = np.ones(dim) if covariance is None else _finite(covariance, "covariance")
    if spread.ndim == 2:
        return _dense(center, spread, dtype)
    spread = np.broadcast_to(spread, (dim,))
    if not (spread > 0).all():
        raise InputError(f"covariance has a variance of {spread.min()}: expected every variance above 0")
    potential = None if mean is None and covariance is None else DiagonalPotential
    return _diagonal(center, spread, dtype, potential)


def _diagonal(center: np.ndarray, spread: np.ndarray, dtype: np.dtype, potential: Any) -> Density:
    mean, deviation = array(center, dtype), array(np.sqrt(spread), dtype)
    truth = Truth(
        mean=mean,
        covariance=array(np.diag(spread), dtype) if center.size <= DENSE_TRUTH else None,
        draw=DiagonalDraw(mean, deviation),
        variance=array(spread, dtype),
    )
    function = StandardPotential() if potential is None else potential(mean, deviation)
    return Density(function, init=mean + deviation, truth=truth)


def _dense(center: np.ndarray, spread: np.ndarray, dtype: np.dtype) -> Density:
    asymmetry = np.abs(spread - spread.T).max()
    if asymmetry > 1e-6 * np.abs(spread).max():
        raise InputError(f"covariance is not symmetric: it differs from its transpose by up to {asymmetry:.3g}")
    spread = (spread + spread.T) / 2
    try:
        root = np.linalg.cholesky(spread)
    except np.linalg.LinAlgError:
        least = np.linalg.eigvalsh(spread)[0]
        raise InputError(f"covariance is not positive definite: its smallest eigenvalue is {least:.3g}") from None
    mean, variance = array(center, dtype), array(np.diag(spread), dtype)
    truth = Truth(mean, array(spread, dtype), DenseDraw(mean, array(root, dtype)), variance)
    # inv of a triangular matrix by LU is triangular up to rounding; tril makes it so.
    whitener = array(np.tril(np.linalg.inv(root)), dtype)
    return Density(DensePotential(mean, whitener), init=mean + jnp.sqrt(variance), truth=truth)


def _finite(values: Any, name: str) -> np.ndarray:
    numbers = np.asarray(values, float)
    if not np.isfinite(numbers).all():
        raise InputError(f"{name} holds NaN or infinite values: expected finite numbers")
    return numbers


def _dimension(dim: int | None, mean: Any, covariance: Any) -> int:
    """The one dimension that all that was given agrees on."""
    given = {} if dim is None else {"dim": count(dim, "dim", 1)}
    if mean is not None:
        if np.ndim(mean) != 1 or np.size(mean) == 0:
            raise InputError(f"mean has shape {np.shape(mean)}: expected a vector")
        given["mean"] = np.size(mean)
    if covariance is not None and np.ndim(covariance) > 0:
        shape = np.shape(covariance)
        if len(shape) > 2 or len(set(shape)) != 1 or 0 in shape:
            raise InputError(
                f"covariance has shape {shape}: expected a number, a vector of variances or a square matrix"
            )
        given["covariance"] = max(shape)
    if len(set(given.values())) > 1:
        listed = ", ".join(f"{name} gives {size}" for name, size in given.items())
        raise InputError(f"the dimension is not clear: {listed}")
    return next(iter(given.values()), 1)
