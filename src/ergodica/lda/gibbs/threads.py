"""Compiled functions on several threads, without Numba's own: those make a function compile three times as long."""

import threading
from collections.abc import Callable

import numba


def thread_count() -> int:
    """How many threads a call uses: what NUMBA_NUM_THREADS or `numba.set_num_threads` says."""
    return numba.get_num_threads()


def in_threads(work: Callable[[int], object], count: int) -> None:
    """work(0), ..., work(count - 1) at the same time; each must let go of the interpreter's lock by itself."""
    others = [threading.Thread(target=work, args=(number,)) for number in range(1, count)]
    for thread in others:
        thread.start()
    work(0)
    for thread in others:
        thread.join()


def by_parts(work: Callable[[int, int], object], size: int, count: int) -> None:
    """work(first, last) on `count` parts of range(size), one for each thread."""
    in_threads(lambda number: work(size * number // count, size * (number + 1) // count), count)
