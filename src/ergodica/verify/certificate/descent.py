"""Where H is lowest, from many starts at once: L-BFGS, with steps that are cut until H falls, all in lockstep."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ergodica.verify.points import energies

STEPS = 120
PAIRS = 6  # of steps and changes of slope that are remembered
WINDOW = 12  # the last steps, in which a descent that has come to rest has gained no more than SETTLED
SETTLED = 1e-3  # of H / T
ENOUGH = 1e-4  # of the fall that the slope promises, for a step to be taken
SHORTER = 0.25
TRIES = 8  # of a step, each shorter, before the curvature met so far is forgotten
LONGEST = 100.0  # a step, in spans


class Ends(NamedTuple):
    """Where descents ended (n, dim), H / T there, and whether they had come to rest."""

    points: np.ndarray
    energy: np.ndarray
    is_settled: np.ndarray


def descend(hamiltonian: Callable, temperature: float, starts: np.ndarray, spans: np.ndarray, rows: int) -> Ends:
    """Descents of H / T from starts (n, dim), n at most `rows`, the number of points that is compiled for.

    Args:
        spans: of the law, by coordinate: their squares are the first guess of the inverse Hessian.
    """
    n, dim = starts.shape

    def evaluate(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = energies(hamiltonian, temperature, np.resize(points, (rows, dim)))
        return value[:n], slope[:n]

    memory, place, length, tries = _Curvature(n, spans), starts, np.ones(n), np.zeros(n, int)
    value, slope = evaluate(place)
    history = [value]
    with np.errstate(all="ignore"):
        for _ in range(STEPS):
            step = -memory.solve(slope)
            step *= (length * np.minimum(1.0, LONGEST / np.max(np.abs(step) / spans, axis=1)))[:, None]
            promised = np.sum(step * slope, axis=1)
            moved_value, moved_slope = evaluate(place + step)
            is_taken = (moved_value <= value + ENOUGH * promised) & np.all(np.isfinite(moved_slope), axis=1)
            memory.add(step, moved_slope - slope, is_taken)
            place, slope = (
                np.where(is_taken[:, None], new, old) for new, old in ((place + step, place), (moved_slope, slope))
            )
            value, tries = np.where(is_taken, moved_value, value), np.where(is_taken, 0, tries + 1)
            is_stuck = tries == TRIES
            memory.forget(is_stuck)
            length = np.where(is_taken, 1.0, length * SHORTER)
            history.append(value)
            if len(history) > WINDOW and not np.any(history[-1 - WINDOW] - value > SETTLED):
                break
    is_settled = np.isfinite(value) & (history[-min(1 + WINDOW, len(history))] - value <= SETTLED)
    return Ends(place, value, is_settled)


class _Curvature:
    """The inverse Hessian of each descent, from its last steps and what they changed of the slope."""

    def __init__(self, n: int, spans: np.ndarray):
        self.squares = spans**2
        self.steps, self.changes = np.zeros((2, PAIRS, n, len(spans)))  # the newest first
        self.weights = np.zeros((PAIRS, n))  # 1 / (step . change); 0 where there is no pair
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
