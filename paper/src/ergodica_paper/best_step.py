"""The best step size: the fastest one whose chains stay finite and near enough to the law.

A grid that is the same for all comes first, extended where the best step lies at its end; then a finer one between the
neighbours of the best; then fresh chains, many more of them, at the best steps in turn until one is confirmed. Trials
have few chains, so that times and biases are read off smooth curves through the trials around.

An explicit step on a potential that grows fast can lose a chain at any step size, and does so the more often the larger
the step is and the more chains there are. So the rule: a step is out where any chain became non-finite, at it or
at a smaller one; and `BestStep.next_larger` tells how many did so at the first step that is larger than the best.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from ergodica_paper.verdict import SURE

BOUND = 0.1  # largest bias of a mean, in sds of the function: the Monte Carlo error of 100 independent draws
EXTENSIONS = 2  # of the grid, at most, each by as many steps again
FINEST = 0.02  # standard error of a log time from its step being one of a grid, that the finer grid is made for
REFINEMENTS = 3  # at most: a second one where the best step lies at an end of the first
AROUND, ENOUGH = 2.05, 5  # a curve goes through the trials within this factor of a step, if there are so many
FAR = 3  # times the bound: beyond it, trials are no guide to the others
WARMUP = 0.1  # of a chain: it starts from the exact law, and that of its steps is near
RULE = (
    f"Each has its fastest step of one grid, refined around the best, where no mean is off by more than {BOUND:g} sds "
    "and no fresh chain is lost"
)


class Tried(Protocol):
    """What chains gave at one step size."""

    @property
    def step_size(self) -> float: ...
    @property
    def bias(self) -> float:
        """The largest of some means, in sds."""
        ...

    @property
    def bias_error(self) -> float: ...
    @property
    def time(self) -> float:
        """Gradient evaluations for what is wanted: less is better; infinite where it was never met."""
        ...

    @property
    def time_error(self) -> float: ...
    @property
    def lost(self) -> int:
        """Chains that became non-finite, of all `chains`."""
        ...

    @property
    def chains(self) -> int: ...


S = TypeVar("S")  # what has a best step: a sampler, a choice
T = TypeVar("T", bound=Tried)
# Runs chains of each (subject, step size) and tells what they gave, in this order.
Attempt = Callable[[Sequence[tuple[S, float]]], Sequence[T]]


class _Ranked(NamedTuple):
    """A step that may be within the bound, and its time by the trials around."""

    step_size: float
    time: float


@dataclass(frozen=True)
class BestStep(Generic[T]):
    """What came of a search.

    Args:
        best: fresh chains at the best step; None where no step was confirmed.
        expected: the time at it by the trials that chose it, which are other chains.
        refused: fresh chains that were lost, or were beyond the bound.
        grid_error: standard error of the logarithm of the best step from the grid.
    """

    best: T | None
    expected: float
    tried: Sequence[T]
    refused: Sequence[T]
    grid_error: float

    @property
    def lost(self) -> int:
        return sum(t.lost for t in (*self.tried, *self.refused))

    @property
    def has_none(self) -> bool:
        """Whether it is shown that no step will do: each one tried is beyond the bound by more than chance, or lost
        chains at it or at a smaller one. That none was confirmed shows nothing: figures may be too uncertain."""
        made = (*self.tried, *self.refused)
        lost = min((t.step_size for t in made if t.lost), default=math.inf)
        out = {t.step_size for t in made if is_out(t)}
        return self.best is None and all(t.step_size in out or t.step_size > lost for t in made)

    @property
    def next_larger(self) -> T | None:
        """The first step tried that is larger than the best, by its fresh chains where there are any."""
        if self.best is None:
            return None
        larger = [t for t in (*self.refused, *self.tried) if t.step_size > self.best.step_size * 1.001]
        return min(larger, key=lambda t: (round(math.log(t.step_size), 6), -t.chains), default=None)

    @property
    def step_error(self) -> float:
        """Standard error of the logarithm of the best step: from the grid, and from the bias where that is the limit.

        A bias grows at least in proportion to the step, so that the step at the bound is known as well as the bias.
        """
        limit = self.next_larger
        if self.best is None or limit is None or limit.lost or abs(limit.bias) <= BOUND:
            return self.grid_error
        return math.hypot(self.grid_error, self.best.bias_error / BOUND)

    @property
    def slope(self) -> float:
        """-d log(time) / d log(step) around the best step, from a line through the trials there; at least 1.

        So many times the error of the step is that of a time. It is about 1, but for a time that falls faster.
        """
        if self.best is None:
            return 1.0
        near = [t for t in _near(self.best, _known(self.tried)) if math.isfinite(t.time)]
        if len(near) < ENOUGH:
            return 1.0
        x, y = np.log([(t.step_size, t.time) for t in near]).T
        return max(1.0, -float(np.polyfit(x, y, 1, w=[t.time / t.time_error for t in near])[0]))


class NoStep(NamedTuple):
    """Instead of the figures at a best step.

    Args:
        is_shown: that no step will do, as `BestStep.has_none` has it; else it is open.
    """

    is_shown: bool


def seeds(seed: int, salt: int) -> Iterator[int]:
    """One for each call of chains; items of different salt share none."""
    rng = np.random.default_rng([seed, salt])
    while True:
        yield int(rng.integers(2**32))


def warmup(length: int) -> int:
    """Steps at the beginning of a chain that are not counted."""
    return round(WARMUP * length)


def grid(smallest: float, largest: float, count: int) -> tuple[float, ...]:
    """This many step sizes in equal ratios; the largest is left out."""
    return tuple(float(x) for x in np.geomspace(smallest, largest, count, endpoint=False))


def grid_error(steps: Sequence[float]) -> float:
    """Standard error of the logarithm of a figure at the best step of the finer grid, instead of the best step of all.

    A time is about proportional to 1 / step (else see `BestStep.slope`), and where the best step lies between two of a
    grid is left to chance.

    >>> round(grid_error([0.1, 0.1 * 2**0.5]), 3)
    0.02
    """
    return _spacing(steps) / _parts(steps) / math.sqrt(12)


def search_settings(length: int) -> dict[str, Any]:
    """What a report says of a search for the best step, of chains of this many steps."""
    return {
        "error of a log time from the finer grid, at most": FINEST,
        "steps of a chain": length,
        "share of a chain that is not counted": WARMUP,
        "bound on the bias, sds": BOUND,
        "standard errors that count": SURE,
    }


def search(steps: Mapping[S, Sequence[float]], attempt: Attempt[S, T], confirm: Attempt[S, T]) -> dict[S, BestStep[T]]:
    """The best step of every subject.

    Args:
        steps: the grid of each subject.
        attempt: with few chains, for the search. confirm: with many, which decide.
    """
    tried: dict[S, list[T]] = {s: [] for s in steps}
    waiting = {s: list(grid) for s, grid in steps.items()}
    for _ in range(1 + EXTENSIONS):
        _try(tried, attempt, waiting)
        waiting = {s: _extension(tried[s], len(steps[s])) for s in waiting}
    for _ in range(REFINEMENTS):
        _try(tried, attempt, {s: _finer(tried[s], steps[s]) for s in steps})
    return _confirmed(steps, tried, confirm)


def is_confirmed(fresh: Tried) -> bool:
    return fresh.lost == 0 and abs(fresh.bias) <= BOUND


def is_out(made: Tried) -> bool:
    """Whether chains were lost, or the bias is beyond the bound by more than chance."""
    return made.lost > 0 or abs(made.bias) - SURE * made.bias_error > BOUND


def ranked(tried: Sequence[Tried]) -> list[_Ranked]:
    """The steps that may be within the bound, fastest first."""
    known = _known(tried)
    admitted = [t for t in known if _may_be_within_bound(t, known)]
    if not admitted:
        return []
    times = _times(min(admitted, key=lambda t: t.time), known)
    found = [_Ranked(t.step_size, times.get(t.step_size, t.time)) for t in admitted]
    return sorted(found, key=lambda r: r.time)


def _known(tried: Sequence[T]) -> list[T]:
    """The trials at steps where none was lost, whose bias can be told from the bound."""
    lost = min((t.step_size for t in tried if t.lost), default=math.inf)
    return [t for t in tried if t.step_size < lost and t.bias_error < BOUND]


def _may_be_within_bound(at: Tried, known: Sequence[T]) -> bool:
    """By a parabola through the biases around, where there are enough, and within its standard error."""
    near = _near(at, known)
    bias, error = abs(at.bias), at.bias_error
    if len(near) >= ENOUGH and any(t is at for t in near):
        x = np.log([t.step_size / at.step_size for t in near])
        weights = 1 / np.array([t.bias_error for t in near])
        fit, covariance = np.polyfit(x, np.abs([t.bias for t in near]), 2, w=weights, cov="unscaled")
        bias, error = fit[-1], math.sqrt(covariance[-1, -1])
    return bool(bias <= BOUND + error)


def _times(fastest: Tried, known: Sequence[T]) -> dict[float, float]:
    """By step size around the one that seems the fastest, from one line; a parabola where it bends beyond chance.

    Without that proviso the noise of the trials would bend it, and choose a step below the largest admitted one.
    """
    near = [t for t in _near(fastest, known) if math.isfinite(t.time)]
    if len(near) < ENOUGH:
        return {}
    x, y = np.log([(t.step_size / fastest.step_size, t.time) for t in near]).T
    weights = np.array([t.time / t.time_error for t in near])
    fit, covariance = np.polyfit(x, y, 2, w=weights, cov="unscaled")
    if fit[0] <= SURE * math.sqrt(covariance[0, 0]):
        fit = np.polyfit(x, y, 1, w=weights)
    return {t.step_size: float(np.exp(np.polyval(fit, at))) for t, at in zip(near, x, strict=True)}


def _near(at: Tried, known: Sequence[T]) -> list[T]:
    """The trials around, those that are far from the law left out."""
    return [
        t for t in known
        if abs(math.log(t.step_size / at.step_size)) < math.log(AROUND) and abs(t.bias) < FAR * BOUND
    ]  # fmt: skip


def _try(tried: dict[S, list[T]], attempt: Attempt[S, T], waiting: Mapping[S, Sequence[float]]) -> None:
    jobs = [(s, step) for s, sizes in waiting.items() for step in sizes]
    if not jobs:
        return
    for (subject, _), found in zip(jobs, attempt(jobs), strict=True):
        tried[subject] = sorted([*tried[subject], found], key=lambda t: t.step_size)


def _extension(tried: Sequence[Tried], more: int) -> list[float]:
    """So many more steps beyond the end at which the best one lies; empty where it lies inside."""
    first, last = tried[0].step_size, tried[-1].step_size
    ratio, best = tried[1].step_size / first, ranked(tried)
    if best and best[0].step_size == last:
        return [last * ratio**k for k in range(1, more + 1)]
    if not best or best[0].step_size == first:
        return [first / ratio**k for k in range(1, more + 1)]
    return []


def _finer(tried: Sequence[Tried], steps: Sequence[float]) -> list[float]:
    """What lies between the best step and its neighbours; empty where they are as near as the finer grid is."""
    best = ranked(tried)
    if not best:
        return []
    at = next(k for k, t in enumerate(tried) if t.step_size == best[0].step_size)
    parts, found = _parts(steps), []
    for other in (at - 1, at + 1):
        if 0 <= other < len(tried) and _spacing([best[0].step_size, tried[other].step_size]) > 0.6 * _spacing(steps):
            between = np.geomspace(best[0].step_size, tried[other].step_size, parts + 1)[1:-1]
            found += [float(x) for x in between]
    return found


def _spacing(steps: Sequence[float]) -> float:
    return abs(math.log(steps[1] / steps[0]))


def _parts(steps: Sequence[float]) -> int:
    return math.ceil(_spacing(steps) / (FINEST * math.sqrt(12)) - 0.01)


def _confirmed(
    steps: Mapping[S, Sequence[float]], tried: Mapping[S, Sequence[T]], confirm: Attempt[S, T]
) -> dict[S, BestStep[T]]:
    """Fresh chains at the fastest step that may be within the bound; where they refuse it, at the next smaller ones."""
    queues = {s: ranked(found) for s, found in tried.items()}
    best: dict[S, tuple[T, float]] = {}
    refused: dict[S, list[T]] = {s: [] for s in tried}
    while jobs := [(s, queue[0]) for s, queue in queues.items() if s not in best and queue]:
        made = confirm([(s, chosen.step_size) for s, chosen in jobs])
        for (s, chosen), fresh in zip(jobs, made, strict=True):
            if is_confirmed(fresh):
                best[s] = fresh, chosen.time
            else:
                refused[s].append(fresh)
                queues[s] = [r for r in queues[s] if r.step_size < chosen.step_size]
    none: tuple[Any, float] = (None, math.nan)
    return {s: BestStep(*best.get(s, none), tried[s], refused[s], grid_error(steps[s])) for s in steps}
