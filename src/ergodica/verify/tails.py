"""Tail probabilities, what a standard score, Student's t, and the largest of several are worth; and intervals.

By scipy.special, which holds the functions behind scipy.stats and loads a hundred times faster.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import ArrayLike
from scipy.special import erfc, ndtri, stdtr, stdtrit

FALSE_ALARM = 1e-4  # how often a right sampler is rejected
SIMULATED_MAXIMA = 20_000


def two_sided(score: ArrayLike) -> np.ndarray:
    """P(|Z| > |score|) for a standard normal Z."""
    return erfc(np.abs(np.asarray(score, float)) / np.sqrt(2))


def threshold(p: float) -> float:
    """The score with two_sided(score) = p; 37.5 for all p below the smallest normal number."""
    return -float(ndtri(max(p, np.finfo(float).tiny) / 2))


def t_two_sided(t: ArrayLike, freedom: float) -> np.ndarray:
    """P(|t'| > |t|) for Student's t'."""
    return 2 * stdtr(freedom, -np.abs(t))


def t_threshold(p: float, freedom: float) -> float:
    """The t with t_two_sided(t) = p."""
    return -float(stdtrit(freedom, p / 2))


def normal_score(score: ArrayLike, chains: int) -> np.ndarray:
    """The standard normal score of the same tail as Student's t with chains - 1 degrees of freedom (Wallace 1959).

    In closed form: by way of the tail itself, scores beyond 38 would all be infinite.
    """
    t, nu = np.asarray(score, float), chains - 1
    return np.sign(t) * (8 * nu + 1) / (8 * nu + 3) * np.sqrt(nu * np.log1p(t * t / nu))


def any_of(p: float, count: float) -> float:
    """The chance that the smallest of `count` independent p-values is below p, 1 - (1 - p)^count (Sidak 1967)."""
    return 1.0 if p >= 1 else -float(np.expm1(count * np.log1p(-p)))


def each_of(p: float, count: float) -> float:
    """The level at which each of `count` independent checks is held, for p overall: the inverse of `any_of`."""
    return -float(np.expm1(np.log1p(-p) / count))


def largest_of(score: float, root: np.ndarray) -> float:
    """P(max_i |(root z)_i| > score) for independent standard normals z and rows of unit length.

    By simulation where it is large; in the tail two rows are never beyond the score together, and their chances add up.
    """
    rows = 1 if len(root) == 2 and np.allclose(root[0], -root[1]) else len(root)
    bound = rows * float(two_sided(score))
    if bound < 0.01:
        return bound
    z = np.random.default_rng(0).standard_normal((SIMULATED_MAXIMA, root.shape[1]))
    return float(np.mean(np.abs(z @ root.T).max(1) > score))


class Estimate(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, error: float) -> "Estimate":
        return cls(float(value), float(value - 1.96 * error), float(value + 1.96 * error))

    def times(self, factor: float) -> "Estimate":
        return Estimate(*(factor * x for x in self))

    def __str__(self) -> str:
        """As "0.953 (0.948-0.958)": with the digits that the interval leaves."""
        width = self.high - self.low
        digits = 0 if width >= 20 else 1 if width >= 2 else 2
        if 0 < width < 0.02:
            digits = min(int(-math.log10(width)) + 1, 6)
        between = "-" if self.low >= 0 else " to "
        return f"{self.value:.{digits}f} ({self.low:.{digits}f}{between}{self.high:.{digits}f})"
