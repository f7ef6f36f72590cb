"""Eq. `CorrectDrift` by finite differences: no autodiff, no structure, nothing shared with the library."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Vector = np.ndarray
LEVELS = 8


def evaluate(function: Callable, z: Vector) -> np.ndarray:
    """function(z) as float64; a float32 answer would ruin the differences, so it is refused."""
    value = np.asarray(function(z))
    if value.dtype in (np.float32, np.float16):
        raise TypeError(f"got {value.dtype} from {function}, expected float64: enable x64 around the call")
    return value.astype(np.float64)


def richardson(function: Callable[[float], np.ndarray], step: float) -> np.ndarray:
    """Derivative at 0 of an array-valued function of one number.

    Central differences at step / 2^k have an error in even powers of the step, which Richardson's table removes one
    by one. Each entry of the answer takes the place in the table where neighbours agree best (Ridders 1982), since
    truncation falls and rounding grows along it.
    """
    previous: list[np.ndarray] = []
    best, best_error = np.nan, np.inf
    for level in range(LEVELS):
        h = step / 2**level
        row = [(function(h) - function(-h)) / (2 * h)]
        for order, older in enumerate(previous, start=1):
            newer = row[-1] + (row[-1] - older) / (4**order - 1)
            error = np.maximum(np.abs(newer - row[-1]), np.abs(newer - older))
            best = np.where(error < best_error, newer, best)
            best_error = np.minimum(error, best_error)
            row.append(newer)
        previous = row
    return best


def jacobian(function: Callable, z: Vector, step: float = 0.125) -> np.ndarray:
    """d function / d z_j in the last axis. `step` is the widest one, relative to max(1, |z_j|)."""
    z = np.asarray(z, np.float64)
    columns = []
    for j in range(z.size):
        direction = np.eye(z.size)[j]
        along = lambda t, e=direction: evaluate(function, z + t * e)  # noqa: E731
        columns.append(richardson(along, step * max(1.0, abs(z[j]))))
    return np.stack(columns, axis=-1)


def gradient(h: Callable, z: Vector, step: float = 0.125) -> Vector:
    """grad H(z) of a scalar function."""
    return jacobian(h, z, step)


def correction(matrix: Callable, z: Vector, step: float = 0.125) -> Vector:
    """Gamma_i = sum_j d/dz_j M_ij(z), Eq. `CorrectDrift`."""
    return np.einsum("ijj->i", jacobian(matrix, z, step))


def drift(h: Callable, d: Callable, q: Callable, z: Vector, temperature: float = 1.0, step: float = 0.125) -> Vector:
    """f = -(D + Q) grad H + T Gamma: Eq. `CorrectDrift` for the law exp(-H / T) with noise sqrt(2 T D) dW."""

    def both(point: Vector) -> np.ndarray:
        return evaluate(d, point) + evaluate(q, point)

    return -both(np.asarray(z, np.float64)) @ gradient(h, z, step) + temperature * correction(both, z, step)
