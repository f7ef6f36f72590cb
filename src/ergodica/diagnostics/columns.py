"""The numbers of a position side by side, and what is known of each: mean, sd, errors, effective size, R-hat.

Of a large position these are the worst numbers and a random few.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.errors import InputError
from ergodica.output.labelled import Moments, named
from ergodica.tree import entry

FEWEST_NUMBERS, MOST_NUMBERS = 64, 1000  # of a position that are looked at
MOST_DRAWS = 10_000_000  # of all numbers looked at: arviz-stats needs about a microsecond for each
RANKED_DRAWS = 1_000_000  # of all numbers, in a diagnosis, for ranks and quantiles: about half a second
FEWEST_RANKED, MOST_RANKED = 4_000, 2_500  # of one number: of all chains at least, of one chain at most
HELD_DRAWS = 8_000_000  # of all numbers, in a diagnosis, for means and sds
PASSED_NUMBERS = 2**24  # read of a large position to find its worst numbers: of long chains every N-th draw
READ_NUMBERS = 2**22  # read at a time when all of a large position are passed over
CORRELATION_DRAWS = 2_000  # that are looked at for the correlation between chains, evenly spread
TAIL_QUANTILES = (0.05, 0.95)
Named = Mapping[str, Any]  # variables, statistics or settings by name


def check_draws(variables: Named, settings: Named) -> None:
    """Raise InputError where there is not a single draw."""
    if min(np.shape(x)[1] for x in variables.values()) > 0:
        return
    if settings.get("is_finished") is False:
        raise InputError("the run has no draws yet: it has just begun, or is in warm-up")
    raise InputError("this run kept no draws: there is nothing to look at; run for more steps, or thin less")


class Columns(NamedTuple):
    """Draws of single numbers, (chain, draw, k), with their names."""

    names: list[str]
    values: np.ndarray
    places: np.ndarray
    """Where they are, counted through all variables in order."""
    total: int
    """How many numbers the position has."""
    draws: int = 0
    """Of each chain, of which `values` may hold every N-th."""
    most: int | None = None
    """Draws of each chain that are held in a diagnosis; None: all of them, and all are ranked."""
    ranked: int | None = None
    """Of these, how many are ranked."""

    @property
    def words(self) -> str:
        """Which numbers these are."""
        if len(self.names) == self.total:
            return "all numbers of the position" if self.total > 1 else "the one number of the position"
        return (
            f"{len(self.names)} of the position's {self.total:,} numbers: half of them those whose half-chains lie "
            "furthest apart, the others at random"
        )

    @property
    def thinning(self) -> str | None:
        """Which draws are looked at, where it is not all of them."""
        ranked, held = (self.values[:, :: every(self.values.shape[1], most)].shape[1] for most in (self.ranked, None))
        if ranked == self.draws:
            return None
        sums = "all" if held == self.draws else f"{held:,}"
        return (
            f"R-hat, effective sizes and quantiles are from {ranked:,} draws of each chain, evenly spread, means, sds "
            f"and their errors from {sums} of {self.draws:,}: effective sizes are at least those stated."
        )

    def only(self, chains: np.ndarray) -> "Columns":
        return self._replace(values=self.values[chains])


def every(draws: int, most: int | None) -> int:
    """N, where every N-th draw is at most so many."""
    return 1 if most is None else max(1, -(-draws // most))


def columns(posterior: Named, seed: int = 0) -> Columns:
    """The columns of variables (chain, draw, ...): all, or those that `chosen` picks."""
    first = next(iter(posterior.values()))
    limit = int(np.clip(MOST_DRAWS // max(1, first.shape[0] * first.shape[1]), FEWEST_NUMBERS, MOST_NUMBERS))
    total = sum(math.prod(x.shape[2:]) for x in posterior.values())
    return at(posterior, np.arange(total) if total <= limit else chosen(posterior, limit, seed))


def bounded_columns(posterior: Named, seed: int = 0) -> Columns:
    """The same for a diagnosis, whose work is bounded: fewer draws of each number, then fewer numbers."""
    chains, draws = next(iter(posterior.values())).shape[:2]
    total = sum(math.prod(x.shape[2:]) for x in posterior.values())
    least = int(np.clip(FEWEST_RANKED // max(1, chains), 100, MOST_RANKED))
    ranked = int(np.clip(RANKED_DRAWS // max(1, chains * total), least, MOST_RANKED))
    limit = int(np.clip(RANKED_DRAWS // max(1, chains * min(draws, ranked)), FEWEST_NUMBERS, MOST_NUMBERS))
    places = np.arange(total) if total <= limit else chosen(posterior, limit, seed)
    return at(posterior, places, max(ranked, HELD_DRAWS // max(1, chains * len(places))))._replace(ranked=ranked)


def at(posterior: Named, places: np.ndarray, most: int | None = None) -> Columns:
    """The columns at these places, counted through all variables in order; of each chain `most` draws."""
    names: list[str] = []
    parts, begin, draws = [], 0, 0
    for name, x in posterior.items():
        draws = x.shape[1]
        x = x[:, (draws - 1) % every(draws, most) :: every(draws, most)]
        size = math.prod(x.shape[2:])
        here = places[(places >= begin) & (places < begin + size)] - begin
        # not reshaped: that would copy draws which lie on disk in another order
        parts.append(x[..., None][(slice(None), slice(None), *np.unravel_index(here, (*x.shape[2:], 1)))])
        names += number_names(name, here, x.shape[2:])
        begin += size
    return Columns(names, np.concatenate(parts, axis=2).astype(np.float64), places, begin, draws, most)


def number_names(name: str, places: np.ndarray, shape: tuple[int, ...]) -> list[str]:
    """`w[0, 2]`, as ArviZ writes it, of the numbers at these places of the variable."""
    if not shape:
        return [name] * len(places)
    return [entry(name, tuple(map(int, np.unravel_index(at, shape)))) for at in places]


def chosen(posterior: Named, limit: int, seed: int) -> np.ndarray:
    """Half of `limit` where the means of half-chains differ most, in units of the sd, and the rest at random."""
    spread = np.concatenate([half_chain_spread(x) for x in posterior.values()])
    worst = np.argsort(spread)[::-1][: limit // 2]
    others = np.setdiff1d(np.arange(spread.size), worst)
    random = np.random.default_rng(seed).choice(others, limit - worst.size, replace=False)
    return np.sort(np.concatenate([worst, random]))


def half_chain_spread(x: np.ndarray) -> np.ndarray:
    """The variance of the means of half-chains over that of the draws, for each number; +inf where nothing moves."""
    means, variances = [], []
    thin = min(max(1, x.size // PASSED_NUMBERS), max(1, x.shape[1] // 8))
    for chain in x[:, ::thin]:
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
    length = max(1, READ_NUMBERS // max(1, first.size))
    for start in range(0, len(draws), length):
        block = np.asarray(draws[start : start + length], np.float64) - first
        total += block.sum(axis=0)
        square += np.square(block).sum(axis=0)
    mean = total / len(draws)
    return first + mean, np.maximum(square / len(draws) - mean**2, 0)


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

    @property
    def error(self) -> np.ndarray:
        """The larger of the errors of mean and sd, in units of the sd."""
        with np.errstate(all="ignore"):
            return np.maximum(self.mean_error, self.sd_error) / self.sd


def effective(columns: Columns, correlation: float = 0.0, has_ranks: bool = True) -> Effective:
    """Of all columns; `correlation` is that between chains which share batches.

    Where only some draws are ranked (`bounded_columns`), means, sds and their errors are from all that are held, the
    errors by the scatter of segments. Without ranks these alone are known.

    The mean of m chains whose draws correlate by c has 1 + (m - 1) c times the variance of independent ones: effective
    sizes are divided by that, which R-hat and effective sample sizes cannot see by themselves.
    """
    from arviz_stats.base import array_stats

    def ess(method: str, **options: Any) -> np.ndarray:
        return np.asarray(array_stats.ess(x, method=method, **options)) / factor

    factor, thin = widening(len(columns.values), correlation), every(columns.values.shape[1], columns.ranked)
    sums = None
    if thin > 1 or not has_ranks:
        from ergodica.diagnostics.accuracy import measured

        sums = measured({"x": columns.values})
        sums = None if np.isnan(sums.mean_error).all() else sums  # too few draws for segments
    if sums is not None:
        mean_error, sd_error = (np.sqrt(factor) * error * sums.sd for error in (sums.mean_error, sums.sd_error))
        if not has_ranks:
            none = np.full(len(sums.mean), np.nan)
            return Effective(columns.names, sums.mean, sums.sd, none, none, mean_error, sd_error, none, none, none)
        ranked = effective(columns._replace(values=columns.values[:, ::thin], ranked=None), correlation)
        # where a chain is slow thinning loses nothing, and segments may be shorter than what it remembers
        is_slow = ranked.bulk * factor < columns.values[:, ::thin, 0].size / 2
        mean_error = np.where(is_slow, ranked.mean_error, mean_error)
        sd_error = np.where(is_slow, ranked.sd_error, sd_error)
        return ranked._replace(mean=sums.mean, sd=sums.sd, mean_error=mean_error, sd_error=sd_error)
    x = np.moveaxis(columns.values, 2, 0)  # (k, chain, draw)
    pooled = x.reshape(len(x), -1)
    with np.errstate(all="ignore"):  # a number that never changes has no R-hat; the check of that names it
        bulk, tail = ess("bulk"), ess("tail", prob=TAIL_QUANTILES)
        r_hat = np.asarray(array_stats.rhat(in_two(x)))
        mean, sd = pooled.mean(axis=1), pooled.std(axis=1, ddof=1)
        mean_error = sd / np.sqrt(ess("mean"))
        # the square of the deviation has variance m4 - m2^2; an sd has half its relative error
        sd_error = np.square(pooled - mean[:, None]).std(axis=1) / np.sqrt(ess("sd")) / (2 * sd)
    low, high = np.quantile(pooled, TAIL_QUANTILES, axis=1)
    return Effective(columns.names, mean, sd, low, high, mean_error, sd_error, bulk, tail, r_hat)


def correlation_of(settings: Named) -> float:
    """How much the chains of a run correlate because they shared batches."""
    return float(settings.get("chain_correlation") or 0.0)


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


def moment_columns(moments: Moments, good: np.ndarray) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names, means and variances, (chain, k), of all numbers; chains that are not `good` left out."""
    names: list[str] = []
    for name, x in named(moments.mean).items():
        names += number_names(name, np.arange(x[0].size), x.shape[1:])

    def flat(part: PyTree) -> np.ndarray:
        leaves = [np.asarray(x, np.float64).reshape(len(good), -1) for x in named(part).values()]
        return np.concatenate(leaves, axis=1)[good]

    return names, flat(moments.mean), flat(moments.variance)


def effective_from_moments(moments: Moments, good: np.ndarray) -> Effective:
    """As `effective`, with errors from the spread of the chains alone.

    With few chains that spread is itself uncertain, number by number, so a spread below the average over all numbers,
    in units of their variances, is taken as that average.
    """
    names, means, variances = moment_columns(moments, good)
    chains = len(means)
    within = variances.mean(axis=0)
    with np.errstate(all="ignore"):
        spreads = [x.var(axis=0, ddof=1) / within for x in (means, np.sqrt(variances))]
        mean_ratio, sd_ratio = (np.maximum(x, np.nanmean(x)) if x.size else x for x in spreads)
        r_hat = np.sqrt(1 + spreads[0])
    sd = np.sqrt(within + means.var(axis=0))
    unknown = np.full(len(names), np.nan)
    errors = np.sqrt(mean_ratio * within / chains), np.sqrt(sd_ratio * within / chains)
    return Effective(names, means.mean(axis=0), sd, unknown, unknown, *errors, chains / mean_ratio, unknown, r_hat)


def chain_correlation(posterior: PyTree) -> float | None:
    """How much chains that share their batches resemble each other: their mean is worse than that of independent ones.

    The largest over coordinates of rho in Var(mean of C chains) = s^2 / C (1 + (C - 1) rho), variances over draws.

    A Monte Carlo error as of independent chains is too small by the root of 1 + (C - 1) rho: with the largest it is
    too small for no coordinate (and of many the largest is a little too large by chance). Every chain is looked at
    about its own mean, so that only what chains do together counts.
    """
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(posterior)]
    known = np.concatenate([_variance_ratios(leaf) for leaf in leaves]) if leaves else np.zeros(0)
    if known.size == 0 or len(leaves[0]) < 2:
        return None
    return float((np.max(known) - 1) / (len(leaves[0]) - 1))


def _variance_ratios(draws: np.ndarray) -> np.ndarray:
    """C Var(mean of chains) / mean of Var(chain), of each coordinate that moves."""
    chains, count = draws.shape[:2]
    if count < 2:
        return np.zeros(0)
    index = np.unique(np.linspace(0, count - 1, min(count, CORRELATION_DRAWS)).astype(int))
    some = draws[:, index].reshape(chains, len(index), -1).astype(np.float64)
    each = some.var(axis=1, ddof=1).mean(axis=0)
    mean = some.mean(axis=0).var(axis=0, ddof=1)
    return chains * mean[each > 0] / each[each > 0]


def second_half(values: np.ndarray) -> np.ndarray:
    """Of draws (chain, draw, ...)."""
    return values[:, values.shape[1] - values.shape[1] // 2 :]


def settled_error(values: np.ndarray) -> float:
    """The error of the mean of (chain, draw), as the second halves have it: a transient would inflate its own error."""
    return float(error_of_mean(second_half(values))) / np.sqrt(2)
