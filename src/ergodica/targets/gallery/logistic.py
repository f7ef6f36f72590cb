"""Bayesian logistic regression, on given data or on data drawn from the model."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.errors import InputError
from ergodica.host.validate import whole
from ergodica.targets.gallery.densities import floating
from ergodica.targets.posterior import Posterior
from ergodica.tree import is_array


class StandardNormalPrior(eqx.Module):
    """The log density of N(0, 1) for each weight, up to a constant."""

    def __call__(self, weights: Array) -> Array:
        return -0.5 * jnp.sum(weights * weights)


class BernoulliLogits(eqx.Module):
    """log p(y | x, w) = y x·w - log(1 + exp(x·w)), with one product per batch and no overflow."""

    def __call__(self, weights: Array, batch: dict[str, Array]) -> Array:
        logits = batch["x"].astype(weights.dtype) @ weights
        return batch["y"].astype(weights.dtype) * logits - jax.nn.softplus(logits)


def logistic_regression(
    rows: int = 1000, features: int = 10, seed: int = 0, dtype: Any = None, *, x: Any = None, y: Any = None
) -> Posterior:
    """The posterior of the weights w of p(y = 1 | x) = 1 / (1 + exp(-x·w)), with a N(0, 1) prior on each.

    The usual test of minibatches: as many rows as one likes, and no known moments.

    Args:
        rows, features, seed: of the data drawn from the model with NumPy, where no data are given.
        dtype: of the data and the position; None: that of `x`, or JAX's default.
        x, y: (N, d) features and (N,) labels of zeros and ones. They are kept, or converted if `dtype` is another.

    Returns:
        An `eg.Posterior` whose data are {"x": x, "y": y} and whose position is the vector w.

    Example:
        >>> import ergodica as eg
        >>> target = eg.gallery.logistic_regression(rows=100, features=3)
        >>> target.size, target.init.shape
        (100, (3,))
    """
    if (x is None) != (y is None):
        raise InputError(f"{'y' if y is None else 'x'} is missing: give both x and y, or neither to have them drawn")
    if x is None or y is None:
        x, y = _drawn(whole("rows", rows, 1), whole("features", features, 1), seed)
        data_dtype = floating(dtype)
    else:
        x, y = _checked(x, y)
        keep = dtype is None and jnp.issubdtype(x.dtype, np.floating)
        data_dtype = x.dtype if keep else floating(dtype)
    data = {"x": _converted(x, data_dtype), "y": _converted(y, data_dtype)}
    return Posterior(StandardNormalPrior(), BernoulliLogits(), data, init=jnp.zeros(x.shape[1], floating(data_dtype)))


def _drawn(rows: int, features: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    weights = generator.standard_normal(features)
    x = generator.standard_normal((rows, features))
    return x, (generator.logistic(size=rows) < x @ weights).astype(float)


def _checked(x: Any, y: Any) -> tuple[Any, Any]:
    x, y = (values if is_array(values) else np.asarray(values) for values in (x, y))
    if x.ndim != 2 or y.ndim != 1 or x.shape[0] != y.shape[0] or x.shape[1] == 0:
        raise InputError(f"x has shape {x.shape} and y {y.shape}: expected (N, d) and (N,)")
    values = np.unique(np.asarray(y))
    if not np.isin(values, [0, 1]).all():
        listed = ", ".join(map(str, values[:5]))
        raise InputError(f"y holds the values {listed}: expected 0 and 1 (for -1 and 1 write (y + 1) / 2)")
    return x, y


def _converted(values: Any, dtype: np.dtype) -> Any:
    return values if values.dtype == dtype else values.astype(dtype)
