"""Test functions that vanish near the walls of a domain: what a step does at a wall is not judged, the rest is.

For a smooth g that is 0 where the wall is felt, parts leave no boundary term, and a step that leaves the law invariant
has, to first order in the step size,

    2 E[g(x_i) dx_i] + E[g'(x_i) dx_i²] = 0.

g(x) = t w(t), t the distance from the wall less five noise widths and w a smooth step from 0 at t = 0 to 1; between two
walls the distance from their middle, and a step at each.
"""

from typing import NamedTuple

import numpy as np

from ergodica.verify.audit.features import Features

WIDTHS = 5.0  # noise widths from a wall within which starts are left out


class Interior(NamedTuple):
    """Coordinates with a wall, and where they are away from it; in units of the deviation."""

    which: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def nothing(self) -> np.ndarray:
        """Coordinates of which nothing is away from their walls."""
        return self.which[~(self.high > self.low)]

    def products(self, moved: list[np.ndarray], clusters: int) -> np.ndarray:
        """(clusters, 2, walled): n and q with the residual (2n + q)/q that `balance` looks at, so that q is the noise
        where w is not 0 and 2n all the rest."""
        draws = moved[0].shape[0] * moved[0].shape[1] // clusters
        u, v, du, dv = (x[..., self.which].reshape(clusters, draws, len(self.which)) for x in moved)
        n, q = np.zeros((2, clusters, len(self.which)))
        for x, dx in ((u, du), (v, dv)):
            w, g, slope = self._test(x)
            size = (w * dx * dx).mean(1) / 2
            q += size
            n += (g * dx + slope * dx * dx / 2).mean(1) / 2 - size / 2
        return np.stack([n, q], axis=1)

    def _test(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """w, g and g'."""
        below, rise = _step(x - self.low)
        above, fall = _step(self.high - x)
        w, dw = below * above, rise * above - below * fall
        has_low, has_high = np.isfinite(self.low), np.isfinite(self.high)
        middle = np.where(has_low & has_high, (self.low + self.high) / 2, np.where(has_low, self.low, self.high))
        t = x - middle
        return w, t * w, w + t * dw


def _step(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From 0 at t = 0 to 1 at t = 1, and its slope; 1 at an infinite distance."""
    s = np.clip(t, 0.0, 1.0)
    return s * s * (3 - 2 * s), 6 * s * (1 - s)


def interior(features: Features, width: np.ndarray) -> Interior:
    """For noise of this width in every coordinate, in units of the deviation."""
    which = np.flatnonzero(features.has_wall)
    deviation = np.asarray(features.deviation)[which]
    low, high = (np.asarray(wall)[which] / deviation for wall in (features.low, features.high))
    margin = WIDTHS * width[which]
    return Interior(which, low + margin, high - margin)
