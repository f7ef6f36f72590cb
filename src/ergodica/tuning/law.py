"""The law of one step of SGHMC by the splitting, in closed form: bias and correlation times from step and friction.

A direction with mass 1, friction gamma, curvature l and gradient noise w (a variance; at temperature T give w / T),
step h, and c = coth(gamma h / 2):

    relative bias of the variance           b    = (h^2/4) c w
    correlation time of the mean, in steps  tau  = 4 / (h^2 c l)
    correlation time of the square          tau2 = (tau + c) / 2

Exact for the discrete chain at every stable step, h^2 l < 4 (proved in docs/explanation/tuning.md). Arguments are
numbers or arrays, and results are float64.
"""

import numpy as np
from numpy.typing import ArrayLike

LARGEST_STEP = 0.7  # in whitened units: the probe's variances are then 14 % above the posterior's
REFRESHED = 1 / np.tanh(2)  # c at friction times step = 4: e^-4 of the momentum is left, all but a fresh draw


def coth_of_friction(friction: ArrayLike, step_size: ArrayLike) -> np.ndarray:
    """c = coth(gamma h / 2), above 1: large where friction is small, 1 where each step draws a fresh momentum."""
    return 1 / np.tanh(np.multiply(friction, step_size, dtype=float) / 2)


def friction_of(c: ArrayLike, step_size: ArrayLike) -> np.ndarray:
    """The friction gamma whose coth(gamma h / 2) is c > 1."""
    c = np.asarray(c, float)
    return np.log((c + 1) / (c - 1)) / np.asarray(step_size, float)


def variance_bias(noise: ArrayLike, step_size: ArrayLike, c: ArrayLike) -> np.ndarray:
    """b = (h^2/4) c w, for noise that does not depend on the position: the variance is 1 + b times what it should be.

    Whatever the curvature: 1 + b is also how much hotter the momentum is that a step moves with.
    """
    return np.square(np.asarray(step_size, float)) / 4 * np.multiply(c, noise, dtype=float)


def variance_bias_with_control(noise: ArrayLike, step_size: ArrayLike, c: ArrayLike) -> np.ndarray:
    """b_j = x w_j / (1 - x mean(w)), x = (h^2/4) c / (1 - h^2/4), for control variates in whitened coordinates (l = 1).

    Their noise grows with the distance from the mode, and so with the bias that it makes: where x mean(w) >= 1 there is
    no stationary law, and the bias is infinite. Where few directions have most of the noise (rare features), they feed
    themselves more than the mean says: see `largest_bias_with_control`.

    Args:
        noise: (..., d), the noise of each direction, averaged over draws of the posterior.
        step_size: a number, or (...), below 2.
        c: likewise.
    """
    noise = np.asarray(noise, float)
    return _fed_back(noise, noise.mean(axis=-1, keepdims=True), step_size, c)


def largest_bias_with_control(noise: ArrayLike, step_size: ArrayLike, c: ArrayLike) -> np.ndarray:
    """x w_j / (1 - x max(w)): on a linear regression no direction's bias is larger, however the noise is distributed.

    With one direction, or equal noise in all, it is `variance_bias_with_control`.
    """
    noise = np.asarray(noise, float)
    return _fed_back(noise, noise.max(axis=-1, keepdims=True), step_size, c)


def _fed_back(noise: np.ndarray, feeding: np.ndarray, step_size: ArrayLike, c: ArrayLike) -> np.ndarray:
    u = np.square(np.asarray(step_size, float)) / 4
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.where(u < 1, u * np.asarray(c, float) / (1 - u), np.inf)[..., None]
        return np.where(x * feeding < 1, x * noise / (1 - x * feeding), np.inf)


def time_of_means(step_size: ArrayLike, c: ArrayLike, curvature: ArrayLike = 1.0) -> np.ndarray:
    """tau = 4 / (h^2 c l): steps of a chain for each independent draw, where a mean is to be known."""
    return 4 / (np.square(np.asarray(step_size, float)) * np.asarray(c, float) * np.asarray(curvature, float))


def time_of_squares(step_size: ArrayLike, c: ArrayLike, curvature: ArrayLike = 1.0) -> np.ndarray:
    """tau2 = (tau + c) / 2: the same where a variance or an sd is to be known."""
    return (time_of_means(step_size, c, curvature) + np.asarray(c, float)) / 2


def motion(
    allowed_bias: ArrayLike, noise: ArrayLike, largest_step: float = LARGEST_STEP
) -> tuple[np.ndarray, np.ndarray]:
    """The step h and c = coth(gamma h / 2) that know sds soonest, with a bias of variances of at most `allowed_bias`.

    For control variates in whitened coordinates, where every direction has the noise w: a bias B allows
    x = r = B / ((1 + B) w). Without a limit on the bias c = 2/h is best (tau = tau2 = 2/h). Where noise is the limit
    the time of means is w/b whatever is chosen, and that of squares is shortest with a fresh momentum in every step:
    friction is raised up to that first, and only then is the step made smaller.
    """
    allowed, noise = np.asarray(allowed_bias, float), np.asarray(noise, float)
    with np.errstate(divide="ignore"):
        r = allowed / ((1 + allowed) * noise)
    h = np.minimum(largest_step, 2 / np.sqrt(1 + REFRESHED / r))
    u = h**2 / 4
    return h, np.maximum(REFRESHED, np.minimum(2 / h, r * (1 - u) / u))
