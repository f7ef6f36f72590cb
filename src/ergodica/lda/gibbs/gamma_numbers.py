"""Poisson and Gamma numbers from a stream of random_numbers.py; both exact, for any mean and any shape above 0."""

import math

import numba

from ergodica.lda.gibbs.random_numbers import advance, fine_uniform, normal

_SEARCHED_UP_TO = 10.0  # means of Poisson numbers; a rejection takes over there, and is made for means from 10 on
_STEPS_SEARCHED = 1_000  # none is ever needed: P(more than 100) is below 1e-60 for a mean of 10


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
