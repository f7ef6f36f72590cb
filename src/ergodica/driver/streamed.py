"""Batches from a stream, handed to the compiled chunks: read ahead while the chunk before is running."""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.data.buffers import aligned, turns
from ergodica.driver.minibatches import Minibatches
from ergodica.host.threads import Threads

HANDED_BYTES = 2**26  # of batches handed over at a time
PIECE_BYTES = 2**22  # taken from the stream at a time: they stay in the cache until they are sorted by chains


class Feed:
    """A stream in which `chains` chains take turns: batch number step * chains + chain.

    What it hands over lies in two sets of arrays that take turns for as long as the run lasts: that of the chunk which
    is running, and that which is read meanwhile. Fresh arrays for every chunk would make the process grow without end:
    glibc takes what is smaller than 32 MB from its heaps, and these fill with holes.
    """

    def __init__(self, stream: Any, chains: int, batch_bytes: int = 1):
        self.stream, self.chains = stream, chains
        self.longest = max(2, HANDED_BYTES // max(1, batch_bytes * chains))
        """How many steps' batches can be handed over at a time."""
        self._thread = Threads(1, "ergodica-feed")
        self._ahead: tuple[int, Future] | None = None
        self._memory: Iterator[list[list[np.ndarray]]] | None = None
        self._piece = 1  # steps whose batches are taken from the stream at a time
        self.cursor: Any = stream.cursor

    def close(self) -> None:
        self._thread.close()
        self.stream.close()

    def take(self, count: int, following: int, length: int) -> list[PyTree]:
        """The batches of `count` steps, of each chain leaves (length, ...), of which the surplus is zero; those of the
        `following` steps are read meanwhile, into the memory of those before: whoever has these must be done with them,
        as one who has the results is."""
        if self._ahead is None:
            self._ahead = (count, self._thread.submit(self._read, count, length))
        planned, future = self._ahead
        assert planned == count, "chunks follow each other as announced"
        batches, self.cursor = future.result()
        self._ahead = (following, self._thread.submit(self._read, following, length)) if following else None
        return batches

    def seek(self, cursor: Any) -> None:
        self.stream.seek(cursor)
        self.cursor = cursor

    def _read(self, count: int, length: int) -> tuple[list[PyTree], Any]:
        whole, structure, done = None, None, 0
        while done < count:
            piece = min(count - done, self._piece)
            batches, structure = jax.tree.flatten(self.stream.next(piece * self.chains))
            if whole is None:
                whole = self._next_set(batches, length)
            for chain, leaves in enumerate(whole):
                for leaf, part in zip(leaves, batches, strict=True):
                    leaf[done : done + piece] = part[chain :: self.chains]
            done += piece
            step_bytes = sum(leaf.nbytes for leaf in batches) // piece
            self._piece = max(1, PIECE_BYTES // max(1, step_bytes))
        assert whole is not None
        for leaf in (leaf for leaves in whole for leaf in leaves):
            leaf[count:] = 0
        return [jax.tree.unflatten(structure, leaves) for leaves in whole], self.stream.cursor

    def _next_set(self, batches: list[np.ndarray], length: int) -> list[list[np.ndarray]]:
        """Of each chain, arrays for the leaves of `length` batches."""

        def make() -> list[list[np.ndarray]]:
            return [[aligned((length, *leaf.shape[1:]), leaf.dtype) for leaf in batches] for _ in range(self.chains)]

        self._memory = self._memory or turns(2, make)
        return next(self._memory)


class Handed(Minibatches):
    """Batches that the host brings, from a stream: rows shuffled block-wise, or in the order of an iterable."""

    def at(self, place):
        return place
