"""The paper's synthetic densities (section 4.1): one peak, two peaks, and a correlated one in the plane."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.targets.base import Truth
from ergodica.targets.density import Density
from ergodica.targets.gallery.gaussian import gaussian
from ergodica.targets.gallery.numbers import array, floating


def one_peak(*, dtype: Any = None) -> Density:
    """U = t²/2 on positions of shape (1,): the standard normal."""
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
    """U = t⁴ - 2 t² on positions of shape (1,): peaks at -1 and 1, where U = -1."""
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
    """U = t1⁴/10 + (4 (t2 + 1.2) - t1²)² / 2 on positions of shape (2,): a curved ridge."""
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
