"""Chains at one step size: started from draws of the claimed law, run until they have forgotten them, then averaged."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

FORGOTTEN = 0.35  # correlation with the start below which a feature counts as forgotten
CHANGED = 4.5  # standard errors from n to 2n steps at which a mean has not settled
FAR = 3.0  # deviations
GROWTH = 1.4  # of the mean square in each of the last two doublings of steps, by which chains run away
BURN_IN = 5  # relaxations before averaging: what is left of a wrong start is under 0.35^5 = 0.5 %
LEAST_BURN_IN = 2  # where five would take more than PATIENCE
PILOT = 8  # relaxations of the first averages, from which the rest is planned
RUNAWAY = 1e4  # times the claimed variance: chains that go there are as good as non-finite
ESCAPED = 3.0  # times the claimed variance
PATIENCE = 8  # the share of the budget that one phase of one step size may take is one in so many
PER_RELAXATION = 4  # observations


@dataclass
class Rung:
    """The chains at one step size."""

    step_size: float
    states: Any
    word: np.ndarray
    square: slice
    """Where in the features the squares of the position are."""
    steps: int = 0
    relaxation: int = 0
    """Steps after which every feature has forgotten its start; those made, if some have not."""
    is_relaxed: bool = True
    is_finite: bool = True
    blocks: int = 0
    total: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """Sums of features over blocks, one row per chain."""
    parts: list[tuple[int, np.ndarray]] = field(default_factory=list)
    """The blocks and sums that `blocks` and `total` are made of, in the order of time."""
    squares: list[tuple[int, float]] = field(default_factory=list)
    """Steps made, doubling, and the largest mean square of a coordinate then, in units of the claimed variance."""
    slow: tuple[int, ...] = ()
    """Features that have not forgotten their start."""
    unwatched: slice = field(default_factory=lambda: slice(0, 0))
    """Features that need not have: products that forget before their factors do, or are found by `stuck`."""
    stayed: tuple[int, ...] = ()
    """Coordinates that were never seen to change sides of the mean, in any chain."""
    one_sided: tuple[int, ...] = ()
    """Coordinates that forget how far from the mean they are, twice in a row, and not on which side, in any chain."""

    @property
    def is_settled(self) -> bool:
        return self.is_finite and self.is_relaxed

    @property
    def thin(self) -> int:
        return max(self.relaxation // PER_RELAXATION, 1)

    @property
    def means(self) -> np.ndarray:
        return self.averages.mean(0)

    @property
    def errors(self) -> np.ndarray:
        """Standard errors of the means over chains, which are independent."""
        return self.averages.std(0, ddof=1) / np.sqrt(len(self.total))

    @property
    def averages(self) -> np.ndarray:
        return self.total / self.blocks

    @property
    def escape(self) -> float | None:
        """The time at which the mean square passes ESCAPED, by its logarithm; None if it never does, or comes back."""
        last = [square for _, square in self.squares[-3:]]
        if not all(b > GROWTH * a or not np.isfinite(b) for a, b in pairwise(last)):
            return None
        before = (0, 1.0)
        for steps, square in self.squares:
            if not square < ESCAPED:
                share = np.log(ESCAPED / before[1]) / np.log(square / before[1]) if np.isfinite(square) else 1.0
                return self.step_size * (before[0] + float(share) * (steps - before[0]))
            before = (steps, max(square, 0.1))
        return None

    @property
    def halves(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Averages over the first and the second half of the time; None where it was not divided."""
        if len(self.parts) < 2:
            return None
        made = np.cumsum([blocks for blocks, _ in self.parts])
        cut = int(np.argmin(np.abs(made[:-1] - made[-1] / 2))) + 1
        early = np.sum([sums for _, sums in self.parts[:cut]], axis=0)
        return early / made[cut - 1], (self.total - early) / (made[-1] - made[cut - 1])

    def advance(self, chains: Any, blocks: int, thin: int) -> np.ndarray:
        """blocks * thin more steps; features summed over blocks."""
        self.states, sums = chains.run(self.states, self.word, self.steps, self.step_size, blocks, thin)
        self.steps += blocks * thin
        is_finite = np.isfinite(sums).all() and self._largest(sums) < RUNAWAY * blocks
        self.is_finite = self.is_finite and bool(is_finite)
        return sums

    def _largest(self, observed: np.ndarray) -> float:
        return float(observed[:, self.square].mean(0).max())

    def relax(self, chains: Any, at_start: np.ndarray, budget: int) -> None:
        """Doubles the number of steps until chains at 2n steps have forgotten where they were at n, and have the same
        means; or patience ends.

        n and 2n, not 0 and n: the start may be much narrower or wider than what the chains sample. Means as well:
        chains that forget where they were may still share a slow change, as of a thermostat.
        """
        before, forgot_before = at_start, 0
        linear = slice(0, self.square.start)
        has_stayed, size_forgotten = np.ones(self.square.start, bool), np.zeros(self.square.start, int)
        # correlations of unrelated numbers over few chains are large themselves
        bound = max(FORGOTTEN, 3.5 / np.sqrt(len(at_start)))
        while True:
            made = max(self.steps, 1)
            now = self.advance(chains, 1, made)
            self.squares.append((self.steps, self._largest(now)))
            if not self.is_finite:
                return
            is_slow = np.abs((standard(before) * standard(now)).mean(0)) > bound
            is_slow |= _score(now - before) > CHANGED
            # all coordinates together show what each alone does not; told as the energy
            is_slow[-1] |= _score((now - before)[:, self.square].mean(1)) > CHANGED
            is_slow[self.unwatched] = False
            has_stayed &= (np.sign(now[:, linear]) == np.sign(before[:, linear])).all(0)
            self.stayed = tuple(int(i) for i in np.flatnonzero(has_stayed))
            size_forgotten = np.where(is_slow[self.square], 0, size_forgotten + 1)
            self.one_sided = tuple(int(i) for i in np.flatnonzero(has_stayed & (size_forgotten > 1)))
            self.slow = tuple(int(k) for k in np.flatnonzero(is_slow))
            # twice in a row: a correlation that swings passes through zero
            if not self.slow and forgot_before:
                self.relaxation = forgot_before
                break
            forgot_before = 0 if self.slow else made
            if PATIENCE * 2 * self.steps > budget:
                self.relaxation, self.is_relaxed = made, not self.slow
                break
            before = now
        if self.is_relaxed:
            wanted = max(min(BURN_IN * self.relaxation, budget // PATIENCE), LEAST_BURN_IN * self.relaxation)
            self.advance(chains, 1, max(wanted - self.steps, 1))
        if self.is_finite:
            self.average(chains, max(min(PILOT * self.relaxation, budget // (2 * PATIENCE)), self.relaxation))

    def average(self, chains: Any, steps: int) -> None:
        """At least so many more steps, added to the averages; in two parts at first, which can be compared."""
        count = 1 if self.parts else 2
        for _ in range(count):
            blocks = max(-(-steps // (count * self.thin)), 1)
            sums = self.advance(chains, blocks, self.thin)
            self.parts.append((blocks, sums))
            self.total = sums if self.blocks == 0 else self.total + sums
            self.blocks += blocks


def _score(change: np.ndarray) -> np.ndarray:
    """A mean over chains in standard errors."""
    return np.abs(change.mean(0)) / np.maximum(change.std(0, ddof=1) / np.sqrt(len(change)), 1e-300)


def standard(x: np.ndarray) -> np.ndarray:
    """Mean 0 and deviation 1, far values held down: a few of them would make unrelated numbers look correlated."""
    return _scaled(np.clip(_scaled(x), -FAR, FAR))


def _scaled(x: np.ndarray) -> np.ndarray:
    spread = x.std(0)
    return (x - x.mean(0)) / np.where(spread > 0, spread, 1)
