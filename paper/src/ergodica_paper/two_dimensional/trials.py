"""What one step size gives, from the means of chains that started from the exact law."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ergodica_paper.best_step import warmup
from ergodica_paper.two_dimensional import density

CHAINS = 576  # of one call
EACH = 48  # chains of a trial

Sample = Callable[..., np.ndarray]


class StepTrial(NamedTuple):
    """What one step size gave. Errors are standard errors, from the means of the chains."""

    step_size: float
    friction: float
    bias: float
    """The largest of theta 2, theta 1 squared and U, in sds; theta 1 has none, by symmetry."""
    bias_error: float
    time: float
    """Integrated autocorrelation time of the slowest function, in steps: one gradient evaluation each."""
    time_error: float
    lost: int
    chains: int


def judge(draws: np.ndarray, step_size: float, friction: float) -> StepTrial:
    """A trial from the positions (chain, step, 2) of chains that started from the exact law."""
    if lost := lost_of(draws):
        return StepTrial(step_size, friction, np.nan, np.nan, np.nan, np.nan, lost, len(draws))
    kept = draws[:, warmup(draws.shape[1]) :]
    means = density.functions(kept).mean(axis=-1)
    bias, error = worst_bias(means)
    time = float(autocorrelation_times(means, kept.shape[1]).max())
    spread = np.sqrt(2 / (len(draws) - 1))  # of a variance of len(draws) normal numbers
    return StepTrial(step_size, friction, bias, error, time, time * spread, 0, len(draws))


def lost_of(draws: np.ndarray) -> int:
    """How many chains became non-finite."""
    return int(np.count_nonzero(~np.isfinite(draws).all(axis=(1, 2))))


def autocorrelation_times(means: np.ndarray, length: int) -> np.ndarray:
    """Steps for one independent draw of each function, from the means (function, chain) of chains of this length.

    The mean of n draws has variance (time / n) var f, measured between independent chains. Estimates from within a
    chain (Geyer's, in arviz-stats) end the sum of autocorrelations at the first negative pair, which is right for
    reversible chains; with a momentum autocorrelations may well be negative, and they count.
    """
    return length * means.var(axis=1, ddof=1) / density.moments()[1] ** 2


def worst_bias(means: np.ndarray) -> tuple[float, float]:
    """The largest bias of a function from the means (function, chain) of chains, in sds, with its standard error."""
    truth, sd = density.moments()
    bias = (means.mean(axis=1) - truth) / sd
    error = means.std(axis=1, ddof=1) / np.sqrt(means.shape[1]) / sd
    worst = 1 + int(np.argmax(np.abs(bias[1:])))
    return float(bias[worst]), float(error[worst])


def attempt(sample: Sample, jobs: Sequence[tuple[float, float]], seeds: Iterator[int]) -> list[StepTrial]:
    """A trial of every (friction, step size), as many at a time as one call has room for."""
    room, found = CHAINS // EACH, []
    for begin in range(0, len(jobs), room):
        some = list(jobs[begin : begin + room])
        filled = [*some, *some[-1:] * (room - len(some))]  # the surplus is thrown away
        frictions, steps = np.repeat(filled, EACH, axis=0).T
        seed = next(seeds)
        starts = density.draw((CHAINS,), np.random.default_rng(seed))
        draws = sample(steps, frictions, starts, seed)
        found += [
            judge(draws[k * EACH : (k + 1) * EACH], step, friction) for k, (friction, step) in enumerate(some)
        ]  # fmt: skip
    return found
