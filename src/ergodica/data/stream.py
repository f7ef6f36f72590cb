"""Batches from a source, shuffled block-wise, without replacement within an epoch, read ahead by a thread.

An epoch visits the blocks of a source in random order, some at a time; the rows of these are shuffled together. Every
row is visited once an epoch. Batches go on across the end of an epoch: none is short. The order is a function of the
seed and the place in it, so that a run can be resumed there.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.data.buffers import Pool, ReadAhead, aligned, rows_like, turns
from ergodica.data.iterable import Batches, BatchStream, folded
from ergodica.data.source import Source
from ergodica.errors import InputError
from ergodica.host.validate import whole
from ergodica.phase import BatchPair

SHUFFLED_BYTES = 1 << 25  # of the blocks that are shuffled together
GROUPS_AHEAD = 2  # that wait to be used
GROUPS_IN_MEMORY = GROUPS_AHEAD + 2  # with the one in use, and the one that is read


def open_stream(source: Source, batch_size: int, seed: int = 0, is_paired: bool = False) -> "Stream | BatchStream":
    """The stream of any source."""
    if isinstance(source, Batches):
        return BatchStream(source, batch_size, is_paired)
    return Stream(source, batch_size, seed, is_paired)


class OrderPlace(NamedTuple):
    """The next row to be given out: its epoch, its group of blocks there, and how many rows of that went before."""

    epoch: int
    group: int
    row: int


class RowOrder:
    """Which rows come when."""

    def __init__(self, source: Source, seed: tuple[int, ...]):
        self.seed = seed
        edges = source.edges()
        self.blocks = np.stack([edges[:-1], edges[1:]], axis=1)
        row_bytes = max(1, source.row_bytes())
        largest = int((self.blocks[:, 1] - self.blocks[:, 0]).max()) * row_bytes
        self.together = max(1, SHUFFLED_BYTES // max(1, largest))
        self.groups = -(-len(self.blocks) // self.together)
        self.most_rows = int(np.sort(self.blocks[:, 1] - self.blocks[:, 0])[-self.together :].sum())
        """Of a group."""
        self._epoch: tuple[int, np.ndarray] = (-1, np.empty(0, int))

    def group(self, epoch: int, group: int) -> tuple[np.ndarray, np.ndarray]:
        """The blocks (start, stop) to read, and the order of the rows when these are laid end to end."""
        if self._epoch[0] != epoch:
            self._epoch = (epoch, np.random.default_rng((*self.seed, epoch)).permutation(len(self.blocks)))
        chosen = self.blocks[self._epoch[1][group * self.together : (group + 1) * self.together]]
        rows = int((chosen[:, 1] - chosen[:, 0]).sum())
        return chosen, np.random.default_rng((*self.seed, epoch, group + 1)).permutation(rows)

    def after(self, epoch: int, group: int) -> tuple[int, int]:
        """The group that follows."""
        return (epoch, group + 1) if group + 1 < self.groups else (epoch + 1, 0)


class Stream(AbstractContextManager):
    """Batches of a source's rows, in an order that depends on the seed alone.

    `eg.sample` opens one by itself; use it to feed a loop of your own.

    Args:
        source: what reads the rows.
        batch_size: rows of a batch.
        seed: of the order; runs and chains that differ in it get other batches.
        is_paired: pairs of batches of half the size from two independent orders, for recipes that read z.potential.

    It holds about 150 MB. Close it, use it in a `with` statement, or drop it: its thread ends with it.

    >>> from ergodica.data.arrays import Arrays, HeldRows
    >>> with Stream(Arrays(HeldRows(np.arange(6))), batch_size=3) as stream:
    ...     sorted(stream.next(2).ravel().tolist())  # two batches: an epoch
    [0, 1, 2, 3, 4, 5]
    """

    def __init__(self, source: Source, batch_size: int, seed: int | tuple[int, ...] = 0, is_paired: bool = False):
        whole("batch_size", batch_size, 1, source.size, of="data rows")
        root = (seed,) if isinstance(seed, int | np.integer) else tuple(seed)
        self.source, self.batch_size, self.is_paired = source, batch_size, is_paired
        names = ("", "second_") if is_paired else ("",)  # what the cursor calls them
        self._lanes = {name: _Lane(source, RowOrder(source, (*root, lane))) for lane, name in enumerate(names)}

    def next(self, count: int) -> PyTree:
        """The next `count` batches: leaves (count, batch, ...); of a pair each with half the rows."""
        length = self.batch_size // 2 if self.is_paired else self.batch_size
        parts = [folded(lane.next(count * length), count, length) for lane in self._lanes.values()]
        return BatchPair(*parts) if self.is_paired else parts[0]

    @property
    def cursor(self) -> dict[str, int]:
        """Where the stream is, after the batches given out; not counting what is read ahead."""
        return {
            name + field: int(value)
            for name, lane in self._lanes.items()
            for field, value in lane.place._asdict().items()
        }

    def seek(self, cursor: dict[str, int]) -> None:
        """Go to where a stream of the same source and seed was: the same batches follow."""
        if set(cursor) != set(self.cursor):
            raise InputError(f"the cursor {cursor} is not of this stream, which has {', '.join(self.cursor)}")
        for name, lane in self._lanes.items():
            lane.seek(OrderPlace(*(int(cursor[name + field]) for field in OrderPlace._fields)))

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.close()

    def __exit__(self, *error: Any) -> None:
        self.close()


class _Group(NamedTuple):
    """The rows of some blocks, as they were read, and the order in which they are given out."""

    leaves: list[np.ndarray]
    shuffle: np.ndarray


class _Lane:
    """The rows of one order, one after another."""

    def __init__(self, source: Source, order: RowOrder):
        self.source, self.order, self.place = source, order, OrderPlace(0, 0, 0)
        self._like, self._structure = jax.tree.flatten(source.example())
        self._ahead: ReadAhead | None = None
        self._memory = [Pool() for _ in self._like]
        self._group: _Group | None = None  # that of `place`
        self._is_closed = False

    def next(self, count: int) -> PyTree:
        given = rows_like(self._memory, count, self._like)
        done = 0
        while done < count:
            group, first = self._current(), self.place.row
            chosen = group.shuffle[first : first + count - done]
            for filled, leaf in zip(given, group.leaves, strict=True):
                # mode: "raise" would go through a copy
                np.take(leaf, chosen, axis=0, out=filled[done : done + len(chosen)], mode="clip")
            done += len(chosen)
            self.place = self.place._replace(row=first + len(chosen))
            if self.place.row == len(group.shuffle):
                self.place = OrderPlace(*self.order.after(self.place.epoch, self.place.group), 0)
                self._group = None
        return jax.tree.unflatten(self._structure, given)

    def seek(self, place: OrderPlace) -> None:
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
            raise InputError("this stream was closed: open a new one and seek its cursor")
        if self._ahead is not None and self._ahead.process != os.getpid():
            self._ahead = None  # a fork: the thread stayed behind
        if self._group is not None:
            return self._group
        if self._ahead is None:
            self._ahead = ReadAhead(
                partial(_groups, self.source, self.order, self.place, self._like), depth=GROUPS_AHEAD
            )
        group = self._ahead.next()
        rows = len(group.shuffle)
        if self.place.row >= rows:
            raise InputError(f"the cursor {self.place._asdict()} is not of this data: the group has {rows} rows")
        self._group = group
        return group


def _groups(source: Source, order: RowOrder, place: OrderPlace, like: list[np.ndarray]) -> Iterator[_Group]:
    """The groups from that of `place` on.

    Group n + 1 is read once group n is in the queue, which holds two. So group n - 2 has been taken out, and whoever
    took it had done with group n - 3, whose memory it is.
    """
    epoch, group = place.epoch, place.group
    memory = turns(GROUPS_IN_MEMORY, lambda: [aligned((order.most_rows, *leaf.shape[1:]), leaf.dtype) for leaf in like])
    while True:
        blocks, shuffle = order.group(epoch, group)
        leaves = [leaf[: len(shuffle)] for leaf in next(memory)]
        at = 0
        for start, stop in blocks.tolist():
            source.read_into(start, stop, leaves, at)
            at += stop - start
        yield _Group(leaves, shuffle)
        epoch, group = order.after(epoch, group)
