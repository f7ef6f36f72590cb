"""KL(samples || target) on bins, with its bias removed and its error known, and its limit at small steps.

All figures come from groups of chains that know nothing of each other, so that the covariance C of the shares p of the
bins is measured, not assumed: no autocorrelation time is estimated anywhere.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ergodica_paper.verdict import Measurement


class Divergence(NamedTuple):
    """KL of the pooled samples, its standard error, and the independent draws that would be as good.

    Args:
        influence: what each group adds to the error of KL, to first order. curvature: the variance that is left.
    """

    kl: Measurement
    effective: float
    shares: np.ndarray
    influence: np.ndarray
    curvature: float


def divergence(counts: np.ndarray, masses: np.ndarray) -> Divergence:
    """KL(p || q) from the counts of independent groups (groups, bins), q = masses.

    E sum p^ log(p^/q) = KL + sum C_bb / (2 p_b) + ..., since (p log p)'' = 1/p; that is subtracted. The estimate's
    variance is l'C l with l = log(p/q), and tr (P^-1 C)^2 / 2 from the curvature, which is all of it where p = q.
    """
    each = counts / counts.sum(axis=1, keepdims=True)
    groups, shares = len(each), each.mean(axis=0)
    seen = shares > 0
    each, p, q = each[:, seen], shares[seen], masses[seen]
    scaled = (each - p) / np.sqrt(p * groups * (groups - 1))  # its Gram matrix is P^-1/2 C P^-1/2
    spread = float(np.sum(scaled**2))
    curvature = _squared_trace(scaled @ scaled.T, spread, groups - 1)
    log_ratio = np.log(p / q)
    influence = scaled @ (np.sqrt(p) * log_ratio)
    # l holds the errors of p too: they add tr (P^-1 C)^2 to l'C l
    slope = float(np.sum(influence**2)) - curvature
    value = float(np.sum(p * log_ratio)) - spread / 2
    error = float(np.sqrt(max(slope, 0.0) + curvature / 2))
    return Divergence(Measurement(value, error), (len(masses) - 1) / spread, shares, influence, curvature / 2)


def difference(one: Divergence, other: Divergence) -> Measurement:
    """KL of one less that of the other, where group i of both was moved by the same random numbers."""
    variance = float(np.sum((one.influence - other.influence) ** 2)) + one.curvature + other.curvature
    return Measurement(one.kl.value - other.kl.value, float(np.sqrt(variance)))


def _squared_trace(gram: np.ndarray, trace: float, free: int) -> float:
    """tr S^2, unbiased, from the Gram matrix of a sample covariance with `free` degrees of freedom."""
    return max(free**2 / ((free - 1) * (free + 2)) * (float(np.sum(gram**2)) - trace**2 / free), 0.0)


class StepZeroLimit(NamedTuple):
    """A curve's value at step 0 from a weighted polynomial, and how well the polynomial fits (one chi-squared)."""

    at_zero: Measurement
    misfit: float
    coefficients: np.ndarray


def limit(steps: Sequence[float], values: Sequence[Measurement], powers: Sequence[int]) -> StepZeroLimit:
    """The value at step 0 of the weighted least-squares fit of sum_k c_k eps^k over the powers, of which 0 is first."""
    unit = max(steps)
    weights = 1 / np.array([v.error for v in values])
    design = (np.asarray(steps)[:, None] / unit) ** np.asarray(powers) * weights[:, None]
    found, *_ = np.linalg.lstsq(design, np.array([v.value for v in values]) * weights, rcond=None)
    covariance = np.linalg.inv(design.T @ design)
    misfit = float(np.sum((design @ found - np.array([v.value for v in values]) * weights) ** 2))
    return StepZeroLimit(Measurement(float(found[0]), float(np.sqrt(covariance[0, 0]))), misfit, found)


# The law of a step is p_0 + eps p_1 + ..., so its KL is a polynomial in eps too. Where p_0 is the target KL has its
# minimum there and no linear term; where it is another law it has one.
TO_TARGET, TO_OTHER = (0, 2, 3, 4), (0, 1, 2, 3)
