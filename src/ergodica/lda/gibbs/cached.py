"""Numba's compiler with a cache on disk where there is one that can be written to; else every process compiles."""

import shutil
from collections.abc import Callable
from typing import Any

import numba
from numba import prange

__all__ = ["cached_njit", "prange"]

CACHE_ROOM = 1 << 26  # bytes; on a disk with less, Numba fails in the middle of writing


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
