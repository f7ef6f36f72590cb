"""The paper's two densities in one dimension, their equal-mass bins, and the law that the naive sampler samples."""

from dataclasses import dataclass
from functools import cache, cached_property

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

BINS = 100
_CELLS = 2_000_000  # of the midpoint rule; the printed metric has |U + C|^(-1/4) in its naive law, hence so many


class PolynomialPotential(eqx.Module):
    """U = quartic t^4 + quadratic t^2; the numbers are leaves, so that one compiled chain serves both densities."""

    quartic: Array
    quadratic: Array

    def __init__(self, quartic: float, quadratic: float):
        self.quartic, self.quadratic = (jnp.asarray(x, jnp.float32) for x in (quartic, quadratic))

    def __call__(self, t):
        return self.quartic * t**4 + self.quadratic * t**2


@dataclass(frozen=True)
class Peaks:
    """A density exp(-U) on the line: its name, U's coefficients, where its mass lies, and an offset above -min U.

    Args:
        formula: U in words. offset: C of the metric 1.5 sqrt(U + C) that is used for it.
        reach: exp(-U) has no mass beyond this that a float64 would see.
    """

    name: str
    formula: str
    quartic: float
    quadratic: float
    offset: float
    reach: float

    def potential(self, t: np.ndarray) -> np.ndarray:
        square = t * t  # powers of arrays are slow
        return (self.quartic * square + self.quadratic) * square

    @cached_property
    def midpoints(self) -> np.ndarray:
        width = 2 * self.reach / _CELLS
        return -self.reach + width * (np.arange(_CELLS) + 0.5)

    @cached_property
    def _cumulative(self) -> np.ndarray:
        weights = np.exp(-self.potential(self.midpoints))
        return np.concatenate([[0.0], np.cumsum(weights) / np.sum(weights)])

    @cached_property
    def _borders(self) -> np.ndarray:
        return np.linspace(-self.reach, self.reach, _CELLS + 1)

    def quantile(self, levels: np.ndarray) -> np.ndarray:
        return np.interp(levels, self._cumulative, self._borders)

    @cached_property
    def edges(self) -> np.ndarray:
        """The 99 inner edges of 100 bins of equal mass, as the float32 numbers that the chains are compared with."""
        return self.quantile(np.arange(1, BINS) / BINS).astype(np.float32)

    @cached_property
    def masses(self) -> np.ndarray:
        """The bins' masses under exp(-U): 1/100 each, up to the rounding of the edges."""
        return self._binned(np.exp(-self.potential(self.midpoints)))

    @cache  # noqa: B019  the densities are two constants of this module
    def naive_masses(self, offset: float) -> np.ndarray:
        """The bins' masses under the naive sampler's law (ERRATA: exp(-U) G^1/2, so |U + C|^(-1/4) here)."""
        return self._binned(self._naive_weights(self.midpoints, offset))

    def naive_density(self, t: np.ndarray, offset: float) -> np.ndarray:
        total = np.mean(self._naive_weights(self.midpoints, offset)) * 2 * self.reach
        return self._naive_weights(t, offset) / total

    def density(self, t: np.ndarray) -> np.ndarray:
        total = np.mean(np.exp(-self.potential(self.midpoints))) * 2 * self.reach
        return np.exp(-self.potential(t)) / total

    def mass_below(self, level: float) -> float:
        """The target's mass where U < level."""
        return float(np.sum(np.diff(self._cumulative)[self.potential(self.midpoints) < level]))

    def naive_divergence(self, offset: float) -> float:
        """KL(naive law || exp(-U)) without bins: the closed form of the limit of small steps."""
        weights = self._naive_weights(self.midpoints, offset)
        shares, right = weights / np.sum(weights), np.diff(self._cumulative)
        seen = right > 0
        return float(np.sum(shares[seen] * np.log(shares[seen] / right[seen])))

    def _naive_weights(self, t: np.ndarray, offset: float) -> np.ndarray:
        potential = self.potential(t)
        return np.exp(-potential) * np.abs(potential + offset) ** -0.25

    def _binned(self, weights: np.ndarray) -> np.ndarray:
        below = np.interp(self.edges, self._borders, np.concatenate([[0.0], np.cumsum(weights)])) / np.sum(weights)
        return np.diff(np.concatenate([[0.0], below, [1.0]]))


ONE_PEAK = Peaks("one peak", "t²/2", 0.0, 0.5, offset=0.5, reach=9.0)
TWO_PEAKS = Peaks("two peaks", "t⁴ - 2t²", 1.0, -2.0, offset=1.5, reach=3.2)
