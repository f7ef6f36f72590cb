"""A shuffled copy of data in memory, made in a thread: it takes longer than all else that a run begins with."""

from functools import lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.data.buffers import Pool
from ergodica.host.threads import Threads

SMALL = 2**18  # rows whose order is kept for the next run in this process


class ShuffledCopy:
    """The rows in an order of their own, and the first `beyond` of them once more at the end.

    With `threads` it is begun at once, in one of these. It is made again for every run: who holds the data may have
    changed them since.
    """

    def __init__(self, data: PyTree, size: int, beyond: int, seed: int, threads: Threads | None = None):
        self._size = size
        leaves, self._structure = jax.tree.flatten(data)
        arrays = [np.asarray(leaf) for leaf in leaves]
        # here: whether JAX is in 32 bits is a matter of each thread
        self._is_plain = [_is_plain(array) for array in arrays]
        make = partial(_copied, arrays, self._is_plain, size, beyond, seed)
        self._made = make if threads is None else threads.submit(make).result

    def rows(self, beyond: int) -> PyTree:
        """For JAX, with no more than `beyond` rows at the end."""
        stop, copies = self._size + beyond, self._made()
        handed = [_handed(copy[:stop], is_plain) for copy, is_plain in zip(copies, self._is_plain, strict=True)]
        return jax.tree.unflatten(self._structure, handed)


def _is_plain(array: np.ndarray) -> bool:
    """Whether JAX can take it as it is."""
    return array.dtype.kind in "biufc" and jax.dtypes.canonicalize_dtype(array.dtype) == array.dtype


def _copied(arrays: list[np.ndarray], are_plain: list[bool], size: int, beyond: int, seed: int) -> list[np.ndarray]:
    order = _small_order(size, seed) if size <= SMALL else _order(size, seed)
    wrapped = np.concatenate([order, order[:beyond]])
    return [_taken(array, wrapped, is_plain) for array, is_plain in zip(arrays, are_plain, strict=True)]


def _order(size: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(size)


_small_order = lru_cache(maxsize=2)(_order)  # most people sample the same data again, and by the same seed


def _taken(array: np.ndarray, index: np.ndarray, is_plain: bool) -> np.ndarray:
    """array[index], in memory that JAX takes as it is: `jnp.asarray` would copy all data once more."""
    if not is_plain:
        return array[index]
    rows = Pool().array((len(index), *array.shape[1:]), array.dtype)
    np.take(array, index, axis=0, out=rows, mode="clip")  # mode: "raise" would go through a copy
    return rows


def _handed(rows: np.ndarray, is_plain: bool) -> Array:
    return jnp.from_dlpack(rows) if is_plain else jnp.asarray(rows)
