"""Stationary averages at three step sizes h, h/2, h/4, where the audit finds h for itself.

Small enough that the bias extrapolates, large enough that the chains relax in few steps. And what has not relaxed
although every coordinate seems to: a step that keeps the sign of a product is reducible.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ergodica.verify.audit.chains import BUDGET_SHARES, FORGOTTEN_BELOW, Chains, Rung, key_base, standard
from ergodica.verify.audit.features import Features
from ergodica.verify.audit.law_tests import PARABOLA_WEIGHTS, is_rough
from ergodica.verify.tails import FALSE_ALARM, each_of, threshold

UNSTABLE_CHANGE = 1.0  # change from h to h/4, relative, at which h is too large to be of use
LARGE_BIAS = 0.15  # change from h to h/4, relative, above which smaller steps are tried
SMALL_BIAS = 0.03  # below which larger ones are
FEW_STEPS = 3  # a relaxation this short needs no larger steps
MOST_HALVINGS = 24
GO_SMALLER, STAY_HERE, GO_LARGER = 1, 0, -1  # ways to go, in halvings
MOST_FOLLOWED = 6
INSISTENT_SHARE = 4  # times the share of the budget that one step size may take, where none has relaxed
ESCAPE_STEPS = 8  # steps in which chains run away: in fewer, the step is just too large
SAME_TIME = 0.8  # ratio of times that count as the same
STUCK_ABOVE = 0.25  # correlation of halves below which a feature relaxes, however long the record
SLOWER_DECAY = 1.25  # times that of an exponential decay: decays are not all of one rate
MOST_CORRELATION = 0.95


@dataclass
class Ladder:
    """All rungs that were run, by their place: step size = base / 2^place; the ladder proper are `top`, + 1, + 2."""

    chains: Chains
    features: Features
    starts: Callable[[int], np.ndarray]
    """Fresh draws (chains, dim) of the claimed law, by number."""
    base: float
    seed: int
    budget: int
    """Steps of all chains at once that may be made."""
    target_error: float
    tell: Callable[[float], None]
    """Told the share of the work that is done."""
    rungs: dict[int, Rung] = field(default_factory=dict)
    spent: int = 0
    top: int = 0

    @property
    def three(self) -> list[Rung]:
        return [self.rungs[self.top + k] for k in range(3)]

    def rung(self, place: int, budget: int | None = None) -> Rung:
        """The rung at a place, relaxed and averaged over a pilot, as far as patience with a budget goes."""
        if place not in self.rungs:
            x, number = self.starts(place), place + 1000
            states = self.chains.start(x, key_base(self.seed, 1, number))
            rung = Rung(
                self.base / 2.0**place, states, key_base(self.seed, 2, number), self.features.square,
                unwatched=self.features.triple,
            )  # fmt: skip
            self.rungs[place] = rung
            rung.relax(self.chains, self.chains.observe(x), self.budget if budget is None else budget)
            self.spent += rung.steps
            self.tell(self.spent / max(self.budget, 1))
        return self.rungs[place]

    def search(self) -> bool:
        """Finds the place of the ladder, or the best of those tried when the budget is spent; False where chains run
        away, or no three step sizes in a row give finite ones."""
        before = GO_SMALLER if self.spent else STAY_HERE
        for _ in range(MOST_HALVINGS):
            way = self._way(before)
            if self.escape is not None:
                return False
            if way != STAY_HERE and self.spent >= self.budget and self._settle_for_best():
                return True
            self.top += way
            if way == STAY_HERE or before * way < 0:
                return True
            before = way
        return self._settle_for_best()

    def _settle_for_best(self) -> bool:
        """Takes the finite three that have relaxed most, and among equals those that change least."""
        tops = [t for t in self.rungs if all(t + k in self.rungs and self.rungs[t + k].is_finite for k in range(3))]
        if not tops:
            return False

        def merit(top: int) -> tuple[int, float]:
            three = [self.rungs[top + k] for k in range(3)]
            return sum(rung.is_relaxed for rung in three), -self._change(three)

        self.top = max(tops, key=merit)
        return True

    @property
    def is_relaxed(self) -> bool:
        """Whether chains forgot their start at one step size at least."""
        return any(rung.is_settled for rung in self.rungs.values())

    @property
    def is_finite(self) -> bool:
        """Whether chains at the smallest step size tried stayed finite."""
        return self.rungs[max(self.rungs)].is_finite

    @property
    def smallest(self) -> float:
        """The smallest step size tried."""
        return self.base / 2.0 ** max(self.rungs)

    @property
    def one_sided(self) -> tuple[int, ...]:
        """Coordinates that stay on one side of the mean, at every step size at which chains are finite, and forget how
        far from it they are, at one of them at least."""
        finite = [rung for rung in self.rungs.values() if rung.is_finite]
        moving = {i for rung in finite for i in rung.one_sided}
        return tuple(sorted(moving.intersection(*(rung.stayed for rung in finite))))

    def _way(self, before: int) -> int:
        """Whether the ladder should go to smaller step sizes, to larger ones, or stay, having gone `before`."""
        three = []
        for k in range(3):
            three.append(self.rung(self.top + k))
            if not three[k].is_finite:
                return GO_SMALLER
        change = self._change(three)
        if change > UNSTABLE_CHANGE:
            return GO_SMALLER if self.spent < self.budget else STAY_HERE
        if not three[2].is_relaxed and self._is_stable(self.top - 1):
            return GO_LARGER
        if change > LARGE_BIAS or is_rough(three, self.features.scales):
            below = self.rungs.get(self.top + 3)
            is_open = self._is_affordable(three) if below is None else below.is_relaxed
            return GO_SMALLER if is_open else STAY_HERE
        if three[0].relaxation > 1.5 * three[1].relaxation:  # large steps are rejected, or swing
            return GO_SMALLER
        if before != GO_SMALLER and change < SMALL_BIAS and three[0].relaxation > FEW_STEPS:
            larger = self.rung(self.top - 1)
            if larger.is_finite and larger.relaxation < 0.8 * three[0].relaxation:
                return GO_LARGER
        return STAY_HERE

    def _is_stable(self, place: int) -> bool:
        """Whether the step sizes of a ladder from there are not too large."""
        three = [self.rung(place + k) for k in range(3)]
        return all(rung.is_finite for rung in three) and self._change(three) < UNSTABLE_CHANGE

    def _is_affordable(self, three: list[Rung]) -> bool:
        """Whether one more rung below fits what is left, at the growth of relaxation seen so far."""
        growth = (three[2].relaxation / max(three[0].relaxation, 1)) ** 0.5
        ahead = growth * three[2].steps
        return three[2].is_relaxed and ahead < (self.budget - self.spent) / 2

    def _change(self, three: list[Rung]) -> float:
        """How much variances and equipartition change from h to h/4: the mean over coordinates, or what is significant
        in one of them."""
        largest = 0.0
        for part in (self.features.square, self.features.equipartition):
            change = (three[0].means - three[2].means)[part]
            error = np.hypot(three[0].errors, three[2].errors)[part]
            alone = np.max(np.abs(change) - 4 * error)
            scale = np.mean(np.abs(three[2].means[part]))
            together = np.abs(np.mean(change)) - 3 * np.sqrt(np.mean(error**2) / len(error))
            largest = max(largest, alone / scale, together / scale)
        return float(largest)

    @property
    def escape(self) -> float | None:
        """The time at which chains that never settle run away, where three step sizes in a row agree on it.

        A step size that is too large also makes chains run away, but later and later as it is halved.
        """
        for place in sorted(self.rungs)[2:]:
            rungs = [self.rungs[place - k] for k in (2, 1, 0) if place - k in self.rungs]
            late = [(r.escape, r) for r in rungs if r.escape is not None and not r.is_settled]
            times = [time for time, r in late if time > ESCAPE_STEPS * r.step_size]
            if len(times) == 3 and all(SAME_TIME < b / a < 1 / SAME_TIME for a, b in pairwise(times)):
                return times[-1]
        return None

    def _follow(self) -> None:
        """Where chains neither settle nor stay: a few smaller step sizes, only as long as it takes them to run away."""
        last = self.three[2]
        tried = []
        while not last.is_relaxed and last.escape is not None and self.escape is None and len(tried) < MOST_FOLLOWED:
            place = max(self.rungs) + 1
            last = self.rung(place, int(4 * BUDGET_SHARES * last.escape / last.step_size))
            tried.append(place)
        if self.escape is None:
            for place in tried:
                del self.rungs[place]

    def _insist(self) -> None:
        """Where nothing has relaxed, and so nothing could be decided: the largest of the three step sizes once more,
        with more patience."""
        before = self.rungs.pop(self.top)
        again = self.rung(self.top, INSISTENT_SHARE * self.budget)
        if not again.is_settled:
            self.rungs[self.top] = before

    def climb(self) -> bool:
        """Search and measure; again, lower, where a rare excursion was not finite. False where no step size tried gives
        finite chains that stay, within the budget."""
        while self.search():
            self._follow()
            if self.escape is not None:
                return False
            if not self.is_relaxed:
                self._insist()
            if self._measure():
                return True
        return False

    def _measure(self) -> bool:
        """Spends what is left so that the error of the limit is smallest, or stops at `target_error`.

        The limit is sum_k w_k f_k; with errors a_k / sqrt(n_k) after n_k steps, n_k = |w_k| a_k (sum_j |w_j| a_j) / e²
        has the error e at the least cost.
        """
        part = self.features.equipartition
        rates = [np.max(rung.errors[part]) * np.sqrt(rung.blocks * rung.thin) for rung in self.three]
        weighted = np.abs(PARABOLA_WEIGHTS) * np.asarray(rates)
        wanted = weighted * weighted.sum() / self.target_error**2
        done = np.asarray([rung.blocks * rung.thin for rung in self.three])
        left = max(self.budget - self.spent, 0)
        more = np.maximum(wanted - done, 0)
        if more.sum() > left:
            more *= left / more.sum()
        for rung, steps in zip(self.three, more, strict=True):
            self._average(rung, int(steps))
            if not rung.is_finite:
                return False
        return True

    def _average(self, rung: Rung, steps: int) -> None:
        """In a few parts, so that progress is seen."""
        for _ in range(8):
            if steps // 8 < rung.thin:
                break
            before = rung.steps
            rung.average(self.chains, steps // 8)
            self.spent += rung.steps - before
            self.tell(self.spent / max(self.budget, 1))


class Stuck(NamedTuple):
    """Features that have not relaxed, those first that are most correlated, and by how much."""

    which: tuple[int, ...] = ()
    correlation: float = 0.0


def stuck(three: list[Rung], features: Features) -> Stuck:
    """Among coordinates, products of two and of three: those that keep something for the whole record, at the step
    sizes at which chains seemed to relax, taken together.

    Chains that keep sign(x_i x_j x_k) forget x_i, x_j and x_k, and a product at one time has little in common with
    itself later: 0.29 of its variance, for a Gaussian. Averages over time have more: over the chains, those of the
    first half of the record are correlated with those of the second, by more the longer the record is, where those of
    a feature that relaxes are by less. A feature is stuck where the correlation is larger than is `allowed`, beyond
    chance.
    """
    watched = np.r_[features.linear, features.crossed, features.triple]
    beyond, correlations, freedom = np.zeros(len(watched)), np.zeros(len(watched)), 0
    for rung in three:
        if not rung.is_settled or rung.halves is None:
            continue
        early, late = (standard(half[:, watched]) for half in rung.halves)
        found, more = np.clip((early * late).mean(0), -MOST_CORRELATION, MOST_CORRELATION), max(len(early) - 3, 1)
        # by Fisher's transform, whose error is 1/sqrt(chains - 3)
        beyond += more * (np.arctanh(found) - np.arctanh(allowed(rung)))
        correlations, freedom = correlations + more * found, freedom + more
    if not freedom:
        return Stuck()
    scores = beyond / np.sqrt(freedom)
    is_stuck = scores > threshold(each_of(FALSE_ALARM, len(watched)))
    worst = np.argsort(-scores)[: int(is_stuck.sum())]
    return Stuck(tuple(int(k) for k in watched[worst]), float(correlations[worst[0]] / freedom) if len(worst) else 0.0)


def allowed(rung: Rung) -> float:
    """The correlation of the halves of a record, for the slowest feature that counts as relaxed.

    For one that decays exponentially, with the time tau, and halves of the length x tau, it is
    (1 - e^-x)² / (2 (x - 1 + e^-x)).
    """
    length = rung.blocks * rung.thin / 2 / max(rung.relaxation, 1)
    x = -np.log(FORGOTTEN_BELOW) * length
    decays = float((1 - np.exp(-x)) ** 2 / (2 * (x - 1 + np.exp(-x))))
    return float(np.clip(SLOWER_DECAY * decays, STUCK_ABOVE, MOST_CORRELATION))
