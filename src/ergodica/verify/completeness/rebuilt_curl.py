"""A rebuilt curl: Q at any point of its box, as a field for a recipe, and the report on how good it is.

Q p is kept as a periodic B-spline of high degree on a uniform grid: smooth, local, and cheap at a point. A spline
s(x) = sum_i c_i beta(x - i), in units of the spacing, passes through given values when its coefficients are the values
divided, mode by mode, by the transform of beta at the integers. For a mode of frequency w (pi is the highest that a
grid holds) it is off by about 2 (w / 2 pi)^(degree + 1), so it is laid on a grid finer than that of the values, where
every w is small. A trigonometric sum would be exact, and take every coefficient at every point.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import comb, factorial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.errors import InputError
from ergodica.fields import Dense
from ergodica.phase import View
from ergodica.report import Report
from ergodica.tree import is_traced
from ergodica.verify.completeness.grid import Box, in_words
from ergodica.verify.sde import at


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


def pairs(dim: int) -> list[tuple[int, int]]:
    """The entries of Q above the diagonal, in the order in which they are kept."""
    return list(combinations(range(dim), 2))


class CurlAt(eqx.Module):
    """z -> Q(z): the spline of Q p, divided by the exact p = exp(lowest - H). NaN outside the box.

    Its numbers are arrays, which compiled functions take as arguments: two curls of one kind share what is compiled.
    """

    spline: Spline
    hamiltonian: Callable
    lowest: np.ndarray
    sides: np.ndarray  # (2, dim): lower and upper ends

    def __init__(self, spline: Spline, hamiltonian: Callable, lowest: float, box: Box):
        self.spline = spline
        self.hamiltonian = hamiltonian
        self.lowest = np.array(lowest)
        self.sides = np.array(box).T

    def __call__(self, point: Array) -> Array:
        low, high = jnp.asarray(self.sides, point.dtype)
        entries = self.spline(point) * jnp.exp(self.hamiltonian(point) - jnp.asarray(self.lowest, point.dtype))
        entries = jnp.where(jnp.all((low <= point) & (point <= high)), entries, jnp.nan)
        upper = jnp.zeros((point.size, point.size), point.dtype)
        for entry, place in zip(entries, pairs(point.size), strict=True):
            upper = upper.at[place].set(entry)
        return upper - upper.T


class OnPosition(eqx.Module):
    """A function of a flat vector as one of the phase: the whole vector is the slot `position`."""

    function: Callable

    def __call__(self, z: View) -> Array:
        return self.function(z.position)


@dataclass(frozen=True)
class RebuiltCurl:
    """The curl of a process, from Theorem 2.

    Args:
        report: the theorem's conditions, the error of the drift that was measured, what is unique.
        at: z -> Q(z) as a JAX function: under jit, vmap and grad, in the dtype of z.
        box: where it holds.
        bulk: a box around the bulk, where the density is above 1e-4 of its maximum.
        resolution: grid points a side.
        error: largest error of the drift through (D, Q) on the bulk, in units of the drift's root mean square.
        largest: largest |Q_ij| on the bulk.
    """

    report: Report
    at: CurlAt
    box: Box
    bulk: Box
    resolution: int
    method: str
    error: float
    largest: float

    @property
    def passed(self) -> bool:
        return self.report.passed

    @property
    def field(self) -> Dense:
        """Q as a field, for a recipe whose position is the whole z: curl={("position", "position"): q.field}."""
        return Dense(OnPosition(self.at))

    def curl(self, point: Any) -> Array:
        """Q at one point of the box, (dim, dim). Outside jit it is computed in float64, whatever the mode of JAX."""
        if is_traced(point):
            return self.at(jnp.asarray(point))
        try:
            place = np.asarray(point, np.float64)
        except (TypeError, ValueError):
            raise InputError(f"curl takes a point, numbers, got {point!r}") from None
        if place.shape != (len(self.box),):
            raise InputError(f"curl takes one point of {len(self.box)} numbers, got shape {place.shape}: use jax.vmap")
        if not all(low <= x <= high for x, (low, high) in zip(place, self.box, strict=True)):
            raise InputError(f"{at(place)} is outside the box {in_words(self.box)}: rebuild the curl on a wider one")
        with jax.enable_x64(True):
            return _compiled(self.at, jnp.asarray(place))

    def __str__(self) -> str:
        return str(self.report)


@eqx.filter_jit
def _compiled(curl: CurlAt, point: Array) -> Array:
    return curl(point)
