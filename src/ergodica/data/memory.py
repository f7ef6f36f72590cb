"""Memory that goes round: touching fresh pages costs several times as much as reading into ones that are there, and
memory that is freed and taken again in other sizes is never all given back."""

import math
import sys
from typing import Any

import numpy as np

ALIGNMENT = 64  # bytes: a NumPy array that begins so is handed to compiled code as it is, any other is copied
SPACIOUS = 4  # times what is asked for: memory larger than that is given back
SPARE = 2  # pieces that are kept while nobody uses them, beside the one that is asked for


class Pool:
    """Arrays of about one size, in memory that nobody uses any more: neither NumPy, nor a JAX array that was made from
    it without a copy.

    Whoever holds an array, or a view of it, holds a reference to its memory, and only memory without one is used again.
    """

    def __init__(self):
        self._memory: list[np.ndarray] = []
        self._idle = _references([np.empty(0)])[0]

    def array(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """An array without values."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        raw = self._find(size + ALIGNMENT)
        start = -raw.ctypes.data % ALIGNMENT
        return raw[start : start + size].view(dtype).reshape(shape)

    def _find(self, size: int) -> np.ndarray:
        used, idle = [], []
        for place, count in enumerate(_references(self._memory)):
            raw = self._memory[place]
            if count > self._idle:
                used.append(raw)
            elif size <= raw.nbytes <= SPACIOUS * size:
                idle.append(raw)
        found = idle.pop() if idle else np.empty(size, np.uint8)
        self._memory = [*used, *idle[:SPARE], found]
        return found


def _references(memory: list[np.ndarray]) -> list[int]:
    """How many there are to each, with those of this very line: versions of Python count these differently."""
    return [sys.getrefcount(raw) for raw in memory]
