"""Which one slip explains that an SDE does not leave exp(-H/T) invariant: factors solved for, then held to new points.

A drift made by Theorem 1 with slips in it is f = -phi D grad H - Q grad H + gamma T div D + alpha T div Q: right where
phi = gamma = alpha = 1, friction missing at phi = 0, Gamma of the wrong sign at gamma = alpha = -1, and so on. The
Q is not known, and need not be: `terms.with_slips` tells whether there is one. For each kind of slip the residual is a
polynomial in one unknown factor, and the slip is the explanation when one factor makes it vanish at every point.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from ergodica.verify.certificate.terms import Terms, weighted, with_slips
from ergodica.verify.stationarity import Residual

SIMPLE_FACTORS = (0.0, -1.0, 2.0, 0.5)
LARGEST_FACTOR = 100.0  # a larger factor would only drown the residual in its own scale

ResidualOf = Callable[[float, Terms], Residual]  # of a slip by some factor

# In the order in which they are named, where several explain the same drift.
SLIP_KINDS: dict[str, ResidualOf] = {
    "correction": lambda x, terms: with_slips((1.0, x, x), terms),
    "correction of D": lambda x, terms: with_slips((1.0, x, 1.0), terms),
    "correction of Q": lambda x, terms: with_slips((1.0, 1.0, x), terms),
    "friction": lambda x, terms: with_slips((x, 1.0, 1.0), terms),
    "diffusion": lambda x, terms: with_slips((x, x, 1.0), terms),
    # the same process against the law at temperature T / x, exp(-x H / T)
    "temperature": lambda x, terms: weighted((1.0, x, -1.0), x, 1.0, terms),
}
POSITIVE_KINDS = ("diffusion", "temperature")  # whose factor has a meaning only above zero


@dataclass(frozen=True)
class Repair:
    """A slip that explains everything that was seen: what is `factor` times what it should be."""

    kind: str
    factor: float
    words: str
    advice: str
    figure: float  # largest relative residual that is left at points that were not used to find the factor

    def misplaced(self, terms: Terms) -> np.ndarray | None:
        """f minus the right drift for the D given, (n, dim), where it can be told without Q."""
        _, friction, correction = np.moveaxis(terms.parts, 1, 0)
        if self.kind == "correction of D":
            return (self.factor - 1) * correction
        if self.kind == "friction":
            return (1 - self.factor) * friction
        if self.kind == "diffusion":
            return (1 - self.factor) * (friction - correction)
        return None


def find_repairs(terms: Terms, tolerance: float) -> list[Repair]:
    """Every single slip that explains the residual, the one to name first; two slips where no single one does."""
    half = len(terms.points) // 2
    known, fresh = terms.take(slice(half)), terms.take(slice(half, None))
    found: dict[str, Repair] = {}
    for kind, residual in SLIP_KINDS.items():
        for factor in factors(residual, known, nearness(tolerance)):
            figure = float(np.max(residual(factor, fresh).relative))
            is_possible = abs(factor) < LARGEST_FACTOR and (factor > 0 or kind not in POSITIVE_KINDS)
            if is_possible and figure <= tolerance and kind not in found:
                found[kind] = Repair(kind, factor, slip(kind, factor, terms.temperature), REPAIR_ADVICE[kind], figure)
    # The simplest first: a friction that is off by an odd factor comes after the noise and the temperature.
    ordered = sorted(found.values(), key=lambda repair: repair.kind == "friction" and repair.factor not in (0.0, -1.0))
    return ordered or pairs(terms, tolerance)


def nearness(tolerance: float) -> float:
    """How close to a simple number a factor must be to be that number."""
    return min(1e5 * tolerance, 0.01)


def factors(residual: ResidualOf, terms: Terms, near: float) -> Iterator[float]:
    """Where the mean square of the residual, a polynomial of degree 4 in the factor, has its turning points."""
    (below, _), (zero, _), (above, scale) = (residual(x, terms) for x in (-1.0, 0.0, 1.0))
    # the residual is a x^2 + b x + c, and so the slope of its mean square is a cubic
    a, b, c = np.stack([(above + below) / 2 - zero, (above - below) / 2, zero]) / np.where(scale == 0, 1.0, scale)
    slope = [2 * a @ a, 3 * a @ b, b @ b + 2 * a @ c, b @ c]
    if not np.all(np.isfinite(slope)) or not np.any(slope[:3]):
        return
    # a coefficient that is rounding would bring in roots near infinity
    size = np.max(np.abs(slope))
    roots = np.roots(np.where(np.abs(slope) < 1e-24 * size, 0.0, slope))
    for root in roots[np.abs(roots.imag) <= 1e-6 * (1 + np.abs(roots))].real:
        yield next((simple for simple in SIMPLE_FACTORS if abs(root - simple) < near), float(root))


def pairs(terms: Terms, tolerance: float) -> list[Repair]:
    """Gamma and friction both slipped, as in the paper's Eq. `ExSGRHMC`."""
    for friction in (-1.0, 0.0):
        for correction in SIMPLE_FACTORS:
            figure = float(np.max(with_slips((friction, correction, correction), terms).relative))
            if figure <= tolerance:
                each = {"correction": correction, "friction": friction}
                words = " and ".join(slip(kind, factor, terms.temperature) for kind, factor in each.items())
                advice = " and ".join(REPAIR_ADVICE[kind] for kind in each)
                return [Repair(" and ".join(each), correction, words, advice, figure)]
    return []


SLIP_WORDS = {
    0.0: "is missing",
    -1.0: "has the wrong sign",
    2.0: "is twice what it should be",
    0.5: "is half of what it should be",
}
TERM_NAMES = {
    "correction": "the correction Gamma",
    "correction of D": "the part of the correction Gamma that comes from D",
    "correction of Q": "the part of the correction Gamma that comes from Q",
    "friction": "the friction",
}
REPAIR_ADVICE = {
    "correction": "the drift should contain T Gamma, Gamma_i = sum_j d/dz_j (D + Q)_ij",
    "correction of D": "the drift should contain T sum_j d/dz_j D_ij",
    "correction of Q": "the drift should contain T sum_j d/dz_j Q_ij",
    "friction": "the drift should contain -D grad H",
    "diffusion": "or change the drift to fit the D given",
    "temperature": "put the right T into the noise and the correction",
}


def slip(kind: str, factor: float, temperature: float) -> str:
    """What is wrong, in words."""
    if kind == "temperature":
        return f"the temperature is {temperature / factor:.6g} instead of {temperature:.6g}"
    if kind == "diffusion":
        return f"the diffusion is off by a factor, multiply D by {factor:.6g}"
    return f"{TERM_NAMES[kind]} {SLIP_WORDS.get(factor, f'is {factor:.6g} times what it should be')}"


def in_words(repairs: list[Repair]) -> str:
    """The repair, and those that come to the same here."""
    if not repairs:
        return (
            "No simple repair: neither Gamma nor friction missing, of the wrong sign or off by a factor, nor the "
            "diffusion or the temperature off by a factor, explains the residual."
        )
    first, *rest = repairs
    others = [other.words for other in rest if not other.kind.startswith(first.kind)]
    same = f" Here that is the same as: {'; '.join(others)}." if others else ""
    return f"Repair: {first.words}; {first.advice}. Then the residual vanishes.{same}"
