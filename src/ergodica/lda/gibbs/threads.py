"""Compiled functions on several threads, without Numba's own: those make a function compile three times as long."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numba


def thread_count() -> int:
    """How many threads a call uses: what NUMBA_NUM_THREADS or `numba.set_num_threads` says."""
    return numba.get_num_threads()


def in_threads(work: Callable[[int], object], count: int) -> None:
    """work(0), ..., work(count - 1) at the same time; each must let go of the interpreter's lock by itself."""
    if count == 1:
        work(0)
        return
    # made for each call, in 0.1 ms: threads that are kept would be missing after a fork
    with ThreadPoolExecutor(count - 1) as others:
        running = [others.submit(work, number) for number in range(1, count)]
        work(0)
    for one in running:
        one.result()  # raises what it raised


def by_parts(work: Callable[[int, int], object], size: int, count: int) -> None:
    """work(first, last) on `count` parts of range(size), one for each thread."""
    in_threads(lambda number: work(size * number // count, size * (number + 1) // count), count)
