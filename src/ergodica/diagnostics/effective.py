"""Mean, sd, their Monte Carlo errors, effective sample sizes and R-hat of each number, by arviz-stats."""

from typing import Any, NamedTuple

import numpy as np

from ergodica.diagnostics.columns import Columns

TAILS = (0.05, 0.95)
NEAR = 5  # effective draws a chain: with fewer, chains have not met and no figure of theirs can be trusted


class Effective(NamedTuple):
    """One entry for each column. Errors are those of the pooled draws, widened by `widening`."""

    names: list[str]
    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray
    mean_error: np.ndarray
    sd_error: np.ndarray
    bulk: np.ndarray
    tail: np.ndarray
    r_hat: np.ndarray


def effective(columns: Columns, correlation: float = 0.0) -> Effective:
    """Of all columns; `correlation` is that between chains which share batches.

    The mean of m chains whose draws correlate by c has 1 + (m - 1) c times the variance of independent ones: effective
    sizes are divided by that, which R-hat and effective sample sizes cannot see by themselves.
    """
    from arviz_stats.base import array_stats

    def ess(method: str, **options: Any) -> np.ndarray:
        return np.asarray(array_stats.ess(x, method=method, **options)) / factor

    x = np.moveaxis(columns.values, 2, 0)  # (k, chain, draw)
    pooled = x.reshape(len(x), -1)
    factor = widening(x.shape[1], correlation)
    with np.errstate(all="ignore"):  # a number that never changes has no R-hat; the check of that names it
        bulk = ess("bulk")
        tail = ess("tail", prob=TAILS)
        r_hat = np.asarray(array_stats.rhat(in_two(x)))
        mean, sd = pooled.mean(axis=1), pooled.std(axis=1, ddof=1)
        mean_error = sd / np.sqrt(ess("mean"))
        # the square of the deviation has variance m4 - m2^2; an sd has half its relative error
        squares = np.square(pooled - mean[:, None])
        square_error = squares.std(axis=1) / np.sqrt(ess("sd"))
        sd_error = square_error / (2 * sd)
    low, high = np.quantile(pooled, TAILS, axis=1)
    return Effective(columns.names, mean, sd, low, high, mean_error, sd_error, bulk, tail, r_hat)


def widening(chains: int, correlation: float) -> float:
    return 1 + (chains - 1) * max(0.0, correlation)


def in_two(x: np.ndarray) -> np.ndarray:
    """A single chain as two halves: R-hat compares at least two."""
    if x.shape[1] > 1:
        return x
    half = x.shape[2] // 2
    return np.concatenate([x[..., :half], x[..., -half:]], axis=1)


def error_of_mean(x: np.ndarray) -> np.ndarray:
    """The Monte Carlo error of the mean of (chain, draw, ...), for each entry of the other axes."""
    from arviz_stats.base import array_stats

    with np.errstate(all="ignore"):
        return np.asarray(array_stats.mcse(x, chain_axis=0, draw_axis=1, method="mean"))


def size_of_mean(x: np.ndarray) -> np.ndarray:
    """How many independent draws (chain, draw, ...) are worth for the mean, for each entry of the other axes."""
    from arviz_stats.base import array_stats

    with np.errstate(all="ignore"):
        return np.asarray(array_stats.ess(x, chain_axis=0, draw_axis=1, method="mean"))
