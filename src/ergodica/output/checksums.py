"""The checksums of a netCDF file.

    Fletcher-32 of every dataset    by HDF5: stops whoever reads a damaged one, ArviZ included
    a SHA-256 of all that is read   names, dimensions, dtypes, shapes, attributes and numbers, as the root attribute
                                    `sha256`: it stays true where another program copies the file in its own way
    a SHA-256 of the bytes          after the end of what HDF5 reads: looked at first, as damage to HDF5's tables can
                                    keep the library busy for ever

`eg.load` compares them.
"""

import hashlib
import math
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ergodica.errors import InputError
from ergodica.host import seal

CHUNK_BYTES = 2**20  # that one Fletcher-32 is of; HDF5 keeps as many at hand of a dataset
PIECE_BYTES = 2**24  # read at a time
PAGE_BYTES = 4096
SUM_MARK = b"\nsha256 of the bytes before: "


def add_sum(path: Path) -> None:
    """Put the SHA-256 of a file's bytes at its end, in a page of its own: one page that is lost is not both."""
    with open(path, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.write(bytes(-end % PAGE_BYTES))
        file.seek(0)
        found = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0, os.SEEK_END)
        file.write(SUM_MARK + found.encode() + b"\n")


def holds_sum(path: Path) -> bool:
    """Whether the file has a SHA-256 of its bytes at its end; InputError where that does not match."""
    length = len(SUM_MARK) + 65
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END) - length
        if end < 0:
            return False
        file.seek(end)
        words = file.read(length)
        if not words.startswith(SUM_MARK):
            return False
        file.seek(0)
        found = hashlib.sha256()
        while end and (piece := file.read(min(PIECE_BYTES, end))):
            found.update(piece)
            end -= len(piece)
    if words != SUM_MARK + found.hexdigest().encode() + b"\n":
        raise InputError(f"{path} is damaged: the checksum of its bytes does not match")
    return True


def storage(shape: tuple[int, ...], itemsize: int, chunks_name: str) -> dict[str, Any]:
    """How a dataset is laid out; xarray says "chunksizes" where h5netcdf says "chunks"."""
    if math.prod(shape) == 0 or not shape:  # HDF5 has no filters for these
        return {}
    return {"fletcher32": True, chunks_name: chunks(shape, itemsize)}


def chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The whole array, or stretches along the first axis that is too long, one of each axis before it.

    >>> chunks((4, 1_000_000, 10), 8)
    (1, 13107, 10)
    """
    found = list(shape)
    for axis in range(len(shape)):
        rest = itemsize * math.prod(found[axis + 1 :])
        found[axis] = min(found[axis], max(1, CHUNK_BYTES // rest))
    return tuple(found)


def pieces(variable: Any) -> Iterator[np.ndarray]:
    """What a variable holds, in C order, some of it at a time."""
    for place in _stretches(variable.shape, max(1, PIECE_BYTES // max(1, variable.dtype.itemsize))):
        yield np.asarray(variable[place if place else ...])


def _stretches(shape: tuple[int, ...], most: int) -> Iterator[tuple[Any, ...]]:
    inner = math.prod(shape[1:])
    if not shape or shape[0] * inner <= most:
        yield ()
    elif inner <= most:
        length = most // inner
        yield from ((slice(start, start + length),) for start in range(0, shape[0], length))
    else:
        for first in range(shape[0]):
            yield from ((first, *rest) for rest in _stretches(shape[1:], most))


def digest(file: Any, read: Callable[[Any], Iterable[np.ndarray]] = pieces) -> str:
    """The SHA-256 of an open h5netcdf file; `read` gives a variable's numbers in C order."""
    found = hashlib.sha256()

    def note(*words: Any) -> None:
        found.update(repr(words).encode() + b"\n")

    def look(group: Any, path: str) -> None:
        note("group", path, _attributes(group.attrs, leave_out=seal.SEAL if not path else None))
        note("dimensions", sorted((name, dim.size) for name, dim in group.dimensions.items()))
        for name in sorted(group.variables):
            variable = group.variables[name]
            dtype, shape = np.dtype(variable.dtype).str, tuple(map(int, variable.shape))
            note("variable", name, variable.dimensions, dtype, shape, _attributes(variable.attrs))
            for piece in read(variable):
                seal.update(found, piece)
        for name in sorted(group.groups):
            look(group.groups[name], f"{path}/{name}")

    look(file, "")
    return found.hexdigest()


def _attributes(attrs: Any, leave_out: str | None = None) -> list[tuple[str, ...]]:
    found = []
    for name in sorted(set(attrs) - {leave_out}):
        value = attrs[name]
        if isinstance(value, str | bytes):
            found.append((name, repr(value)))
        else:
            array = np.asarray(value)
            found.append((name, array.dtype.str, str(array.shape), repr(array.tolist())))
    return found
