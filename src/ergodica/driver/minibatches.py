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
from functools import lru_cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.compiling import sound_jit
from ergodica.errors import InputError
from ergodica.host.threads import Threads
from ergodica.phase import BatchPair
from ergodica.targets import DataTarget

BATCH_KINDS = ("windows", "epochs", "independent")
ROW_NUMBERS = 2**18  # drawn at a time
TABLE_NUMBERS = 2**18  # in a table that should stay in the cache
KEPT_ORDER = 2**18  # rows whose order is kept for the next run in this process


# -- the copy that windows are cut from ----------------------------------------------------------------


class ShuffledCopy:
    """The rows in an order of their own, and the first `beyond` of them once more at the end.

    With `threads` it is begun at once, in one of these. It is made again for every run: who holds the data may have
    changed them since.
    """

    def __init__(self, data: PyTree, size: int, beyond: int, seed: int, threads: Threads | None = None):
        self._size = size
        leaves, self._structure = jax.tree.flatten(data)
        arrays = [np.asarray(leaf) for leaf in leaves]
        # here: whether JAX is in 32 bits is a matter of each thread
        self._is_plain = [_is_plain(array) for array in arrays]
        make = partial(_copied, arrays, self._is_plain, size, beyond, seed)
        self._made = make if threads is None else threads.submit(make).result

    def rows(self, beyond: int) -> PyTree:
        """For JAX, with no more than `beyond` rows at the end."""
        stop, copies = self._size + beyond, self._made()
        handed = [_handed(copy[:stop], is_plain) for copy, is_plain in zip(copies, self._is_plain, strict=True)]
        return jax.tree.unflatten(self._structure, handed)


def _is_plain(array: np.ndarray) -> bool:
    """Whether JAX can take it as it is."""
    return array.dtype.kind in "biufc" and jax.dtypes.canonicalize_dtype(array.dtype) == array.dtype


def _copied(arrays: list[np.ndarray], are_plain: list[bool], size: int, beyond: int, seed: int) -> list[np.ndarray]:
    order = _small_order(size, seed) if size <= KEPT_ORDER else _order(size, seed)
    wrapped = np.concatenate([order, order[:beyond]])
    return [_taken(array, wrapped, is_plain) for array, is_plain in zip(arrays, are_plain, strict=True)]


def _order(size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(size)


_small_order = lru_cache(maxsize=2)(_order)  # most people sample the same data again, and by the same seed


def _taken(array: np.ndarray, index: np.ndarray, is_plain: bool) -> np.ndarray:
    """array[index], in memory that JAX takes as it is: `jnp.asarray` would copy all data once more."""
    if not is_plain:
        return array[index]
    from ergodica.data.buffers import aligned

    rows = aligned((len(index), *array.shape[1:]), array.dtype)
    np.take(array, index, axis=0, out=rows, mode="clip")  # mode: "raise" would go through a copy
    return rows


def _handed(rows: np.ndarray, is_plain: bool) -> Array:
    # device_put takes aligned memory as it is
    return jax.device_put(rows) if is_plain else jnp.asarray(rows)


# -- kinds of batches -----------------------------------------------------------------------------------


def kind_for(size: int, batch_size: int, is_compensated: bool, kind: str | None) -> str:
    """The kind asked for; if none, windows, and gathers where the variance of one shuffle's windows would be too far
    off: also instead of windows that were asked for, if the run compensates for their noise."""
    is_large = 50 * batch_size > size
    if kind in (None, "windows"):
        return "gathers" if is_large and (kind is None or is_compensated) else "windows"
    return kind


def batches_for(
    target: DataTarget,
    batch_size: int,
    is_paired: bool,
    is_compensated: bool,
    seed: int,
    kind: str | None = None,
    copy: ShuffledCopy | None = None,
) -> "RowBatches":
    """Of the kind that `kind_for` names. `copy`: of the rows, where it was begun before."""
    length, size = batch_size // 2 if is_paired else batch_size, target.size
    kind = kind_for(size, batch_size, is_compensated, kind)
    if kind == "windows":
        copy = copy or ShuffledCopy(target.data, size, length - 1, seed)
        return Windows(kind, length, is_paired, copy.rows(length - 1), size)
    if kind == "epochs" and is_compensated:
        raise InputError(
            "with batches='epochs' the gradients of neighbouring steps are not independent, and subtracting their "
            "noise would be wrong: use batches='windows', or gradient_noise=None"
        )
    made = Independent if kind == "independent" else Gathered
    return made(kind, length, is_paired, jax.tree.map(jnp.asarray, target.data), size)


class Minibatches(eqx.Module):
    """Each step's batch, taken in the loop from a place that was found ahead of it."""

    kind: str = eqx.field(static=True)
    """For the file: what the batches are."""
    length: int = eqx.field(static=True)
    is_paired: bool = eqx.field(static=True)

    @abstractmethod
    def at(self, place: PyTree) -> PyTree:
        """The batch, or an `eg.BatchPair` of two, drawn independently, where the recipe reads z.potential."""


class RowBatches(Minibatches):
    """Batches of rows that are in memory."""

    rows: PyTree
    size: int = eqx.field(static=True)


class Windows(RowBatches):
    """Windows of `length` rows; in pairs at independent offsets."""

    def ahead(self, keys: Array) -> Array:
        """Where the batches of some steps are, (step, 1 or 2), from two keys for each, (step, 2)."""
        return _each(lambda key: jax.random.randint(key, (), 0, self.size), keys, self.is_paired)

    def at(self, place):
        def window(offset: Array) -> PyTree:
            return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, offset, self.length), self.rows)

        return _batch([window(offset) for offset in place])


class Gathered(RowBatches):
    """Rows at indices that differ from step to step: of epochs and gathers they come from the host (`RowNumbers`). A
    permutation of all rows would take JAX longer than many steps."""

    def at(self, place):
        return _batch([jax.tree.map(lambda leaf, i=index: leaf[i], self.rows) for index in place])


class Independent(Gathered):
    """`length` rows drawn with replacement for every step."""

    def ahead(self, keys: Array) -> Array:
        """Row numbers, (step, 1 or 2, rows), from two keys for each step, (step, 2)."""
        return _each(lambda key: jax.random.randint(key, (self.length,), 0, self.size), keys, self.is_paired)


class RowNumbers:
    """The row numbers of epochs or gathers, step after step: one sequence for each chain (and half of a pair), made in
    blocks, each by a generator of its own, so that it does not depend on where a chunk begins.

    A block of epochs is an epoch, and may last for many chunks; one of gathers holds the subsets of some steps.
    """

    def __init__(self, batches: Gathered, seed: int):
        self.batches, self.seed = batches, seed
        is_epochs, steps = batches.kind == "epochs", max(1, min(256, ROW_NUMBERS // batches.length))
        self.block = batches.size if is_epochs else batches.length * steps
        self._kept: dict[tuple[int, int], tuple[int, np.ndarray]] = {}

    def rows(self, chain: int, first: int, count: int) -> np.ndarray:
        """Those of `count` steps from `first` on, (step, 1 or 2, rows)."""
        length = self.batches.length
        numbers = range(first * length // self.block, ((first + count) * length - 1) // self.block + 1)
        columns = []
        for part in range(1 + self.batches.is_paired):
            whole = np.concatenate([self._of_block(chain, part, number) for number in numbers])
            columns.append(whole[first * length - numbers[0] * self.block :][: count * length].reshape(count, length))
        return np.stack(columns, axis=1)

    def _of_block(self, chain: int, part: int, number: int) -> np.ndarray:
        kept = self._kept.get((chain, part))
        if kept is None or kept[0] != number:
            size, length = self.batches.size, self.batches.length
            generator = np.random.default_rng([self.seed, chain, part, number])
            if self.batches.kind == "epochs":
                found = generator.permutation(size).astype(np.int32)
            else:
                found = subsets(generator, self.block // length, length, size).reshape(-1)
            kept = self._kept[chain, part] = number, found
        return kept[1]


def subsets(generator: np.random.Generator, count: int, length: int, size: int) -> np.ndarray:
    """`count` uniform random sets of `length` of the numbers below `size`, (count, length)."""
    if 2 * length > size:  # those that are left out
        is_in = np.ones((count, size), bool)
        np.put_along_axis(is_in, subsets(generator, count, size - length, size), False, axis=1)
        return np.nonzero(is_in)[1].astype(np.int32).reshape(count, length)
    # draw with replacement and take the first `length` that are distinct
    needed = size * np.log(size / (size - length))
    drawn = int(needed + 6 * np.sqrt(length)) + 8
    kind = np.uint32 if size << drawn.bit_length() <= 2**32 else np.uint64
    numbers = generator.integers(size, size=(count, drawn), dtype=kind)
    found, is_short = np.empty((count, length), np.int32), np.empty(count, bool)
    at_a_time = max(1, min(count, TABLE_NUMBERS // size))
    for first in range(0, count, at_a_time):
        here = slice(first, first + at_a_time)
        found[here], is_short[here] = _first_distinct(numbers[here], length, size)
    for row in np.flatnonzero(is_short):  # one in many millions; by symmetry the others stay uniform
        found[row] = generator.choice(size, length, replace=False)
    return found


def _first_distinct(numbers: np.ndarray, length: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Of each row the first `length` distinct numbers, and whether it has fewer, with anything for them."""
    count, drawn = numbers.shape
    places = np.arange(drawn, dtype=np.int16 if drawn < 2**15 else np.int32)
    cells = numbers.astype(np.intp) + size * np.arange(count)[:, None]
    # For each number the place where it stands first: the last one that is written, from the end. What nobody writes
    # nobody reads. (Sorting, with places behind the numbers, took longer.)
    table = np.empty(count * size, places.dtype)
    table[cells[:, ::-1].reshape(-1)] = np.tile(places[::-1], count)
    is_new = table.take(cells) == places
    met, found = np.count_nonzero(is_new, axis=1), np.flatnonzero(is_new)
    chosen = (np.cumsum(met) - met)[:, None] + np.arange(length)
    return numbers.reshape(-1).take(found.take(chosen, mode="clip")), met < length


@sound_jit
def places_ahead(batches: Windows | Independent, keys: Array) -> PyTree:
    """Where the batches of a chunk are, from all its keys (see `chunk_keys`)."""
    return batches.ahead(keys[:, 1:])


def _each(draw: Callable[[Array], Array], keys: Array, is_paired: bool) -> Array:
    """(step, 1 or 2, ...)."""
    return jax.vmap(jax.vmap(draw))(keys[:, : 1 + is_paired])


def _batch(parts: list[PyTree]) -> PyTree:
    return BatchPair(*parts) if len(parts) == 2 else parts[0]
