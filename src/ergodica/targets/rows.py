"""Data as a pytree of arrays with one leading axis: checked once, then read by rows."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.errors import InputError
from ergodica.targets.leaves import named_leaves
from ergodica.targets.source import Arrays, HeldRows, Source, mapped_file
from ergodica.tree import is_traced

BLOCK = 1 << 22  # numbers looked at in one go


def as_data(data: PyTree) -> tuple[PyTree | Source, int]:
    """The data and the number of rows; InputError unless every leaf is a finite numeric array with that many.

    Memory-mapped leaves make the whole a source: it looks for NaN as it reads.
    """
    if isinstance(data, Source):
        return data, data.size
    leaves, structure = jax.tree.flatten(data)
    files = [mapped_file(leaf) for leaf in leaves]
    size = check_data(data, [file is not None for file in files])
    if not any(file is not None for file in files):
        return data, size
    readers = [HeldRows(leaf) if file is None else file for leaf, file in zip(leaves, files, strict=True)]
    return Arrays(jax.tree.unflatten(structure, readers)), size


def check_data(data: PyTree, is_file: list[bool]) -> int:
    """The number of rows; those of leaves in files are not looked at."""
    leaves = named_leaves(data, "data")
    if not leaves:
        raise InputError(f"data is {data!r}, which holds no arrays: expected a pytree of arrays with one leading axis")
    for name, leaf in leaves:
        _check_kind(name, leaf)
    size = row_count(data, "data")
    if size == 0:
        raise InputError("data has 0 rows: expected at least one")
    for (name, leaf), on_disk in zip(leaves, is_file, strict=True):
        if not on_disk:
            _check_finite(name, leaf)
    return size


def row_count(rows: PyTree, root: str) -> int:
    """The length of the leading axis that all leaves share."""
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
    if isinstance(index, slice):
        if isinstance(data, Source):
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
        if isinstance(data, Source):
            raise InputError("rows on disk cannot be taken inside jit: read them before, and give them as a batch")
        return jax.tree.map(lambda leaf: jnp.take(jnp.asarray(leaf), index, axis=0), data)
    if index.size and not (index.min() >= 0 and index.max() < size):
        raise InputError(f"row {index.min() if index.min() < 0 else index.max()} does not exist: data has {size} rows")
    if isinstance(data, Source):
        return data.take(index)
    return jax.tree.map(lambda leaf: leaf[index], data)


def _check_kind(name: str, leaf: Any) -> None:
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
    values = leaf if isinstance(leaf, np.ndarray) else np.asarray(leaf)
    first, count = None, 0
    step = max(1, BLOCK * len(values) // max(1, values.size))
    for start in range(0, len(values), step):
        block = values[start : start + step]
        finite = np.isfinite(block).all(axis=tuple(range(1, block.ndim)))
        if not finite.all():
            first = start + int(np.argmin(finite)) if first is None else first
            count += int(np.sum(~finite))
    if first is not None:
        raise InputError(
            f"{name} has NaN or infinite values in {count} of {len(values)} rows, first in row {first}: "
            "drop or fill these rows, one of them makes every gradient that meets it NaN"
        )
