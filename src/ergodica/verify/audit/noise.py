"""Is the noise of a step independent of that of the step before?

A step without a state of its own is a function of its key and the position: fresh keys make independent noise. A step
with a state may hold a key or a batch for several steps. All chains start together, so they hold it in phase, and then
the lag-one products y_n y_{n+1} of the noise have a mean that depends on n with the period of the hold: lines in its
spectrum. For a step that does the same thing every time the mean does not depend on n, whatever the dynamics: nothing
has to be assumed of momenta, thermostats or the order of the integrator.
"""

from typing import NamedTuple

import numpy as np

from ergodica.verify.audit.chains import Chains, Rung
from ergodica.verify.tails import any_of, normal_score, two_sided

LOWEST_FREQUENCY = 3  # frequency that is looked at, in turns over all steps
FEW_STEPS = 9  # are enough to see how far a step goes
PATH_STEPS = 120  # divisible by every period up to 6, and by 8, 10, 12; a multiple of a turn of `NumpyChains.path`
POSITIVE_SCORE = 4.5  # standard errors at which a correlation counts as positive
UNEVEN_RATIO = 1.2  # ratio of mean squares by which steps do different things
SECOND_ORDER = 2.83  # E[dx²] at h over that at h/2: 2 for a first-order process, 4 for one with momentum


class HeldNoise(NamedTuple):
    """The clearest line in the lag-one products of the noise."""

    p_value: float
    period: int
    correlations: np.ndarray
    """Of the noise of step n with that of step n + 1, for n = 0, ... within a period."""
    spreads: np.ndarray
    """Mean square of the noise at each of them, in units of their mean."""
    is_second_order: bool
    is_positive: bool = True
    """Whether one of the correlations is, significantly."""
    is_uneven: bool = False
    """Whether the mean square of a coordinate's noise depends on the step number."""

    @property
    def is_cycle(self) -> bool:
        """Noise that is held makes steps similar, with positive correlations; a cycle of different steps, of other
        sizes or with a reflection, makes neither."""
        return self.is_uneven and not self.is_positive

    @property
    def is_redrawn(self) -> bool:
        """A momentum that is drawn again every few steps is no error; the acceleration is larger there."""
        return self.is_second_order and self.spreads.max() > 2 * self.spreads.min()


def noise(chains: Chains, rung: Rung, smaller: Rung, dim: int) -> HeldNoise | None:
    """From chains that have relaxed, at two step sizes; None if they become non-finite."""
    paths = [
        chains.path(r.states, r.key_base, r.steps, r.step_size, steps)[..., :dim]
        for r, steps in ((rung, PATH_STEPS + 3), (smaller, FEW_STEPS))
    ]
    if not all(np.isfinite(x).all() and np.max(np.abs(x)) < 1e100 for x in paths):
        return None
    jumps = [np.diff(x, axis=0) for x in paths]
    is_second_order = bool(np.mean(jumps[0] ** 2) > SECOND_ORDER * np.mean(jumps[1] ** 2))
    y = np.diff(jumps[0], axis=0) if is_second_order else jumps[0]
    y = y[: PATH_STEPS + 1] / np.maximum(y.std((0, 1)), 1e-300)
    products = (y[:-1] * y[1:]).mean(2)  # (PATH_STEPS, chains)
    p, frequency = _clearest_line(products)
    period = int(np.clip(round(PATH_STEPS / frequency), 2, PATH_STEPS))
    phase = np.arange(PATH_STEPS) % period
    squares = (y * y).mean(1)[:-1]  # (PATH_STEPS, dim)
    each = np.stack([squares[phase == k].mean(0) for k in range(period)])
    spreads = each.mean(1)
    by_chain = np.stack([products[phase == k].mean(0) for k in range(period)])  # (period, chains)
    means, errors = by_chain.mean(1), by_chain.std(1, ddof=1) / np.sqrt(by_chain.shape[1])
    correlations = means / np.sqrt(np.maximum(spreads * np.roll(spreads, -1), 1e-300))
    is_positive = bool(np.any(normal_score(means / np.maximum(errors, 1e-300), by_chain.shape[1]) > POSITIVE_SCORE))
    is_uneven = bool(np.any(each.max(0) > UNEVEN_RATIO * each.min(0)))
    return HeldNoise(p, period, correlations, spreads / spreads.mean(), is_second_order, is_positive, is_uneven)


def _clearest_line(products: np.ndarray) -> tuple[float, int]:
    """The smallest p-value over frequencies, for the largest of them, and the lowest frequency that is as clear.

    At each frequency the mean over chains of the two parts of the Fourier transform, against their spread over chains:
    Hotelling's T².
    """
    steps, chains = products.shape
    lines = np.fft.rfft(_level(products), axis=0)[LOWEST_FREQUENCY:]
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
    return overall, int(clear[0]) + LOWEST_FREQUENCY


def _level(products: np.ndarray) -> np.ndarray:
    """Without a parabola in time for each chain: what is left of a slow change would leak into every frequency."""
    powers = np.linspace(-1, 1, len(products))[:, None] ** np.arange(3)
    basis, _ = np.linalg.qr(powers)
    return products - basis @ (basis.T @ products)


def _tail(mean: np.ndarray, covariance: np.ndarray, chains: int) -> float:
    """P(T² > observed) for mean 0: exact for two parts, where F with (2, n - 2) degrees has a power for its tail."""
    spread = np.linalg.eigvalsh(covariance)
    if not spread[-1] > 0:
        return 1.0 if not np.any(mean) else 0.0
    if len(mean) == 1:
        return float(two_sided(normal_score(mean[0] / np.sqrt(covariance[0, 0]), chains)))
    squared = float(mean @ np.linalg.pinv(covariance, hermitian=True) @ mean)
    return float((1 + squared / (chains - 1)) ** (-(chains - 2) / 2))
