"""Densities whose moments and draws are known: Gaussians, Neal's funnel, and the paper's synthetic ones (section 4.1).

Arrays are made in NumPy's float64 and then given the requested dtype.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.errors import InputError
from ergodica.host.validate import whole
from ergodica.targets.base import Truth
from ergodica.targets.density import Density

LARGEST_DENSE_TRUTH = 1000  # up to this dimension a diagonal covariance is also given as a (d, d) matrix


def floating(dtype: Any) -> np.dtype:
    """The dtype to build in; None: JAX's default, float64 where x64 is on."""
    chosen = jax.dtypes.canonicalize_dtype(float if dtype is None else dtype)
    if not jnp.issubdtype(chosen, np.floating):
        raise InputError(f"dtype is {dtype!r}: expected a floating dtype, as jnp.float32")
    return chosen


def array(values: Any, dtype: np.dtype) -> Array:
    """`values` on the device in `dtype`."""
    return jnp.asarray(np.asarray(values), dtype)


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

    The first thing to try a sampler on: for most of them the law of the discrete chain is known too (`eg.exact_law`).

    Args:
        dim: the dimension, where neither mean nor covariance says it.
        mean: a vector; None: zero.
        covariance: a number or a vector of variances (no d x d matrix is made: any dimension), or a dense matrix.
        dtype: of positions; None: JAX's default.

    Returns:
        An `eg.Density`. `truth.covariance` is None for a diagonal one above 1,000 dimensions; `truth.variance` is
        always there. `init` is one standard deviation from the mean in each coordinate, where the gradient is not zero.

    Example:
        >>> import ergodica as eg
        >>> target = eg.gallery.gaussian(covariance=[[1.0, 0.9], [0.9, 1.0]])
        >>> target.truth.mean.shape
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
    is_standard = mean is None and covariance is None
    return _diagonal(center, spread, dtype, is_standard)


def _diagonal(center: np.ndarray, spread: np.ndarray, dtype: np.dtype, is_standard: bool) -> Density:
    mean, deviation = array(center, dtype), array(np.sqrt(spread), dtype)
    truth = Truth(
        mean=mean,
        covariance=array(np.diag(spread), dtype) if center.size <= LARGEST_DENSE_TRUTH else None,
        draw=DiagonalDraw(mean, deviation),
        variance=array(spread, dtype),
    )
    function = StandardPotential() if is_standard else DiagonalPotential(mean, deviation)
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
    given = {} if dim is None else {"dim": whole("dim", dim, 1)}
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


class FunnelPotential(eqx.Module):
    """U = v²/18 + exp(-v) |x|² / 2 + (number of x) v / 2."""

    def __call__(self, position: dict[str, Array]) -> Array:
        v, x = position["v"], position["x"]
        return v**2 / 18.0 + 0.5 * jnp.exp(-v) * jnp.sum(x * x) + 0.5 * x.size * v


class FunnelDraw(eqx.Module):
    """One exact draw: v, then x given v."""

    others: int = eqx.field(static=True)
    dtype: np.dtype = eqx.field(static=True)

    def __call__(self, key: Array) -> dict[str, Array]:
        v_key, x_key = jax.random.split(key)
        v = 3.0 * jax.random.normal(v_key, (), self.dtype)
        return {"v": v, "x": jnp.exp(v / 2.0) * jax.random.normal(x_key, (self.others,), self.dtype)}


def funnel(dim: int = 10, *, dtype: Any = None) -> Density:
    """Neal's funnel, v ~ N(0, 9) and x_i ~ N(0, exp(v)) for `dim` - 1 numbers x: a scale that changes with v.

    A hard law: no single step size suits both its neck and its mouth. The variance of x is exp(9/2), nearly all of it
    from draws with large v: judge a sampler by v. (Neal 2003, section 8, https://doi.org/10.1214/aos/1056562461.)

    Args:
        dim: of v and x together, at least 2.
        dtype: of positions; None: JAX's default.

    Returns:
        An `eg.Density` on positions {"v": scalar, "x": vector}.

    Example:
        >>> import ergodica as eg
        >>> eg.gallery.funnel(3).init["x"].shape
        (2,)
    """
    dtype, others = floating(dtype), whole("dim", dim, 2) - 1
    # E x² = E exp(v), the log-normal mean exp(9/2); v and the x are uncorrelated, since x is even given v.
    variance = np.concatenate([[9.0], np.full(others, math.exp(4.5))])
    truth = Truth(
        mean={"v": jnp.zeros((), dtype), "x": jnp.zeros(others, dtype)},
        covariance=array(np.diag(variance), dtype) if dim <= LARGEST_DENSE_TRUTH else None,
        draw=FunnelDraw(others, dtype),
        variance={"v": array(variance[0], dtype), "x": array(variance[1:], dtype)},
    )
    return Density(FunnelPotential(), init={"v": jnp.ones((), dtype), "x": jnp.ones(others, dtype)}, truth=truth)


def one_peak(*, dtype: Any = None) -> Density:
    """U = t²/2 on positions of shape (1,): the standard normal, the first of the paper's synthetic densities.

    >>> import ergodica as eg
    >>> float(eg.gallery.one_peak().potential(jnp.array([2.0])))
    2.0
    """
    return gaussian(1, dtype=dtype)


class TwoPeaksPotential(eqx.Module):
    """U = t⁴ - 2 t²."""

    def __call__(self, position: Array) -> Array:
        t = position[0]
        return t**4 - 2.0 * t**2


class TwoPeaksDraw(eqx.Module):
    """One exact draw by rejection.

    U = (t² - 1)² - 1. With s = |t|, (s² - 1)² = (s - 1)² (s + 1)² >= (s - 1)² for s >= 0, so a normal of mean 1 and
    variance 1/2, cut at 0, is an envelope: accept with probability exp((s - 1)² - (s² - 1)²), about 0.56 of the time.
    """

    dtype: np.dtype = eqx.field(static=True)

    def __call__(self, key: Array) -> Array:
        sign_key, loop_key = jax.random.split(key)

        def propose(state):
            next_key, normal_key, uniform_key = jax.random.split(state[0], 3)
            s = 1.0 + math.sqrt(0.5) * jax.random.normal(normal_key, (), self.dtype)
            level = jnp.log(jax.random.uniform(uniform_key, (), self.dtype))
            accepted = (s >= 0.0) & (level <= (s - 1.0) ** 2 - (s**2 - 1.0) ** 2)
            return next_key, s, accepted

        start = (loop_key, jnp.zeros((), self.dtype), jnp.asarray(False))
        _, s, _ = jax.lax.while_loop(lambda state: ~state[2], propose, start)
        return (s * jax.random.rademacher(sign_key, (), self.dtype))[None]


def two_peaks(*, dtype: Any = None) -> Density:
    """U = t⁴ - 2 t² on positions of shape (1,): peaks at -1 and 1, where U = -1 (the paper's figure 2).

    Draws and variance are known to rounding, so a sampler's bias can be measured.

    >>> import ergodica as eg
    >>> float(eg.gallery.two_peaks().potential(jnp.array([1.0])))
    -1.0
    """
    dtype = floating(dtype)
    # The trapezoid rule on an analytic function that vanishes at both ends converges faster than any power of the
    # spacing: at 0.01 both sums are exact to rounding.
    t = np.linspace(-4.0, 4.0, 801)
    weight = np.exp(-((t**2 - 1) ** 2))
    variance = array([np.sum(weight * t**2) / np.sum(weight)], dtype)
    truth = Truth(jnp.zeros(1, dtype), variance[:, None], TwoPeaksDraw(dtype), variance)
    # Between the peak and the saddle: at -1, 0 and 1 the gradient is zero.
    return Density(TwoPeaksPotential(), init=array([0.5], dtype), truth=truth)


class CorrelatedPotential(eqx.Module):
    """U = t1⁴/10 + (4 (t2 + 1.2) - t1²)² / 2."""

    def __call__(self, position: Array) -> Array:
        t1, t2 = position[0], position[1]
        return t1**4 / 10.0 + (4.0 * (t2 + 1.2) - t1**2) ** 2 / 2.0


class CorrelatedDraw(eqx.Module):
    """One exact draw: t1⁴/10 is Gamma(1/4), the sign of t1 is even, and t2 given t1 is N(t1²/4 - 1.2, 1/16).

    t2 integrates to the same constant for every t1, so t1 has density exp(-t1⁴/10). With g = t1⁴/10,
    dt1 is proportional to g^(1/4 - 1) dg.
    """

    dtype: np.dtype = eqx.field(static=True)

    def __call__(self, key: Array) -> Array:
        gamma_key, sign_key, normal_key = jax.random.split(key, 3)
        log_gamma = jax.random.loggamma(gamma_key, 0.25, (), self.dtype)  # the gamma itself may underflow in float32
        t1 = jnp.exp((math.log(10.0) + log_gamma) / 4.0) * jax.random.rademacher(sign_key, (), self.dtype)
        t2 = t1**2 / 4.0 - 1.2 + jax.random.normal(normal_key, (), self.dtype) / 4.0
        return jnp.stack([t1, t2])


def correlated(*, dtype: Any = None) -> Density:
    """U = t1⁴/10 + (4 (t2 + 1.2) - t1²)² / 2 on positions of shape (2,): a curved ridge (the paper's figure 3).

    >>> import ergodica as eg
    >>> eg.gallery.correlated().init.shape
    (2,)
    """
    dtype = floating(dtype)

    def moment(k: int) -> float:
        # E t1^k = E (10 g)^(k/4) with g of law Gamma(1/4), for even k.
        return 10 ** (k / 4) * math.gamma((k + 1) / 4) / math.gamma(1 / 4)

    mean = array([0.0, moment(2) / 4 - 1.2], dtype)
    # t2 is even in t1, so the two are uncorrelated; they are far from independent.
    variance = array([moment(2), (moment(4) - moment(2) ** 2) / 16 + 1 / 16], dtype)
    truth = Truth(mean, jnp.diag(variance), CorrelatedDraw(dtype), variance)
    # t1 = 1, and t2 one conditional standard deviation above its mean there.
    return Density(CorrelatedPotential(), init=array([1.0, -0.7], dtype), truth=truth)
