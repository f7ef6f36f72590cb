"""Batches that come from elsewhere: any iterable of them."""

from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.errors import InputError
from ergodica.targets.source import Source


def batches(iterable: Iterable[PyTree], size: int) -> "Batches":
    """Data given as batches, in the order in which they come.

    Args:
        iterable: batches of equal shapes, each a pytree of arrays with one leading axis, drawn so that every row is
            equally likely. One that can be iterated over again (a list, a DataLoader) begins anew at its end. A
            method `seek(count)`, where it has one, goes to where so many batches were given, over all passes; without
            it a run that is taken up reads past them.
        size: how many rows there are in all, N: a batch of n stands for N/n times its sum.
    """
    return Batches(iterable, size)


class Batches(Source):
    """A source whose rows have no numbers: it can be passed over, not read from."""

    def __init__(self, iterable: Iterable[PyTree], size: int):
        if not isinstance(iterable, Iterable) or isinstance(iterable, str | bytes):
            raise InputError(f"batches is {iterable!r}: expected an iterable of batches")
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise InputError(f"size is {size!r}: expected the number of data rows, a whole number of at least 1")
        self.size = int(size)
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
        """What can be told of the data: the first batch, where a second look finds the same; else shapes and dtypes."""
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
            count = 0
            for batch in self.iterable:
                count += 1
                yield batch
            if count == 0:
                raise InputError("the iterable of batches is empty: expected at least one batch")

    def _look(self) -> PyTree:
        if self.can_seek:
            self.iterable.seek(0)  # pyright: ignore[reportAttributeAccessIssue]
        found = next(iter(self.iterable), None)
        if found is None:
            raise InputError("the iterable of batches is empty: expected at least one batch")
        return found

    def glance(self, index: np.ndarray) -> PyTree:
        return jax.tree.map(np.asarray, self.first())

    def take(self, index: np.ndarray) -> PyTree:
        return self.fetch(0, 0)

    def example(self) -> PyTree:
        return jax.tree.map(lambda leaf: np.asarray(leaf)[:1], self.first())

    def fetch(self, start: int, stop: int) -> NoReturn:
        raise InputError(
            "the data are an iterable of batches, which cannot be read by rows: what needs all data (control variates, "
            "a search for the mode, a run without batch_size) needs arrays, eg.data.npy or eg.data.parquet"
        )
