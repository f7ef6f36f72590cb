"""The numbers of a position side by side, each with its name; of a large position the worst and a random few."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

FEWEST, MOST = 64, 1000  # numbers of a position that are looked at
BUDGET = 10_000_000  # draws of numbers looked at: arviz-stats needs about a microsecond for each
AT_A_TIME = 2**22  # numbers read at a time when all of a large position are passed over


class Columns(NamedTuple):
    """Draws of single numbers, (chain, draw, k), with their names."""

    names: list[str]
    values: np.ndarray
    places: np.ndarray
    """Where they are, counted through all variables in order."""
    total: int
    """How many numbers the position has."""

    @property
    def words(self) -> str:
        """Which numbers these are."""
        if len(self.names) == self.total:
            return "all numbers of the position" if self.total > 1 else "the one number of the position"
        return (
            f"{len(self.names)} of the position's {self.total:,} numbers: half of them those whose half-chains lie "
            "furthest apart, the others at random"
        )

    def only(self, chains: np.ndarray) -> "Columns":
        return self._replace(values=self.values[chains])


def columns(posterior: Mapping[str, Any], seed: int = 0) -> Columns:
    """The columns of variables (chain, draw, ...): all, or those that `chosen` picks."""
    first = next(iter(posterior.values()))
    limit = int(np.clip(BUDGET // max(1, first.shape[0] * first.shape[1]), FEWEST, MOST))
    total = sum(math.prod(x.shape[2:]) for x in posterior.values())
    return at(posterior, np.arange(total) if total <= limit else chosen(posterior, limit, seed))


def at(posterior: Mapping[str, Any], places: np.ndarray) -> Columns:
    """The columns at these places, counted through all variables in order."""
    names: list[str] = []
    parts, begin = [], 0
    for name, x in posterior.items():
        size = math.prod(x.shape[2:])
        here = places[(places >= begin) & (places < begin + size)] - begin
        # not reshaped: that would copy draws which lie on disk in another order
        parts.append(x[..., None][(slice(None), slice(None), *np.unravel_index(here, (*x.shape[2:], 1)))])
        names += [label(name, int(i), x.shape[2:]) for i in here]
        begin += size
    return Columns(names, np.concatenate(parts, axis=2).astype(np.float64), places, begin)


def label(name: str, index: int, shape: tuple[int, ...]) -> str:
    """`w[0, 2]`, as ArviZ writes it."""
    return f"{name}[{', '.join(str(i) for i in np.unravel_index(index, shape))}]" if shape else name


def chosen(posterior: Mapping[str, Any], limit: int, seed: int) -> np.ndarray:
    """Half of `limit` where the means of half-chains differ most, in units of the sd, and the rest at random."""
    spread = np.concatenate([half_chain_spread(x) for x in posterior.values()])
    worst = np.argsort(spread)[::-1][: limit // 2]
    others = np.setdiff1d(np.arange(spread.size), worst)
    random = np.random.default_rng(seed).choice(others, limit - worst.size, replace=False)
    return np.sort(np.concatenate([worst, random]))


def half_chain_spread(x: np.ndarray) -> np.ndarray:
    """The variance of the means of half-chains over that of the draws, for each number; +inf where nothing moves."""
    means, variances = [], []
    for chain in x:
        for half in np.array_split(np.arange(len(chain)), 2):
            mean, variance = _mean_and_variance(chain[half[0] : half[-1] + 1] if half.size else chain)
            means.append(mean.ravel())
            variances.append(variance.ravel())
    within = np.mean(variances, axis=0)
    return np.where(within > 0, np.var(means, axis=0) / np.where(within > 0, within, 1), np.inf)


def _mean_and_variance(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Over the first axis, read in blocks; about the first draw, so that a far-off mean costs no digits."""
    first = np.asarray(draws[0], np.float64)
    total, square = np.zeros_like(first), np.zeros_like(first)
    length = max(1, AT_A_TIME // max(1, first.size))
    for start in range(0, len(draws), length):
        block = np.asarray(draws[start : start + length], np.float64) - first
        total += block.sum(axis=0)
        square += np.square(block).sum(axis=0)
    mean = total / len(draws)
    return first + mean, np.maximum(square / len(draws) - mean**2, 0)
