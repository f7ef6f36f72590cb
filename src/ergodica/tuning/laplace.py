"""Where a posterior is, and how wide: its modes, and Laplace's Gaussian at the one with most mass.

A mode is looked for from the start, then from places around it at 2 to 16 times its width: several modes mean that
control variates, which are centred at one, will not do. What no search meets is not seen by anything.
"""

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.compiling import sound_filter_jit
from ergodica.errors import InputError
from ergodica.gradients.mode import LARGEST_DENSE, Mode, found_mode
from ergodica.targets import Posterior, Target
from ergodica.targets.domain import contains
from ergodica.targets.posterior import evaluate_all, hessian_all
from ergodica.tree import Layout
from ergodica.tuning.curvature import PosteriorRoot, low_rank_root

SEARCH_ROWS = 2_000  # of large data, for searches from elsewhere
SEARCH_WIDTHS = (2.0, 4.0, 8.0, 16.0)  # of the posterior, at which they begin
SEARCH_PAIRS = 4  # of opposite directions, at each width
SEARCH_STEPS = 100
SEARCH_SLOPE, SEARCH_SHORTEST, SEARCH_LONGEST = 1e-2, 1e-6, 10.0  # of a slope to end at, and of steps, in widths
APART_WIDTHS = 3.0  # in some direction: closer ends are one mode
LEAST_MASS = math.exp(-7)  # of a mode, over that of the largest
MOST_MODES = 5  # that are looked at closely
FLAT_CURVATURE = {8: 1e-10, 4: 1e-6}  # of the largest, once scaled by the diagonal; by the bytes of a number
FLOOR_CURVATURE = 1e-10
FLAT_REACH = 10.0  # widths of a direction with next to no curvature, over which a potential should rise
RISE_ALLOWED = 1.1  # times what Laplace's Gaussian has, for the potential at a start, and twice the temperature
LARGE_DATA = 20_000  # rows: without a mode, all of them in every step would take too long
GRADIENT_TOLERANCE = 0.05  # of the rise of the potential
GRADIENT_LINES = 3
# of these lines, in units of the start: one of them is short enough, and not too short
GRADIENT_LENGTHS = (1e-3, 1e-2, 0.1)


class Peak(NamedTuple):
    """A mode: where, how wide, how heavy."""

    point: np.ndarray
    root: PosteriorRoot
    """R with R R^T = H^-1."""
    potential: float
    is_proper: bool
    """Whether it is a minimum with positive curvature in every direction."""
    slowest: float = 1.0
    """The least curvature in units of R, where R is not a matrix; the largest is 1."""

    @property
    def log_mass(self) -> float:
        return -self.potential + self.root.log_determinant()

    def pulled(self, point: np.ndarray) -> np.ndarray:
        """A point in units of the widths."""
        return self.root.pulled(point - self.point)

    def pushed(self, u: np.ndarray) -> np.ndarray:
        return self.point + self.root.pushed(u)


class Laplace(NamedTuple):
    """The Gaussian at the heaviest mode, the other modes, and what it took."""

    layout: Layout
    peak: Peak
    others: tuple[Peak, ...]
    evaluations: float
    """Of the potential and its gradient from all data, the searches' rows in proportion."""
    products: float
    """Of the matrix of second derivatives with a vector, each about as dear as two gradients."""
    trouble: str = ""
    """Why there is no proper mode, in words."""

    @property
    def size(self) -> int:
        return self.layout.size

    @property
    def rounding(self) -> float:
        """The distance of neighbouring values of the potential, about the mode."""
        return float(jnp.finfo(self.layout.dtype).eps) * abs(self.peak.potential)

    def position(self, point: np.ndarray) -> PyTree:
        return self.layout.unravel(jnp.asarray(point, self.layout.dtype))

    def starts(self, target: Target, chains: int, widths: float, seed: int, temperature: float) -> tuple[PyTree, ...]:
        """One for each chain, at all modes in turn, by draws of Laplace's Gaussian that is `widths` times as wide.

        Closer to the mode where the potential says that the Gaussian is far off: a chain can be stuck there for long.
        """
        rng, peaks = np.random.default_rng([seed, 17]), (self.peak, *self.others)
        shifts = widths * math.sqrt(temperature) * rng.standard_normal((chains, self.size))
        return tuple(self._start(target, peaks[i % len(peaks)], shift, temperature) for i, shift in enumerate(shifts))

    def _start(self, target: Target, peak: Peak, shift: np.ndarray, temperature: float) -> PyTree:
        for _ in range(60):
            position = self.position(peak.pushed(shift))
            if target.domain is None or contains(target.domain, position):
                rise = _evaluated(target, self.layout, peak.pushed(shift))[0] - peak.potential
                if rise <= RISE_ALLOWED * float(shift @ shift) / 2 + 2 * temperature:
                    return jax.tree.map(np.asarray, position)
            shift = shift / 2
        return jax.tree.map(np.asarray, self.position(peak.point))


def laplace(target: Target, position: PyTree, seed: int = 0) -> Laplace:
    """Modes from `position` and around; InputError where there is nothing to tune for."""
    layout = Layout.of(position)
    _check_gradient(target, layout, np.asarray(layout.ravel(position), np.float64), seed)
    try:
        mode = _mode(target, position)
        peak, products = _peak(target, layout, mode)
    except TypeError as error:
        if "custom_vjp" not in str(error):
            raise
        raise InputError(
            "second derivatives of this potential cannot be taken, as it uses jax.custom_vjp, and tuning needs them: "
            "use jax.custom_jvp, or give recipe, steps and step_size yourself"
        ) from error
    trouble = _trouble(mode, peak)
    rows = target.size if isinstance(target, Posterior) else 1
    if trouble and (rows > LARGE_DATA or layout.size > LARGEST_DENSE):
        what = f"{rows:,} rows" if rows > LARGE_DATA else f"{layout.size:,} numbers"
        raise InputError(
            f"{trouble}: tuning for {what} needs a mode, and a network has none to speak of. Give init, a prior, or "
            "recipe, steps and step_size yourself"
        )
    _check_flat(target, layout, peak)
    checked = 3.0 * GRADIENT_LINES * len(GRADIENT_LENGTHS)
    found = Laplace(layout, peak, (), mode.evaluations + checked, products + mode.hessians * layout.size, trouble)
    return found if layout.size > LARGEST_DENSE else _with_others(target, found, seed)


def _mode(target: Target, position: PyTree) -> Mode:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return found_mode(target, position)


def _peak(target: Target, layout: Layout, mode: Mode) -> tuple[Peak, float]:
    """The mode with its widths, and how many products with the matrix of second derivatives that took."""
    point = np.asarray(layout.ravel(mode.unconstrained), np.float64)
    if layout.size > LARGEST_DENSE:
        root, slowest, lowest, count = low_rank_root(target, mode.unconstrained, layout)
        is_proper = bool(mode.is_converged and lowest > 0)
        return Peak(point, root, float(mode.potential), is_proper, slowest), count
    curvatures = hessian_all(target, mode.unconstrained)
    curvatures = (curvatures + curvatures.T) / 2
    if not mode.is_converged:  # at a wall, say, from which the density falls off like exp(-g q): 1/g is a width too
        slope = _evaluated(target, layout, point)[1]
        curvatures = curvatures + np.diag(np.nan_to_num(slope, posinf=0.0, neginf=0.0) ** 2)
    # scaled by its diagonal first, so that the floor is one for numbers of any unit
    diagonal = np.abs(np.diag(curvatures))
    scale = np.sqrt(np.where(diagonal > FLOOR_CURVATURE**2 * diagonal.max(), diagonal, max(diagonal.max(), 1e-300)))
    values, vectors = np.linalg.eigh(curvatures / np.outer(scale, scale))
    if not np.isfinite(values).all() or not curvatures.any():
        return Peak(point, PosteriorRoot(np.eye(layout.size)), float(mode.potential), False), float(layout.size)
    largest = max(float(np.abs(values).max()), np.finfo(float).tiny)
    is_proper = bool(mode.is_converged and values[0] > FLAT_CURVATURE[np.dtype(layout.dtype).itemsize] * largest)
    roots = np.sqrt(np.maximum(np.abs(values), FLOOR_CURVATURE * largest))
    root = PosteriorRoot((vectors / roots) / scale[:, None])
    return Peak(point, root, float(mode.potential), is_proper), float(layout.size)


def _trouble(mode: Mode, peak: Peak) -> str:
    if peak.is_proper:
        return ""
    if not mode.is_converged:
        return f"no mode was found (still {mode.distance:.2g} sds away after {mode.evaluations} evaluations)"
    return "the curvature is not positive in every direction where the potential is lowest: a prior is missing there"


def _check_flat(target: Target, layout: Layout, peak: Peak) -> None:
    """Refuse a direction along which the potential does not change at all: the law has no width there."""
    if peak.is_proper or not peak.root.is_dense:
        return
    root = peak.root.main
    widest = root[:, int(np.argmax(np.linalg.norm(root, axis=0)))]
    here = _evaluated(target, layout, peak.point)[0]
    # widths next to a pole of the density are tiny: a line is flat only where it is over the size of the position too
    reach = max(FLAT_REACH, max(1.0, float(np.linalg.norm(peak.point))) / float(np.linalg.norm(widest)))
    ends = [peak.point + t * widest for t in (-reach, reach)]
    if target.domain is not None and not all(contains(target.domain, _unravel(layout, end)) for end in ends):
        return
    rises = [_evaluated(target, layout, end)[0] - here for end in ends]
    if max(abs(rise) for rise in rises) <= 1e-3:
        worst = int(np.argmax(np.abs(widest)))
        raise InputError(
            f"the potential is flat, or falls without end, along a line (mostly number {worst} of the position), so "
            "there is no law to sample: give it a prior"
        )


def _check_gradient(target: Target, layout: Layout, point: np.ndarray, seed: int) -> None:
    """The potential's rise along a line must be the integral of its gradient (Simpson's rule)."""
    rng, worst = np.random.default_rng([seed, 3]), 0.0
    for _ in range(GRADIENT_LINES):
        unit = rng.standard_normal(layout.size)
        unit *= max(1.0, float(np.linalg.norm(point))) / np.linalg.norm(unit)
        worst = max(worst, min(_mismatch(target, layout, point, length * unit) for length in GRADIENT_LENGTHS))
    if worst > GRADIENT_TOLERANCE:
        raise InputError(
            f"the gradient of this target does not match its potential: along a line from the start they differ by "
            f"{worst:.0%} of the rise. Look at custom derivatives (jax.custom_jvp, stop_gradient), and at places where "
            "the potential is not differentiable"
        )


def _mismatch(target: Target, layout: Layout, point: np.ndarray, way: np.ndarray) -> float:
    """The share of the rise that the gradient does not explain; 0 where rounding or curvature leave it open."""
    places = [point, point + way / 2, point + way]
    if target.domain is not None and not all(contains(target.domain, _unravel(layout, place)) for place in places):
        return 0.0
    met = [_evaluated(target, layout, place) for place in places]
    if not all(np.isfinite(value) and np.isfinite(slope).all() for value, slope in met):
        return 0.0
    slopes, rise = [float(way @ slope) for _, slope in met], met[2][0] - met[0][0]
    rounding = 64 * float(jnp.finfo(layout.dtype).eps) * max(abs(value) for value, _ in met)
    curved = abs(slopes[0] - 2 * slopes[1] + slopes[2]) / 6  # beyond a parabola Simpson's rule errs by less than that
    off = abs(rise - (slopes[0] + 4 * slopes[1] + slopes[2]) / 6) - rounding - curved
    return max(0.0, off / max(abs(rise), np.abs(slopes).max(), 1e-300))


def _unravel(layout: Layout, point: np.ndarray) -> PyTree:
    return layout.unravel(jnp.asarray(point, layout.dtype))


def _evaluated(target: Target, layout: Layout, point: np.ndarray) -> tuple[float, np.ndarray]:
    """From all data."""
    position = _unravel(layout, point)
    evaluate = evaluate_all if isinstance(target, Posterior) else _evaluate_whole
    value, gradient = evaluate(target, position)  # type: ignore[arg-type]
    return float(value), np.asarray(layout.ravel(gradient), np.float64)


def _evaluate_whole(target: Target, position: PyTree) -> tuple[Any, PyTree]:
    return _evaluate_rows(target, position, None)


@sound_filter_jit
def _evaluate_rows(target: Target, position: PyTree, rows: PyTree) -> tuple[Any, PyTree]:
    return target.evaluate(position, rows)


# -- other modes ----------------------------------------------------------------------------------------


def _with_others(target: Target, found: Laplace, seed: int) -> Laplace:
    """The modes that searches from elsewhere end at, the heaviest first."""
    ends, share = _ends(target, found, seed)
    peaks, evaluations, products = [found.peak], found.evaluations + share, found.products
    for end in ends[:MOST_MODES]:
        mode = _mode(target, found.position(end))
        peak, count = _peak(target, found.layout, mode)
        evaluations += mode.evaluations
        products += count + mode.hessians * found.size
        is_new = all(_are_apart(peak, other) for other in peaks)
        if is_new and (peak.is_proper or peak.potential < found.peak.potential):
            peaks.append(peak)
    peaks = sorted(peaks, key=lambda peak: (not peak.is_proper, -peak.log_mass))
    heavy = [peak for peak in peaks[1:] if peak.log_mass > peaks[0].log_mass + math.log(LEAST_MASS)]
    trouble = "" if peaks[0].is_proper else found.trouble
    return found._replace(
        peak=peaks[0], others=tuple(heavy), evaluations=evaluations, products=products, trouble=trouble
    )


def _are_apart(one: Peak, other: Peak) -> bool:
    return all(np.abs(a.pulled(b.point)).max() > APART_WIDTHS for a, b in ((one, other), (other, one)))


def _ends(target: Target, found: Laplace, seed: int) -> tuple[list[np.ndarray], float]:
    """Where searches end that are not the mode, the lowest first; and what they cost, in passes over the data."""
    rows, share = None, 1.0
    if isinstance(target, Posterior):
        index = np.arange(target.size)
        if target.size > SEARCH_ROWS:
            index = np.sort(np.random.default_rng([seed, 5]).choice(target.size, SEARCH_ROWS, replace=False))
        rows, share = jax.tree.map(jnp.asarray, target.rows(index)), len(index) / target.size
    bare, peak, layout, count = target.without_data(), found.peak, found.layout, 0

    def evaluate(u: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal count
        count += 1
        position = found.position(peak.pushed(u))
        if target.domain is not None and not contains(target.domain, position):
            return 1e300, np.zeros_like(u)
        value, gradient = _evaluate_rows(bare, position, rows)
        slope = np.asarray(layout.ravel(gradient), np.float64)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            return 1e300, np.zeros_like(u)
        return float(value), slope @ peak.root.main

    rng, same, others = np.random.default_rng([seed, 7]), [_descended(evaluate, np.zeros(found.size))[1]], []
    for width in SEARCH_WIDTHS:
        # at right angles, so that in few dimensions no direction is far from all of them
        directions = np.linalg.qr(rng.standard_normal((found.size, min(SEARCH_PAIRS, found.size))))[0].T
        for direction in (*directions, *-directions):
            value, u = _descended(evaluate, width * math.sqrt(found.size) * direction)
            if value < 1e299 and all(np.abs(u - known).max() > APART_WIDTHS for known in same):
                same.append(u)
                others.append((value, peak.pushed(u)))
    return [point for _, point in sorted(others, key=lambda pair: pair[0])], count * share


def _descended(evaluate: Callable[[np.ndarray], tuple[float, np.ndarray]], u: np.ndarray) -> tuple[float, np.ndarray]:
    """The value and the place where a descent ends, in units in which widths are about 1.

    Steps of Barzilai and Borwein, the length that fits the curvature just met, shortened until the value falls.
    (scipy's L-BFGS took 5 ms a step in ten dimensions, as its threads waited for each other.)
    """
    value, slope = evaluate(u)
    length = 1.0 / max(1.0, float(np.linalg.norm(slope)))
    for _ in range(SEARCH_STEPS):
        size = float(slope @ slope)
        if size < SEARCH_SLOPE**2:
            break
        while length * math.sqrt(size) > SEARCH_SHORTEST:
            there, other = evaluate(u - length * slope)
            if there < value - 1e-4 * length * size:
                break
            length /= 4
        else:
            break
        change = other - slope
        bend = float(change @ -slope) * length  # step . change of the slope
        longest = SEARCH_LONGEST / max(float(np.linalg.norm(other)), 1e-300)
        u, value, slope = u - length * slope, there, other
        length = min(length**2 * size / bend if bend > 0 else 4 * length, longest)
    return value, u
