"""A rebuilt curl: Q at any point of its box, as a field for a recipe, and the report on how good it is."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.errors import InputError
from ergodica.fields import Dense
from ergodica.report import Report
from ergodica.tree import is_traced
from ergodica.verify.completeness.construction import pairs
from ergodica.verify.completeness.grid import Box, in_words
from ergodica.verify.completeness.spline import Spline
from ergodica.verify.functions import at


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

    def __call__(self, z: Any) -> Array:
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
