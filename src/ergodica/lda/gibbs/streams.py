"""A random stream of its own for every document, from the seed and the document's visit number alone.

Two passes over a corpus have different visit numbers, and threads share nothing: neither repeats or orders the numbers.
"""

import numba
import numpy as np

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_24_BITS = np.float32(2.0**-24)


@numba.njit(inline="always")
def _mixed(x):
    """A bijection of 64 bits in which every bit hangs on all others (Steele, Lea and Flood, 2014)."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@numba.njit(inline="always")
def start(seed, visit):
    """The two words of state with which a document's stream begins; `seed` and `visit` are uint64."""
    key = _mixed(_mixed(seed + _STEP) + visit * _STEP)
    return _mixed(key + _STEP), _mixed(key + _STEP + _STEP)


@numba.njit(inline="always")
def advance(a, b):
    """xoroshiro128+ (Blackman and Vigna, 2018): the next state. The number it gives is made of the old one."""
    b ^= a
    turned = (a << np.uint64(24)) | (a >> np.uint64(40))
    return turned ^ b ^ (b << np.uint64(16)), (b << np.uint64(37)) | (b >> np.uint64(27))


@numba.njit(inline="always")
def uniform(a, b):
    """The number of a state in [0, 1), a multiple of 2^-24."""
    return np.float32((a + b) >> np.uint64(40)) * _24_BITS
