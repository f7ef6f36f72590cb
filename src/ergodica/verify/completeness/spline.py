"""Periodic B-splines of high degree on a uniform grid: smooth, local, and cheap at a point.

A spline s(x) = sum_i c_i beta(x - i), in units of the spacing, passes through given values when its coefficients are
the values divided, mode by mode, by the transform of beta at the integers. For a mode of frequency w (pi is the
highest that a grid holds) it is off by about 2 (w / 2 pi)^(degree + 1), so it is laid on a grid finer than that of the
values, where every w is small. A trigonometric sum would be exact, and take every coefficient at every point.
"""

from fractions import Fraction
from functools import cache
from math import comb, factorial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array


@cache
def pieces(degree: int) -> np.ndarray:
    """Row j: the polynomial, in powers of t - 1/2, that weighs node floor(x) + j - (degree - 1)/2 at x = floor(x) + t.

    beta(x) = sum_k (-1)^k C(m + 1, k) (x + (m + 1)/2 - k)_+^m / m!, expanded in rational numbers: its terms cancel.
    """
    half = (degree + 1) // 2
    table = np.zeros((degree + 1, degree + 1))
    for j in range(degree + 1):
        shift = j - (half - 1)
        powers = [Fraction(0)] * (degree + 1)
        for k in range(half - shift + 1):
            root = Fraction(1, 2) - shift + half - k
            factor = Fraction((-1) ** k * comb(degree + 1, k), factorial(degree))
            for n in range(degree + 1):
                powers[n] += factor * comb(degree, n) * root ** (degree - n)
        table[j] = [float(value) for value in powers]
    return table


def weights(degree: int, t: Array) -> Array:
    """The degree + 1 weights of the nodes around a place t in [0, 1] between two of them."""
    rows = jnp.asarray(pieces(degree), t.dtype)
    total = rows[:, degree]
    for power in reversed(range(degree)):
        total = total * (t - 0.5) + rows[:, power]
    return total


def transform(degree: int, frequencies: np.ndarray) -> np.ndarray:
    """sum_l beta(l) cos(w l): the transform of the spline's values at the integers."""
    at_nodes = pieces(degree) @ (-0.5) ** np.arange(degree + 1)
    offsets = np.arange(degree + 1) - (degree - 1) // 2
    return at_nodes @ np.cos(np.multiply.outer(offsets, frequencies))


def refined(modes: np.ndarray, shape: tuple[int, ...], factor: int) -> np.ndarray:
    """The modes of the same trigonometric polynomial on a grid with `factor` times as many nodes a side."""
    fine = np.zeros([factor * n for n in shape[:-1]] + [factor * shape[-1] // 2 + 1], modes.dtype)
    places = [np.fft.fftfreq(n, 1 / n).astype(int) % (factor * n) for n in shape[:-1]]
    fine[np.ix_(*places, np.arange(modes.shape[-1]))] = modes * factor ** len(shape)
    return fine


def coefficients(degree: int, modes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Spline coefficients from the modes, `np.fft.rfftn` of the values on a grid of that shape.

    Each axis is continued periodically by `degree` nodes, so that the nodes around any place are one slice.
    """
    for axis, size in enumerate(shape):
        frequencies = np.fft.rfftfreq(size) if axis == len(shape) - 1 else np.fft.fftfreq(size)
        column = transform(degree, 2 * np.pi * frequencies)
        modes = modes / column.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    before = (degree - 1) // 2
    values = np.fft.irfftn(modes, s=shape, axes=range(len(shape)))
    return np.pad(values, [(before, degree - before)] * len(shape), mode="wrap")


class Spline(eqx.Module):
    """Several periodic functions on one box, as splines.

    Args:
        coefficients: (k, n + degree, ...), from `coefficients`. NumPy: they take the dtype of the point.
        low: the lower corner of the box. spacing: of its nodes.
    """

    coefficients: np.ndarray
    low: np.ndarray
    spacing: np.ndarray
    degree: int = eqx.field(static=True)

    def __call__(self, point: Array) -> Array:
        """The k values at one point of the box."""
        count, *sizes = self.coefficients.shape
        place = (point - jnp.asarray(self.low, point.dtype)) / jnp.asarray(self.spacing, point.dtype)
        last = jnp.asarray([size - self.degree - 1 for size in sizes], jnp.int32)
        cell = jnp.clip(jnp.floor(place).astype(jnp.int32), jnp.zeros_like(last), last)
        start = [jnp.zeros((), jnp.int32), *cell]
        around = jax.lax.dynamic_slice(
            jnp.asarray(self.coefficients, point.dtype), start, (count, *(self.degree + 1 for _ in sizes))
        )
        inside = place - cell.astype(point.dtype)
        for axis in reversed(range(len(sizes))):
            around = around @ weights(self.degree, inside[axis])
        return around
