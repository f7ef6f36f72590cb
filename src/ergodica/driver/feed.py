"""Batches from a stream, handed to the compiled chunks: read ahead while the chunk before is running."""

from concurrent.futures import Future
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.driver.threads import Threads

BYTES = 2**26  # of batches handed over at a time


def feed_length(target: Any, batch_size: int, chains: int) -> int:
    """How many steps' batches fit in BYTES."""
    return max(2, BYTES // max(1, target.source.row_bytes() * batch_size * chains))


class Feed:
    """A stream in which `chains` chains take turns: batch number step * chains + chain."""

    def __init__(self, stream: Any, chains: int):
        self.stream, self.chains = stream, chains
        self._thread = Threads(1, "ergodica-feed")
        self._ahead: tuple[int, Future] | None = None
        self.cursor: Any = stream.cursor

    def close(self) -> None:
        self._thread.close()
        self.stream.close()

    def take(self, count: int, following: int) -> PyTree:
        """The batches of `count` steps, leaves (count, chain, ...); `following` steps' are read meanwhile."""
        if self._ahead is None:
            self._ahead = (count, self._thread.submit(self._read, count))
        planned, future = self._ahead
        assert planned == count, "chunks follow each other as announced"
        batches, self.cursor = future.result()
        self._ahead = (following, self._thread.submit(self._read, following)) if following else None
        return batches

    def seek(self, cursor: Any) -> None:
        self.stream.seek(cursor)
        self.cursor = cursor

    def _read(self, count: int) -> tuple[PyTree, Any]:
        batches = self.stream.next(count * self.chains)
        shaped = jax.tree.map(lambda leaf: leaf.reshape(count, self.chains, *leaf.shape[1:]), batches)
        return shaped, self.stream.cursor


def of_chain(batches: PyTree, chain: int, length: int) -> PyTree:
    """One chain's, with the surplus of a chunk that is cut short filled up: (length, ...)."""

    def filled(leaf: np.ndarray) -> np.ndarray:
        mine = leaf[:, chain]
        if len(mine) == length:
            return np.ascontiguousarray(mine)
        whole = np.zeros((length, *mine.shape[1:]), mine.dtype)
        whole[: len(mine)] = mine
        return whole

    return jax.tree.map(filled, batches)
