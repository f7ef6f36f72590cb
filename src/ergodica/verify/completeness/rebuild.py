"""Theorem 2 as a tool: the curl Q of any process that leaves exp(-H) invariant, rebuilt from its drift.

With c = f + D grad H - div D and p = exp(-H), F = c p is the current of the process, and exp(-H) is invariant exactly
when div F = 0. Wanted is a skew Q with c = -Q grad H + div Q, that is sum_j d_j (Q_ij p) = F_i (the paper's Eq. `EqQ`).
In Fourier space, on a periodic box at whose faces p vanishes,

    (Q p)^_ij = (F^_i k_j - F^_j k_i) / (i |k|^2)          (Eq. `Soln`; k holds the 2 pi)

since sum_j i k_j (Q p)^_ij = F^_i - k_i (k . F^) / |k|^2, and k . F^ = 0. In two dimensions there is a closed form
beside it (docs/paper/errata.md has its signs and limits). F comes from automatic differentiation, not from the grid.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.compiling import quick_filter_jit
from ergodica.errors import InputError
from ergodica.host.progress import waiting
from ergodica.host.validate import choice, whole
from ergodica.report import Check, Report
from ergodica.verify.certificate.repairs import terms_at
from ergodica.verify.completeness.construction import Flow, anchored, closed_form, fourier, interpolant, laid_flow
from ergodica.verify.completeness.grid import Box, bulk_points, centre_and_half, check_memory, holding, in_words
from ergodica.verify.completeness.rebuilt_curl import CurlAt, RebuiltCurl
from ergodica.verify.hand_written import HandWritten, SdeValues, hand_written
from ergodica.verify.sde import at
from ergodica.verify.stationarity import rounding

CURL_METHODS: dict[str, Callable[[Flow], list[np.ndarray]]] = {"fourier": fourier, "closed form": closed_form}

BULK_DENSITY = 1e-4  # share of its maximum above which the density counts as bulk
CURL_TOLERANCE = 1e-3  # of the drift's size, and of the curl's
EXPECTED_ERROR = {2: 1e-8, 3: 1e-3}  # for smooth processes at 256 and 64 points a side: above it, advice is given
BULK_POINTS = 4_096  # off the grid, where the drift is compared

SHELL_COUNT = 14
SHELL_POINTS = 1_024
LATE_SHELLS = 4  # the last ones, where only the tails are left
# an integrable power of the distance falls by 2^-a with each doubling; a = 0 is a logarithm, and diverges
SHELL_DECAY = 0.9


class NoCurlError(InputError):
    """Theorem 2 does not apply: the process does not have this law, or its current is not integrable."""

    def __init__(self, report: Report):
        super().__init__(next(check.explanation for check in report.checks if not check.passed))
        self.report = report


def rebuild_curl(
    drift: Callable[[Array], Array],
    diffusion: Callable[[Array], Array],
    hamiltonian: Callable[[Array], Array],
    box: Sequence[tuple[float, float]] | None = None,
    resolution: int = 256,
    *,
    method: Literal["fourier", "closed form"] = "fourier",
    seed: int = 0,
) -> RebuiltCurl:
    """The skew Q with which dz = f dt + sqrt(2 D) dW is the recipe of (H, D, Q), in two or three dimensions.

    Use it to see which curl a process hides, or to turn a drift that you have into a recipe, `q.field`. Theorem 2 of
    Ma, Chen and Fox (2015, https://arxiv.org/abs/1506.04696) says that every process that leaves exp(-H) invariant has
    such a Q, if its current is integrable. Both conditions are checked first; then the drift through (D, Q) is compared
    with the one given, at points off the grid.

    Args:
        drift, diffusion, hamiltonian: f(z), D(z) and H(z), jnp functions of one flat vector of 2 or 3 numbers.
        box: [(low, high), ...], where Q is wanted; it must hold the law. None: it is found. Where exp(-H) has not yet
            vanished at its faces the grid reaches beyond them.
        resolution: grid points a side. 256 is for two dimensions; in three, 64 takes seconds.
        method: "fourier", or in two dimensions the "closed form".
        seed: of the points at which the process is looked at.

    Returns:
        The curl, with `curl(z)`, `field`, `error` (of the drift, relative) and `report`.

    Raises:
        NoCurlError: the process does not leave exp(-H) invariant, or its current is not integrable: there is no such Q.

    Example:
        >>> import jax.numpy as jnp, ergodica as eg
        >>> def drift(z): return jnp.stack([z[1], -z[0]])
        >>> q = eg.rebuild_curl(drift, lambda z: jnp.zeros((2, 2)), lambda z: z @ z / 2, box=[(-6, 6)] * 2)
        >>> q.curl((0.3, -1.2)).round(6).tolist()
        [[0.0, -1.0], [1.0, 0.0]]
    """
    given = None if box is None else checked_box(box)
    process = as_process(drift, diffusion, hamiltonian, None if given is None else len(given))
    check_request(resolution, method, process.dim)
    seed = whole("seed", seed)
    title = f"the curl of a process in {process.dim} dimensions, by Theorem 2"
    with waiting("rebuilding the curl") as tell:
        bulk = looked_at(process, seed)
        tell(0.1)
        conditions = (stationary(process, bulk.points), integrable(process, bulk, seed))
        if not all(check.passed for check in conditions):
            raise NoCurlError(Report(title, conditions))
        flow = laid_flow(process, given, resolution, bulk.lowest, lambda share: tell(0.3 + 0.4 * share))
        curls = [anchored(flow, modes) for modes in CURL_METHODS[method](flow)]
        box = given or flow.grid.box
        curl = CurlAt(interpolant(flow.grid, curls), hamiltonian, bulk.lowest, box)
        tell(0.8)
        error = drift_error(curl, bulk)
        largest = max(largest_in_bulk(flow, values) for values in curls)
        checks = (*conditions, drift_check(error, len(bulk.points)))
        if process.dim == 2:
            checks += (agreement(flow, max(largest, float(np.abs(bulk.values.diffusion).max()))),)
    limits = limiting(flow, curls, bulk.size)
    figures = {"error": error, "largest": largest, "limits": limits, "method": method, "resolution": resolution}
    figures |= {"box": box, "grid": flow.grid.box, "bulk": bulk.box}
    report = Report(title, checks, notes(process.dim, largest, error, limits), figures)
    return RebuiltCurl(report, curl, box, bulk.box, resolution, method, error, largest)


class Bulk(NamedTuple):
    """Where the density is above BULK_DENSITY: a box around it, min H, points in it and what was seen there."""

    box: Box
    lowest: float
    points: np.ndarray
    values: SdeValues

    @property
    def size(self) -> float:
        """The root mean square of |f|; 1 for a drift that vanishes."""
        return float(np.sqrt(np.square(self.values.drift).sum(axis=1).mean())) or 1.0


def looked_at(process: HandWritten, seed: int) -> Bulk:
    """The bulk of exp(-H); refuses values there that are not those of an SDE."""
    found = holding(process.energies, process.dim, -np.log(BULK_DENSITY))
    if found is None:
        raise InputError("hamiltonian is not that of a law: exp(-H) is finite nowhere, or does not fall off")
    box, lowest = found
    points = bulk_points(process.energies, box, lowest - np.log(BULK_DENSITY), BULK_POINTS, seed)
    if len(points) < 64:
        raise InputError(f"exp(-H) fills almost nothing of {in_words(box)}, where it lives: too thin for a grid")
    return Bulk(box, lowest, points, process.check(points))


def stationary(process: HandWritten, points: np.ndarray) -> Check:
    """div c - c . grad H = 0 at points of the bulk, up to rounding."""
    with jax.enable_x64(True):
        residual = terms_at(process, points).residual()
        tolerance = rounding(np.float32 if process.has_float32 else np.float64)
    worst = int(np.argmax(residual.relative))
    figure = float(residual.relative[worst])
    if figure <= tolerance:
        words = f"div(c p) = 0 at {len(points):,} points of the bulk, up to rounding: exp(-H) is invariant"
    else:
        words = (
            f"the process does not leave exp(-H) invariant: div(c p) / p is {-residual.value[worst]:.3g} at "
            f"{at(points[worst])}, {figure:.2g} of the sum of its terms, and must vanish; eg.certify_sde names a repair"
        )
    return Check("stationary", figure <= tolerance, figure, tolerance, words)


def integrable(process: HandWritten, bulk: Bulk, seed: int) -> Check:
    """The integral of |F| over shells around the bulk, each twice as wide as the one before, must fall off.

    The figure is the factor between neighbours, averaged (geometrically) over the last shells; 0 where nothing is left.
    """
    centre, half = centre_and_half(bulk.box)
    unit = np.random.default_rng(seed).uniform(-1.0, 1.0, (SHELL_POINTS, process.dim))
    unit = unit[np.abs(unit).max(axis=1) > 0.5]
    radii = 2.0 ** np.arange(1, SHELL_COUNT + 1)
    values = process.values(np.concatenate([centre + half * radius * unit for radius in radii]))
    with np.errstate(all="ignore"):
        # by logarithms: p underflows where c may overflow. Where H is infinite or not a number there is no mass.
        log_size = np.log(np.abs(values.current).max(axis=1)) + bulk.lowest - values.energy
        sizes = np.where(np.isfinite(values.energy) & ~np.isnan(log_size), np.exp(log_size), 0.0)
        shells = sizes.reshape(SHELL_COUNT, -1).mean(axis=1) * radii**process.dim
        first, last = shells[-LATE_SHELLS - 1], shells[-1]
        factor = 0.0 if last == 0 else float((last / max(first, np.finfo(float).tiny)) ** (1 / LATE_SHELLS))
    words = "the integral of |c p| over shells of doubling width falls off: the theorem's condition"
    if not factor < SHELL_DECAY:
        words = (
            f"the current c p is not integrable: its integral over a shell twice as wide is {factor:.2g} times as "
            f"large, out to {radii[-1]:g} widths of the bulk; Theorem 2 asks for an integrable current, or gives no Q"
        )
    return Check("integrable", bool(factor < SHELL_DECAY), factor, SHELL_DECAY, words)


def as_process(drift: Callable, diffusion: Callable, hamiltonian: Callable, dim: int | None) -> HandWritten:
    """The functions as a process in 2 or 3 dimensions; None: in as many as they take."""
    process = hand_written(drift, diffusion, hamiltonian, dim) if dim in (None, 2, 3) else None
    dim = dim if process is None else process.dim
    if process is None or dim not in (2, 3):
        raise InputError(f"got a process in {dim} dimensions: Q is rebuilt on a grid, in 2 or 3")
    return process


def checked_box(box: Sequence[tuple[float, float]]) -> Box:
    try:
        sides = tuple((float(low), float(high)) for low, high in box)
    except (TypeError, ValueError):
        raise InputError(f"box is {box!r}: expected one pair (low, high) for each coordinate") from None
    for low, high in sides:
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise InputError(f"box has a side ({low:g}, {high:g}): expected finite numbers, low < high")
    return sides


def check_request(resolution: int, method: str, dim: int) -> None:
    """Refuses what can't be done, before anything is computed."""
    whole("resolution", resolution, 16, of="grid points a side")
    choice("method", method, CURL_METHODS)
    if method == "closed form" and dim != 2:
        raise InputError(f"the closed form is for 2 dimensions, got {dim}: leave method out")
    check_memory(resolution, dim)


def drift_error(curl: CurlAt, bulk: Bulk) -> float:
    """The largest error of the drift over its size, at points off the grid.

    The drift through (D, Q) is -(D + Q) grad H + div D + div Q; its share of D is that of f, c = f + D grad H - div D.
    """
    low, high = curl.sides
    inside = ((low <= bulk.points) & (bulk.points <= high)).all(axis=1)
    with jax.enable_x64(True):
        rebuilt = np.asarray(_curl_share(curl, jnp.asarray(bulk.points[inside], jnp.float64)))
    return float(np.sqrt(np.square(rebuilt - bulk.values.current[inside]).sum(axis=1)).max()) / bulk.size


# The curl is an argument: compiled in, the table of its spline would take a second more.
@quick_filter_jit
def _curl_share(curl: CurlAt, points: Array) -> Array:
    """-Q grad H + div Q."""

    def at(z):
        slopes, matrix = jax.jacfwd(lambda z: (curl(z),) * 2, has_aux=True)(z)
        return jnp.einsum("ijj->i", slopes) - matrix @ jax.grad(curl.hamiltonian)(z)

    return jax.vmap(at)(points)


def drift_check(error: float, count: int) -> Check:
    words = (
        f"largest error of the drift through (D, Q) and its Gamma, over the drift's root mean square, at {count:,} "
        f"points off the grid where the density is above {BULK_DENSITY:g} of its maximum"
    )
    return Check("drift", error <= CURL_TOLERANCE, error, CURL_TOLERANCE, words)


def agreement(flow: Flow, size: float) -> Check:
    """Fourier construction and closed form, which use F differently, must give one Q in two dimensions."""
    one, other = (anchored(flow, construct(flow)[0]) for construct in CURL_METHODS.values())
    figure = largest_in_bulk(flow, one - other) / (size or 1.0)
    words = "largest difference on the bulk between Fourier construction and closed form, over that of |D| and |Q|"
    return Check("two constructions", figure <= CURL_TOLERANCE, figure, CURL_TOLERANCE, words)


def largest_in_bulk(flow: Flow, curl: np.ndarray) -> float:
    """The largest |Q_ij| = |(Q p)_ij| / p where the density is above BULK_DENSITY."""
    is_bulk = flow.density >= BULK_DENSITY
    return float(np.abs(curl[is_bulk] / flow.density[is_bulk]).max())


def limiting(flow: Flow, curls: list[np.ndarray], size: float) -> dict[str, float]:
    """What the box, the grid and rounding could each add to the drift at the rim of the bulk, over its size."""
    rim = BULK_DENSITY * size
    steepest = max(float(np.abs(values).max()) for values in curls) * np.pi / flow.grid.spacing.min()
    rounding = float(np.finfo(float).eps * (1 + steepest / rim))
    return {"box too small": flow.edge / rim, "grid too coarse": flow.tail / rim, "rounding": rounding}


def notes(dim: int, largest: float, error: float, limits: dict[str, float]) -> tuple[str, ...]:
    unique = "Q is unique up to c/p with a constant c, fixed here by decay: Q p vanishes at the faces of the box."
    if dim == 3:
        unique = (
            "Q is unique up to a divergence-free skew field over p, so compare drifts, not curls; this one is that of "
            "the Fourier construction."
        )
    unique += f" Largest |Q| on the bulk: {largest:.3g}."
    if error <= EXPECTED_ERROR[dim]:
        return (unique,)
    # a jump from face to face also shows in the highest modes: first comes the box
    if limits["box too small"] > 0.1 * limits["grid too coarse"]:
        advice = "the box: the current has not vanished at its faces, so give a wider one"
    else:
        advice = "the grid, too coarse for the current: raise the resolution, or give a box that fits closer"
    return unique, f"What limits it is {advice}."
