"""Threads that compute or read, and that nobody has to wait for once a person has stopped the run.

Python's own ThreadPoolExecutor is joined when the process ends, so that Ctrl-C waits for whatever is being compiled or
read. These are daemon threads. Ended in the middle of compiled code they could crash the interpreter on its way out, so
that a process which leaves one at work ends by `os._exit`, after everything that Python does at its end.
"""

import atexit
import logging
import os
import queue
import sys
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

INTERRUPTED = 130  # exit code, as shells have it


class Threads:
    """Runs functions in `count` threads, in the order in which they come.

    Args:
        enter: called first in each thread.
    """

    def __init__(self, count: int, name: str, enter: Callable[[], None] | None = None):
        self._count, self._name, self._enter = count, name, enter
        self._jobs: queue.SimpleQueue = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        # dropped without a word, it ends its threads all the same
        self._end = weakref.finalize(self, _end, self._jobs, count)
        self._end.atexit = False

    def submit(self, function: Callable, *arguments: Any) -> Future:
        """A promise of function(*arguments)."""
        promise: Future = Future()
        self._jobs.put((promise, function, arguments))
        if len(self._threads) < self._count:
            name = f"{self._name}_{len(self._threads)}"
            thread = threading.Thread(target=_work, args=(self._jobs, self._enter), name=name, daemon=True)
            thread.start()
            self._threads.append(thread)
        return promise

    def close(self) -> None:
        """Begin nothing more, and wait for what was begun; not on the way out of Ctrl-C or a signal."""
        while True:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is not None:
                job[0].cancel()
        self._end()
        error = sys.exc_info()[1]
        if isinstance(error, KeyboardInterrupt | SystemExit):
            code = getattr(error, "code", INTERRUPTED)
            _left.update(dict.fromkeys(self._threads, code if isinstance(code, int) else INTERRUPTED))
            return
        for thread in self._threads:
            thread.join()


_left: dict[threading.Thread, int] = {}  # those that may be at work, and the exit code of what stopped them


def _work(jobs: queue.SimpleQueue, enter: Callable[[], None] | None) -> None:
    if enter is not None:
        enter()
    while (job := jobs.get()) is not None:
        promise, function, arguments = job
        if not promise.set_running_or_notify_cancel():
            continue
        result = failure = None
        try:
            result = function(*arguments)
        except BaseException as error:
            failure = error
        # First, or the caller finds memory in use that he has just given back.
        del job, function, arguments
        promise.set_result(result) if failure is None else promise.set_exception(failure)
        del promise, result, failure


def _end(jobs: queue.SimpleQueue, count: int) -> None:
    for _ in range(count):
        jobs.put(None)


@atexit.register
def _leave_at_once() -> None:
    codes = [code for thread, code in _left.items() if thread.is_alive()]
    if codes:
        logging.shutdown()
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # closed, or a pipe that nobody reads
                stream.flush()
        os._exit(codes[0])
