"""Standard normals for all of theta, on all cores: at 8,000 words and 1,000 topics XLA needs a quarter of a second."""

import numba
import numpy as np

from ergodica.lda.gibbs import streams
from ergodica.lda.gibbs.cached import cached_njit

_LAYERS = 128
_END = 3.442619855899  # of the last layer, where the tail begins
_AREA = 9.91256303526217e-3  # of every layer
_UNIT = 2.0**31


def normals(seed: int, step: int, rows: int, columns: int) -> np.ndarray:
    """(rows, columns) float32 independent standard normals; they hang on seed, step and row, not on threads.

    The ziggurat of Marsaglia and Tsang (2000), with 128 layers; its rejection is exact.
    """
    out = np.empty((rows, columns), np.float32)
    _fill(np.uint64(seed % 2**64), np.uint64(step * rows), *_TABLES, out)
    return out


def _tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By layer: below which 31-bit number a point is inside, the number's unit, and the density at the layer's edge."""
    edges = np.zeros(_LAYERS + 1)
    edges[_LAYERS - 1] = _END
    for i in range(_LAYERS - 2, 0, -1):
        edges[i] = np.sqrt(-2 * np.log(_AREA / edges[i + 1] + np.exp(-0.5 * edges[i + 1] ** 2)))
    density = np.exp(-0.5 * edges[:_LAYERS] ** 2)
    widths = edges[:_LAYERS].copy()
    widths[0] = _AREA / density[-1]  # the bottom layer is as wide as a rectangle of its area, tail included
    inside = np.concatenate([[_END / widths[0], 0.0], edges[1 : _LAYERS - 1] / edges[2:_LAYERS]])
    return inside * _UNIT, widths / _UNIT, density


_TABLES = _tables()


@cached_njit(nogil=True, parallel=True)
def _fill(seed, first, inside, unit, density, out):
    for row in numba.prange(out.shape[0]):
        # another stream than that of any document
        a, b = streams.start(seed ^ np.uint64(0x6E6F726D616C73), first + np.uint64(row))
        for column in range(out.shape[1]):
            while True:
                bits = a + b
                a, b = streams.advance(a, b)
                layer = np.int64(bits >> np.uint64(57))
                number = np.float64((bits >> np.uint64(25)) & np.uint64(0x7FFFFFFF))
                x = number * unit[layer]
                if number >= inside[layer]:
                    if layer == 0:
                        a, b, x = _tail(a, b)
                    else:
                        u = _fine(a, b)
                        a, b = streams.advance(a, b)
                        if density[layer] + u * (density[layer - 1] - density[layer]) >= np.exp(-0.5 * x * x):
                            continue
                out[row, column] = x if bits & np.uint64(1 << 24) else -x
                break


@numba.njit
def _tail(a, b):
    """Beyond _END, from exponential numbers; a refusal stays in the tail."""
    while True:
        beyond = -np.log(1 - _fine(a, b)) / _END
        a, b = streams.advance(a, b)
        twice = -2 * np.log(1 - _fine(a, b))
        a, b = streams.advance(a, b)
        if twice >= beyond * beyond:
            return a, b, _END + beyond


@numba.njit
def _fine(a, b):
    """In [0, 1), a multiple of 2^-53."""
    return np.float64((a + b) >> np.uint64(11)) * 2.0**-53
