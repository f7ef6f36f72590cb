"""What is kept of a run: `keep=` of `eg.sample`, as functions of the position; draws, averages as the run goes, scores.

An average (`eg.mean`) costs the memory of its value, however long the run is. Its error comes from batch means: the
draws of a chain in about 32 batches, whose means are nearly independent, where draws next to each other are not.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.compiling import traceable
from ergodica.driver.draws import RunningMoments, add_draw, merged_moments, no_moments, no_moments_yet
from ergodica.errors import InputError
from ergodica.host.validate import kind_of
from ergodica.output.labelled import Moments
from ergodica.targets.position import real_array

BATCHES = 32  # of the draws of a chain, for the error of an average
EXPECTED = "'draws', 'moments', a function of the position, eg.mean(function) or eg.score(log_density, rows)"


class Mean(eqx.Module):
    """The mean over draws of a function of the position; made by `mean`."""

    function: Callable[..., PyTree]
    rows: PyTree = None


class Score(eqx.Module):
    """The log predictive density of rows that were held out; made by `score`."""

    log_density: Callable[[PyTree, PyTree], Array]
    rows: PyTree


class AsSampled(eqx.Module):
    """`keep` of pilots: the numbers that chains move, whatever users see of them."""

    def __call__(self, u: PyTree) -> PyTree:
        return u


def mean(function: Callable[..., PyTree], rows: PyTree = None) -> Mean:
    """`keep={"test": eg.mean(function)}`: the mean of function(position) over the draws, averaged as the run goes.

    Use it for predictions of a network, whose draws would fill the memory: what is held is one value of the function,
    its variance and its batch means. The result is `run.kept["test"]`, with `mean`, `sd`, `error` and `r_hat`.

    Args:
        function: of the position, as the target's functions see it; returns a pytree of arrays.
        rows: data of the function: if given, it is called as function(position, rows). Arrays that a function closes
            over become a part of the compiled program; these do not.

    Example:
        >>> import jax.numpy as jnp, ergodica as eg
        >>> keep = {"square": eg.mean(lambda x: x**2)}
        >>> run = eg.sample(eg.gallery.gaussian(2), eg.sghmc(), steps=500, step_size=0.3, keep=keep)
        >>> run.kept["square"].mean.shape, run.posterior
        ((2,), None)
    """
    _check_function("eg.mean", function)
    return Mean(function, jax.tree.map(jnp.asarray, rows))


def score(log_density: Callable[[PyTree, PyTree], Array], rows: PyTree) -> Score:
    """`keep={"held out": eg.score(log_density, rows)}`: the log predictive density of rows the target has not seen.

        (1/n) sum_i log( mean over draws of exp log_density(position, rows)_i )

    It is computed as the run goes, shown in its progress, and kept with the steps at which it was computed:
    `run.kept["held out"].evaluations`. When it no longer rises, more draws do not predict better.

    Args:
        log_density: log_density(position, rows) returns one number per row, as a log_likelihood does.
        rows: those held out, a pytree of arrays with one leading axis.

    Example:
        >>> import numpy as np, ergodica as eg
        >>> density = lambda mean, rows: -((rows - mean) ** 2) / 2
        >>> target = eg.Posterior(lambda mean: -(mean**2) / 2, density, np.arange(6.0), init=np.zeros(()))
        >>> keep = {"held out": eg.score(density, np.array([2.0, 3.0]))}
        >>> run = eg.sample(target, eg.sghmc(), steps=500, step_size=0.1, keep=keep)
        >>> run.kept["held out"].log_density.shape
        (2,)
    """
    _check_function("eg.score", log_density)
    if rows is None or not jax.tree.leaves(rows):
        raise InputError("eg.score takes the rows that are held out: eg.score(log_density, rows)")
    return Score(log_density, jax.tree.map(jnp.asarray, rows))


def _check_function(name: str, function: Any) -> None:
    if not callable(function):
        raise InputError(f"{name} takes a function of the position, got {kind_of(function)}")


def check_keep(keep: Any) -> None:
    """Refuse what `keep=` cannot be."""
    if not isinstance(keep, Mapping):
        if isinstance(keep, Mean | Score):
            raise InputError('eg.mean and eg.score are kept under a name: keep={"test": eg.mean(function)}')
        if keep not in ("draws", "moments") and not callable(keep):
            raise InputError(f"keep is {keep!r}: expected 'draws', 'moments', a function of the position, or a "
                             'dictionary of names, as {"test": eg.mean(function)}')  # fmt: skip
        return
    if not keep:
        raise InputError(f"keep is empty: expected names with what to keep, {EXPECTED}")
    for name, what in keep.items():
        if not isinstance(name, str) or not name or set(name) & set("./"):
            raise InputError(f"keep has the name {name!r}: expected words without '.' and '/', as {{'test': ...}}")
        if isinstance(what, Mean | Score) or callable(what) or what in ("draws", "moments"):
            continue
        raise InputError(f"keep[{name!r}] is {what!r}: expected {EXPECTED}")
    if sum(isinstance(what, str) and what == "draws" for what in keep.values()) > 1:
        raise InputError("keep has 'draws' under two names: once is enough")


class Keeping(eqx.Module):
    """What is kept of a position in the coordinates that are sampled.

    Attributes:
        draws: what is stored of every draw: "draws", a function, a dictionary of these by name; None: nothing.
        averages: what is averaged: "moments", a dictionary of "moments" and `Mean` by name; None: nothing.
        scores: by name.
        coordinates: of the target, or None.
    """

    draws: Any
    averages: Any
    scores: dict[str, Score]
    coordinates: Any

    @classmethod
    def of(cls, keep: Any, coordinates: Any = None) -> "Keeping":
        if isinstance(keep, AsSampled):
            return cls("draws", None, {}, None)
        if not isinstance(keep, Mapping):
            is_moments = isinstance(keep, str) and keep == "moments"
            return cls(None if is_moments else keep, keep if is_moments else None, {}, coordinates)
        parts: tuple[dict, dict, dict] = ({}, {}, {})
        for name, what in keep.items():
            is_averaged = isinstance(what, Mean) or (isinstance(what, str) and what == "moments")
            parts[1 if is_averaged else 2 if isinstance(what, Score) else 0][name] = what
        return cls(parts[0] or None, parts[1] or None, parts[2], coordinates)

    @property
    def is_averaged(self) -> bool:
        """Whether something is added up as the run goes."""
        return self.averages is not None or bool(self.scores)

    @property
    def is_plain(self) -> bool:
        """Whether what is averaged is the position itself: then an update costs less than to ask whether it is due."""
        return isinstance(self.averages, str) and (self.coordinates is None or not self.coordinates.has_jacobian)

    def seen(self, position: PyTree) -> Any:
        """The position as the user's functions see it."""
        return position if self.coordinates is None else self.coordinates.seen(position)

    def drawn(self, position: PyTree) -> PyTree:
        """What is stored of a draw."""
        if not isinstance(self.draws, dict):
            return self._value(self.draws, position)
        return {name: self._value(what, position) for name, what in self.draws.items()}

    def averaged(self, position: PyTree) -> PyTree:
        if not isinstance(self.averages, dict):
            return self._value(self.averages, position)
        return {name: self._value(what, position) for name, what in self.averages.items()}

    def scored(self, position: PyTree) -> dict[str, Array]:
        """The log densities of each score's rows."""
        return {name: _log_densities(name, one, self.seen(position)) for name, one in self.scores.items()}

    def _value(self, what: Any, position: PyTree) -> PyTree:
        if what is None:
            return None
        if isinstance(what, str):
            if self.coordinates is None:
                return position
            return self.coordinates.drawn(position) if what == "draws" else self.coordinates.constrained(position)
        if isinstance(what, Mean):
            found = what.function(self.seen(position), *(() if what.rows is None else (what.rows,)))
            return jax.tree.map(lambda leaf: real_array(leaf, "the function of eg.mean"), found)
        else:
            found = what(self.seen(position))
        return jax.tree.map(jnp.asarray, found)


def _log_densities(name: str, one: Score, position: Any) -> Array:
    found = real_array(one.log_density(position, one.rows), f"keep[{name!r}]")
    count = len(jax.tree.leaves(one.rows)[0])
    if found.shape != (count,):
        raise InputError(
            f"keep[{name!r}] returned shape {found.shape} for {count} rows, expected ({count},), one number per row"
        )
    return found


# -- averages as the run goes ---------------------------------------------------------------------------


class Averages(NamedTuple):
    """What is averaged in a chain, between two chunks."""

    draws: RunningMoments
    batch: RunningMoments | None = None
    """The batch of draws that is under way; None where no error is wanted."""
    batches: RunningMoments | None = None
    """Of the means of the batches that are full."""
    length: Any = None
    """Draws in a batch."""
    log_sums: Any = None
    """By score: log sum exp over the draws, (n,)."""


def no_averages(keeping: Keeping, position: PyTree, draws: int) -> Averages:
    """At the start of a run of so many draws a chain."""
    with traceable("a function of keep"):
        like = jax.eval_shape(lambda q: jax.tree.map(jnp.asarray, keeping.averaged(q)), position)
    for name, value in like.items() if isinstance(like, dict) and isinstance(keeping.averages, dict) else ():
        if not jax.tree.leaves(value):
            raise InputError(f"keep[{name!r}] returned no arrays: is the return statement of its function missing?")
    nothing = no_moments(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, _floating(leaf.dtype)), like))
    if keeping.is_plain:
        return Averages(nothing)
    rows = {name: len(jax.tree.leaves(one.rows)[0]) for name, one in keeping.scores.items()}
    sums = {name: jnp.full((count,), -jnp.inf, jnp.zeros(()).dtype) for name, count in rows.items()}
    return Averages(nothing, nothing, nothing, jnp.asarray(max(1, draws // BATCHES), jnp.int32), sums)


def no_averages_yet(averages: Averages) -> Averages:
    """On the host, in float64: what the chunks' are merged into."""
    empty = no_moments_yet(averages.draws.mean)
    return Averages(empty, None, None if averages.batches is None else empty)


def _floating(dtype: Any) -> Any:
    return dtype if jnp.issubdtype(dtype, np.floating) else jnp.zeros(()).dtype


def add_to_averages(averages: Averages, keeping: Keeping, position: PyTree, is_counted: Array) -> Averages:
    """One more draw; no change where `is_counted` is false."""
    value = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), keeping.averaged(position), averages.draws.mean)
    draws = add_draw(averages.draws, value, is_counted)
    if averages.batch is None:
        return averages._replace(draws=draws)
    assert averages.batches is not None
    batch = add_draw(averages.batch, value, is_counted)
    is_full = is_counted & (batch.number >= averages.length)
    batches = add_draw(averages.batches, batch.mean, is_full)
    batch = jax.tree.map(lambda leaf: jnp.where(is_full, jnp.zeros_like(leaf), leaf), batch)
    log_sums = {
        name: jnp.where(is_counted, jnp.logaddexp(averages.log_sums[name], found.astype(averages.log_sums[name].dtype)),
                        averages.log_sums[name])
        for name, found in keeping.scored(position).items()
    }  # fmt: skip
    return Averages(draws, batch, batches, averages.length, log_sums)


def merged_averages(total: Averages, new: Averages) -> Averages:
    """Of all draws up to now, in float64 on the host."""
    batches = None if new.batches is None else merged_moments(total.batches, new.batches)  # pyright: ignore
    return Averages(merged_moments(total.draws, new.draws), None, batches)


def emptied(averages: Averages) -> Averages:
    """After they were merged: batches that are under way and log sums stay."""
    zero = jax.tree.map(jnp.zeros_like, averages.draws)
    return averages._replace(draws=zero, batches=None if averages.batches is None else zero)


def moments_of_chains(totals: list[Averages], log_sums: list[dict[str, Array]] | None) -> Moments:
    """Count, mean, variance and error of each chain, leaves (chain, ...), and its scores."""

    def variance(part: RunningMoments) -> PyTree:
        n = int(part.number)
        return jax.tree.map(lambda leaf: leaf / (n - 1) if n > 1 else np.full_like(leaf, np.nan), part.spread)

    def error(part: RunningMoments) -> PyTree:
        return jax.tree.map(lambda leaf: np.sqrt(leaf / max(1, int(part.number))), variance(part))

    def stack(parts: list[PyTree]) -> PyTree:
        return jax.tree.map(lambda *leaves: np.stack(leaves), *parts)

    counts = np.array([int(total.draws.number) for total in totals])
    means, variances = stack([total.draws.mean for total in totals]), stack([variance(total.draws) for total in totals])
    batches = [total.batches for total in totals if total.batches is not None]
    if not batches or log_sums is None:
        return Moments(counts, means, variances)
    with np.errstate(divide="ignore", invalid="ignore"):  # before the first draw
        scores = {name: np.stack([np.asarray(one[name], np.float64) for one in log_sums]) - np.log(counts)[:, None]
                  for name in log_sums[0]}  # fmt: skip
    return Moments(counts, means, variances, stack([error(part) for part in batches]), scores)
