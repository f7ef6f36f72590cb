"""A sampler at its best step, measured again over seeds: autocorrelation time, bias, Stein discrepancy, a path."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ergodica.diagnostics.columns import size_of_mean
from ergodica.diagnostics.stein import stein_kernel
from ergodica_paper.best_step import warmup
from ergodica_paper.two_dimensional import density
from ergodica_paper.two_dimensional.trials import CHAINS, Sample, autocorrelation_times, lost_of, worst_bias
from ergodica_paper.verdict import Measurement

SEEDS = 24
START = (2.0, -0.2)  # of the paths: on the ridge, two sds out
STEIN_DRAWS = 250  # of a path, evenly spaced
SHORTEST = 31  # gradients at least, of a path that is cut off for its Stein discrepancy; each next one is twice as long


class MeasuredSampler(NamedTuple):
    """All figures of one sampler at one step size; those by seed have the seed as their first axis."""

    step_size: float
    friction: float
    lost: int
    """Chains that became non-finite, of all `chains`. Where there are any, no other figure means anything."""
    chains: int
    bias: float = np.nan
    bias_error: float = np.nan
    times: np.ndarray = np.full(SEEDS, np.nan)
    """(seed,) autocorrelation time of the slowest function, in gradient evaluations."""
    slowest: str = ""
    time_within: float = np.nan
    """The same for one seed by arviz-stats, for comparison."""
    paths: np.ndarray = np.empty((SEEDS, 0, 2))
    """(seed, step, 2) from START."""

    @property
    def time(self) -> float:
        return float(self.times.mean())

    @property
    def time_error(self) -> float:
        return Measurement.of(self.times).error


class Discrepancy(NamedTuple):
    """Squared kernel Stein discrepancies (seed, length) of paths up to so many gradient evaluations (length,)."""

    gradients: np.ndarray
    squares: np.ndarray


def measure(sample: Sample, friction: float, step_size: float, calls: int, seeds: Iterator[int]) -> MeasuredSampler:
    """Of fresh chains, in so many calls, the first of which begins with the paths."""
    paths, means, kept, lost = np.empty((SEEDS, 0, 2)), [], np.empty((SEEDS, 0, 0, 2)), 0
    for number in range(calls):
        seed = next(seeds)
        starts = density.draw((CHAINS,), np.random.default_rng(seed))
        starts[:SEEDS] = START if number == 0 else starts[:SEEDS]
        draws = sample(step_size, friction, starts, seed)
        lost += lost_of(draws)
        if number == 0:
            paths, draws = draws[:SEEDS].copy(), draws[SEEDS:]
        draws = draws[:, warmup(draws.shape[1]) :]
        kept = draws.reshape(SEEDS, -1, *draws.shape[1:])
        # seed by seed: all values at once would take half a gigabyte
        means.append(np.stack([density.functions(x).mean(axis=-1) for x in kept], axis=1))  # (function, seed, chain)
    if lost:
        return MeasuredSampler(step_size, friction, lost, calls * CHAINS)
    every = np.concatenate(means, axis=2)
    times = np.stack([autocorrelation_times(x, kept.shape[2]) for x in every.swapaxes(0, 1)])
    slowest = int(np.argmax(times.mean(axis=0)))
    within = within_chains(kept[0], float(times[:, slowest].mean()))
    return MeasuredSampler(
        step_size, friction, 0, calls * CHAINS, *worst_bias(every.reshape(len(every), -1)),
        times[:, slowest], density.NAMES[slowest], within, paths,
    )  # fmt: skip


def within_chains(draws: np.ndarray, about: float) -> float:
    """The same of the slowest function by arviz-stats' effective sample size, from draws (chain, step, 2).

    Of every chain each (about / 8)-th draw is looked at, which changes the figure by no more than a percent or two.
    """
    values = density.functions(draws[:, :: max(1, int(about / 8))])
    return float(draws.shape[0] * draws.shape[1] / np.min(size_of_mean(np.moveaxis(values, 0, -1))))


def discrepancy(measured: MeasuredSampler) -> Discrepancy:
    """Of every path, cut off at each length."""
    whole = measured.paths.shape[1]
    lengths = whole // 2 ** np.arange(int(np.log2(whole / SHORTEST)) + 1)[::-1]
    return Discrepancy(
        lengths, np.array([[stein_square(path[:length]) for length in lengths] for path in measured.paths])
    )


def stein_square(draws: np.ndarray) -> float:
    """Of a path (step, 2), whitened by the law's own covariance, so that discrepancies of paths can be compared.

    A mean over pairs of different draws: for independent exact draws its mean is 0, however few they are, where one
    over all pairs would have a floor of E h(x, x) / n.
    """
    some = draws[np.linspace(0, len(draws) - 1, min(len(draws), STEIN_DRAWS)).astype(int)].astype(np.float64)
    root = density.covariance_root()
    x, s = np.linalg.solve(root, some.T).T, -density.gradient(some) @ root
    kernel = stein_kernel(x, s, x, s)
    return float((kernel.sum() - np.trace(kernel)) / (len(x) * (len(x) - 1)))
