"""Batches that come from elsewhere, any iterable of them, and the stream of them that a run takes."""

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, NoReturn

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.data.buffers import Pool, ReadAhead, rows_like
from ergodica.data.source import Source
from ergodica.errors import InputError
from ergodica.host.validate import whole
from ergodica.phase import BatchPair

NO_BATCHES = "the iterable of batches is empty: expected at least one batch"


def batches(iterable: Iterable[PyTree], size: int) -> "Batches":
    """A source of batches that something else makes, in the order in which they come.

    Use it for a DataLoader or a generator. Where the rows are arrays or files, `eg.data.npy` and `eg.data.parquet` are
    better: they can also be read as a whole, which control variates and a search for the mode need.

    Args:
        iterable: batches of equal shapes, each a pytree of arrays with one leading axis, drawn so that every row is
            equally likely. One that can be iterated over again (a list, a DataLoader) starts over at its end. Its
            method `seek(count)`, if it has one, goes to where `count` batches have been given, over all passes; without
            it a resumed run reads past them.
        size: how many rows there are in all, N: a batch of n stands for N/n times its sum.

    Returns:
        A source, to be given to `eg.Posterior` as its data.

    Example:
        >>> data = batches([np.zeros(2), np.ones(2)], size=4)
        >>> data.size, data.example()
        (4, array([0.]))
    """
    return Batches(iterable, size)


class Batches(Source):
    """A source whose rows have no numbers: it can be passed over, not read from."""

    def __init__(self, iterable: Iterable[PyTree], size: int):
        if not isinstance(iterable, Iterable) or isinstance(iterable, str | bytes):
            raise InputError(f"batches is {iterable!r}: expected an iterable of batches")
        self.size = whole("size", size, 1, of="data rows")
        self.is_renewable = iter(iterable) is not iterable
        self.iterable = iterable
        self._first: PyTree = None

    @property
    def can_seek(self) -> bool:
        return hasattr(self.iterable, "seek")

    def first(self) -> PyTree:
        """The first batch, looked at and kept."""
        if self._first is None:
            self._first = self._look()
        return self._first

    def marks(self) -> list[Any]:
        """What is known of the data: the first batch, where a second look finds the same; else shapes and dtypes."""
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(self.first())]
        if self.can_seek or self.is_renewable:
            again = [np.asarray(leaf) for leaf in jax.tree.leaves(self._look())]
            if len(leaves) == len(again) and all(map(np.array_equal, leaves, again)):
                return leaves
        return [f"{leaf.dtype}{leaf.shape}" for leaf in leaves]

    def passes(self, start: int = 0) -> Iterator[PyTree]:
        """All batches, over and over where that can be done; StopIteration at the end of an iterator.

        `start`: of an iterable that can seek, the first of them.
        """
        if self.can_seek:
            self.iterable.seek(start)  # pyright: ignore[reportAttributeAccessIssue]
        if not self.is_renewable:
            # looked at, it has left the iterator
            if self._first is not None and not self.can_seek:
                kept, self._first = self._first, None
                yield kept
            yield from self.iterable
            return
        while True:
            batch = None
            for batch in self.iterable:
                yield batch
            if batch is None:
                raise InputError(NO_BATCHES)

    def _look(self) -> PyTree:
        if self.can_seek:
            self.iterable.seek(0)  # pyright: ignore[reportAttributeAccessIssue]
        found = next(iter(self.iterable), None)
        if found is None:
            raise InputError(NO_BATCHES)
        return found

    def glance(self, index: np.ndarray) -> PyTree:
        return jax.tree.map(np.asarray, self.first())

    def example(self) -> PyTree:
        return jax.tree.map(lambda leaf: np.asarray(leaf)[:1], self.first())

    def fetch(self, start: int, stop: int) -> NoReturn:
        raise InputError(
            "the data are an iterable of batches, which cannot be read by rows: what needs all data (control variates, "
            "a search for the mode, a run without batch_size) needs arrays, eg.data.npy or eg.data.parquet"
        )


class BatchStream(AbstractContextManager):
    """Batches from an iterable, cut to `batch_size` rows: a short last batch is filled up from the next epoch."""

    def __init__(self, source: Batches, batch_size: int, is_paired: bool = False):
        self.source, self.batch_size, self.is_paired = source, batch_size, is_paired
        self._ahead: ReadAhead | None = None
        self._memory: list[Pool] = []
        self._begin(0)

    def next(self, count: int) -> PyTree:
        """The next `count` batches; of a pair two that follow each other, each with half the rows."""
        parts = 1 + self.is_paired
        rows = folded(self._rows(count * self.batch_size), count * parts, self.batch_size // parts)
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

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _begin(self, iterated: int) -> None:
        self.close()
        self._given_out, self._taken, self._last, self._rest = 0, iterated, 0, None

    def _skip_to(self, wanted: int) -> None:
        if wanted < self._given_out:
            if not self.source.is_renewable:
                raise InputError(
                    f"batch {wanted} was requested, but the iterator is at {self._given_out} and cannot go back: give "
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
        given, done = rows_like(self._memory, count, like), 0
        while done < count:
            if _length(self._rest) == 0:
                self._rest = self._next_part()
            leaves = _leaves_like(self._rest, like, structure)
            used = min(count - done, len(leaves[0]))
            for filled, leaf in zip(given, leaves, strict=True):
                filled[done : done + used] = leaf[:used]
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


def folded(rows: PyTree, count: int, length: int) -> PyTree:
    """`count` batches of `length` rows each, from as many rows."""
    return jax.tree.map(lambda leaf: leaf.reshape(count, length, *leaf.shape[1:]), rows)


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
