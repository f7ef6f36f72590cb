"""Batches from a source, shuffled block-wise, without replacement within an epoch, read ahead by a thread.

Batches go on across the end of an epoch: none is short, and every row is given out equally often.
"""

import os
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.data.ahead import ReadAhead
from ergodica.data.batches import Batches
from ergodica.data.memory import Pool
from ergodica.data.order import Order, Place
from ergodica.errors import InputError
from ergodica.phase import BatchPair
from ergodica.targets.source import Source


def open_stream(source: Source, batch_size: int, seed: int = 0, is_paired: bool = False) -> "Stream | BatchStream":
    """The stream of any source."""
    if isinstance(source, Batches):
        return BatchStream(source, batch_size, is_paired)
    return Stream(source, batch_size, seed, is_paired)


class Stream:
    """Batches of a source's rows, in an order that hangs on the seed alone.

    Args:
        source: what reads the rows.
        batch_size: rows of a batch.
        seed: of the order; runs and chains that differ in it get other batches.
        is_paired: pairs of batches of half the size from two independent orders, for recipes that read z.potential.

    It holds about 150 MB. Close it, use it in a `with` statement, or drop it: its thread ends with it.
    """

    def __init__(self, source: Source, batch_size: int, seed: int | tuple[int, ...] = 0, is_paired: bool = False):
        if not 1 <= batch_size <= source.size:
            raise InputError(f"batch_size is {batch_size}: expected 1 to {source.size}, the number of data rows")
        root = (seed,) if isinstance(seed, int | np.integer) else tuple(seed)
        self.source, self.batch_size, self.is_paired = source, batch_size, is_paired
        self._lanes = [_Lane(source, Order(source, (*root, lane))) for lane in range(1 + is_paired)]

    def next(self, count: int) -> PyTree:
        """The next `count` batches: leaves (count, batch, ...); of a pair each with half the rows."""
        length = self.batch_size // 2 if self.is_paired else self.batch_size
        parts = [_folded(lane.next(count * length), count, length) for lane in self._lanes]
        return BatchPair(*parts) if self.is_paired else parts[0]

    @property
    def cursor(self) -> dict[str, int]:
        """Where the stream is, after the batches given out; not counting what is read ahead."""
        names = ("", "second_")
        return {
            name + field: int(value)
            for name, lane in zip(names, self._lanes, strict=False)
            for field, value in lane.place._asdict().items()
        }

    def seek(self, cursor: dict[str, int]) -> None:
        """Go to where a stream of the same source and seed was: the same batches follow."""
        if set(cursor) != set(self.cursor):
            raise InputError(f"the cursor {cursor} is not of this stream, which has {', '.join(self.cursor)}")
        for name, lane in zip(("", "second_"), self._lanes, strict=False):
            lane.seek(Place(*(int(cursor[name + field]) for field in Place._fields)))

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


class _Group(NamedTuple):
    """The rows of some blocks, as they were read, and the order in which they are given out."""

    leaves: list[np.ndarray]
    shuffle: np.ndarray


class _Lane:
    """The rows of one order, one after another."""

    def __init__(self, source: Source, order: Order):
        self.source, self.order, self.place = source, order, Place(0, 0, 0)
        self._like, self._structure = jax.tree.flatten(source.example())
        self._ahead: ReadAhead | None = None
        self._memory = [Pool() for _ in self._like]
        self._group: _Group | None = None  # that of `place`
        self._is_closed = False

    def next(self, count: int) -> PyTree:
        given = _arrays(self._memory, count, self._like)
        done = 0
        while done < count:
            group, first = self._current(), self.place.row
            chosen = group.shuffle[first : first + count - done]
            for whole, leaf in zip(given, group.leaves, strict=True):
                # mode: "raise" would go through a copy
                np.take(leaf, chosen, axis=0, out=whole[done : done + len(chosen)], mode="clip")
            done += len(chosen)
            self.place = self.place._replace(row=first + len(chosen))
            if self.place.row == len(group.shuffle):
                self.place = Place(*self.order.after(self.place.epoch, self.place.group), 0)
                self._group = None
        return jax.tree.unflatten(self._structure, given)

    def seek(self, place: Place) -> None:
        if not (place.epoch >= 0 and 0 <= place.group < self.order.groups and place.row >= 0):
            raise InputError(f"the cursor {place._asdict()} is not of this data: it has {self.order.groups} groups")
        self._drop()
        self.place = place

    def close(self) -> None:
        self._drop()
        self._is_closed = True

    def _drop(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
        self._ahead = self._group = None

    def _current(self) -> _Group:
        if self._is_closed:
            raise InputError("this stream was closed: make a new one and seek its cursor")
        if self._ahead is not None and self._ahead.process != os.getpid():
            self._ahead = None  # a fork: the thread stayed behind
        if self._group is not None:
            return self._group
        if self._ahead is None:
            self._ahead = ReadAhead(partial(_groups, self.source, self.order, self.place, self._like), depth=2)
        group = self._ahead.next()
        rows = len(group.shuffle)
        if self.place.row >= rows:
            raise InputError(f"the cursor {self.place._asdict()} is not of this data: the group has {rows} rows")
        self._group = group
        return group


def _groups(source: Source, order: Order, place: Place, like: list[np.ndarray]) -> Iterator[_Group]:
    """The groups from that of `place` on."""
    epoch, group, memory = place.epoch, place.group, [Pool() for _ in like]
    while True:
        blocks, shuffle = order.group(epoch, group)
        leaves = _arrays(memory, len(shuffle), like)
        at = 0
        for start, stop in blocks.tolist():
            source.read_into(start, stop, leaves, at)
            at += stop - start
        yield _Group(leaves, shuffle)
        del leaves  # the caller's now
        epoch, group = order.after(epoch, group)


def _arrays(memory: list[Pool], count: int, like: list[np.ndarray]) -> list[np.ndarray]:
    """Room for `count` rows."""
    return [pool.array((count, *leaf.shape[1:]), leaf.dtype) for pool, leaf in zip(memory, like, strict=True)]


def _folded(rows: PyTree, count: int, length: int) -> PyTree:
    return jax.tree.map(lambda leaf: leaf.reshape(count, length, *leaf.shape[1:]), rows)


class BatchStream:
    """Batches from an iterable, cut to `batch_size` rows: a short last batch goes on with the next epoch's rows."""

    def __init__(self, source: Batches, batch_size: int, is_paired: bool = False):
        self.source, self.batch_size, self.is_paired = source, batch_size, is_paired
        self._ahead: ReadAhead | None = None
        self._memory: list[Pool] = []
        self._begin(0)

    def next(self, count: int) -> PyTree:
        """The next `count` batches; of a pair two that follow each other, each with half the rows."""
        parts = 1 + self.is_paired
        rows = _folded(self._rows(count * self.batch_size), count * parts, self.batch_size // parts)
        self._given_out += count
        if not self.is_paired:
            return rows
        return BatchPair(*(jax.tree.map(lambda leaf, k=k: leaf[k::2], rows) for k in range(2)))

    @property
    def cursor(self) -> dict[str, int]:
        """How many batches were given out; how many of the iterable's own are used up, and rows of the one after."""
        left = _length(self._rest)
        used = (self._taken - 1, self._last - left) if left else (self._taken, 0)
        return {"batches": self._given_out, "iterated": used[0], "rows": used[1]}

    def seek(self, cursor: dict[str, int]) -> None:
        """Go to where another stream was, by the iterable's own `seek` where it has one, else by reading past."""
        if set(cursor) != set(self.cursor):
            raise InputError(f"the cursor {cursor} is not of a stream of batches")
        wanted = int(cursor["batches"])
        if self.source.can_seek:
            self._begin(int(cursor["iterated"]))
            self._rows(int(cursor["rows"]))
        else:
            self._skip_to(wanted)
        self._given_out = wanted

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
        self._ahead = self._rest = None

    def __enter__(self) -> "BatchStream":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _begin(self, iterated: int) -> None:
        self.close()
        self._given_out, self._taken, self._last, self._rest = 0, iterated, 0, None

    def _skip_to(self, wanted: int) -> None:
        if wanted < self._given_out:
            if not self.source.is_renewable:
                raise InputError(
                    f"batch {wanted} was asked for, but the iterator is at {self._given_out} and cannot go back: give "
                    "a new one, or an iterable with a method seek(batches)"
                )
            self._begin(0)
        for _ in range(wanted - self._given_out):
            self._rows(self.batch_size)

    def _rows(self, count: int) -> PyTree:
        if self._ahead is None or self._ahead.process != os.getpid():
            self._ahead = ReadAhead(partial(self.source.passes, self._taken), depth=4)
        if self._rest is None:
            self._rest = self._next_part()
        like, structure = jax.tree.flatten(self._rest)
        if not self._memory:
            self._memory = [Pool() for _ in like]
        given, done = _arrays(self._memory, count, like), 0
        while done < count:
            if _length(self._rest) == 0:
                self._rest = self._next_part()
            leaves = _leaves_like(self._rest, like, structure)
            used = min(count - done, len(leaves[0]))
            for whole, leaf in zip(given, leaves, strict=True):
                whole[done : done + used] = leaf[:used]
            self._rest = jax.tree.map(lambda leaf, used=used: leaf[used:], self._rest)
            done += used
        return jax.tree.unflatten(structure, given)

    def _next_part(self) -> PyTree:
        """The iterable's next batch."""
        assert self._ahead is not None
        try:
            part = jax.tree.map(np.asarray, self._ahead.next())
        except StopIteration:
            raise InputError(
                f"the batches ran out after {self._given_out}: give an iterable that can start over, or fewer steps"
            ) from None
        self._taken, self._last = self._taken + 1, _length(part)
        return part


def _leaves_like(part: PyTree, like: list[np.ndarray], structure: Any) -> list[np.ndarray]:
    """The leaves of a batch, which must have the tree, the shapes of rows and the dtypes of the one before."""
    leaves, other = jax.tree.flatten(part)
    if other != structure:
        raise InputError(f"a batch is {other}: the ones before it were {structure}")
    for leaf, before in zip(leaves, like, strict=True):
        if leaf.ndim == 0 or (leaf.shape[1:], leaf.dtype) != (before.shape[1:], before.dtype):
            was = f"{before.dtype} (rows, {', '.join(map(str, before.shape[1:]))})"
            raise InputError(f"a batch has {leaf.dtype} of shape {leaf.shape}: those before it had {was}")
    if len({len(leaf) for leaf in leaves}) != 1:
        raise InputError(f"a batch has arrays of {', '.join(str(len(leaf)) for leaf in leaves)} rows: expected as many")
    return leaves


def _length(rows: PyTree) -> int:
    return 0 if rows is None else len(jax.tree.leaves(rows)[0])
