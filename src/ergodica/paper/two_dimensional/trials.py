"""The best step size of each sampler: the fastest one on a common grid whose samples are near enough to the law."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ergodica.paper.two_dimensional import density

BOUND = 0.1  # largest bias of a mean, in sds of the function: the Monte Carlo error of 100 independent draws
SMALLEST, LARGEST = 0.0025, 0.16  # of the grid; the largest is left out
CHAINS = 1152  # of one call, for all step sizes of a grid together
EXTENSIONS = 2  # of the grid, at most, each by as many steps again
WARMUP = 10  # a tenth of a chain: it starts from the exact law, and the law of its steps is near

Sample = Callable[..., np.ndarray]


def grid(steps: int) -> tuple[float, ...]:
    """This many step sizes in equal ratios."""
    return tuple(float(x) for x in np.geomspace(SMALLEST, LARGEST, steps, endpoint=False))


def grid_error(steps: Sequence[float]) -> float:
    """Standard error of the logarithm of a figure at the best step of a grid, instead of the best step of all.

    A time is about proportional to 1 / step, and where the best step lies between two of the grid is left to chance.
    """
    return float(np.log(steps[1] / steps[0]) / np.sqrt(12))


class Trial(NamedTuple):
    """What one step size gave. Errors are standard errors, from the means of the chains."""

    step_size: float
    friction: float
    bias: float
    """The largest of theta 2, theta 1 squared and U, in sds; theta 1 has none, by symmetry."""
    bias_error: float
    time: float
    """Integrated autocorrelation time of the slowest function, in steps: one gradient evaluation each."""
    time_error: float
    non_finite: int

    @property
    def is_admitted(self) -> bool:
        """Whether the bias may be within the bound: `measured.measure` then decides with more chains."""
        return self.non_finite == 0 and self.bias_error < BOUND and abs(self.bias) <= BOUND + 2 * self.bias_error


def judge(draws: np.ndarray, step_size: float, friction: float) -> Trial:
    """A trial from the positions (chain, step, 2) of chains that started from the exact law."""
    lost = int(np.count_nonzero(~np.isfinite(draws).all(axis=(1, 2))))
    if lost:
        return Trial(step_size, friction, np.nan, np.nan, np.nan, np.nan, lost)
    kept = draws[:, draws.shape[1] // WARMUP :]
    means = density.functions(kept).mean(axis=-1)
    bias, error = biases(means)
    worst = 1 + int(np.argmax(np.abs(bias[1:])))
    time = float(autocorrelation_times(means, kept.shape[1]).max())
    spread = np.sqrt(2 / (len(draws) - 1))  # of a variance of len(draws) normal numbers
    return Trial(step_size, friction, float(bias[worst]), float(error[worst]), time, time * spread, 0)


def autocorrelation_times(means: np.ndarray, length: int) -> np.ndarray:
    """Steps for one independent draw of each function, from the means (function, chain) of chains of this length.

    The mean of n draws has variance (time / n) var f, measured between independent chains. Estimates from within a
    chain (Geyer's, in arviz-stats) end the sum of autocorrelations at the first negative pair, which is right for
    reversible chains; with a momentum autocorrelations may well be negative, and they count.
    """
    return length * means.var(axis=1, ddof=1) / density.moments()[1] ** 2


def biases(means: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bias of each function from the means (function, chain) of chains, in sds, with its standard error."""
    truth, sd = density.moments()
    return (means.mean(axis=1) - truth) / sd, means.std(axis=1, ddof=1) / np.sqrt(means.shape[1]) / sd


def search(sample: Sample, steps: Sequence[float], friction: float, seeds: Iterator[int]) -> list[Trial]:
    """Trials of a grid of steps, extended where the best one lies at its end."""
    trials = _trials(sample, steps, friction, seeds)
    for _ in range(EXTENSIONS):
        more = _extension(trials, len(steps))
        if not more:
            break
        trials = sorted(trials + _trials(sample, more, friction, seeds))
    return trials


def best(trials: Sequence[Trial]) -> Trial | None:
    """The admitted trial with the shortest time; None where every step is too far from the law."""
    return min((t for t in trials if t.is_admitted), key=lambda t: t.time, default=None)


def _extension(trials: list[Trial], more: int) -> tuple[float, ...]:
    """So many more steps beyond the end at which the best one lies; empty where it lies inside."""
    winner, ratio = best(trials), trials[1].step_size / trials[0].step_size
    powers = ratio ** np.arange(1, more + 1)
    if winner is not None and winner.step_size == trials[-1].step_size:
        return tuple(float(x) for x in trials[-1].step_size * powers)
    if winner is None or winner.step_size == trials[0].step_size:
        return tuple(float(x) for x in trials[0].step_size / powers[::-1])
    return ()


def _trials(sample: Sample, steps: Sequence[float], friction: float, seeds: Iterator[int]) -> list[Trial]:
    seed = next(seeds)
    starts = density.draw((CHAINS,), np.random.default_rng(seed))
    each = CHAINS // len(steps)
    draws = sample(np.repeat(steps, each), friction, starts, seed).reshape(len(steps), each, -1, 2)
    return [judge(x, step, friction) for x, step in zip(draws, steps, strict=True)]
