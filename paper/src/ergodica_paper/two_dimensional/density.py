"""The paper's correlated density in two dimensions, and what is known of it in closed form.

U = a^4 / 10 + (4 (b + 1.2) - a^2)^2 / 2 (figure 2, right). With w = 4 (b + 1.2) - a^2 it is a^4 / 10 + w^2 / 2, and
(a, b) -> (a, w) has a constant Jacobian: a^4 / 10 has the law Gamma(1/4), w is standard normal, independent of a.
"""

import math
from typing import Any

import numpy as np

SCALE, OFFSET = 1.5, 0.5  # the paper's D and C of G^-1 = D sqrt|U + C| (supplement); min U = 0, so this offset will do
NAMES = ("theta 1", "theta 2", "theta 1 squared", "U")


def potential(theta: Any) -> Any:
    """U at positions (..., 2), of NumPy or JAX.

    >>> float(potential(np.array([2.0, -0.2])))
    1.6
    """
    square = theta[..., 0] ** 2
    return square**2 / 10 + (4 * (theta[..., 1] + 1.2) - square) ** 2 / 2


def gradient(theta: np.ndarray) -> np.ndarray:
    """grad U at positions (..., 2)."""
    a, b = theta[..., 0], theta[..., 1]
    w = 4 * (b + 1.2) - a**2
    return np.stack([0.4 * a**3 - 2 * a * w, 4 * w], axis=-1)


def functions(theta: np.ndarray) -> np.ndarray:
    """(4, ...): what autocorrelation times and biases are measured on, in the order of NAMES."""
    theta = np.asarray(theta, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # a chain on its way to infinity; counted by its caller
        return np.stack([theta[..., 0], theta[..., 1], theta[..., 0] ** 2, potential(theta)])


def moments() -> tuple[np.ndarray, np.ndarray]:
    """Means and sds of `functions` under exp(-U), from E x^k = Gamma(1/4 + k) / Gamma(1/4) for x = a^4 / 10."""
    square = math.sqrt(10) * math.gamma(0.75) / math.gamma(0.25)  # E a^2; E a^4 = 10 / 4
    square_variance = 10 / 4 - square**2
    mean = [0.0, square / 4 - 1.2, square, 1 / 4 + 1 / 2]
    variance = [square, square_variance / 16 + 1 / 16, square_variance, 1 / 4 + 1 / 2]
    return np.array(mean), np.sqrt(variance)


def covariance_root() -> np.ndarray:
    """L with L L^T the covariance of the position; a is symmetric, so that a and b do not correlate."""
    return np.diag(moments()[1][:2])


def draw(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Independent exact draws, (*shape, 2)."""
    a = rng.choice([-1.0, 1.0], shape) * (10 * rng.gamma(0.25, size=shape)) ** 0.25
    return np.stack([a, (rng.normal(size=shape) + a**2) / 4 - 1.2], axis=-1)
