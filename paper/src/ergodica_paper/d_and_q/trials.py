"""For every choice of D and Q its fastest step within the bound on the bias, then all figures from fresh chains."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ergodica_paper import best_step
from ergodica_paper.best_step import BestStep
from ergodica_paper.d_and_q import peaks
from ergodica_paper.d_and_q.chains import Choice, Counts
from ergodica_paper.verdict import Measurement

SEEDS = 24
CHAINS = 8  # of a seed

Count = Callable[..., Counts]


class Time(NamedTuple):
    """Gradient evaluations spent, and how often they met what is waited for, both by seed.

    The time for one is that of all seeds together, and errors are those of the rate. A mean of the times of the seeds
    would be too long where there are few events: E[1 / n] > 1 / E[n].
    """

    spent: np.ndarray
    events: np.ndarray

    @property
    def logarithm(self) -> Measurement:
        """Of the time; infinite without any event, and then nothing is known of its error."""
        if not self.events.any():
            return Measurement(math.inf, math.inf)
        # d log(a / b) = da / a - db / b
        each = self.spent / self.spent.mean() - self.events / self.events.mean()
        return Measurement(math.log(self.spent.sum() / self.events.sum()), Measurement.of(each).error)

    @property
    def value(self) -> Measurement:
        logarithm = self.logarithm
        time = math.exp(logarithm.value)
        return Measurement(time, time * logarithm.error)


class Figures(NamedTuple):
    """What chains of one choice gave at one step size. Arrays have the seed as their axis."""

    step_size: float
    bias: float
    """The largest of t squared, U and the mass between the inflection points, in sds."""
    bias_error: float
    escape: Time
    """Gradient evaluations from the bottom of one well to that of the other."""
    crossing: Time
    """Gradient evaluations spent between the inflection points by a crossing."""
    near_mode: np.ndarray
    """Bias of the mean of U in the more probable half, in its sds there."""
    lost: int
    chains: int

    @property
    def time(self) -> float:
        """The escape time, by which steps are chosen."""
        return self.escape.value.value

    @property
    def time_error(self) -> float:
        time, error = self.escape.value
        return error or time  # as many in every seed, which tells nothing of the error


def unit(choice: Choice) -> float:
    """The step size to measure steps in: 1 / w for a frequency w^2 = U'' = 8 h in a well, 1 / (w^2 D) without Q."""
    curvature = 8 * choice.height
    return curvature**-0.5 if choice.has_momentum else 1 / (curvature * choice.size)


def figures(choice: Choice, step_size: float, counts: Counts, seeds: int) -> Figures:
    """Of the counts of seeds * n chains."""
    truth = peaks.truth(choice.height)
    with np.errstate(all="ignore"):  # chains on their way to infinity, which no caller admits
        means = counts.sums.astype(np.float64) / counts.steps[:, None]
        bias = (means.mean(axis=0) - truth.mean) / truth.sd
        error = means.std(axis=0, ddof=1) / np.sqrt(len(means)) / truth.sd

        def by_seed(x):
            return x.reshape(seeds, -1).sum(axis=1).astype(np.float64)

        near = by_seed(counts.near_mode[1]) / by_seed(counts.near_mode[0])
        worst = int(np.argmax(np.abs(bias)))
        return Figures(
            step_size,
            float(bias[worst]),
            float(error[worst]),
            Time(by_seed(counts.steps), by_seed(counts.passages)),
            Time(by_seed(counts.crossings[1]), by_seed(counts.crossings[0])),
            (near - truth.near_mode) / truth.near_mode_sd,
            int(np.count_nonzero(counts.lost)),
            len(counts.lost),
        )


def try_all(count: Count, jobs: Sequence[tuple[Choice, float]], chains: int, seed: int, seeds: int) -> list[Figures]:
    """Figures of each (choice, step size), from this many chains of it."""
    if not jobs:
        return []
    each = [job for job in jobs for _ in range(chains)]
    found = count([choice for choice, _ in each], [step for _, step in each], seed)
    return [
        figures(choice, step, _part(found, slice(k * chains, (k + 1) * chains)), seeds)
        for k, (choice, step) in enumerate(jobs)
    ]


def _part(counts: Counts, rows: slice) -> Counts:
    pairs = {name: tuple(x[rows] for x in getattr(counts, name)) for name in ("near_mode", "crossings")}
    single = {name: getattr(counts, name)[rows] for name in ("steps", "sums", "passages", "lost")}
    return Counts(**single, **pairs)


def search(
    count: Count, choices: Sequence[Choice], steps: Sequence[float], seeds: Iterator[int]
) -> dict[Choice, BestStep[Figures]]:
    """Each choice at the step with the fastest escape within the bound; the steps are in units of `unit`."""
    grids = {c: [unit(c) * x for x in steps] for c in choices}
    return best_step.search(
        grids,
        attempt=lambda jobs: try_all(count, jobs, SEEDS, next(seeds), SEEDS),
        confirm=lambda jobs: try_all(count, jobs, SEEDS * CHAINS, next(seeds), SEEDS),
    )
