"""A thread that reads ahead: bounded memory, errors handed to the caller, and it dies with whoever started it."""

import os
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from ergodica.errors import InputError

WAIT = 0.05  # seconds between looks at whether to stop


class ReadAhead:
    """The items of `produce()`, made by a thread at most `depth` ahead."""

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
                item, failure = self._queue.get(timeout=1)
                break
            except queue.Empty:
                if not self._thread.is_alive() and self._queue.empty():
                    item, failure = None, InputError("the thread that reads ahead has ended: make the stream anew")
                    break
        self._failure = failure
        if failure is not None:
            raise failure
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
    except Exception as error:  # whatever it is, the caller shall hear of it
        failure = InputError(f"reading ahead failed: {type(error).__name__}: {' '.join(str(error).split())}")
        failure.__cause__ = error
    _put(items, (None, failure), stop)


def _put(items: queue.Queue, item: Any, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            items.put(item, timeout=WAIT)
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
