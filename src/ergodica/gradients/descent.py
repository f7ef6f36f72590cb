"""L-BFGS on the host: for functions too large to be compiled whole, such as a potential over data on disk."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ergodica.compiling import quick_jit

Evaluate = Callable[[np.ndarray], tuple[float, np.ndarray]]
ARMIJO, CURVATURE = 1e-4, 0.9
TRIALS = 30


class Place(NamedTuple):
    """A point with the value and gradient there."""

    point: np.ndarray
    value: float
    gradient: np.ndarray


def descend(evaluate: Evaluate, start: Place, tolerance: float, iterations: int, rounding: float) -> tuple[Place, bool]:
    """Steps down from `start` until the gradient is at most `tolerance`; whether no better point could be found.

    The points are expected in coordinates where curvatures are about 1. `rounding` is the relative error of values.
    """
    init, update = _lbfgs()
    with _double():
        state = init(jnp.asarray(start.point))
    here = start
    for _ in range(iterations):
        if np.linalg.norm(here.gradient) <= tolerance:
            return here, False
        with _double():
            scaled, state = update(jnp.asarray(here.gradient), state, jnp.asarray(here.point))
        direction = -np.asarray(scaled)
        if not (np.isfinite(direction).all() and direction @ here.gradient < 0):
            direction = -here.gradient
        new = search(evaluate, here, direction, rounding)
        if new is None:
            return here, True
        here = new
    return here, False


@contextmanager
def _double() -> Iterator[None]:
    """float64, for products of small differences; optax mixes integers, which strict promotion refuses."""
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@cache
def _lbfgs() -> tuple[Callable, Callable]:
    import optax

    rule = optax.scale_by_lbfgs(memory_size=10)
    return quick_jit(rule.init), quick_jit(rule.update)


def search(evaluate: Evaluate, here: Place, direction: np.ndarray, rounding: float) -> Place | None:
    """A point along `direction` with Wolfe's two conditions, by bisection (Lewis and Overton, 2013); None without one.

    Where values differ by less than they are rounded, slopes decide (the approximate condition of Hager and Zhang).
    """
    slope, slack = float(direction @ here.gradient), rounding * abs(here.value)
    low, high, length = 0.0, math.inf, min(1.0, 10.0 / float(np.linalg.norm(direction)))
    best: Place | None = None
    for _ in range(TRIALS):
        point = here.point + length * direction
        value, gradient = evaluate(point)
        is_finite = math.isfinite(value) and bool(np.isfinite(gradient).all())
        new_slope = float(direction @ gradient) if is_finite else math.inf
        falls = is_finite and value <= here.value + ARMIJO * length * slope
        is_level = is_finite and value <= here.value + slack and new_slope <= (2 * ARMIJO - 1) * slope
        if not (falls or is_level):
            high = length
        else:
            best = Place(point, value, gradient)
            if new_slope >= CURVATURE * slope:
                return best
            low = length
        length = 2 * low if math.isinf(high) else (low + high) / 2
        if high - low <= 1e-12 * length:
            break
    return best
