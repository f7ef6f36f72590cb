"""Random numbers that depend on a seed and a number alone, not on threads: streams of documents, normals for theta.

Every document has a stream of its own, from the seed and its visit number. Two passes over a corpus have different
visit numbers, and threads share nothing: neither repeats or reorders the numbers. Poisson and Gamma numbers come from
such a stream too, both exact, for any mean and any shape above 0.
"""

import math

import numba
import numpy as np

from ergodica.lda.gibbs.cached import cached_njit

_GOLDEN_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST_FACTOR, _SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_24_BITS = np.float32(2.0**-24)
_LAYER_COUNT = 128
_TAIL_START = 3.442619855899  # of the last layer, where the tail begins
_LAYER_AREA = 9.91256303526217e-3  # of every layer
_NUMBER_UNIT = 2.0**31
_SEARCHED_UP_TO = 10.0  # means of Poisson numbers; a rejection takes over there, and is made for means from 10 on
_STEPS_SEARCHED = 1_000  # none is ever needed: P(more than 100) is below 1e-60 for a mean of 10


@numba.njit(inline="always")
def _mixed(x):
    """A bijection of 64 bits in which every bit depends on all others (Steele, Lea and Flood, 2014)."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST_FACTOR
    x = (x ^ (x >> np.uint64(27))) * _SECOND_FACTOR
    return x ^ (x >> np.uint64(31))


@numba.njit(inline="always")
def start_stream(seed, visit):
    """The two words of state with which a document's stream begins; `seed` and `visit` are uint64."""
    key = _mixed(_mixed(seed + _GOLDEN_STEP) + visit * _GOLDEN_STEP)
    return _mixed(key + _GOLDEN_STEP), _mixed(key + _GOLDEN_STEP + _GOLDEN_STEP)


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


def normals(seed: int, step: int, rows: int, columns: int) -> np.ndarray:
    """(rows, columns) float32 independent standard normals; they depend on seed, step and row alone.

    On all cores: at 8,000 words and 1,000 topics XLA needs a quarter of a second. By the ziggurat of Marsaglia and
    Tsang (2000), with 128 layers; its rejection is exact.
    """
    out = np.empty((rows, columns), np.float32)
    _fill(np.uint64(seed % 2**64), np.uint64(step * rows), *ZIGGURAT_TABLES, out)
    return out


def _tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By layer: below which 31-bit number a point is inside, the number's unit, and the density at the layer's edge."""
    edges = np.zeros(_LAYER_COUNT + 1)
    edges[_LAYER_COUNT - 1] = _TAIL_START
    for i in range(_LAYER_COUNT - 2, 0, -1):
        edges[i] = np.sqrt(-2 * np.log(_LAYER_AREA / edges[i + 1] + np.exp(-0.5 * edges[i + 1] ** 2)))
    density = np.exp(-0.5 * edges[:_LAYER_COUNT] ** 2)
    widths = edges[:_LAYER_COUNT].copy()
    widths[0] = _LAYER_AREA / density[-1]  # the bottom layer is as wide as a rectangle of its area, tail included
    inside = np.concatenate([[_TAIL_START / widths[0], 0.0], edges[1 : _LAYER_COUNT - 1] / edges[2:_LAYER_COUNT]])
    return inside * _NUMBER_UNIT, widths / _NUMBER_UNIT, density


ZIGGURAT_TABLES = _tables()


@numba.njit(inline="always")
def normal(a, b, inside, unit, density):
    """(state, state, a standard normal), by ZIGGURAT_TABLES."""
    while True:
        bits = a + b
        a, b = advance(a, b)
        layer = np.int64(bits >> np.uint64(57))
        number = np.float64((bits >> np.uint64(25)) & np.uint64(0x7FFFFFFF))
        x = number * unit[layer]
        if number >= inside[layer]:
            if layer == 0:
                a, b, x = _tail(a, b)
            else:
                u = fine_uniform(a, b)
                a, b = advance(a, b)
                if density[layer] + u * (density[layer - 1] - density[layer]) >= np.exp(-0.5 * x * x):
                    continue
        return a, b, x if bits & np.uint64(1 << 24) else -x


@cached_njit(nogil=True, parallel=True)
def _fill(seed, first, inside, unit, density, out):
    for row in numba.prange(out.shape[0]):
        # another stream than that of any document
        a, b = start_stream(seed ^ np.uint64(0x6E6F726D616C73), first + np.uint64(row))
        for column in range(out.shape[1]):
            a, b, out[row, column] = normal(a, b, inside, unit, density)


@numba.njit
def _tail(a, b):
    """Beyond _TAIL_START, from exponential numbers; a refusal stays in the tail."""
    while True:
        beyond = -np.log(1 - fine_uniform(a, b)) / _TAIL_START
        a, b = advance(a, b)
        twice = -2 * np.log(1 - fine_uniform(a, b))
        a, b = advance(a, b)
        if twice >= beyond * beyond:
            return a, b, _TAIL_START + beyond


@numba.njit
def fine_uniform(a, b):
    """In [0, 1), a multiple of 2^-53."""
    return np.float64((a + b) >> np.uint64(11)) * 2.0**-53


@numba.njit(inline="always")
def poisson(a, b, mean):
    """(state, state, a Poisson number of this mean as a float64)."""
    if mean >= _SEARCHED_UP_TO:
        return _poisson_by_rejection(a, b, mean)
    u = fine_uniform(a, b)
    a, b = advance(a, b)
    # P(0) = exp(-mean) >= 1 - mean: most means are tiny, and need no exponential
    if u < 1 - mean:
        return a, b, 0.0
    p = math.exp(-mean)
    number = 0.0
    while u >= p and number < _STEPS_SEARCHED:
        u -= p
        number += 1
        p *= mean / number
    return a, b, number


@numba.njit
def _poisson_by_rejection(a, b, mean):
    """PTRS: transformed rejection with a squeeze (Hoermann, 1993, Insurance: Mathematics and Economics 12)."""
    slope = 0.931 + 2.53 * math.sqrt(mean)
    shift = -0.059 + 0.02483 * slope
    sure = 0.9277 - 3.6224 / (slope - 2)
    while True:
        u = fine_uniform(a, b) - 0.5
        a, b = advance(a, b)
        v = 1 - fine_uniform(a, b)
        a, b = advance(a, b)
        distance = 0.5 - abs(u)
        if distance <= 0:
            continue
        number = math.floor((2 * shift / distance + slope) * u + mean + 0.43)
        if distance >= 0.07 and v <= sure:
            return a, b, number
        if number < 0 or (distance < 0.013 and v > distance):
            continue
        inverse = 1.1239 + 1.1328 / (slope - 3.4)
        drawn = math.log(v * inverse / (shift / (distance * distance) + slope))
        if drawn <= number * math.log(mean) - mean - math.lgamma(number + 1):
            return a, b, number


@numba.njit(inline="always")
def gamma(a, b, shape, inside, unit, density):
    """(state, state, a Gamma number of this shape and scale 1); 0 where it is too small for float64.

    inside, unit, density: ZIGGURAT_TABLES.
    """
    if shape < 1:
        return gamma_below_one(a, b, shape)
    return gamma_from_one(a, b, shape, inside, unit, density)


@numba.njit(inline="always")
def gamma_below_one(a, b, shape):
    """GS of Ahrens and Dieter (1974), which for a small shape hardly ever refuses.

    The density x^(shape - 1) exp(-x) lies below x^(shape - 1) up to 1, and below exp(-x) from there on; the areas are
    as 1 to shape / e.
    """
    areas = 1 + shape / math.e
    while True:
        p = areas * (1 - fine_uniform(a, b))
        a, b = advance(a, b)
        u = fine_uniform(a, b)
        a, b = advance(a, b)
        if p <= 1:
            x = math.exp(math.log(p) / shape)
            if u < 1 - x or u < math.exp(-x):
                return a, b, x
        else:
            x = -math.log((areas - p) / shape)
            if u < math.exp((shape - 1) * math.log(x)):
                return a, b, x


@numba.njit(inline="always")
def gamma_from_one(a, b, shape, inside, unit, density):
    """Of a shape of at least 1, from a normal number (Marsaglia and Tsang, 2000)."""
    centre = shape - 1 / 3
    width = 1 / math.sqrt(9 * centre)
    while True:
        a, b, x = normal(a, b, inside, unit, density)
        v = 1 + width * x
        if v <= 0:
            continue
        v = v * v * v
        u = 1 - fine_uniform(a, b)
        a, b = advance(a, b)
        square = x * x
        if u < 1 - 0.0331 * square * square:
            return a, b, centre * v
        if math.log(u) < 0.5 * square + centre * (1 - v + math.log(v)):
            return a, b, centre * v
