"""Rows that stay on disk: a source reads those it is asked for into memory of its own, never through a memory map.

A memory map counts every page that was touched as resident; `pread` into a buffer leaves no such trace.
"""

import math
import os
import weakref
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.errors import InputError

BLOCK_BYTES = 1 << 18  # what a shuffled pass reads in one go


class Source(ABC):
    """`size` rows, read by their numbers: the leaves of what `read` returns have one leading axis."""

    size: int

    @abstractmethod
    def fetch(self, start: int, stop: int) -> PyTree:
        """The rows start, ..., stop - 1 as NumPy arrays, as they are in the file."""

    def read(self, start: int, stop: int) -> PyTree:
        """The rows start, ..., stop - 1; InputError names the first NaN or infinity among them."""
        if not 0 <= start <= stop <= self.size:
            raise InputError(f"rows {start} to {stop} were asked for, but the data has {self.size} rows")
        rows = self.fetch(start, stop)
        self._check_finite(rows, start)
        return rows

    def read_into(self, start: int, stop: int, leaves: list[np.ndarray], at: int) -> None:
        """`read` into the places from `at` on of arrays with the leaves of this source."""
        for whole, leaf in zip(leaves, jax.tree.leaves(self.read(start, stop)), strict=True):
            whole[at : at + stop - start] = leaf

    def take(self, index: np.ndarray) -> PyTree:
        """The rows at `index`, in its order."""
        order = np.argsort(index, kind="stable")
        edges = self.edges()
        homes = np.searchsorted(edges, index[order], side="right") - 1
        parts = []
        for home in np.unique(homes):
            wanted = index[order][homes == home]
            first = int(wanted[0])
            block = self.read(first, int(wanted[-1]) + 1)
            parts.append(jax.tree.map(lambda leaf, at=wanted - first: leaf[at], block))
        if not parts:
            return self.read(0, 0)
        back = np.argsort(order, kind="stable")
        return jax.tree.map(lambda *leaves: np.concatenate(leaves)[back], *parts)

    def glance(self, index: np.ndarray) -> PyTree:
        """The rows at `index`, or what stands for them where rows have no numbers: to check a model on."""
        return self.take(index)

    def edges(self) -> np.ndarray:
        """Where the blocks of a shuffled pass begin, and the end of the last."""
        step = max(1, BLOCK_BYTES // max(1, self.row_bytes()))
        return np.append(np.arange(0, self.size, step), self.size)

    def files(self) -> list[str]:
        """The files that the rows are read from, as far as they are known: size and time tell whether they changed."""
        return []

    def example(self) -> PyTree:
        """A batch of one row."""
        return self.read(0, 1)

    def row_bytes(self) -> int:
        return sum(leaf.nbytes for leaf in jax.tree.leaves(self.example()))

    def leaf_name(self, path: Any, column: tuple[int, ...]) -> str:
        """What a person calls a number of a row, by its leaf and its place there."""
        place = f", column {', '.join(map(str, column))}" if column else ""
        return f"data{jax.tree_util.keystr(path)}{place}"

    def _check_finite(self, rows: PyTree, start: int) -> None:
        """Raise InputError for the first NaN or infinity among the rows from `start` on."""
        for path, leaf in jax.tree_util.tree_leaves_with_path(rows):
            if not all_finite(leaf):
                at = np.unravel_index(int(np.argmin(np.isfinite(leaf))), leaf.shape)
                place = self.leaf_name(path, tuple(int(i) for i in at[1:]))
                raise InputError(
                    f"{place} is {leaf[at]} in row {start + int(at[0])}: drop or fill such rows, one of them makes "
                    "every gradient that meets it NaN"
                )


def all_finite(leaf: np.ndarray) -> bool:
    if leaf.dtype.kind not in "fc":
        return True
    flat = leaf.reshape(-1)
    # one pass without a temporary, in half the time of a sum; it may overflow: look again
    return bool(np.isfinite(np.vdot(flat, flat)) or np.isfinite(leaf).all())


class FileRows:
    """The rows of one array in a file, in C order from `offset` on."""

    def __init__(self, path: str | os.PathLike, dtype: Any, shape: tuple[int, ...], offset: int):
        self.path, self.offset = os.fspath(path), offset
        self.stored, self.dtype, self.shape = np.dtype(dtype), np.dtype(dtype).newbyteorder("="), tuple(shape)
        self.row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        try:
            self._file = os.open(self.path, os.O_RDONLY)
        except OSError as error:
            raise InputError(f"cannot read {self.path}: {error.strerror}") from None
        weakref.finalize(self, os.close, self._file)
        needed, there = offset + self.row_bytes * len(self), os.fstat(self._file).st_size
        if there < needed:
            raise InputError(f"{self.path} is cut short: {there} bytes, but {len(self)} rows need {needed}")

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, start: int, stop: int) -> np.ndarray:
        rows = np.empty((stop - start, *self.shape[1:]), self.dtype)
        self.read_into(start, stop, rows)
        return rows

    def read_into(self, start: int, stop: int, rows: np.ndarray) -> None:
        left = memoryview(rows.reshape(-1).view(np.uint8))  # pyright: ignore[reportArgumentType]
        place = self.offset + start * self.row_bytes
        while len(left):
            try:
                got = os.preadv(self._file, [left], place)
            except OSError as error:
                raise InputError(f"reading {self.path} failed: {error.strerror}") from None
            if got == 0:
                raise InputError(f"{self.path} became shorter while it was read: rows {start} to {stop} are not there")
            left, place = left[got:], place + got
        if not self.stored.isnative:
            rows.byteswap(inplace=True)

    def take(self, index: np.ndarray) -> np.ndarray:
        rows = np.empty((len(index), *self.shape[1:]), self.dtype)
        for at, number in enumerate(index):
            rows[at] = self.read(int(number), int(number) + 1)[0]
        return rows


class HeldRows:
    """Rows in memory, beside others on disk."""

    def __init__(self, values: Any):
        self.values = np.asarray(values)

    def __len__(self) -> int:
        return len(self.values)

    @property
    def row_bytes(self) -> int:
        return self.values.nbytes // max(1, len(self.values))

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.values[start:stop]

    def read_into(self, start: int, stop: int, rows: np.ndarray) -> None:
        rows[:] = self.values[start:stop]

    def take(self, index: np.ndarray) -> np.ndarray:
        return self.values[index]


class Arrays(Source):
    """A pytree of arrays, each in a file of its own or in memory."""

    def __init__(self, leaves: PyTree):
        self._leaves, self._structure = jax.tree.flatten(leaves)
        self.size = len(self._leaves[0])

    def fetch(self, start: int, stop: int) -> PyTree:
        return jax.tree.unflatten(self._structure, [leaf.read(start, stop) for leaf in self._leaves])

    def read_into(self, start: int, stop: int, leaves: list[np.ndarray], at: int) -> None:
        views = [whole[at : at + stop - start] for whole in leaves]
        for reader, view in zip(self._leaves, views, strict=True):
            reader.read_into(start, stop, view)
        if not all(map(all_finite, views)):
            self._check_finite(jax.tree.unflatten(self._structure, views), start)

    def take(self, index: np.ndarray) -> PyTree:
        rows = jax.tree.unflatten(self._structure, [leaf.take(index) for leaf in self._leaves])
        is_finite = all(map(all_finite, jax.tree.leaves(rows)))
        return rows if is_finite else super().take(index)  # read again, to name the row

    def files(self) -> list[str]:
        return [leaf.path for leaf in self._leaves if isinstance(leaf, FileRows)]

    def row_bytes(self) -> int:
        return sum(leaf.row_bytes for leaf in self._leaves)

    def leaf_name(self, path: Any, column: tuple[int, ...]) -> str:
        names = dict(zip([str(path) for path in self._paths()], self._leaves, strict=True))
        file = getattr(names.get(str(path)), "path", None)
        return super().leaf_name(path, column) + (f" ({Path(file).name})" if file else "")

    def _paths(self) -> list[Any]:
        return [path for path, _ in jax.tree_util.tree_leaves_with_path(self._structure.unflatten(self._leaves))]


def mapped_file(leaf: Any) -> FileRows | None:
    """The file of a memory-mapped array; None for one whose numbers are not simply those of the file."""
    if not isinstance(leaf, np.memmap) or leaf.ndim == 0 or not leaf.flags.c_contiguous:
        return None
    root = leaf
    while isinstance(root.base, np.memmap):
        root = root.base
    # mode "c": what was written to the map is not in the file
    if root.filename is None or root.mode == "c":
        return None
    within = leaf.__array_interface__["data"][0] - root.__array_interface__["data"][0]
    return FileRows(root.filename, leaf.dtype, leaf.shape, root.offset + within)
