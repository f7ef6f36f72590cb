"""What becomes of predictions over draws: means, sds, log mean exps as they come, quantiles, or all of them.

A reduction is given one batch of rows at a time, and of each batch one block of draws after the other. Its `of_group`
is compiled: it makes something smaller of a group of draws in their own precision. The rest is in float64 on the host.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.driver.draws import FEW_BYTES, MEMORY_SHARE
from ergodica.errors import InputError
from ergodica.host.memory import available_memory, readable


class Extent(NamedTuple):
    """How much there is: chains, draws of each, rows, and rows of a batch."""

    chains: int
    draws: int
    rows: int
    batch: int

    @property
    def total(self) -> int:
        return self.chains * self.draws


class Reduction(ABC):
    """Leaves with rows along `row_axis`, filled batch by batch.

    Args:
        shapes: of each leaf of one draw's predictions for a batch, (row, ...).
    """

    row_axis = 0
    of_group: Callable[[Array, Array], Any]
    """From predictions (draw, row, ...), and which of the draws count; no method, as what is compiled is kept by it."""
    leaves: list[np.ndarray]

    def __init__(self, shapes: list[Any], extent: Extent):
        self.shapes, self.extent = shapes, extent

    def begin(self, start: int, stop: int) -> None:
        """What comes next is of the rows start, ..., stop - 1."""
        self.rows = slice(start, stop)

    @abstractmethod
    def add(self, parts: list[Any], first: int, counted: np.ndarray) -> None:
        """The groups of a block of draws, number `first` and the next ones: of each leaf what `of_group` gave, with an
        axis for groups; `counted` is (group, draw)."""

    @abstractmethod
    def end(self) -> None:
        """All draws have come."""


def reduction(reduce: Any, shapes: list[Any], extent: Extent) -> Reduction:
    """From the argument of `Run.predict`, once checked."""
    if isinstance(reduce, str):
        return Kept(shapes, extent) if reduce == "draws" else Streaming(STREAMED[reduce], shapes, extent)
    return Quantiles(reduce, shapes, extent)


def check_reduce(reduce: Any) -> str | np.ndarray:
    """A name, or quantiles as an array."""
    known = ("draws", *STREAMED)
    if isinstance(reduce, str) and reduce in known:
        return reduce
    message = f"reduce is {reduce!r}: expected one of {', '.join(known)}, or a list of quantiles from 0 to 1"
    if not isinstance(reduce, Sequence | np.ndarray) or isinstance(reduce, str):
        raise InputError(message)
    try:
        quantiles = np.asarray(reduce, np.float64)
    except (TypeError, ValueError):
        raise InputError(message) from None
    if quantiles.ndim != 1 or not quantiles.size or not np.all((quantiles >= 0) & (quantiles <= 1)):
        raise InputError(message)
    return quantiles


def check_room(needed: int, advice: str) -> None:
    """Refuse an answer that would not fit in memory."""
    if needed > FEW_BYTES and needed > MEMORY_SHARE * (available := available_memory()):
        raise InputError(
            f"these predictions need {readable(needed)} of memory and {readable(available)} are available: {advice}"
        )


# -- all draws at once ------------------------------------------------------------------------------------


class Kept(Reduction):
    """Every prediction, leaves (chain, draw, row, ...)."""

    row_axis = 2

    def __init__(self, shapes: list[Any], extent: Extent):
        super().__init__(shapes, extent)
        self.of_group = _values
        whole = [(*extent[:3], *leaf.shape[1:]) for leaf in shapes]
        needed = sum(math.prod(shape) * leaf.dtype.itemsize for shape, leaf in zip(whole, shapes, strict=True))
        check_room(needed, "use fewer draws (thin=), or a reduce that adds up as draws come ('mean', 'sd')")
        self.leaves = [np.empty(shape, leaf.dtype) for shape, leaf in zip(whole, shapes, strict=True)]

    def add(self, parts: list[Any], first: int, counted: np.ndarray) -> None:
        for leaf, part in zip(self.leaves, parts, strict=True):
            values = _counted(part, counted)
            flat = leaf.reshape(self.extent.total, *leaf.shape[2:])
            flat[first : first + len(values), self.rows] = values[:, : self.rows.stop - self.rows.start]

    def end(self) -> None:
        pass


class Quantiles(Reduction):
    """Of all draws, linear between two of them; leaves (quantile, row, ...), from one batch at a time."""

    row_axis = 1

    def __init__(self, quantiles: np.ndarray, shapes: list[Any], extent: Extent):
        super().__init__(shapes, extent)
        self.of_group, self.quantiles = _floats, quantiles
        rest = [leaf.shape[1:] for leaf in shapes]
        kinds = [_float_dtype(leaf.dtype) for leaf in shapes]
        held = sum(math.prod(one.shape) * kind.itemsize for one, kind in zip(shapes, kinds, strict=True))
        answer = 8 * len(quantiles) * extent.rows * sum(map(math.prod, rest))
        advice = f"use a smaller batch (batch_size=, {extent.batch:,} now) or fewer draws (thin=)"
        check_room(answer + held * extent.total, advice)
        # draws last: they are sorted where they lie
        self.draws = [np.empty((*one.shape, extent.total), kind) for one, kind in zip(shapes, kinds, strict=True)]
        self.leaves = [np.empty((len(quantiles), extent.rows, *shape)) for shape in rest]

    def add(self, parts: list[Any], first: int, counted: np.ndarray) -> None:
        for held, part in zip(self.draws, parts, strict=True):
            values = _counted(part, counted)
            held[..., first : first + len(values)] = np.moveaxis(values, 0, -1)

    def end(self) -> None:
        for leaf, held in zip(self.leaves, self.draws, strict=True):
            here = held[: self.rows.stop - self.rows.start]
            leaf[:, self.rows] = np.quantile(here, self.quantiles, axis=-1, overwrite_input=True)


# -- as they come -----------------------------------------------------------------------------------------


class Streamed(NamedTuple):
    """A reduction by what it does to one leaf: `of_group` compiled, the rest in float64."""

    of_group: Callable[[Array, Array], Any]
    start: Callable[[np.ndarray], Any]
    merge: Callable[[Any, Any, np.ndarray], Any]
    finish: Callable[[Any, int], np.ndarray]


class Streaming(Reduction):
    """Leaves (row, ...) in float64; the memory is theirs, whatever the number of draws."""

    def __init__(self, kind: Streamed, shapes: list[Any], extent: Extent):
        super().__init__(shapes, extent)
        self.of_group, self.kind = kind.of_group, kind
        check_room(8 * extent.rows * sum(math.prod(leaf.shape[1:]) for leaf in shapes), "predict for fewer rows")
        self.leaves = [np.empty((extent.rows, *leaf.shape[1:])) for leaf in shapes]

    def begin(self, start: int, stop: int) -> None:
        super().begin(start, stop)
        self.states = [self.kind.start(np.zeros(leaf.shape)) for leaf in self.shapes]

    def add(self, parts: list[Any], first: int, counted: np.ndarray) -> None:
        parts, counts = jax.tree.map(np.asarray, parts), counted.sum(1)
        pairs = zip(self.states, parts, strict=True)
        self.states = [self.kind.merge(state, part, counts) for state, part in pairs]

    def end(self) -> None:
        for leaf, state in zip(self.leaves, self.states, strict=True):
            leaf[self.rows] = self.kind.finish(state, self.extent.total)[: self.rows.stop - self.rows.start]


def _counted(part: Any, counted: np.ndarray) -> np.ndarray:
    """Those of a block's draws that count, which are the first ones, (draw, row, ...)."""
    part = np.asarray(part)
    return part.reshape(-1, *part.shape[2:])[: counted.sum()]


def _values(values: Array, counted: Array) -> Array:
    return values


def _floats(values: Array, counted: Array) -> Array:
    return _among(values, counted)[0]


def _among(values: Array, counted: Array) -> tuple[Array, Array]:
    """Predictions as floats, and which count, shaped to go with them."""
    values = values.astype(_float_dtype(values.dtype))
    return values, counted.reshape(-1, *[1] * (values.ndim - 1))


def _float_dtype(dtype: Any) -> np.dtype:
    """What to add up in: not in half precision, and whole numbers and flags in the widest there is."""
    if jnp.issubdtype(dtype, np.floating):
        return np.dtype(np.float32) if dtype.itemsize < 4 else np.dtype(dtype)
    return np.dtype(jax.dtypes.canonicalize_dtype(np.float64))


def _sum(values: Array, counted: Array) -> Array:
    values, where = _among(values, counted)
    return jnp.sum(values, axis=0, where=where)


def _log_sum(values: Array, counted: Array) -> Array:
    values, where = _among(values, counted)
    return jax.nn.logsumexp(values, axis=0, where=where)


def _mean_and_spread(values: Array, counted: Array) -> tuple[Array, Array]:
    values, where = _among(values, counted)
    # from the first draw on: of numbers that differ little the differences are exact
    ahead = jnp.sum(values - values[:1], axis=0, where=where)
    mean = values[0] + ahead / jnp.maximum(jnp.sum(counted), 1).astype(values.dtype)
    return mean, jnp.sum(jnp.square(values - mean[None]), axis=0, where=where)


def _merge_spread(state: Any, part: Any, counts: np.ndarray) -> Any:
    """Chan, Golub and LeVeque (1979), all groups at once."""
    count, mean, spread = state
    counts = counts.reshape(-1, *[1] * mean.ndim)
    means, spreads = (np.asarray(x, np.float64) for x in part)
    total = count + counts.sum()
    merged = mean + (counts * (means - mean)).sum(0) / total
    between = count * (mean - merged) ** 2 + (counts * (means - merged) ** 2).sum(0)
    return total, merged, spread + spreads.sum(0) + between


def _sd(state: Any, count: int) -> np.ndarray:
    return np.sqrt(state[2] / (count - 1)) if count > 1 else np.full_like(state[2], np.nan)


STREAMED = {
    "mean": Streamed(
        _sum,
        lambda zeros: zeros,
        lambda state, part, counts: state + np.sum(part, axis=0, dtype=np.float64),
        lambda state, count: state / count,
    ),
    "sd": Streamed(_mean_and_spread, lambda zeros: (0, zeros, zeros), _merge_spread, _sd),
    "log_mean_exp": Streamed(
        _log_sum,
        lambda zeros: zeros - np.inf,
        lambda state, part, counts: np.logaddexp(state, np.logaddexp.reduce(np.asarray(part, np.float64), axis=0)),
        lambda state, count: state - math.log(count),
    ),
}
