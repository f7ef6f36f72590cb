"""Arrays in .npy files, read by rows."""

import math
import os
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.errors import InputError
from ergodica.targets.source import Arrays, FileRows


def npy(paths: PyTree) -> Arrays:
    """A source of the rows of .npy files that need not fit in memory.

    Args:
        paths: one path, or a pytree of them: the data are then such a pytree of arrays, with as many rows each.

    Example:
        >>> data = eg.data.npy({"x": "x.npy", "y": "y.npy"})                      # doctest: +SKIP
        >>> target = eg.Posterior(log_prior, log_likelihood, data, init=start)    # doctest: +SKIP
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


def _open(path: Any) -> FileRows:
    if not isinstance(path, str | os.PathLike):
        raise InputError(
            f"eg.data.npy was given a {type(path).__name__}: expected the path of a .npy file, or a pytree of them"
        )
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            shape, is_fortran, dtype = _header(file)
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


def _header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file)
