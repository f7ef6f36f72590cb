"""Which coordinate's drift is off, and by how much, where no repair tells.

The drift error delta must leave the residual that was seen, div(delta p) = -residual p. Many do. Two are worth naming:

- one that lives in a single coordinate k. There is one exactly when the integral of residual p over z_k vanishes on
  every line along z_k, and then delta_k p = -(integral of residual p from -infinity to z_k) is the only one;
- the smallest one in the mean square, delta = grad psi.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from ergodica.verify.certificate.terms import Terms

LINES = 4
NODES = 128
ROUNDS = 16  # of so many lines: the first tells whether an error in one coordinate will do, all of them how large it is
MOST_LINES = 10  # coordinates up to which lines are looked at
WIDTH = 8.0  # of a line to either side, in standard deviations of its coordinate
VANISHES = 1e-6  # an integral along a line, over that of the absolute value
BULK = 1e-4  # of the largest density on a line; below, the flux is a small difference of large numbers
MOST_POLYNOMIALS = 60

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
        shown = ", ".join(f"{size:.3g}" for size in self.sizes[:MOST_LINES])
        each = f"by coordinate: {shown}{', ...' if len(self.sizes) > MOST_LINES else ''}"
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
    return Fault(k, *_sizes(k, sizes, terms), is_known=is_known)


def _sizes(k: int, sizes: np.ndarray, terms: Terms) -> tuple[float, float, tuple[float, ...]]:
    drift = np.sqrt(np.mean(terms.parts[:, 0, k] ** 2))
    relative = float(sizes[k] / drift) if drift > 0 else float("inf")
    return float(sizes[k]), relative, tuple(float(size) for size in sizes)


def find_fault(evaluate: Evaluate, terms: Terms) -> Fault:
    """`evaluate`: the terms at points (n, dim)."""
    dim = terms.points.shape[1]
    lines = range(dim) if dim <= MOST_LINES else ()
    sizes = {k: size for k in lines if (size := along_lines(evaluate, terms, k)) is not None}
    if not sizes:
        return of_error(smallest_error(terms), terms, is_known=False)
    # An error is likelier where there is noise, and with it friction, than in dtheta = M^-1 r dt, unless that is zero.
    noise, spans = np.einsum("nii->ni", terms.diffusion).max(axis=0), terms.points.std(axis=0)
    order = sorted(sizes, key=lambda k: (k not in terms.frozen, noise[k] == 0, sizes[k] / spans[k]))
    by_coordinate = np.array([sizes[k] if k == order[0] else 0.0 for k in range(dim)])
    return Fault(order[0], *_sizes(order[0], by_coordinate, terms), alone=tuple((k, sizes[k]) for k in order))


def along_lines(evaluate: Evaluate, terms: Terms, k: int) -> float | None:
    """The root mean square of the error in coordinate k that explains the residual on its own; None: it cannot."""
    squares = []
    for start in range(0, min(ROUNDS * LINES, len(terms.points)), LINES):
        error, density = _errors(evaluate, terms, k, start)
        if error is None:
            return None
        for on_line, weight in zip(error, density, strict=True):
            bulk = weight > BULK
            if np.any(bulk):
                squares.append(np.average(on_line[bulk] ** 2, weights=weight[bulk]))
    return float(np.sqrt(np.mean(squares))) if squares else None


def _errors(evaluate: Evaluate, terms: Terms, k: int, start: int) -> tuple[np.ndarray | None, np.ndarray]:
    """(delta_k, density) on lines along z_k through some of the points; None where an integral does not vanish."""
    centre, span = terms.points[:, k].mean(), terms.points[:, k].std()
    nodes = np.linspace(centre - WIDTH * span, centre + WIDTH * span, NODES)
    points = np.repeat(terms.points[start : start + LINES], NODES, axis=0)
    points[:, k] = np.tile(nodes, LINES)
    on_lines = evaluate(points)
    with np.errstate(all="ignore"):
        energy = on_lines.energy.reshape(LINES, NODES)
        lowest = np.min(np.where(np.isnan(energy), np.inf, energy), axis=1, keepdims=True)
        density = np.nan_to_num(np.exp(lowest - energy))
        weighted = np.where(density > 0, on_lines.residual().value.reshape(LINES, NODES) * density, 0.0)
        whole = np.abs(weighted).sum(axis=1)
        ends = np.abs(weighted[:, [0, -1]]).sum(axis=1)
        vanishes = (np.abs(weighted.sum(axis=1)) <= VANISHES * whole) & (ends <= VANISHES * whole)
        flux = (np.cumsum(weighted, axis=1) - weighted / 2) * (nodes[1] - nodes[0])
        return (-flux / density if np.all(vanishes) else None), density


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
