"""Tail probabilities: what a standard score, a sum of squares, and the largest of several are worth."""

import math

import numpy as np
from jaxtyping import ArrayLike

DETECTION = 1.645  # standard scores beyond the threshold at which 95 of 100 audits see an error


def two_sided(score: ArrayLike) -> np.ndarray:
    """P(|Z| > |score|) for a standard normal Z."""
    return np.vectorize(math.erfc, otypes=[float])(np.abs(np.asarray(score, float)) / math.sqrt(2))


def normal_score(score: ArrayLike, chains: int) -> np.ndarray:
    """The standard normal score of the same tail as Student's t with chains - 1 degrees of freedom (Wallace 1959)."""
    t, nu = np.asarray(score, float), chains - 1
    return np.sign(t) * (8 * nu + 1) / (8 * nu + 3) * np.sqrt(nu * np.log1p(t * t / nu))


def any_of(p: float, count: float) -> float:
    """The chance that the smallest of `count` independent p-values is below p (Sidak)."""
    return 1.0 if p >= 1 else float(-math.expm1(count * math.log1p(-p)))


def each_of(p: float, count: float) -> float:
    """The level at which each of `count` independent checks is held, for p overall: the inverse of `any_of`."""
    return float(-math.expm1(math.log1p(-p) / count))


def threshold(p: float) -> float:
    """The score with two_sided(score) = p."""
    low, high = 0.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(middle / math.sqrt(2)) > p else (low, middle)
    return (low + high) / 2
