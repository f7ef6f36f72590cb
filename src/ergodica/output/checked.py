"""The checksums of a netCDF file: Fletcher-32 on every dataset, by HDF5, and one SHA-256 over all that a reader finds.

Fletcher-32 stops whoever reads a damaged dataset, ArviZ included. The SHA-256, a root attribute, also covers names,
dimensions, dtypes, shapes and attributes; `eg.load` compares it.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ergodica.errors import InputError
from ergodica.output import seal

CHUNK = 2**20  # bytes that one Fletcher-32 is of; HDF5 keeps as many at hand of a dataset
PIECE = 2**24  # bytes read at a time


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
    if claimed > variable._h5ds.id.get_storage_size():
        raise InputError(f"{name} claims {claimed} bytes, which the file does not hold")


def _words(attrs: Any, leave_out: str | None = None) -> list[tuple[str, ...]]:
    return [(name, *_attribute(attrs[name])) for name in sorted(attrs) if name != leave_out]


def _attribute(value: Any) -> tuple[str, ...]:
    if isinstance(value, str | bytes):
        return (repr(value),)
    array = np.asarray(value)
    return (array.dtype.str, str(array.shape), repr(array.tolist()))
