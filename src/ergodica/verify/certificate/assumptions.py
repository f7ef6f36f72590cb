"""What a residual takes for granted: that exp(-H/T) is a law, and that derivatives are those of the functions.

No other check can see what autodiff overlooks: with `jax.lax.stop_gradient` on a preconditioner, with a
floor or a jump, derivatives agree with each other and with nothing else. So the values themselves are asked: central
differences at a point, and a chord of one standard deviation against the integral of the derivative along it
(Gauss-Legendre), which sees jumps.
"""

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.compiling import quick_filter_jit
from ergodica.report import Check

TAIL_RADII = 2.0 ** np.arange(10, 15)  # widths of the points: only the tail is left there
TAIL_DECAY = 0.95  # of a shell's mass with each doubling; an improper tail has 1 or more

START_POINTS = 8
STEP_LENGTH = 1e-4  # of a standard deviation
GAUSS_NODES, GAUSS_WEIGHTS = np.polynomial.legendre.leggauss(12)
FEW_NODES, FEW_WEIGHTS = np.polynomial.legendre.leggauss(7)
LOCAL_TOLERANCE, CHORD_TOLERANCE = 1e-4, 0.05  # of the largest derivative


def check_tails(
    energy: Callable[[Array], Array], points: np.ndarray, seed: int, rays: int = 256, inward: np.ndarray | None = None
) -> Check:
    """The mass of shells far out, each twice as wide as the one before, must fall off.

    A density given instead of its negative logarithm has no such tails, nor has a flat one.

    Args:
        energy: H/T of one point. Where it is not finite there is no mass.
        points: (n, dim), where the law lives.
        inward: for each coordinate 1, -1 or 0: it goes to +infinity, -infinity, or (0) nowhere; nan: both ways.
    """
    name, dim = "exp(-H/T) is a law", points.shape[1]
    centre, width = points.mean(axis=0), points.std(axis=0)
    width = np.where(width > 0, width, 1e-3 * (1 + np.abs(centre)))
    directions = np.random.default_rng([seed, 3]).standard_normal((rays, dim))
    if inward is not None:
        directions = np.where(np.isnan(inward), directions, np.abs(directions) * np.nan_to_num(inward))
    open_sides = int(np.count_nonzero(np.any(directions != 0, axis=0)))
    if open_sides == 0:
        return Check(name, True, 0.0, TAIL_DECAY, "its domain is bounded")
    far = centre + TAIL_RADII[:, None, None] * width * directions
    heights = np.asarray(energies_at(energy, jnp.asarray(far.reshape(-1, dim)))).reshape(len(TAIL_RADII), rays)
    with np.errstate(all="ignore"):
        logs = np.where(np.isfinite(heights), -heights, -np.inf)
        top = np.max(logs, axis=1, initial=-np.inf)
        mass = np.log(np.mean(np.exp(logs - np.where(np.isfinite(top), top, 0.0)[:, None]), axis=1)) + top
        mass = mass + open_sides * np.log(TAIL_RADII)
        here = -float(np.max(np.asarray(energies_at(energy, jnp.asarray(points)))))
        is_gone = mass[-1] == -np.inf or mass[-1] - here < -500
        factor = 0.0 if is_gone else float(np.exp((mass[-1] - mass[0]) / (len(TAIL_RADII) - 1)))
    if factor < TAIL_DECAY:
        return Check(name, True, factor, TAIL_DECAY, "the mass of shells far out falls off")
    words = (
        f"the mass of a shell far out does not fall off ({factor:.3g} times as large in one twice as wide): "
        "exp(-H/T) has no integral; the potential is minus the log density, U = -log p"
    )
    return Check(name, False, factor, TAIL_DECAY, words)


@quick_filter_jit
def energies_at(energy: Callable[[Array], Array], points: Array) -> Array:
    return jax.vmap(energy)(points)


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
    starts = points[:START_POINTS]
    noise = np.random.default_rng([seed, 2]).standard_normal(starts.shape)
    directions = jnp.asarray(noise * widths / np.sqrt(starts.shape[1]))
    times = np.concatenate([[-STEP_LENGTH, STEP_LENGTH, 0.0, 1.0], (GAUSS_NODES + 1) / 2, (FEW_NODES + 1) / 2])
    found = _along(functions, jnp.asarray(starts), directions, jnp.asarray(times))
    misses = {
        name: _miss(np.asarray(values), np.asarray(slopes), (cancels or {}).get(name, 0.0), eps)
        for name, (values, slopes) in found.items()
    }
    worst = max(misses, key=lambda name: misses[name])
    words = "differences of the functions agree with their derivatives"
    if misses[worst] > 1:
        words = (
            f"{worst} does not change as its derivative says: a stop_gradient, a floor or a jump in it; the correction "
            "and every other check look at derivatives, so the law is not the one claimed"
        )
    return Check("derivatives are true", misses[worst] <= 1, misses[worst], 1.0, words)


@quick_filter_jit
def _along(
    functions: Callable[[Array], dict[str, Array]], starts: Array, directions: Array, times: Array
) -> dict[str, tuple[Array, Array]]:
    """Values and derivatives of each function at start + t direction, (points, times, ...)."""

    def at(start: Array, direction: Array, t: Array) -> dict[str, tuple[Array, Array]]:
        values, slopes = jax.jvp(lambda s: functions(start + s * direction), (t,), (jnp.ones_like(t),))
        return {name: (values[name], slopes[name]) for name in values}

    return jax.vmap(jax.vmap(at, (None, None, 0)), (0, 0, None))(starts, directions, times)


def _miss(values: np.ndarray, slopes: np.ndarray, cancels: float, eps: float) -> float:
    """The largest miss, in units of its tolerance; what is not finite (outside a domain) is left out."""
    flat = values.reshape(*values.shape[:2], -1)
    rates = slopes.reshape(*slopes.shape[:2], -1)
    with np.errstate(all="ignore"):
        local = np.abs((flat[:, 1] - flat[:, 0]) / (2 * STEP_LENGTH) - rates[:, 2])
        fine, rough = rates[:, 4 : 4 + len(GAUSS_NODES)], rates[:, 4 + len(GAUSS_NODES) :]
        integral = np.einsum("t,ntk->nk", GAUSS_WEIGHTS / 2, fine)
        # where the two rules differ, near a singularity, the integral is not known well enough to blame the function
        doubt = 10 * np.abs(integral - np.einsum("t,ntk->nk", FEW_WEIGHTS / 2, rough))
        chord = np.maximum(np.abs(flat[:, 3] - flat[:, 2] - integral) - doubt, 0.0)
        size = _largest(np.abs(rates)) + np.finfo(float).tiny
        noise = 1e3 * eps * max(_largest(np.abs(flat[:, :4])), cancels) / STEP_LENGTH
        return max(
            _largest(local / (LOCAL_TOLERANCE * size + noise)), _largest(chord / (CHORD_TOLERANCE * size + noise))
        )


def _largest(x: np.ndarray) -> float:
    """Of the finite ones."""
    return float(np.max(x[np.isfinite(x)], initial=0.0))
