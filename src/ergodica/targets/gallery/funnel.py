"""Neal's funnel: a scale that changes by orders of magnitude along one coordinate."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.targets.base import Truth
from ergodica.targets.density import Density
from ergodica.targets.gallery.gaussian import DENSE_TRUTH
from ergodica.targets.gallery.numbers import array, count, floating


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
    """v ~ N(0, 9), x_i ~ N(0, exp(v)) for `dim` - 1 numbers x (Neal 2003, Slice sampling, section 8).

    The position is {"v": scalar, "x": vector}. The variance of x is exp(9/2), nearly all of it from draws with large
    v: judge a sampler by v.
    """
    dtype, others = floating(dtype), count(dim, "dim", 2) - 1
    # E x² = E exp(v), the log-normal mean exp(9/2); v and the x are uncorrelated, since x is even given v.
    variance = np.concatenate([[9.0], np.full(others, math.exp(4.5))])
    truth = Truth(
        mean={"v": jnp.zeros((), dtype), "x": jnp.zeros(others, dtype)},
        covariance=array(np.diag(variance), dtype) if dim <= DENSE_TRUTH else None,
        draw=FunnelDraw(others, dtype),
        variance={"v": array(variance[0], dtype), "x": array(variance[1:], dtype)},
    )
    return Density(FunnelPotential(), init={"v": jnp.ones((), dtype), "x": jnp.ones(others, dtype)}, truth=truth)
