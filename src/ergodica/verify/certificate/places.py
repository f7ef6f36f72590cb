"""Where a hand-written SDE is looked at: walkers from around one point, then at every other mode that descents find."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ergodica.errors import InputError
from ergodica.verify.certificate.descent import descend
from ergodica.verify.points import energies, walk

POINTS = 512
STEPS = 200
SCALES = (1.0, 3.0, 10.0, 30.0)  # how far out descents start: in widths of the law where it was found, and in units
HOME = 4  # a descent in four starts where the walkers ended, and says which modes those have
APART = 2.0  # widths, in one coordinate at least: so far from all known points but a FEW is another mode
FEW = 8
MOST_MODES = 24  # beside the first place; of 512 points each mode has then twenty
NEGLIGIBLE = 20.0  # log of the first place's mass over that of a mode that is not looked at
SHOWN = 4  # coordinates whose range is said


class Places(NamedTuple):
    """Points (n, dim) where exp(-H/T) lives, each mode's in turn, the width of a mode (dim,), and words on both."""

    points: np.ndarray
    width: np.ndarray
    modes: int
    words: str


def find_places(hamiltonian: Callable, dim: int, start: Any, temperature: float, seed: int) -> Places:
    """Points where exp(-H/T) lives: walkers from `start`, or from around 0, and from the modes that are elsewhere."""
    home = find_points(hamiltonian, dim, start, temperature, seed)
    search = _Search(hamiltonian, home, temperature, seed)
    around = (search.around(mode) for mode in search.modes())
    places = [home, *(found for found in around if found is not None)]
    left_out = max(0, len(places) - 1 - MOST_MODES)
    places = places[: 1 + MOST_MODES]
    # in turn: halves of the points, and the first few, have some of each
    points = np.stack([place[: -(-len(home) // len(places))] for place in places], axis=1).reshape(-1, dim)[: len(home)]
    width = np.sqrt(np.mean([place.var(axis=0) for place in places], axis=0))
    return Places(points, width, len(places), _in_words(points, len(places), search, left_out))


def find_points(hamiltonian: Callable, dim: int, start: Any, temperature: float, seed: int) -> np.ndarray:
    """Points (n, dim) where exp(-H/T) lives: walkers from `start`, or from around 0."""
    n = POINTS if dim <= 10 else POINTS // 4 + 3 * dim
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
    places, value = walk(hamiltonian, np.resize(starts[is_fine], (n, dim)), seed, STEPS, temperature)
    is_late = value > np.median(value) + 10 + 2 * dim  # has not yet come to where the law lives
    return np.resize(places[~is_late], (n, dim))


def _checked_start(start: Any, dim: int) -> np.ndarray:
    try:
        first = np.asarray(start, np.float64)
    except (TypeError, ValueError):
        first = np.full(0, np.nan)
    if first.shape != (dim,) or not np.all(np.isfinite(first)):
        raise InputError(f"start = {start!r}: expected {dim} finite numbers, one point to start from")
    return first


class _Search:
    """Other modes than those that the walkers found."""

    def __init__(self, hamiltonian: Callable, home: np.ndarray, temperature: float, seed: int):
        self.hamiltonian, self.home, self.temperature, self.seed = hamiltonian, home, temperature, seed
        spans = home.std(axis=0)
        self.spans = np.where(spans > 0, spans, 1e-3 * (1 + np.abs(home).max(axis=0)))
        self.starts = self._starts()
        self.mass = self._mass(home)

    def _starts(self) -> np.ndarray:
        """Around the centre on a ladder of scales: of the law's own width, and of at least one unit."""
        n, dim = self.home.shape
        count = n * (HOME - 1) // HOME
        noise = np.random.default_rng([self.seed, 7]).standard_normal((count, dim))
        scales = np.resize(SCALES, count)[:, None]
        is_own = (np.arange(count) // len(SCALES) % 2 == 0)[:, None]
        wide = np.where(is_own, self.spans, np.maximum(self.spans, 1.0))
        starts = np.median(self.home, axis=0) + scales * wide * noise
        value, slope = energies(self.hamiltonian, self.temperature, np.resize(starts, (n, dim)))
        is_fine = np.isfinite(value[:count]) & np.all(np.isfinite(slope[:count]), axis=1)
        return starts[is_fine]

    def modes(self) -> list[np.ndarray]:
        """Where descents from far came to rest, away from the walkers and from each other, the lowest first."""
        n = len(self.home)
        known = self.home[: max(n // HOME, 1)][: max(len(self.starts), 1)]
        ends = descend(self.hamiltonian, self.temperature, np.concatenate([known, self.starts]), self.spans, n)
        seen = np.concatenate([self.home, ends.points[: len(known)]])
        far = np.flatnonzero(ends.is_settled[len(known) :]) + len(known)
        found: list[np.ndarray] = []
        for row in far[np.argsort(ends.energy[far], kind="stable")]:
            point = ends.points[row]
            near = np.max(np.abs(seen - point) / self.spans, axis=1) <= APART
            if np.count_nonzero(near) < FEW:
                found.append(point)
                seen = np.concatenate([seen, np.tile(point, (FEW, 1))])
        return found

    def around(self, mode: np.ndarray) -> np.ndarray | None:
        """Walkers from there; None for a mode without mass, to which a look is not worth its rounding."""
        starts = np.tile(mode, (len(self.home), 1))
        points, _ = walk(self.hamiltonian, starts, self.seed, STEPS, self.temperature)
        return points if self._mass(points) > self.mass - NEGLIGIBLE else None

    def _mass(self, points: np.ndarray) -> float:
        """log of exp(-H/T) times the volume that the points take up."""
        value, _ = energies(self.hamiltonian, self.temperature, points)
        with np.errstate(divide="ignore"):
            return float(np.sum(np.log(points.std(axis=0))) - np.median(value))


def _in_words(points: np.ndarray, places: int, search: _Search, left_out: int) -> str:
    """What was looked at, and that the rest was not."""
    low, high = points.min(axis=0), points.max(axis=0)
    ranges = [f"z[{i}] from {a:.3g} to {b:.3g}" for i, (a, b) in enumerate(zip(low, high, strict=True))]
    where = ", ".join(ranges[:SHOWN]) + (", ..." if len(ranges) > SHOWN else "")
    reach = np.max(np.abs(search.starts - np.median(search.home, axis=0)), initial=0.0)
    how = f"{len(search.starts)} descents of H from up to {reach:.2g} away"
    found = f"found {places - 1} more to look at" if places > 1 else "led to no other that has mass"
    modes = f"{places} modes" if places > 1 else "one mode"
    if left_out:
        found += f" ({left_out} MORE WERE FOUND AND NOT LOOKED AT)"
    return f"The points lie at {modes}, {where}; {how} {found}. A mode that they missed was not looked at."
