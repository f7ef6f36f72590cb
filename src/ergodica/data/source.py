"""What a data source is: rows that are read by their numbers, and the checks that every row goes through.

To add a source, derive from `Source`, set `size` and write `fetch`; the rest follows. A source reads rows into memory
of its own, never through a memory map: a map counts every page that was touched as resident.
"""

from abc import ABC, abstractmethod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.errors import InputError
from ergodica.tree import is_traced, named_leaves

BLOCK_BYTES = 1 << 18  # what a shuffled pass reads in one go


class Source(ABC):
    """`size` rows, read by their numbers: the leaves of what `read` returns have one leading axis.

    Use `eg.data.npy`, `eg.data.parquet` or `eg.data.batches` for the kinds of data that are known already. Another kind
    needs its `size` and `fetch`:

    >>> class Squares(Source):
    ...     size = 1_000_000
    ...
    ...     def fetch(self, start, stop):
    ...         return np.arange(start, stop, dtype=float) ** 2
    >>> Squares().take(np.array([30, 2]))
    array([900.,   4.])
    """

    size: int

    @abstractmethod
    def fetch(self, start: int, stop: int) -> PyTree:
        """The rows start, ..., stop - 1 as NumPy arrays, as they are in the file."""

    def read(self, start: int, stop: int) -> PyTree:
        """The rows start, ..., stop - 1; InputError names the first NaN or infinity among them."""
        if not 0 <= start <= stop <= self.size:
            raise InputError(f"rows {start} to {stop} were requested, but the data has {self.size} rows")
        rows = self.fetch(start, stop)
        self._check_finite(rows, start)
        return rows

    def read_into(self, start: int, stop: int, leaves: list[np.ndarray], at: int) -> None:
        """`read` into the places from `at` on of arrays with the leaves of this source."""
        for filled, leaf in zip(leaves, jax.tree.leaves(self.read(start, stop)), strict=True):
            filled[at : at + stop - start] = leaf

    def take(self, index: np.ndarray) -> PyTree:
        """The rows at `index`, in its order."""
        order = np.argsort(index, kind="stable")
        homes = np.searchsorted(self.edges(), index[order], side="right") - 1
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
        """The files that the rows are read from, if known: their sizes and times tell whether they changed."""
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
                    f"{place} is {leaf[at]} in row {start + int(at[0])}: drop or fill such rows, a single one makes "
                    "every gradient that includes it NaN"
                )


def all_finite(leaf: np.ndarray) -> bool:
    if leaf.dtype.kind not in "fc":
        return True
    flat = leaf.reshape(-1)
    # one pass without a temporary, in half the time of a sum; it may overflow: look again
    return bool(np.isfinite(np.vdot(flat, flat)) or np.isfinite(leaf).all())


def row_count(rows: PyTree, root: str) -> int:
    """The length of the leading axis that all leaves share; `root` is what messages call the rows."""
    leaves = named_leaves(rows, root)
    for name, leaf in leaves:
        if np.ndim(leaf) == 0:
            raise InputError(f"{name} is a scalar: expected an array whose leading axis runs over the rows")
    sizes = {name: np.shape(leaf)[0] for name, leaf in leaves}
    if len(set(sizes.values())) != 1:
        listed = ", ".join(f"{name} has {size}" for name, size in sizes.items()) or "no arrays"
        raise InputError(f"the leaves of {root} must have the same number of rows (leading axis): got {listed}")
    return next(iter(sizes.values()))


def take_rows(data: PyTree | Source, index: Any, size: int) -> PyTree:
    """The rows at `index`, a slice or a 1-D array of integers; NumPy leaves stay NumPy where the index has values."""
    on_disk = isinstance(data, Source)
    if isinstance(index, slice):
        if on_disk:
            start, stop, step = index.indices(size)
            return jax.tree.map(lambda leaf: leaf[::step], data.read(start, max(start, stop)))
        return jax.tree.map(lambda leaf: leaf[index], data)
    if not is_traced(index):
        index = np.asarray(index)
    if index.ndim != 1 or not jnp.issubdtype(index.dtype, np.integer):
        raise InputError(
            f"rows are taken by a slice or a 1-D array of integers, got shape {index.shape} of dtype {index.dtype}"
        )
    if is_traced(index):
        if on_disk:
            raise InputError("rows on disk cannot be taken inside jit: read them before, and give them as a batch")
        return jax.tree.map(lambda leaf: jnp.take(jnp.asarray(leaf), index, axis=0), data)
    if index.size and not (index.min() >= 0 and index.max() < size):
        raise InputError(f"row {index.min() if index.min() < 0 else index.max()} does not exist: data has {size} rows")
    return data.take(index) if on_disk else jax.tree.map(lambda leaf: leaf[index], data)
