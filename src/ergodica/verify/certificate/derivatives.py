"""Are the functions the integrals of their derivatives? What autodiff is told to overlook, no other check can see.

`jax.lax.stop_gradient` on a preconditioner, a floor or a jump: derivatives then agree with each other and with nothing
else. So the values themselves are asked: central differences at a point, and a chord of one standard deviation against
the integral of the derivative along it (Gauss-Legendre), which sees jumps.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.compiling import quick_filter_jit
from ergodica.report import Check

POINTS = 8
STEP = 1e-4  # of a standard deviation
NODES, WEIGHTS = np.polynomial.legendre.leggauss(12)
FEW_NODES, FEW_WEIGHTS = np.polynomial.legendre.leggauss(7)
LOCAL, CHORD = 1e-4, 0.05  # tolerances, of the largest derivative


def check_derivatives(
    functions: Callable[[Array], dict[str, Array]],
    points: np.ndarray,
    seed: int,
    *,
    spread: np.ndarray | None = None,
    cancels: Mapping[str, float] | None = None,
    eps: float = float(np.finfo(np.float64).eps),
) -> Check:
    """Differences of every function against its derivative, along random directions at some of the points (n, dim).

    Args:
        spread: the length of a chord in each coordinate; by default the points' standard deviation.
        cancels: the size of the terms that a function is the sum of, where it is known: a drift of 1e-16 that is what
            is left of terms of size 1 is rounding, and so are its differences.
        eps: the rounding of the numbers that the functions hold.
    """
    widths = points.std(axis=0) if spread is None else spread
    widths = np.where(widths > 0, widths, 1e-3 * (1 + np.abs(points).max(axis=0)))
    rng = np.random.default_rng([seed, 2])
    starts = points[:POINTS]
    directions = jnp.asarray(rng.standard_normal(starts.shape) * widths / np.sqrt(starts.shape[1]))
    times = np.concatenate([[-STEP, STEP, 0.0, 1.0], (NODES + 1) / 2, (FEW_NODES + 1) / 2])
    found = _along(functions, jnp.asarray(starts), directions, jnp.asarray(times))
    worst, figure = "", 0.0
    for name, (values, slopes) in found.items():
        off = _distance(np.asarray(values), np.asarray(slopes), (cancels or {}).get(name, 0.0), eps)
        if off > figure:
            worst, figure = name, off
    name = "derivatives are true"
    if figure <= 1:
        return Check(name, True, figure, 1.0, "differences of the functions agree with their derivatives")
    words = (
        f"{worst} does not change as its derivative says: a stop_gradient, a floor or a jump in it; the correction and "
        "every other check look at derivatives, so the law is not the one claimed"
    )
    return Check(name, False, figure, 1.0, words)


@quick_filter_jit
def _along(functions: Any, starts: Array, directions: Array, times: Array) -> Any:
    """Values and derivatives of each function at start + t direction, (points, times, ...)."""

    def at(start: Array, direction: Array, t: Array) -> Any:
        values, slopes = jax.jvp(lambda s: functions(start + s * direction), (t,), (jnp.ones_like(t),))
        return {name: (values[name], slopes[name]) for name in values}

    return jax.vmap(jax.vmap(at, (None, None, 0)), (0, 0, None))(starts, directions, times)


def _distance(values: np.ndarray, slopes: np.ndarray, cancels: float, eps: float) -> float:
    """The largest miss, in units of its tolerance; what is not finite (outside a domain) is left out."""
    flat = values.reshape(*values.shape[:2], -1)
    rates = slopes.reshape(*slopes.shape[:2], -1)
    with np.errstate(all="ignore"):
        local = np.abs((flat[:, 1] - flat[:, 0]) / (2 * STEP) - rates[:, 2])
        fine, rough = rates[:, 4 : 4 + len(NODES)], rates[:, 4 + len(NODES) :]
        integral = np.einsum("t,ntk->nk", WEIGHTS / 2, fine)
        # where the two rules differ, near a singularity, the integral is not known well enough to blame the function
        doubt = 10 * np.abs(integral - np.einsum("t,ntk->nk", FEW_WEIGHTS / 2, rough))
        chord = np.maximum(np.abs(flat[:, 3] - flat[:, 2] - integral) - doubt, 0.0)
        size = _largest(np.abs(rates))
        noise = 1e3 * eps * max(_largest(np.abs(flat[:, :4])), cancels) / STEP
        unit = size + np.finfo(float).tiny
        misses = [local / (LOCAL * unit + noise), chord / (CHORD * unit + noise)]
    return max(_largest(miss) for miss in misses)


def _largest(x: np.ndarray) -> float:
    """Of the finite ones."""
    return float(np.max(x[np.isfinite(x)], initial=0.0))
