"""What Theorem 2 asks of a process: that exp(-H) is invariant, and that its current F = c p is integrable."""

import jax
import numpy as np

from ergodica.report import Check
from ergodica.verify.certificate.terms import terms_at
from ergodica.verify.completeness.extent import centre_and_half
from ergodica.verify.completeness.grid import Box
from ergodica.verify.functions import HandWritten, at, has_float32
from ergodica.verify.stationarity import rounding

SHELLS = 14
SHELL_POINTS = 1_024
LATE = 4  # of the last shells, where only the tails are left
DECAY = 0.9  # an integrable power of the distance falls by 2^-a with each doubling; a = 0 is a logarithm, and diverges


def stationary(process: HandWritten, points: np.ndarray) -> Check:
    """div c - c . grad H = 0 at points of the bulk, up to rounding."""
    with jax.enable_x64(True):
        functions = (process.drift, process.diffusion, process.hamiltonian)
        residual = terms_at(functions, points, 1.0).residual()
        is_coarse = any(has_float32(function, process.dim) for function in functions)
    worst, tolerance = int(np.argmax(residual.relative)), rounding(np.float32 if is_coarse else np.float64)
    figure = float(residual.relative[worst])
    if figure <= tolerance:
        words = f"div(c p) = 0 at {len(points):,} points of the bulk, up to rounding: exp(-H) is invariant"
    else:
        words = (
            f"the process does not leave exp(-H) invariant: div(c p) / p is {-residual.value[worst]:.3g} at "
            f"{at(points[worst])}, {figure:.2g} of the sum of its terms, and must vanish; eg.certify_sde names a repair"
        )
    return Check("stationary", figure <= tolerance, figure, tolerance, words)


def integrable(process: HandWritten, bulk: Box, lowest: float, seed: int) -> Check:
    """The integral of |F| over shells around the bulk, each twice as wide as the one before, must fall off.

    The figure is the factor between neighbours, averaged (geometrically) over the last shells; 0 where nothing is left.
    """
    centre, half = centre_and_half(bulk)
    rng = np.random.default_rng(seed)
    unit = rng.uniform(-1.0, 1.0, (SHELL_POINTS, process.dim))
    unit = unit[np.abs(unit).max(axis=1) > 0.5]
    radii = 2.0 ** np.arange(1, SHELLS + 1)
    points = np.concatenate([centre + half * radius * unit for radius in radii])
    energies, _, _, currents = process.values(points)
    with np.errstate(all="ignore"):
        # by logarithms: p underflows where c may overflow. Where H is infinite or not a number there is no mass.
        log_size = np.log(np.abs(currents).max(axis=1)) + lowest - energies
        sizes = np.where(np.isfinite(energies) & ~np.isnan(log_size), np.exp(log_size), 0.0)
        shells = sizes.reshape(SHELLS, -1).mean(axis=1) * radii**process.dim
        late = shells[-LATE - 1 :]
        factor = 0.0 if late[-1] == 0 else float((late[-1] / max(late[0], np.finfo(float).tiny)) ** (1 / LATE))
    passed = bool(factor < DECAY)
    if passed:
        words = "the integral of |c p| over shells of doubling width falls off: the theorem's condition"
    else:
        words = (
            f"the current c p is not integrable: its integral over a shell twice as wide is {factor:.2g} times as "
            f"large, out to {radii[-1]:g} widths of the bulk; Theorem 2 asks for an integrable current, or gives no Q"
        )
    return Check("integrable", passed, factor, DECAY, words)
