"""Data as a pytree of arrays with one leading axis: in memory, memory-mapped, or in .npy files read by rows."""

import math
import os
import weakref
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.data.source import Source, all_finite, row_count
from ergodica.errors import InputError
from ergodica.tree import is_traced, named_leaves

BLOCK_NUMBERS = 1 << 22  # looked at in one go


def npy(paths: PyTree) -> "Arrays":
    """A source of the rows of .npy files, which need not fit in memory.

    Use it for arrays that `np.save` wrote; `eg.Posterior` takes the source as its data, and a run with `batch_size`
    reads shuffled batches ahead of the chains.

    Args:
        paths: one path, or a pytree of paths: the data are then such a pytree of arrays, all with the same number of
            rows (leading axis).

    Returns:
        A source; `source.size` is the number of rows.

    Example:
        >>> import tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
        >>> np.save(path, np.arange(12.0).reshape(6, 2))
        >>> data = npy({"x": path})
        >>> data.size, data.read(4, 5)
        (6, {'x': array([[8., 9.]])})
    """
    leaves, structure = jax.tree.flatten(paths, is_leaf=lambda node: isinstance(node, os.PathLike))
    if not leaves:
        raise InputError("eg.data.npy was given no paths: expected the path of a .npy file, or a pytree of them")
    files = [_open(path) for path in leaves]
    if len({len(file) for file in files}) != 1:
        listed = ", ".join(f"{file.path} has {len(file)}" for file in files)
        raise InputError(f"the files must have the same number of rows (leading axis): {listed}")
    if len(files[0]) == 0:
        raise InputError(f"{files[0].path} has 0 rows: expected at least one")
    return Arrays(jax.tree.unflatten(structure, files))


def _open(path: Any) -> "FileRows":
    if not isinstance(path, str | os.PathLike):
        raise InputError(
            f"eg.data.npy was given a {type(path).__name__}: expected the path of a .npy file, or a pytree of them"
        )
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, is_fortran, dtype = read(file)
            offset = file.tell()
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from None
    except Exception as error:  # a damaged header is read as Python, and raises whatever Python does
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{name} is no .npy file, or is damaged ({reason}): write it with np.save") from None
    if dtype.kind not in "biufc":
        raise InputError(f"{name} holds dtype {dtype}: expected numbers or booleans")
    if any(length < 0 for length in shape) or math.prod(shape) * dtype.itemsize >= 2**63:
        raise InputError(f"{name} is damaged: its header says that the array has shape {shape}")
    if not shape:
        raise InputError(f"{name} holds a single number: expected an array whose leading axis runs over the rows")
    if is_fortran and len(shape) > 1:
        raise InputError(f"{name} is stored by columns (Fortran order): write it again with np.ascontiguousarray")
    return FileRows(name, dtype, shape, offset)


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
            self.read_into(int(number), int(number) + 1, rows[at : at + 1])
        return rows


class HeldRows:
    """Rows in memory, beside others on disk."""

    def __init__(self, values: Any):
        self.values = np.asarray(values)
        self.row_bytes = self.values.nbytes // max(1, len(self.values))

    def __len__(self) -> int:
        return len(self.values)

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.values[start:stop]

    def read_into(self, start: int, stop: int, rows: np.ndarray) -> None:
        rows[:] = self.values[start:stop]

    def take(self, index: np.ndarray) -> np.ndarray:
        return self.values[index]


class Arrays(Source):
    """A pytree of arrays, each in a file of its own or in memory."""

    def __init__(self, readers: PyTree):
        self._readers, self._structure = jax.tree.flatten(readers)
        self.size = len(self._readers[0])

    def fetch(self, start: int, stop: int) -> PyTree:
        return jax.tree.unflatten(self._structure, [reader.read(start, stop) for reader in self._readers])

    def read_into(self, start: int, stop: int, leaves: list[np.ndarray], at: int) -> None:
        views = [filled[at : at + stop - start] for filled in leaves]
        for reader, view in zip(self._readers, views, strict=True):
            reader.read_into(start, stop, view)
        if not all(map(all_finite, views)):
            self._check_finite(jax.tree.unflatten(self._structure, views), start)

    def take(self, index: np.ndarray) -> PyTree:
        leaves = [reader.take(index) for reader in self._readers]
        if all(map(all_finite, leaves)):
            return jax.tree.unflatten(self._structure, leaves)
        return super().take(index)  # read again, to name the row

    def files(self) -> list[str]:
        return [reader.path for reader in self._readers if isinstance(reader, FileRows)]

    def row_bytes(self) -> int:
        return sum(reader.row_bytes for reader in self._readers)

    def leaf_name(self, path: Any, column: tuple[int, ...]) -> str:
        readers = dict(jax.tree_util.tree_leaves_with_path(self._structure.unflatten(self._readers)))
        reader = readers[path]
        file = f" ({Path(reader.path).name})" if isinstance(reader, FileRows) else ""
        return super().leaf_name(path, column) + file


def as_data(data: PyTree) -> tuple[PyTree | Source, int]:
    """The data and the number of rows; InputError unless every leaf is a finite numeric array with that many.

    Memory-mapped leaves make the whole a source: it looks for NaN as it reads.
    """
    if isinstance(data, Source):
        return data, data.size
    leaves, structure = jax.tree.flatten(data)
    files = [_mapped_file(leaf) for leaf in leaves]
    named = named_leaves(data, "data")
    if not named:
        raise InputError(f"data is {data!r}, which holds no arrays: expected a pytree of arrays with one leading axis")
    for name, leaf in named:
        check_kind(name, leaf)
    size = row_count(data, "data")
    if size == 0:
        raise InputError("data has 0 rows: expected at least one")
    for (name, leaf), file in zip(named, files, strict=True):
        if file is None:
            _check_finite(name, leaf)
    if all(file is None for file in files):
        return data, size
    readers = [HeldRows(leaf) if file is None else file for leaf, file in zip(leaves, files, strict=True)]
    return Arrays(jax.tree.unflatten(structure, readers)), size


def _mapped_file(leaf: Any) -> FileRows | None:
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


def check_kind(name: str, leaf: Any) -> None:
    """Raise InputError unless it is an array of numbers or booleans."""
    if not isinstance(leaf, np.ndarray | jax.Array):
        raise InputError(
            f"{name} is a {type(leaf).__name__}: expected a NumPy or JAX array (convert a list with np.asarray, "
            "a pandas column with .to_numpy())"
        )
    if isinstance(leaf, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array, whose mask would be lost: drop or fill the masked rows")
    if not (jnp.issubdtype(leaf.dtype, np.number) or jnp.issubdtype(leaf.dtype, np.bool_)):
        raise InputError(
            f"{name} has dtype {leaf.dtype}: expected numbers or booleans; encode text and categories as numbers "
            "(np.unique(column, return_inverse=True)[1] gives integer codes)"
        )


def _check_finite(name: str, leaf: Any) -> None:
    if is_traced(leaf) or not jnp.issubdtype(leaf.dtype, np.inexact):
        return
    values = np.asarray(leaf)
    step = max(1, BLOCK_NUMBERS * len(values) // max(1, values.size))
    bad = []
    for start in range(0, len(values), step):
        block = values[start : start + step]
        bad += [start + np.flatnonzero(~np.isfinite(block).all(axis=tuple(range(1, block.ndim))))]
    rows = np.concatenate(bad)
    if rows.size:
        raise InputError(
            f"{name} has NaN or infinite values in {rows.size} of {len(values)} rows, first in row {rows[0]}: "
            "drop or fill these rows, a single one makes every gradient that includes it NaN"
        )
