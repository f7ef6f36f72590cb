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

CHUNK = 2**20  # bytes that one Fletcher-32 is of; HDF5 keeps as many at hand of a dataset
PIECE = 2**24  # bytes read at a time
PAGE = 4096
MARK = b"\nsha256 of the bytes before: "


def add_sum(path: Path) -> None:
    """Put the SHA-256 of a file's bytes at its end, in a page of its own: one page that is lost is not both."""
    with open(path, "r+b") as file:
        end = file.seek(0, os.SEEK_END)
        file.write(bytes(-end % PAGE))
        file.seek(0)
        found = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0, os.SEEK_END)
        file.write(MARK + found.encode() + b"\n")


def holds_sum(path: Path) -> bool:
    """Whether the file has a SHA-256 of its bytes at its end; InputError where that does not match."""
    length = len(MARK) + 65
    with open(path, "rb") as file:
        end = file.seek(0, os.SEEK_END) - length
        if end < 0:
            return False
        file.seek(end)
        words = file.read(length)
        if not words.startswith(MARK):
            return False
        file.seek(0)
        found = hashlib.sha256()
        while end and (piece := file.read(min(PIECE, end))):
            found.update(piece)
            end -= len(piece)
    if words != MARK + found.hexdigest().encode() + b"\n":
        raise InputError(f"{path} is damaged: the checksum of its bytes does not match")
    return True


def storage(shape: tuple[int, ...], itemsize: int) -> dict[str, Any]:
    """How a dataset is laid out: as xarray's encoding; h5netcdf has other words, see `laid_out`."""
    if math.prod(shape) == 0 or not shape:  # HDF5 has no filters for these
        return {}
    return {"fletcher32": True, "chunksizes": chunks(shape, itemsize)}


def laid_out(shape: tuple[int, ...], itemsize: int) -> dict[str, Any]:
    """`storage` for h5netcdf's create_variable."""
    words = storage(shape, itemsize)
    return {"fletcher32": True, "chunks": words["chunksizes"]} if words else {}


def chunks(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The whole array, or stretches along the first axis that is too long, one of each axis before it.

    >>> chunks((4, 1_000_000, 10), 8)
    (1, 13107, 10)
    """
    found = list(shape)
    for axis in range(len(shape)):
        rest = itemsize * math.prod(found[axis + 1 :])
        found[axis] = min(found[axis], max(1, CHUNK // rest))
    return tuple(found)


def pieces(variable: Any) -> Iterator[np.ndarray]:
    """What a variable holds, in C order, some of it at a time."""
    for place in _stretches(variable.shape, max(1, PIECE // max(1, variable.dtype.itemsize))):
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
        note("group", path, _words(group.attrs, leave_out=seal.SEAL if not path else None))
        note("dimensions", sorted((name, dim.size) for name, dim in group.dimensions.items()))
        for name in sorted(group.variables):
            variable = group.variables[name]
            dtype, shape = np.dtype(variable.dtype).str, tuple(map(int, variable.shape))
            _check_stored(variable, name)
            note("variable", name, variable.dimensions, dtype, shape, _words(variable.attrs))
            for piece in read(variable):
                seal.update(found, piece)
        for name in sorted(group.groups):
            look(group.groups[name], f"{path}/{name}")

    look(file, "")
    return found.hexdigest()


def _check_stored(variable: Any, name: str) -> None:
    """A damaged shape can ask for terabytes that are not there."""
    claimed = math.prod(variable.shape) * np.dtype(variable.dtype).itemsize
    if variable._h5ds.compression is None and claimed > variable._h5ds.id.get_storage_size():
        raise InputError(f"{name} claims {claimed} bytes, which the file does not hold")


def _words(attrs: Any, leave_out: str | None = None) -> list[tuple[str, ...]]:
    return [(name, *_attribute(attrs[name])) for name in sorted(attrs) if name != leave_out]


def _attribute(value: Any) -> tuple[str, ...]:
    if isinstance(value, str | bytes):
        return (repr(value),)
    array = np.asarray(value)
    return (array.dtype.str, str(array.shape), repr(array.tolist()))
