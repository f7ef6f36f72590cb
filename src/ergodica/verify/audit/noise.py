"""Is the noise of a step independent of that of the step before?

A step without a state of its own is a function of its key and the position: fresh keys make independent noise. A step
with a state may hold a key or a batch for several steps. All chains start together, so they hold it in phase, and then
the lag-one products y_n y_{n+1} of the noise have a mean that depends on n with the period of the hold: lines in its
spectrum. For a step that does the same thing every time the mean does not depend on n, whatever the dynamics: nothing
has to be assumed of momenta, thermostats or the order of the integrator.
"""

from typing import Any, NamedTuple

import numpy as np

from ergodica.verify.audit.rungs import Rung
from ergodica.verify.audit.tails import any_of, normal_score, two_sided

LOWEST = 3  # frequency that is looked at, in turns over all steps
FEW_STEPS = 9  # are enough to see how far a step goes
STEPS = 120  # divisible by every period up to 6, and by 8, 10, 12; a multiple of a turn of `NumpyChains.path`
SECOND_ORDER = 2.83  # E[dx²] at h over that at h/2: 2 for a first-order process, 4 for one with momentum


class Noise(NamedTuple):
    """The clearest line in the lag-one products of the noise."""

    p_value: float
    period: int
    correlations: np.ndarray
    """Of the noise of step n with that of step n + 1, for n = 0, ... within a period."""
    spreads: np.ndarray
    """Mean square of the noise at each of them, in units of their mean."""
    is_second_order: bool

    @property
    def is_redrawn(self) -> bool:
        """A momentum that is drawn anew every few steps is no error; the acceleration is larger there."""
        return self.is_second_order and self.spreads.max() > 2 * self.spreads.min()


def noise(chains: Any, rung: Rung, smaller: Rung, dim: int) -> Noise | None:
    """From chains that have relaxed, at two step sizes; None if they leave the finite numbers."""
    paths = [
        chains.path(r.states, r.word, r.steps, r.step_size, steps)[..., :dim]
        for r, steps in ((rung, STEPS + 3), (smaller, FEW_STEPS))
    ]
    if not all(np.isfinite(x).all() and np.max(np.abs(x)) < 1e100 for x in paths):
        return None
    jumps = [np.diff(x, axis=0) for x in paths]
    is_second_order = bool(np.mean(jumps[0] ** 2) > SECOND_ORDER * np.mean(jumps[1] ** 2))
    y = np.diff(jumps[0], axis=0) if is_second_order else jumps[0]
    y = y[: STEPS + 1] / np.maximum(y.std((0, 1)), 1e-300)
    products = (y[:-1] * y[1:]).mean(2)  # (STEPS, chains)
    p, frequency = _clearest_line(products)
    period = int(np.clip(round(STEPS / frequency), 2, STEPS))
    squares = (y * y).mean((1, 2))
    phase = np.arange(STEPS) % period
    spreads = np.array([squares[:-1][phase == k].mean() for k in range(period)])
    following = np.roll(spreads, -1)
    means = np.array([products[phase == k].mean() for k in range(period)])
    correlations = means / np.sqrt(np.maximum(spreads * following, 1e-300))
    return Noise(p, period, correlations, spreads / spreads.mean(), is_second_order)


def _clearest_line(products: np.ndarray) -> tuple[float, int]:
    """The smallest p-value over frequencies, for the largest of them, and the lowest frequency that is as clear.

    At each frequency the mean over chains of the two parts of the Fourier transform, against their spread over chains:
    Hotelling's T².
    """
    steps, chains = products.shape
    lines = np.fft.rfft(_level(products), axis=0)[LOWEST:]
    parts = np.stack([lines.real, lines.imag], axis=1)  # (frequencies, 2, chains)
    mean = parts.mean(2)
    centred = parts - mean[..., None]
    covariance = np.einsum("fac,fbc->fab", centred, centred) / (chains - 1) / chains
    last = len(lines) - 1
    has_one_part = steps % 2 == 0
    p = np.ones(len(lines))
    for f in range(len(lines)):
        kept = slice(0, 1) if has_one_part and f == last else slice(0, 2)
        p[f] = _tail(mean[f, kept], covariance[f, kept, kept], chains)
    overall = any_of(float(p.min()), len(p))
    clear = np.flatnonzero(p < max(p.min() * 1e3, 1e-8)) if overall < 1e-4 else [int(p.argmin())]
    return overall, int(clear[0]) + LOWEST


def _level(products: np.ndarray) -> np.ndarray:
    """Without a parabola in time for each chain: what is left of a slow change would leak into every frequency."""
    powers = np.linspace(-1, 1, len(products))[:, None] ** np.arange(3)
    basis, _ = np.linalg.qr(powers)
    return products - basis @ (basis.T @ products)


def _tail(mean: np.ndarray, covariance: np.ndarray, chains: int) -> float:
    """P(T² > observed) for mean 0: exact for two parts, where F with (2, n - 2) degrees has a power for its tail."""
    if len(mean) == 1:
        return float(two_sided(normal_score(mean[0] / np.sqrt(covariance[0, 0]), chains)))
    squared = float(mean @ np.linalg.solve(covariance, mean))
    return float((1 + squared / (chains - 1)) ** (-(chains - 2) / 2))
