"""Minibatches of data in memory.

windows: contiguous slices of a shuffled copy at random offsets. Every row is in a window with the same chance, so the
gradient is unbiased; a window is one slice, where gathering random rows reads all over memory. The first n - 1 rows are
appended, so that a window that wraps around is a slice too. For one shuffle the variance of the windows' gradients is
off its mean over shuffles by about sqrt(4 n / 3 N), 16 % at n = N/50: for larger batches rows are gathered.

gathers: rows drawn without replacement, independently for every step.

epochs: every row once in an epoch, in an order of its own; a batch goes on into the next epoch, so that none is short.

independent: rows drawn with replacement.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.compiling import sound_filter_jit
from ergodica.data.buffers import Pool
from ergodica.errors import InputError
from ergodica.phase import BatchPair

KINDS = ("windows", "epochs", "independent")
NUMBERS = 2**18  # row numbers drawn at a time: what is sorted should stay in the cache


def batches_for(
    target: Any, batch_size: int, is_paired: bool, is_compensated: bool, seed: int, kind: str | None = None
) -> "Batches":
    """The kind asked for; if none, windows, and gathers where the variance of one shuffle's windows would be too far
    off: also in the place of windows that were asked for, if the run compensates for their noise."""
    length = batch_size // 2 if is_paired else batch_size
    is_large = 50 * batch_size > target.size
    if kind in (None, "windows"):
        kind = "gathers" if is_large and (kind is None or is_compensated) else "windows"
    if kind == "windows":
        return Windows(target, length, is_paired, seed)
    if kind == "epochs" and is_compensated:
        raise InputError(
            "with batches='epochs' the gradients of neighbouring steps are not independent, and subtracting their "
            "noise would be wrong: use batches='windows', or gradient_noise=None"
        )
    made = {"gathers": Gathers, "independent": Independent, "epochs": Epochs}[kind]
    return made(jax.tree.map(jnp.asarray, target.data), length, target.size, is_paired)


class Batches(eqx.Module):
    """Each step's batch, taken in the loop from a place that was found ahead of it."""

    kind: ClassVar[str]
    """For the file: what the batches are."""
    length: eqx.AbstractVar[int]
    is_paired: eqx.AbstractVar[bool]

    @abstractmethod
    def at(self, place: PyTree) -> PyTree:
        """The batch, or an `eg.BatchPair` of two, drawn independently, where the recipe reads z.potential."""


class Drawn(Batches):
    """Batches whose places come from the keys of their steps."""

    @abstractmethod
    def ahead(self, keys: Array) -> PyTree:
        """Where the batches of some steps are, leaves (step, ...), from two keys for each, (step, 2)."""


class Windows(Drawn):
    """Windows of `length` rows; in pairs at independent offsets."""

    kind: ClassVar[str] = "windows"
    rows: PyTree
    length: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    is_paired: bool = eqx.field(static=True)

    def __init__(self, target: Any, length: int, is_paired: bool, seed: int):
        self.size, self.is_paired, self.length = target.size, is_paired, length
        order = np.random.default_rng(seed).permutation(self.size)
        wrapped = np.concatenate([order, order[: self.length - 1]])
        self.rows = jax.tree.map(lambda leaf: _taken(np.asarray(leaf), wrapped), target.data)

    def ahead(self, keys):
        return _each(lambda key: jax.random.randint(key, (), 0, self.size), keys, self.is_paired)

    def at(self, place):
        def window(offset: Array) -> PyTree:
            return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, offset, self.length), self.rows)

        return _batch([window(offset) for offset in place])


def _taken(leaf: np.ndarray, index: np.ndarray) -> Array:
    """leaf[index], in memory that JAX takes as it is: `jnp.asarray` would copy all data once more."""
    if leaf.dtype.kind not in "biufc" or jax.dtypes.canonicalize_dtype(leaf.dtype) != leaf.dtype:
        return jnp.asarray(leaf[index])
    rows = Pool().array((len(index), *leaf.shape[1:]), leaf.dtype)
    np.take(leaf, index, axis=0, out=rows, mode="clip")  # mode: "raise" would go through a copy
    return jnp.from_dlpack(rows)


class Gathered(Batches):
    """Rows at indices that differ from step to step."""

    rows: PyTree
    length: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    is_paired: bool = eqx.field(static=True)

    def at(self, place):
        return _batch([jax.tree.map(lambda leaf, i=index: leaf[i], self.rows) for index in place])


class Independent(Gathered, Drawn):
    """`length` rows drawn with replacement for every step."""

    kind: ClassVar[str] = "independent"

    def ahead(self, keys):
        return _each(lambda key: jax.random.randint(key, (self.length,), 0, self.size), keys, self.is_paired)


class Numbered(Gathered):
    """Rows whose numbers come from the host."""


class Epochs(Numbered):
    """Every row once in an epoch, which may outlast a chunk."""

    kind: ClassVar[str] = "epochs"


class Gathers(Numbered):
    """`length` rows drawn without replacement for every step: a permutation of all rows would take JAX longer than
    many steps."""

    kind: ClassVar[str] = "gathers"


def rows_of(batches: Batches | None, seed: int) -> "Orders | Subsets | None":
    """What numbers the rows of a run's batches; None where they are found otherwise."""
    if isinstance(batches, Numbered):
        return Orders(batches, seed) if isinstance(batches, Epochs) else Subsets(batches, seed)
    return None


class Orders:
    """The orders of the epochs of a run, for each chain the one that it is in: it may last for many chunks."""

    def __init__(self, epochs: Numbered, seed: int):
        self.epochs, self.seed = epochs, seed
        self._kept: dict[tuple[int, int], tuple[int, np.ndarray]] = {}

    def rows(self, chain: int, first: int, count: int) -> np.ndarray:
        """Row numbers, (step, 1 or 2, rows): those of places first * n, ..., in the sequence of all epochs."""
        length, size = self.epochs.length, self.epochs.size
        places = np.arange(first * length, (first + count) * length)
        numbers = places // size
        columns = []
        for part in range(1 + self.epochs.is_paired):
            orders = [self._order(chain, part, epoch) for epoch in range(numbers[0], numbers[-1] + 1)]
            columns.append(np.concatenate(orders)[places - numbers[0] * size].reshape(count, length))
        return np.stack(columns, axis=1)

    def _order(self, chain: int, part: int, epoch: int) -> np.ndarray:
        kept = self._kept.get((chain, part))
        if kept is None or kept[0] != epoch:
            generator = np.random.default_rng([self.seed, chain, part, epoch])
            kept = self._kept[chain, part] = epoch, generator.permutation(self.epochs.size).astype(np.int32)
        return kept[1]


class Subsets:
    """Rows drawn without replacement, blocks of steps at a time: each block from a generator of its own, so that they
    do not depend on where a chunk begins."""

    def __init__(self, gathers: Numbered, seed: int):
        self.gathers, self.seed = gathers, seed
        self.block = max(1, min(256, NUMBERS // gathers.length))
        self._kept: dict[tuple[int, int], tuple[int, np.ndarray]] = {}

    def rows(self, chain: int, first: int, count: int) -> np.ndarray:
        """Row numbers, (step, 1 or 2, rows)."""
        numbers = range(first // self.block, (first + count - 1) // self.block + 1)
        columns = []
        for part in range(1 + self.gathers.is_paired):
            whole = np.concatenate([self._of_block(chain, part, number) for number in numbers])
            columns.append(whole[first - numbers[0] * self.block :][:count])
        return np.stack(columns, axis=1)

    def _of_block(self, chain: int, part: int, number: int) -> np.ndarray:
        kept = self._kept.get((chain, part))
        if kept is None or kept[0] != number:
            generator = np.random.default_rng([self.seed, chain, part, number])
            kept = self._kept[chain, part] = (
                number,
                subsets(generator, self.block, self.gathers.length, self.gathers.size),
            )
        return kept[1]


def subsets(generator: np.random.Generator, count: int, length: int, size: int) -> np.ndarray:
    """`count` uniform random sets of `length` of the numbers below `size`, (count, length)."""
    if 2 * length > size:  # those that are left out
        is_in = np.ones((count, size), bool)
        np.put_along_axis(is_in, subsets(generator, count, size - length, size), False, axis=1)
        return np.nonzero(is_in)[1].astype(np.int32).reshape(count, length)
    # Draw with replacement and take the first `length` that are distinct. Sorted with their places behind them, a
    # number that came earlier stands before its repetitions.
    needed = size * np.log(size / (size - length))
    drawn = int(needed + 6 * np.sqrt(length)) + 8
    bits = drawn.bit_length()
    kind = np.uint32 if size << bits <= 2**32 else np.uint64
    numbers = generator.integers(size, size=(count, drawn), dtype=kind)
    ordered = np.sort(numbers << kind(bits) | np.arange(drawn, dtype=kind), axis=1)
    values, places = ordered >> kind(bits), (ordered & kind((1 << bits) - 1)).astype(np.int32)
    is_new = np.ones((count, drawn), bool)
    np.put_along_axis(is_new, places[:, 1:], values[:, 1:] != values[:, :-1], axis=1)
    is_taken = is_new & (np.cumsum(is_new, axis=1, dtype=np.int32) <= length)
    is_short = np.count_nonzero(is_taken, axis=1) < length
    found = np.empty((count, length), np.int32)
    found[~is_short] = numbers[is_taken & ~is_short[:, None]].reshape(np.count_nonzero(~is_short), length)
    for row in np.flatnonzero(is_short):  # one in many millions; by symmetry the others stay uniform
        found[row] = generator.choice(size, length, replace=False)
    return found


class Handed(Batches):
    """Batches that the host brings, from a stream."""

    length: int = eqx.field(static=True)
    is_paired: bool = eqx.field(static=True)

    def at(self, place):
        return place


class FromDisk(Handed):
    """Rows shuffled block-wise."""

    kind: ClassVar[str] = "epochs"


class Given(Handed):
    """In the order of an iterable."""

    kind: ClassVar[str] = "as given"


@sound_filter_jit
def places_ahead(batches: Drawn, keys: Array) -> PyTree:
    """Where the batches of a chunk are, from all its keys (see `chunk_keys`)."""
    return batches.ahead(keys[:, 1:])


def _each(draw: Callable[[Array], Array], keys: Array, is_paired: bool) -> Array:
    """(step, 1 or 2, ...)."""
    return jax.vmap(jax.vmap(draw))(keys[:, : 1 + is_paired])


def _batch(parts: list[PyTree]) -> PyTree:
    return BatchPair(*parts) if len(parts) == 2 else parts[0]
