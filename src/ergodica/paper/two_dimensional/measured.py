"""A sampler at its best step, measured anew over seeds: autocorrelation time, bias, Stein discrepancy, a path."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ergodica.diagnostics.effective import size_of_mean
from ergodica.diagnostics.stein import stein_kernel
from ergodica.paper.two_dimensional import density
from ergodica.paper.two_dimensional.trials import (
    BOUND,
    CHAINS,
    WARMUP,
    Sample,
    Trial,
    autocorrelation_times,
    biases,
)

SEEDS = 24
START = (2.0, -0.2)  # of the paths: on the ridge, two sds out
STEIN_DRAWS = 250  # of a path, evenly spaced
LOOKS = 6  # at the Stein discrepancy along a path, each after twice as many gradients


class Measured(NamedTuple):
    """All figures of one sampler at one step size; those by seed have the seed as their first axis."""

    step_size: float
    friction: float
    times: np.ndarray
    """(seed,) autocorrelation time of the slowest function, in gradient evaluations."""
    slowest: str
    time_within: float
    """The same for one seed by arviz-stats, for comparison."""
    bias: float
    bias_error: float
    gradients: np.ndarray
    """(look,) gradient evaluations at which the discrepancy is taken."""
    stein: np.ndarray
    """(seed, look) kernel Stein discrepancy of a path up to there."""
    path: np.ndarray
    """(step, 2) of the first seed, from START."""


def measure(sample: Sample, trial: Trial, seeds: Iterator[int]) -> Measured | int:
    """Of fresh chains at the step size and friction of a trial, many more of them than there.

    Where they leave the finite numbers or the bound on the bias: how many of them were lost.
    """
    settings = trial.step_size, trial.friction
    seed = next(seeds)
    starts = density.draw((CHAINS,), np.random.default_rng(seed))
    starts[:SEEDS] = START
    draws = sample(*settings, starts, seed)
    if lost := int(np.count_nonzero(~np.isfinite(draws).all(axis=(1, 2)))):
        return lost
    paths, kept = draws[:SEEDS], draws[SEEDS:, draws.shape[1] // WARMUP :]
    kept = kept.reshape(SEEDS, -1, *kept.shape[1:])
    # seed by seed: all values at once would take half a gigabyte
    means = np.stack([density.functions(x).mean(axis=-1) for x in kept], axis=1)  # (function, seed, chain)
    times = np.stack([autocorrelation_times(x, kept.shape[2]) for x in means.swapaxes(0, 1)])
    slowest = int(np.argmax(times.mean(axis=0)))
    bias, error = biases(means.reshape(len(means), -1))
    worst = 1 + int(np.argmax(np.abs(bias[1:])))
    if abs(bias[worst]) > BOUND:
        return 0
    looks = paths.shape[1] // 2 ** np.arange(LOOKS)[::-1]
    return Measured(
        *settings,
        times=times[:, slowest],
        slowest=density.NAMES[slowest],
        time_within=within_chains(kept[0], float(times[:, slowest].mean())),
        bias=float(bias[worst]),
        bias_error=float(error[worst]),
        gradients=looks,
        stein=np.array([[stein_discrepancy(path[:look]) for look in looks] for path in paths]),
        path=paths[0],
    )


def within_chains(draws: np.ndarray, about: float) -> float:
    """The same of the slowest function by arviz-stats' effective sample size, from draws (chain, step, 2).

    Of every chain each (about / 8)-th draw is looked at, which changes the figure by no more than a percent or two.
    """
    values = density.functions(draws[:, :: max(1, int(about / 8))])
    return float(draws.shape[0] * draws.shape[1] / np.min(size_of_mean(np.moveaxis(values, 0, -1))))


def stein_discrepancy(draws: np.ndarray) -> float:
    """Of a path (step, 2), whitened by the law's own covariance, so that discrepancies of paths can be compared."""
    some = draws[np.linspace(0, len(draws) - 1, min(len(draws), STEIN_DRAWS)).astype(int)].astype(np.float64)
    root = density.covariance_root()
    x, s = np.linalg.solve(root, some.T).T, -density.gradient(some) @ root
    return float(np.sqrt(max(stein_kernel(x, s, x, s).mean(), 0)))


def stein_floor(rng: np.random.Generator) -> float:
    """What as many independent exact draws would show."""
    return float(np.mean([stein_discrepancy(density.draw((STEIN_DRAWS,), rng)) for _ in range(SEEDS)]))
