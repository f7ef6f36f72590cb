"""Compiled functions: with a cache on disk where there is one that can be written to, and on several threads.

Without a cache every process compiles. The threads are not Numba's own, which make a function compile three times as
long.
"""

import functools
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
from numba import prange

__all__ = ["by_parts", "cached_njit", "in_threads", "prange", "thread_count"]

CACHE_ROOM = 1 << 26  # bytes; on a disk with less, Numba fails in the middle of writing
_WORTH_A_THREAD = 64  # words or documents; with fewer, to wake it would take longer


def cached_njit(**options: Any) -> Callable[[Callable], Any]:
    """numba.njit(cache=True), which by itself raises where neither the package's folder nor the user's is writable."""

    def compiled(function: Callable) -> Any:
        try:
            cached: Any = numba.njit(cache=True, **options)(function)
            if shutil.disk_usage(cached.stats.cache_path).free >= CACHE_ROOM:
                return cached
        except (RuntimeError, OSError):
            pass
        return numba.njit(**options)(function)

    return compiled


def thread_count() -> int:
    """How many threads a call uses: what NUMBA_NUM_THREADS or `numba.set_num_threads` says."""
    return numba.get_num_threads()


def in_threads(work: Callable[[int], object], count: int) -> None:
    """work(0), ..., work(count - 1) at the same time; each must let go of the interpreter's lock by itself."""
    others = [_waiting_threads().submit(work, number) for number in range(1, count)]
    try:
        work(0)
    finally:
        for other in others:
            other.result()  # raises what it raised


def by_parts(work: Callable[[int, int], object], size: int, count: int) -> None:
    """work(first, last) on parts of range(size), one for each thread."""
    count = max(1, min(count, size // _WORTH_A_THREAD))
    in_threads(lambda number: work(size * number // count, size * (number + 1) // count), count)


@functools.cache
def _waiting_threads() -> ThreadPoolExecutor:
    """They start when first needed."""
    return ThreadPoolExecutor(os.cpu_count() or 1, "gibbs")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_waiting_threads.cache_clear)  # a child has no threads but its own
