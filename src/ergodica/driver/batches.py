"""Minibatches of data in memory.

windows: contiguous slices of a shuffled copy at random offsets. Every row is in a window with the same chance, so the
gradient is unbiased; a window is one slice, where gathering random rows reads all over memory. The first n - 1 rows are
appended, so that a window that wraps around is a slice too. For one shuffle the variance of the windows' gradients is
off its mean over shuffles by about sqrt(4 n / 3 N): where a run compensates for it and n > N/50, rows are gathered.

epochs: every row once in an epoch, in an order of its own; a batch goes on into the next epoch, so that none is short.

independent: rows drawn with replacement.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.compiling import sound_filter_jit
from ergodica.errors import InputError
from ergodica.phase import BatchPair

KINDS = ("windows", "epochs", "independent")
SORTED = 2**22  # row numbers shuffled at a time


def batches_for(
    target: Any, batch_size: int, is_paired: bool, is_compensated: bool, seed: int, kind: str = "windows"
) -> "Batches":
    """The kind asked for; gathers in place of windows where the variance of one shuffle's would be too far off."""
    length = batch_size // 2 if is_paired else batch_size
    if kind == "windows" and not (is_compensated and 50 * batch_size > target.size):
        return Windows(target, length, is_paired, seed)
    if kind == "epochs" and is_compensated:
        raise InputError(
            "with batches='epochs' the gradients of neighbouring steps are not independent, and subtracting their "
            "noise would be wrong: use batches='windows', or gradient_noise=None"
        )
    made = {"windows": Gathers, "independent": Independent, "epochs": Epochs}[kind]
    return made(jax.tree.map(jnp.asarray, target.data), length, target.size, is_paired)


class Batches(eqx.Module):
    """Where each step's batch is, found ahead of the loop, and the batch there, taken in the loop."""

    length: eqx.AbstractVar[int]
    is_paired: eqx.AbstractVar[bool]

    def ahead(self, keys: Array) -> PyTree:
        """Where the batches of some steps are, leaves (step, ...), from two keys for each, (step, 2)."""
        raise NotImplementedError("the host brings them")

    @abstractmethod
    def at(self, place: PyTree) -> PyTree:
        """The batch, or an `eg.BatchPair` of two, drawn independently, where the recipe reads z.potential."""

    def on_host(self, seed: int, chain: int, first: int, length: int) -> PyTree:
        """What the host must bring for the chunk that begins at step `first`."""
        return None


class Windows(Batches):
    """Windows of `length` rows; in pairs at independent offsets."""

    rows: PyTree
    length: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    is_paired: bool = eqx.field(static=True)

    def __init__(self, target: Any, length: int, is_paired: bool, seed: int):
        self.size, self.is_paired, self.length = target.size, is_paired, length
        order = np.random.default_rng(seed).permutation(self.size)
        wrapped = np.concatenate([order, order[: self.length - 1]])
        self.rows = jax.tree.map(lambda leaf: jnp.asarray(np.take(leaf, wrapped, axis=0)), target.data)

    def ahead(self, keys):
        return _each(lambda key: jax.random.randint(key, (), 0, self.size), keys, self.is_paired)

    def at(self, place):
        def window(offset: Array) -> PyTree:
            return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, offset, self.length), self.rows)

        return _batch([window(offset) for offset in place])


class Gathered(Batches):
    """Rows at indices that differ from step to step."""

    rows: PyTree
    length: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    is_paired: bool = eqx.field(static=True)

    def at(self, place):
        return _batch([jax.tree.map(lambda leaf, i=index: leaf[i], self.rows) for index in place])


class Gathers(Gathered):
    """`length` rows drawn without replacement for every step."""

    def ahead(self, keys):
        def indices(keys: Array) -> Array:
            return jax.vmap(lambda key: jax.random.permutation(key, self.size)[: self.length])(keys)

        at_a_time = max(1, min(len(keys), SORTED // self.size))
        return jax.lax.map(indices, keys[:, : 1 + self.is_paired], batch_size=at_a_time)


class Independent(Gathered):
    """`length` rows drawn with replacement for every step."""

    def ahead(self, keys):
        return _each(lambda key: jax.random.randint(key, (self.length,), 0, self.size), keys, self.is_paired)


class Epochs(Gathered):
    """Every row once in an epoch; the orders come from the host, as an epoch may outlast a chunk."""

    def on_host(self, seed, chain, first, length):
        """Row numbers, (step, 1 or 2, rows): those of places first * n, ..., in the sequence of all epochs."""
        places = np.arange(first * self.length, (first + length) * self.length)
        epochs = places // self.size
        columns = []
        for part in range(1 + self.is_paired):
            orders = [_order(seed, chain, part, epoch, self.size) for epoch in range(epochs[0], epochs[-1] + 1)]
            rows = np.concatenate(orders)[places - epochs[0] * self.size]
            columns.append(rows.reshape(length, self.length))
        return np.stack(columns, axis=1).astype(np.int32)


class Handed(Batches):
    """Batches that the host brings, read from disk."""

    length: int = eqx.field(static=True)
    is_paired: bool = eqx.field(static=True)

    def at(self, place):
        return place


@sound_filter_jit
def places_ahead(batches: Batches, keys: Array) -> PyTree:
    """Where the batches of a chunk are, from all its keys (see `chunk_keys`)."""
    return batches.ahead(keys[:, 1:])


@lru_cache(maxsize=8)  # an epoch may last for many chunks
def _order(seed: int, chain: int, part: int, epoch: int, size: int) -> np.ndarray:
    return np.random.default_rng([seed, chain, part, epoch]).permutation(size)


def _each(draw: Callable[[Array], Array], keys: Array, is_paired: bool) -> Array:
    """(step, 1 or 2, ...)."""
    return jax.vmap(jax.vmap(draw))(keys[:, : 1 + is_paired])


def _batch(parts: list[PyTree]) -> PyTree:
    return BatchPair(*parts) if len(parts) == 2 else parts[0]
