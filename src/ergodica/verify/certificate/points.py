"""Points where a law lives, to look at a sampler there: walkers, and every other mode that descents find.

A certificate's checks hold at every point or at none, so the points need not be exact draws; they must not be special
(symmetric, at the mode, on one side), and they must be where the density is. The loops are outside of what is compiled:
a compiled one, with random numbers in it, takes a second to compile, the energy and its gradient a tenth of that.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.compiling import quick_filter_jit
from ergodica.errors import InputError

# Walkers: short chains of the Metropolis-adjusted Langevin algorithm.
TARGET_ACCEPTANCE = 0.6
SHORT_EVERY = 4  # a step in four is ten times shorter: a walker that starts where the slope is steep is stuck without
POINT_COUNT = 512
WALK_STEPS = 200

# Descents: L-BFGS, with steps that are cut until H falls, all in lockstep.
DESCENT_STEPS = 120
PAIRS_KEPT = 6  # of steps and changes of slope that are remembered
REST_WINDOW = 12  # the last steps, in which a descent that has come to rest has gained no more than REST_GAIN
REST_GAIN = 1e-3  # of H / T
ENOUGH_FALL = 1e-4  # of the fall that the slope promises, for a step to be taken
SHORTER_BY = 0.25
MOST_TRIES = 8  # of a step, each shorter, before the curvature met so far is forgotten
LONGEST_STEP = 100.0  # in spans

# Modes: where descents from far away come to rest.
START_SCALES = (1.0, 3.0, 10.0, 30.0)  # how far out they start: in widths of the law where it was found, and in units
HOME_SHARE = 4  # a descent in four starts where the walkers ended, and says which modes those have
MODES_APART = 2.0  # widths, in one coordinate at least: so far from all known points but NEAR_POINTS is another mode
NEAR_POINTS = 8
MOST_MODES = 24  # beside the first; of 512 points each mode has then twenty
NEGLIGIBLE_MASS = 20.0  # log of the first mode's mass over that of one that is not looked at
RANGES_SHOWN = 4  # coordinates whose range is said


@quick_filter_jit
def _energy(hamiltonian: Callable, temperature: Array, points: Array) -> tuple[Array, Array]:
    return jax.vmap(jax.value_and_grad(lambda z: hamiltonian(z) / temperature))(points)


def energies(hamiltonian: Callable, temperature: float, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """H / T and its gradient at points (n, dim)."""
    value, slope = _energy(hamiltonian, jnp.asarray(temperature), jnp.asarray(points))
    return np.asarray(value), np.asarray(slope)


def walk(
    hamiltonian: Callable, starts: np.ndarray, seed: int, steps: int, temperature: float
) -> tuple[np.ndarray, np.ndarray]:
    """Where walkers (n, dim) are after so many steps towards exp(-H/T), and their H / T.

    A proposal where H is not finite is refused, which also keeps walkers inside a domain.
    """
    rng = np.random.default_rng(seed)
    place, log_step = starts, -np.log(starts.shape[1]) / 6
    value, slope = energies(hamiltonian, temperature, place)
    for i in range(steps):
        is_short = i % SHORT_EVERY == SHORT_EVERY - 1
        step = np.exp(log_step) * (0.1 if is_short else 1.0)
        noise, level = rng.standard_normal(place.shape), rng.uniform(size=len(place))
        moved = place - step**2 / 2 * slope + step * noise
        moved_value, moved_slope = energies(hamiltonian, temperature, moved)
        with np.errstate(all="ignore"):
            back = (place - moved + step**2 / 2 * moved_slope) / step
            log_ratio = value - moved_value + np.sum(noise**2 - back**2, axis=-1) / 2
            chance = np.where(np.isfinite(log_ratio), np.exp(np.minimum(log_ratio, 0.0)), 0.0)
        is_taken = level < chance
        place = np.where(is_taken[:, None], moved, place)
        slope = np.where(is_taken[:, None], moved_slope, slope)
        value = np.where(is_taken, moved_value, value)
        if not is_short:
            log_step += 2.0 / np.sqrt(1.0 + i) * (chance.mean() - TARGET_ACCEPTANCE)
    return place, value


class DescentEnds(NamedTuple):
    """Where descents ended (n, dim), H / T there, and whether they had come to rest."""

    points: np.ndarray
    energy: np.ndarray
    is_settled: np.ndarray


def descend(hamiltonian: Callable, temperature: float, starts: np.ndarray, spans: np.ndarray, rows: int) -> DescentEnds:
    """Descents of H / T from starts (n, dim), n at most `rows`, the number of points that is compiled for.

    Args:
        spans: of the law, by coordinate: their squares are the first guess of the inverse Hessian.
    """
    n, dim = starts.shape

    def evaluate(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = energies(hamiltonian, temperature, np.resize(points, (rows, dim)))
        return value[:n], slope[:n]

    curvature, place, length, tries = _Curvature(n, spans), starts, np.ones(n), np.zeros(n, int)
    value, slope = evaluate(place)
    history = [value]
    with np.errstate(all="ignore"):
        for _ in range(DESCENT_STEPS):
            step = -curvature.solve(slope)
            step *= (length * np.minimum(1.0, LONGEST_STEP / np.max(np.abs(step) / spans, axis=1)))[:, None]
            promised = np.sum(step * slope, axis=1)
            moved_value, moved_slope = evaluate(place + step)
            is_taken = (moved_value <= value + ENOUGH_FALL * promised) & np.all(np.isfinite(moved_slope), axis=1)
            curvature.add(step, moved_slope - slope, is_taken)
            place = np.where(is_taken[:, None], place + step, place)
            slope = np.where(is_taken[:, None], moved_slope, slope)
            value, tries = np.where(is_taken, moved_value, value), np.where(is_taken, 0, tries + 1)
            curvature.forget(tries == MOST_TRIES)
            length = np.where(is_taken, 1.0, length * SHORTER_BY)
            history.append(value)
            if len(history) > REST_WINDOW and not np.any(history[-1 - REST_WINDOW] - value > REST_GAIN):
                break
    is_settled = np.isfinite(value) & (history[-min(1 + REST_WINDOW, len(history))] - value <= REST_GAIN)
    return DescentEnds(place, value, is_settled)


class _Curvature:
    """The inverse Hessian of each descent, from its last steps and what they changed of the slope."""

    def __init__(self, n: int, spans: np.ndarray):
        self.squares = spans**2
        self.steps, self.changes = np.zeros((2, PAIRS_KEPT, n, len(spans)))  # the newest first
        self.weights = np.zeros((PAIRS_KEPT, n))  # 1 / (step . change); 0 where there is no pair
        self.scale = np.ones(n)

    def add(self, step: np.ndarray, change: np.ndarray, is_taken: np.ndarray) -> None:
        """A pair, where the step was taken and H curves upwards along it."""
        product = np.sum(step * change, axis=1)
        is_good = is_taken & (product > 1e-12 * np.linalg.norm(step, axis=1) * np.linalg.norm(change, axis=1))
        for kept, new in ((self.steps, step), (self.changes, change), (self.weights, 1 / product)):
            kept[1:, is_good] = kept[:-1, is_good].copy()
            kept[0, is_good] = new[is_good]
        self.scale = np.where(is_good, product / np.sum(self.squares * change**2, axis=1), self.scale)

    def forget(self, rows: np.ndarray) -> None:
        self.weights[:, rows] = 0.0

    def solve(self, slope: np.ndarray) -> np.ndarray:
        """The inverse Hessian times the slope, by the recursion of Nocedal (1980)."""
        pairs = list(zip(self.steps, self.changes, self.weights, strict=True))
        shares = []
        for step, change, weight in pairs:
            shares.append(weight * np.sum(step * slope, axis=1))
            slope = slope - shares[-1][:, None] * change
        slope = self.scale[:, None] * self.squares * slope
        for (step, change, weight), share in zip(reversed(pairs), reversed(shares), strict=True):
            slope = slope + (share - weight * np.sum(change * slope, axis=1))[:, None] * step
        return slope


class Points(NamedTuple):
    """Points (n, dim) where exp(-H/T) lives, each mode's in turn, the width of a mode (dim,), and words on both."""

    places: np.ndarray
    width: np.ndarray
    modes: int
    words: str


def find_points(
    hamiltonian: Callable, dim: int, start: Sequence[float] | None, temperature: float, seed: int
) -> Points:
    """Points where exp(-H/T) lives: walkers from `start`, or from around 0, and from the modes that are elsewhere."""
    home = _home(hamiltonian, dim, start, temperature, seed)
    search = _OtherModes(hamiltonian, home, temperature, seed)
    around = (search.around(mode) for mode in search.modes())
    places = [home, *(found for found in around if found is not None)]
    left_out = max(0, len(places) - 1 - MOST_MODES)
    places = places[: 1 + MOST_MODES]
    # in turn: halves of the points, and the first few, have some of each
    points = np.stack([place[: -(-len(home) // len(places))] for place in places], axis=1).reshape(-1, dim)[: len(home)]
    width = np.sqrt(np.mean([place.var(axis=0) for place in places], axis=0))
    return Points(points, width, len(places), search.in_words(points, len(places), left_out))


def _home(hamiltonian: Callable, dim: int, start: Sequence[float] | None, temperature: float, seed: int) -> np.ndarray:
    """Where walkers (n, dim) from `start`, or from around 0, have come to."""
    n = POINT_COUNT if dim <= 10 else POINT_COUNT // 4 + 3 * dim
    if start is None:
        starts = np.random.default_rng([seed, 1]).standard_normal((n, dim))
        where = "around 0: give start=, a point where it is"
    else:
        starts = np.tile(_checked_start(start, dim), (n, 1))
        where = "at start: give one where it is"
    value, slope = energies(hamiltonian, temperature, starts)
    is_fine = np.isfinite(value) & np.all(np.isfinite(slope), axis=-1)
    if not np.any(is_fine):
        raise InputError(f"hamiltonian, or its gradient, is not finite {where}")
    places, value = walk(hamiltonian, np.resize(starts[is_fine], (n, dim)), seed, WALK_STEPS, temperature)
    is_late = value > np.median(value) + 10 + 2 * dim  # has not yet come to where the law lives
    return np.resize(places[~is_late], (n, dim))


def _checked_start(start: Sequence[float], dim: int) -> np.ndarray:
    try:
        first = np.asarray(start, np.float64)
    except (TypeError, ValueError):
        first = np.full(0, np.nan)
    if first.shape != (dim,) or not np.all(np.isfinite(first)):
        raise InputError(f"start = {start!r}: expected {dim} finite numbers, one point to start from")
    return first


class _OtherModes:
    """Other modes than those that the walkers found."""

    def __init__(self, hamiltonian: Callable, home: np.ndarray, temperature: float, seed: int):
        self.hamiltonian, self.home, self.temperature, self.seed = hamiltonian, home, temperature, seed
        spans = home.std(axis=0)
        self.spans = np.where(spans > 0, spans, 1e-3 * (1 + np.abs(home).max(axis=0)))
        self.centre = np.median(home, axis=0)
        self.starts = self._starts()
        self.mass = self._mass(home)

    def _starts(self) -> np.ndarray:
        """Around the centre on a ladder of scales: of the law's own width, and of at least one unit."""
        n, dim = self.home.shape
        count = n * (HOME_SHARE - 1) // HOME_SHARE
        noise = np.random.default_rng([self.seed, 7]).standard_normal((count, dim))
        scales = np.resize(START_SCALES, count)[:, None]
        is_own = (np.arange(count) // len(START_SCALES) % 2 == 0)[:, None]
        wide = np.where(is_own, self.spans, np.maximum(self.spans, 1.0))
        starts = self.centre + scales * wide * noise
        value, slope = energies(self.hamiltonian, self.temperature, np.resize(starts, (n, dim)))
        is_fine = np.isfinite(value[:count]) & np.all(np.isfinite(slope[:count]), axis=1)
        return starts[is_fine]

    def modes(self) -> list[np.ndarray]:
        """Where descents from far came to rest, away from the walkers and from each other, the lowest first."""
        n = len(self.home)
        known = self.home[: max(n // HOME_SHARE, 1)][: max(len(self.starts), 1)]
        ends = descend(self.hamiltonian, self.temperature, np.concatenate([known, self.starts]), self.spans, n)
        seen = np.concatenate([self.home, ends.points[: len(known)]])
        far = np.flatnonzero(ends.is_settled[len(known) :]) + len(known)
        found: list[np.ndarray] = []
        for row in far[np.argsort(ends.energy[far], kind="stable")]:
            point = ends.points[row]
            near = np.max(np.abs(seen - point) / self.spans, axis=1) <= MODES_APART
            if np.count_nonzero(near) < NEAR_POINTS:
                found.append(point)
                seen = np.concatenate([seen, np.tile(point, (NEAR_POINTS, 1))])
        return found

    def around(self, mode: np.ndarray) -> np.ndarray | None:
        """Walkers from there; None for a mode without mass, to which a look is not worth its rounding."""
        starts = np.tile(mode, (len(self.home), 1))
        points, _ = walk(self.hamiltonian, starts, self.seed, WALK_STEPS, self.temperature)
        return points if self._mass(points) > self.mass - NEGLIGIBLE_MASS else None

    def _mass(self, points: np.ndarray) -> float:
        """log of exp(-H/T) times the volume that the points take up."""
        value, _ = energies(self.hamiltonian, self.temperature, points)
        with np.errstate(divide="ignore"):
            return float(np.sum(np.log(points.std(axis=0))) - np.median(value))

    def in_words(self, points: np.ndarray, modes: int, left_out: int) -> str:
        """What was looked at, and that the rest was not."""
        low, high = points.min(axis=0), points.max(axis=0)
        ranges = [f"z[{i}] from {a:.3g} to {b:.3g}" for i, (a, b) in enumerate(zip(low, high, strict=True))]
        where = ", ".join(ranges[:RANGES_SHOWN]) + (", ..." if len(ranges) > RANGES_SHOWN else "")
        reach = np.max(np.abs(self.starts - self.centre), initial=0.0)
        how = f"{len(self.starts)} descents of H from up to {reach:.2g} away"
        found = f"found {modes - 1} more to look at" if modes > 1 else "led to no other that has mass"
        if left_out:
            found += f" ({left_out} MORE WERE FOUND AND NOT LOOKED AT)"
        count = f"{modes} modes" if modes > 1 else "one mode"
        return f"The points lie at {count}, {where}; {how} {found}. A mode that they missed was not looked at."
