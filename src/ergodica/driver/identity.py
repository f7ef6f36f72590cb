"""What a run was made of, in a form that can be compared after months: numbers, compiled step, data, versions."""

import os
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.host.tracing import as_numbers, digest, traced
from ergodica.integrators import Kernel, State
from ergodica.phase import BatchPair
from ergodica.targets import DataTarget, Target
from ergodica.tree import is_array

ROWS_LOOKED_AT = 1_000  # of data on disk that are looked at


def numbers_of(thing: Any) -> str:
    """A digest of every array and number in a module."""
    leaves = [leaf for leaf in jax.tree.leaves(thing) if eqx.is_array_like(leaf)]
    return digest(*(np.asarray(leaf) for leaf in leaves))


def step_digest(kernel: Kernel, state: State, batch: PyTree, keep: Any) -> str:
    """A digest of the step as JAX sees it, with the constants that the user's functions close over.

    Of a target whose gradient comes from outside only the recipe can be looked at.
    """
    texts, constants = "", []
    if kernel.target.has_potential:
        key, number = jax.random.key(0, impl="threefry2x32"), jnp.ones((), float)
        texts, constants = traced(_step, kernel, state, key, number, batch)
    if callable(keep):
        more, others = traced(keep, state.phase.position)
        texts, constants = texts + more, constants + others
    return digest(texts, *constants)


def coordinates_digest(coordinates: Any) -> str:
    """Of transforms and networks: the arrays that they keep as they are. What is done with them is in the step's."""
    arrays = [leaf for leaf in jax.tree.leaves(coordinates) if is_array(leaf)]
    return digest(type(coordinates).__name__, *map(as_numbers, arrays))


def _step(kernel: Kernel, state: State, key: Any, number: Any, batch: PyTree) -> Any:
    return kernel.step(state, key, number, batch, number)


def batch_like(target: Target, batch_size: int | None, is_paired: bool) -> PyTree:
    """The shapes of a batch; None where every step uses all data."""
    if batch_size is None:
        return None
    source = target.source
    rows = target.data if source is None else source.example()
    length = batch_size // 2 if is_paired else batch_size

    def like(leaf: Any) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((length, *leaf.shape[1:]), jax.dtypes.canonicalize_dtype(leaf.dtype))

    one = jax.tree.map(like, rows)
    return BatchPair(one, one) if is_paired else one


def data_digest(target: Target) -> str | None:
    """Of all rows with their shapes and dtypes; of batches, of the first of them.

    Of data on disk, which may be larger than one wants to read: of 1,000 rows, and of every file's size and time of
    change.
    """
    data = target.data
    if data is None:
        return None
    assert isinstance(target, DataTarget)
    if target.source is None:
        return digest(str(target.size), *(np.asarray(leaf) for leaf in jax.tree.leaves(data)))
    from ergodica.data import Batches

    if isinstance(data, Batches):
        return digest(str(target.size), *data.marks())
    index = np.unique(np.linspace(0, target.size - 1, min(target.size, ROWS_LOOKED_AT)).astype(int))
    rows = jax.tree.leaves(target.rows(index))
    return digest(str(target.size), *map(_size_and_time, data.files()), *(np.asarray(leaf) for leaf in rows))


def _size_and_time(path: str) -> str:
    try:
        told = os.stat(path)
    except OSError:  # it is open, and was removed or moved since
        return "no name"
    return f"{told.st_size} {told.st_mtime_ns}"
