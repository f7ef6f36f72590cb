"""Is exp(-H/T) a law at all? A density given where its negative logarithm was asked for is not, nor is a flat one."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.compiling import quick_filter_jit
from ergodica.report import Check

RADII = 2.0 ** np.arange(10, 15)  # widths of the points: only the tail is left there
DECAY = 0.95  # of a shell's mass with each doubling; an improper tail has 1 or more


def check_tails(
    energy: Callable[[Array], Array], points: np.ndarray, seed: int, rays: int = 256, inward: np.ndarray | None = None
) -> Check:
    """The mass of shells far out, each twice as wide as the one before, must fall off.

    Args:
        energy: H/T of one point. Where it is not finite there is no mass.
        points: (n, dim), where the law lives.
        inward: for each coordinate 1, -1 or 0: it goes to +infinity, -infinity, or (0) nowhere; nan: both ways.
    """
    centre, width = points.mean(axis=0), points.std(axis=0)
    width = np.where(width > 0, width, 1e-3 * (1 + np.abs(centre)))
    directions = np.random.default_rng([seed, 3]).standard_normal((rays, points.shape[1]))
    if inward is not None:
        directions = np.where(np.isnan(inward), directions, np.abs(directions) * np.nan_to_num(inward))
    open_sides = int(np.count_nonzero(np.any(directions != 0, axis=0)))
    name = "exp(-H/T) is a law"
    if open_sides == 0:
        return Check(name, True, 0.0, DECAY, "its domain is bounded")
    far = centre + RADII[:, None, None] * width * directions
    heights = np.asarray(_energies(energy, jnp.asarray(far.reshape(-1, points.shape[1])))).reshape(len(RADII), rays)
    with np.errstate(all="ignore"):
        logs = np.where(np.isfinite(heights), -heights, -np.inf)
        top = np.max(logs, axis=1, initial=-np.inf)
        mass = np.log(np.mean(np.exp(logs - np.where(np.isfinite(top), top, 0.0)[:, None]), axis=1)) + top
        mass = mass + open_sides * np.log(RADII)
        here = -float(np.max(np.asarray(_energies(energy, jnp.asarray(points)))))
        is_gone = mass[-1] == -np.inf or mass[-1] - here < -500
        factor = 0.0 if is_gone else float(np.exp((mass[-1] - mass[0]) / (len(RADII) - 1)))
    passed = factor < DECAY
    words = (
        "the mass of shells far out falls off"
        if passed
        else (
            f"the mass of a shell far out does not fall off ({factor:.3g} times as large in one twice as wide): "
            "exp(-H/T) has no integral; the potential is minus the log density, U = -log p"
        )
    )
    return Check(name, passed, factor, DECAY, words)


@quick_filter_jit
def _energies(energy: Callable[[Array], Array], points: Array) -> Array:
    return jax.vmap(energy)(points)
