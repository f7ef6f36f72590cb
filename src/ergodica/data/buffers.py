"""Rows on their way to the chains: a thread that reads ahead, and memory that is used again.

Touching fresh pages costs several times as much as reading into ones that are there, and memory that is freed and
allocated again in other sizes is never all given back. So there are two kinds of memory here. What is read by code of
our own, of which we know when it is done, goes round in a few arrays that are made once (`turns`): how much that is
depends on nothing else. What a person may hold on to is lent (`Pool`).
"""

import itertools
import math
import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ergodica.errors import InputError

POLL_SECONDS = 0.05  # between looks at whether to stop
ALIGNED_BYTES = 64  # a NumPy array that begins at a multiple is handed to compiled code as it is, any other is copied
MOST_TOO_LARGE = 4  # times the size that is needed: memory larger than that is given back
SPARE_PIECES = 2  # that are kept while nobody uses them, beside the one that is given out


class ReadAhead:
    """The items of `produce()`, made by a thread at most `depth` ahead, which ends when this object does."""

    def __init__(self, produce: Callable[[], Iterator[Any]], depth: int = 1):
        self._queue: queue.Queue = queue.Queue(maxsize=depth)
        self._stop = threading.Event()
        self._failure: BaseException | None = None
        self.process = os.getpid()
        # The thread knows the queue and the event, not this object: it would keep it alive.
        self._thread = threading.Thread(
            target=_fill, args=(produce, self._queue, self._stop), name="ergodica-read-ahead", daemon=True
        )
        self._thread.start()
        self._end = weakref.finalize(self, _stop, self._stop, self._queue)

    def next(self) -> Any:
        """The next item; StopIteration after the last; what went wrong in the thread, here."""
        if self._failure is not None:
            raise self._failure
        while True:
            try:
                item, self._failure = self._queue.get(timeout=1)
                break
            except queue.Empty:
                if not self._thread.is_alive() and self._queue.empty():
                    item, self._failure = None, InputError("the thread that reads ahead has ended: open a new stream")
                    break
        if self._failure is not None:
            raise self._failure
        return item

    def close(self) -> None:
        """Stop the thread and wait for it."""
        self._end()
        if self.process == os.getpid() and self._thread is not threading.current_thread():
            self._thread.join(timeout=10)


def _fill(produce: Callable[[], Iterator[Any]], items: queue.Queue, stop: threading.Event) -> None:
    failure: BaseException = StopIteration()
    try:
        for item in produce():
            if not _put(items, (item, None), stop):
                return
            del item
    except InputError as error:
        failure = error
    except Exception as error:  # whatever it is, the caller must hear of it
        failure = InputError(f"reading ahead failed: {type(error).__name__}: {' '.join(str(error).split())}")
        failure.__cause__ = error
    _put(items, (None, failure), stop)


def _put(items: queue.Queue, item: Any, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            items.put(item, timeout=POLL_SECONDS)
            return True
        except queue.Full:
            continue
    return False


def _stop(stop: threading.Event, items: queue.Queue) -> None:
    stop.set()
    try:
        while True:
            items.get_nowait()
    except queue.Empty:
        pass


def turns(count: int, make: Callable[[], Any]) -> Iterator[Any]:
    """`count` things that are made once and used in turn, for ever.

    Not for what may still be in use when its turn comes. JAX gives NumPy's memory back some time after the results are
    there, and the later the busier the machine: waiting for that, others would be made in the meantime.
    """
    return itertools.cycle([make() for _ in range(count)])


def aligned(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array without values, in memory that JAX takes as it is."""
    return Pool().array(shape, dtype)


class Pool:
    """Arrays of about one size, in memory that nobody uses any more: neither NumPy, nor a JAX array that was made from
    it without a copy.

    The array that is given out, a view of it and a JAX array that shares its memory all keep one NumPy array alive, the
    lease. When it goes, its memory comes back.
    """

    def __init__(self):
        self.idle: list[memoryview] = []

    def array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array without values."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        memory = self._find(size + ALIGNED_BYTES)
        # Views of `lease` have it as their base, since what it is made from is a memoryview and no array.
        lease = np.frombuffer(memory, np.uint8)
        weakref.finalize(lease, self.idle.append, memory).atexit = False
        start = -lease.ctypes.data % ALIGNED_BYTES
        return lease[start : start + size].view(dtype).reshape(shape)

    def _find(self, size: int) -> memoryview:
        fitting = []
        while self.idle:
            memory = self.idle.pop()
            if size <= memory.nbytes <= MOST_TOO_LARGE * size:
                fitting.append(memory)
        found = fitting.pop() if fitting else np.empty(size, np.uint8).data
        self.idle += fitting[:SPARE_PIECES]
        return found


def rows_like(pools: list[Pool], count: int, like: list[np.ndarray]) -> list[np.ndarray]:
    """Arrays without values for `count` rows like those of each leaf, from a pool for each."""
    return [pool.array((count, *leaf.shape[1:]), leaf.dtype) for pool, leaf in zip(pools, like, strict=True)]
