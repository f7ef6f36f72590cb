"""Two peaks, U = h (t^4 - 2 t^2): the paper's density at h = 1, and the same with a higher barrier."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

ROOM = 0.5  # what the metric's offset exceeds -min U = h by
EDGE = 3**-0.5  # between the inflection points of U is the region of low density
DIFFUSION_POWER, CURL_POWER = 0.5, 0.25  # gSGRHMC's: D = G^-1 grows with the root of U, Q = G^-1/2 with its fourth root


def potential(t: Any, height: Any) -> Any:
    square = t**2
    return height * (square**2 - 2 * square)


class PeakTruth(NamedTuple):
    """What is known of the law exp(-U), by quadrature."""

    mean: np.ndarray
    """Of t squared, of U, and of being between the inflection points."""
    sd: np.ndarray
    middle: float
    """The median of U: positions below it are the more probable half."""
    near_mode: float
    """The mean of U in that half."""
    near_mode_sd: float
    diffusion_size: float
    """The mean of (U + offset)^DIFFUSION_POWER, by which a growing D is divided, so that its mean is its size."""
    curl_size: float


def draw(heights: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One exact draw for each height of the barrier, as a quantile of its law."""
    levels, draws = rng.uniform(size=len(heights)), np.empty(len(heights))
    for height in np.unique(heights):
        t, weight = _law(float(height))
        here = heights == height
        draws[here] = np.interp(levels[here], np.cumsum(weight) - weight / 2, t)
    return draws


@lru_cache
def _law(height: float) -> tuple[np.ndarray, np.ndarray]:
    """Positions and the mass around each."""
    t = np.linspace(-4, 4, 400_001)
    weight = np.exp(-(potential(t, height) + height))
    return t, weight / weight.sum()


@lru_cache
def truth(height: float) -> PeakTruth:
    t, weight = _law(height)
    u = potential(t, height)
    values = np.stack([t**2, u, np.abs(t) < EDGE])
    mean = values @ weight
    order = np.argsort(u)
    middle = u[order][np.searchsorted(np.cumsum(weight[order]), 0.5)]
    near = np.where(u < middle, weight, 0)
    near /= near.sum()
    shifted = u + height + ROOM
    return PeakTruth(
        mean,
        np.sqrt((values - mean[:, None]) ** 2 @ weight),
        float(middle),
        float(u @ near),
        float(np.sqrt((u - u @ near) ** 2 @ near)),
        float(shifted**DIFFUSION_POWER @ weight),
        float(shifted**CURL_POWER @ weight),
    )
