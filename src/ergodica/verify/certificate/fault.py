"""Which coordinate's drift is off, and by how much, where no repair tells.

The drift error delta must leave the residual that was seen, div(delta p) = -residual p. Many do. Two are worth naming:

- one that lives in a single coordinate k. There is one exactly when the integral of residual p over z_k vanishes on
  every line along z_k, and then delta_k p = -(integral of residual p from -infinity to z_k) is the only one;
- the smallest one in mean square, delta = grad psi.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from ergodica.verify.certificate.repairs import Terms

LINE_COUNT = 4
LINE_NODES = 128
# of so many lines: the first tells whether an error in one coordinate will do, all of them how large it is
LINE_ROUNDS = 16
MOST_COORDINATES = 10  # up to which lines are looked at
LINE_WIDTH = 8.0  # to either side, in standard deviations of its coordinate
ZERO_INTEGRAL = 1e-6  # along a line, over that of the absolute value
LINE_BULK = 1e-4  # of the largest density on a line; below, the flux is a small difference of large numbers
MOST_POLYNOMIALS = 60
ZERO_DRIFT = 1e-12
CUT_SHARE = 0.05  # of how much a drift depended on a coordinate: not at all any more

Evaluate = Callable[[np.ndarray], Terms]


@dataclass(frozen=True)
class Fault:
    """The coordinate whose drift is off most, the error's root mean square, and that over the drift's own.

    Args:
        is_known: the error follows from a repair.
        alone: the coordinates in which an error, and none elsewhere, explains everything, with its size; the first is
            `coordinate`. Empty, and not known: the sizes are those of the smallest error that explains it.
        sizes: by coordinate.
    """

    coordinate: int
    size: float
    relative: float
    sizes: tuple[float, ...]
    is_known: bool = False
    alone: tuple[tuple[int, float], ...] = ()

    @property
    def words(self) -> str:
        share = f"{self.relative:.2g} of its size" if np.isfinite(self.relative) else "where it is zero"
        drift = f"the drift of z[{self.coordinate}] is off by {self.size:.3g} in the root mean square, {share}"
        shown = ", ".join(f"{size:.3g}" for size in self.sizes[:MOST_COORDINATES])
        each = f"by coordinate: {shown}{', ...' if len(self.sizes) > MOST_COORDINATES else ''}"
        if self.is_known:
            return f"So {drift} ({each})."
        if not self.alone:
            return f"By the smallest error that explains the residual, {drift} ({each})."
        others = [f"z[{k}] ({size:.3g})" for k, size in self.alone[1:]]
        so_would = f"; so would one in {' or '.join(others)}" if others else ""
        return f"An error in z[{self.coordinate}] alone explains the residual: {drift}{so_would}."


def of_error(error: np.ndarray, terms: Terms, is_known: bool) -> Fault:
    """From the drift error itself, (n, dim)."""
    sizes, spans = np.sqrt(np.mean(error**2, axis=0)), terms.points.std(axis=0)
    k = int(np.argmax(sizes / np.where(spans == 0, 1.0, spans)))
    return _fault(k, sizes, terms, is_known=is_known)


def _fault(k: int, sizes: np.ndarray, terms: Terms, **how: Any) -> Fault:
    drift, *others = np.sqrt(np.mean(terms.parts[:, :, k] ** 2, axis=0))
    is_zero = drift <= ZERO_DRIFT * max(others)  # what rounding leaves of terms that cancel is no drift
    relative = float("inf") if is_zero else float(sizes[k] / drift)
    return Fault(k, float(sizes[k]), relative, tuple(sizes.tolist()), **how)


def find_fault(evaluate: Evaluate, terms: Terms) -> Fault:
    """`evaluate`: the terms at points (n, dim)."""
    dim = terms.points.shape[1]
    lines = range(dim) if dim <= MOST_COORDINATES else ()
    sizes = {k: size for k in lines if (size := along_lines(evaluate, terms, k)) is not None}
    if not sizes:
        return of_error(smallest_error(terms), terms, is_known=False)
    # A term forgotten is likelier than one too many: of two coordinates that Q couples, one way is missing. Then, an
    # error is likelier where there is noise, and with it friction, than in dtheta = M^-1 r dt.
    cuts = {k: len(sizes) > 1 and cuts_coupling(evaluate, terms, k) for k in sizes}
    noise, spans = np.einsum("nii->ni", terms.diffusion).max(axis=0), terms.points.std(axis=0)
    order = sorted(sizes, key=lambda k: (k not in terms.frozen, cuts[k], noise[k] == 0, sizes[k] / spans[k]))
    by_coordinate = np.where(np.arange(dim) == order[0], sizes[order[0]], 0.0)
    return _fault(order[0], by_coordinate, terms, alone=tuple((k, sizes[k]) for k in order))


def along_lines(evaluate: Evaluate, terms: Terms, k: int) -> float | None:
    """The root mean square of the error in coordinate k that explains the residual on its own; None: it cannot."""
    squares = []
    for start in range(0, min(LINE_ROUNDS * LINE_COUNT, len(terms.points)), LINE_COUNT):
        found = _on_lines(evaluate, terms, k, terms.points[start : start + LINE_COUNT])
        if found.error is None:
            return None
        squares += _mean_squares(found.error, found.density)
    return float(np.sqrt(np.mean(squares))) if squares else None


class _Lines(NamedTuple):
    """On lines along z_k (lines, nodes): its drift, the error delta_k, and the density over its largest on the line.

    No error, where an integral of residual p along a line does not vanish.
    """

    drift: np.ndarray
    error: np.ndarray | None
    density: np.ndarray


def _on_lines(evaluate: Evaluate, terms: Terms, k: int, through: np.ndarray) -> _Lines:
    """Lines along z_k through these points (LINE_COUNT, dim)."""
    centre, span = terms.points[:, k].mean(), terms.points[:, k].std()
    nodes = np.linspace(centre - LINE_WIDTH * span, centre + LINE_WIDTH * span, LINE_NODES)
    points = np.repeat(through, LINE_NODES, axis=0)
    points[:, k] = np.tile(nodes, LINE_COUNT)
    on_lines = evaluate(points)
    drift = on_lines.parts[:, 0, k].reshape(LINE_COUNT, LINE_NODES)
    with np.errstate(all="ignore"):
        energy = on_lines.energy.reshape(LINE_COUNT, LINE_NODES)
        lowest = np.min(np.where(np.isnan(energy), np.inf, energy), axis=1, keepdims=True)
        density = np.nan_to_num(np.exp(lowest - energy))
        weighted = np.where(density > 0, on_lines.residual().value.reshape(LINE_COUNT, LINE_NODES) * density, 0.0)
        whole = np.abs(weighted).sum(axis=1)
        ends = np.abs(weighted[:, [0, -1]]).sum(axis=1)
        vanishes = (np.abs(weighted.sum(axis=1)) <= ZERO_INTEGRAL * whole) & (ends <= ZERO_INTEGRAL * whole)
        flux = (np.cumsum(weighted, axis=1) - weighted / 2) * (nodes[1] - nodes[0])
        return _Lines(drift, -flux / density if np.all(vanishes) else None, density)


def _mean_squares(values: np.ndarray, density: np.ndarray) -> list[float]:
    """Of the values on each line, by the density, where that is not too small."""
    lines = [(value, weight, weight > LINE_BULK) for value, weight in zip(values, density, strict=True)]
    return [float(np.average(value[bulk] ** 2, weights=weight[bulk])) for value, weight, bulk in lines if np.any(bulk)]


def cuts_coupling(evaluate: Evaluate, terms: Terms, k: int) -> bool:
    """Whether the drift of z_k without its error no longer depends on a coordinate that it depends on with it."""
    here, there = terms.points[:LINE_COUNT], terms.points[LINE_COUNT : 2 * LINE_COUNT]
    first = _on_lines(evaluate, terms, k, here)
    for j in set(range(terms.points.shape[1])) - {k}:
        second = _on_lines(evaluate, terms, k, np.where(np.arange(here.shape[1]) == j, there, here))
        if first.error is None or second.error is None:
            continue
        density = np.minimum(first.density, second.density)
        change = second.drift - first.drift
        with np.errstate(all="ignore"):  # where there is no density an error may be anything
            left = change - (second.error - first.error)
        before, after = (np.sum(_mean_squares(value, density)) for value in (change, left))
        if before > 0 and after <= CUT_SHARE**2 * before:
            return True
    return False


def smallest_error(terms: Terms) -> np.ndarray:
    """grad psi, (n, dim), psi the polynomial that solves -Laplacian psi + grad psi . grad H / T = residual best.

    Coordinates count in units of their spread: the error is the smallest in those.
    """
    spans = terms.points.std(axis=0)
    spans = np.where(spans == 0, 1.0, spans)
    slopes, bends = polynomials((terms.points - terms.points.mean(axis=0)) / spans)
    columns = np.einsum("npd,nd->np", slopes, spans * terms.slope) - bends
    residual = terms.residual()
    weights = 1 / np.where(residual.scale == 0, 1.0, residual.scale)  # or the points far out would count most
    factors = np.linalg.lstsq(columns * weights[:, None], residual.value * weights)[0]
    return spans * np.einsum("npd,p->nd", slopes, factors)


def polynomials(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Monomials at x (n, dim), up to the degree of which there are not too many: gradients (n, m, dim), Laplacians."""
    n, dim = x.shape
    chosen = [(i,) for i in range(dim)] + [(i, i) for i in range(dim)]
    for degree in range(2, 6):
        more = [which for which in combinations_with_replacement(range(dim), degree) if which not in chosen]
        if len(chosen) + len(more) > MOST_POLYNOMIALS:
            break
        chosen += more
    powers = np.array([np.bincount(which, minlength=dim) for which in chosen])
    slopes, bends = np.empty((n, len(chosen), dim)), np.zeros((n, len(chosen)))
    for k in range(dim):
        once, twice = powers.copy(), powers.copy()
        once[:, k], twice[:, k] = np.maximum(powers[:, k] - 1, 0), np.maximum(powers[:, k] - 2, 0)
        slopes[:, :, k] = powers[:, k] * np.prod(x[:, None, :] ** once, axis=-1)
        bends += powers[:, k] * (powers[:, k] - 1) * np.prod(x[:, None, :] ** twice, axis=-1)
    return slopes, bends
