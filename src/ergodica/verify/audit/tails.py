"""Tail probabilities: what a standard score, a sum of squares, and the largest of several are worth."""

import math

import numpy as np
from jaxtyping import ArrayLike

SIMULATED = 20_000
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


def largest_of(score: float, root: np.ndarray) -> float:
    """P(max_i |(root z)_i| > score) for independent standard normals z and rows of unit length.

    By simulation where it is large; in the tail two rows are never beyond the score together, and their chances add up.
    """
    rows = 1 if len(root) == 2 and np.allclose(root[0], -root[1]) else len(root)
    bound = rows * float(two_sided(score))
    if bound < 0.01:
        return bound
    z = np.random.default_rng(0).standard_normal((SIMULATED, root.shape[1]))
    return float(np.mean(np.abs(z @ root.T).max(1) > score))


def threshold(p: float) -> float:
    """The score with two_sided(score) = p."""
    low, high = 0.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erfc(middle / math.sqrt(2)) > p else (low, middle)
    return (low + high) / 2
