"""Does an SDE leave exp(-H/T) invariant? The Fokker-Planck residual: exact for small phases, by probes for large ones.

With the current c = f + D grad H - T div D (sde.py), p = exp(-H/T) is invariant exactly when div(c p) = 0, that is

    residual(z) = -div c + c . grad H / T = 0          (Eq. `FokkerPlank`, divided by p, which may underflow)
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.compiling import quick_filter_jit
from ergodica.report import Check
from ergodica.verify.sde import Sde, at
from ergodica.verify.tails import FALSE_ALARM, any_of, each_of, t_threshold, t_two_sided

EXACT_LIMIT = 300  # numbers up to which the divergence is a sum of `dim` derivatives
PROBE_COUNT = 100
MOST_SHOWN = 10  # numbers of a point in words
SIGN_PATTERNS = 8  # of a drift error, to say how small a one would have been seen
# Rounding, in units of the dtype's epsilon times the sum of what cancels; roots and inverses inside f amplify it.
ROUNDING_FACTORS = {64: 1e4, 32: 1e3}


class Residual(NamedTuple):
    """The residual at points (n,), and the sum of the sizes of what cancels in it."""

    value: np.ndarray
    scale: np.ndarray

    @property
    def relative(self) -> np.ndarray:
        return np.abs(self.value) / np.where(self.scale == 0, 1, self.scale)

    def smallest_seen(self, tolerance: float, per_drift: np.ndarray) -> float:
        """The smallest relative error of the drift, of random sign in each coordinate, that would have been seen.

        `per_drift`: from `left_by_drift`.
        """
        moves = per_drift != 0
        return float(np.min(tolerance * self.scale[moves] / np.abs(per_drift[moves]), initial=np.inf))


def left_by_drift(flows: np.ndarray, spreads: np.ndarray) -> np.ndarray:
    """What an error of the drift, f_i (1 +- delta), leaves in the residual: per delta, the root mean square over signs.

    Random signs are uncorrelated, so this is sqrt(sum_i (f_i H_i / T - d_i f_i)^2), from f_i H_i / T and d_i f_i.
    """
    return np.sqrt(np.sum((flows - spreads) ** 2, axis=-1))


class ProbedResidual(NamedTuple):
    """The residual by random probes at points (n,): mean over probes, its standard error, and `left_by_drift`."""

    value: np.ndarray
    error: np.ndarray
    per_drift: np.ndarray
    probes: int

    @property
    def p_value(self) -> float:
        """Of the largest |t| among the points."""
        least = np.min(t_two_sided(self.value / self.error, self.probes - 1))
        return any_of(float(least), len(self.value))

    @property
    def bound(self) -> float:
        """The largest |t| that passes, for FALSE_ALARM over all points."""
        return t_threshold(each_of(FALSE_ALARM, len(self.value)), self.probes - 1)

    def smallest_seen(self) -> float:
        return float(np.min(self.bound * self.error / np.abs(self.per_drift)))


class Currents(NamedTuple):
    """The three terms of the current at points, (n, 3, dim), their derivatives (n, 3, dim, dim), and grad H / T."""

    parts: np.ndarray
    slopes: np.ndarray
    uphill: np.ndarray


def currents(sde: Sde, points: np.ndarray) -> Currents:
    """The current and its derivatives at points (n, dim), compiled once for all that is asked of them."""
    return Currents(*(np.asarray(value) for value in _currents(sde, jnp.asarray(points))))


@quick_filter_jit
def _currents(sde: Sde, points: Array) -> tuple[Array, Array, Array]:
    def at(z):
        slopes, parts = jax.jacfwd(lambda z: (sde.parts(z),) * 2, has_aux=True)(z)
        return parts, slopes, jax.grad(sde.hamiltonian)(z) / sde.temperature

    return jax.lax.map(at, points)


def check_exactly(found: Currents, points: np.ndarray) -> Check:
    """The residual of a small phase at points (n, dim), from the currents there."""
    spreads = np.einsum("nkii->nki", found.slopes)  # d c_i / d z_i of each part
    flows = found.parts * found.uphill[:, None]
    value = np.sum(np.sum(flows, axis=1) - np.sum(spreads, axis=1), axis=-1)
    residual = Residual(value, np.sum(np.abs(flows) + np.abs(spreads), axis=(1, 2)))
    return residual_check(residual, left_by_drift(flows[:, 0], spreads[:, 0]), rounding(np.float64), points)


def residual_check(residual: Residual, per_drift: np.ndarray, tolerance: float, points: np.ndarray) -> Check:
    """The residual at the points (n, dim) against its rounding bound."""
    worst = int(np.argmax(residual.relative))
    figure = float(residual.relative[worst]) if np.all(np.isfinite(residual.value)) else np.inf
    if figure <= tolerance:
        seen = residual.smallest_seen(tolerance, per_drift)
        error = f"an error of the drift of {seen:.1e} of its size"
        if seen >= 1:  # the drift is itself rounding, of terms that cancel everywhere
            error = f"the drift is zero up to rounding; an error of {tolerance:.1e} of the terms that cancel in it"
        words = f"exp(-H/T) is invariant; {error} would have been seen"
    else:
        where = f" at {at(points[worst])}" if points.shape[1] <= MOST_SHOWN else ""
        words = (
            f"exp(-H/T) is not invariant: the residual is {residual.value[worst]:.3g}{where}, {figure:.2g} of what "
            "cancels in it"
        )
    return Check("Fokker-Planck residual", figure <= tolerance, figure, tolerance, words)


def probed_residual(sde: Sde, points: Array, key: Array, probes: int = PROBE_COUNT) -> ProbedResidual:
    """div c by Hutchinson's probes, E[v . (dc/dz) v] with random signs v; a fresh key also for a probed correction.

    One slot is probed at a time: the blocks of dc/dz between slots, the largest of a Hamiltonian flow, add no noise.
    """
    patterns = jax.random.rademacher(jax.random.fold_in(key, len(points)), (SIGN_PATTERNS, sde.dim), points.dtype)
    rows = []
    for n, z in enumerate(points):
        keys = jax.random.split(jax.random.fold_in(key, n), probes)
        values, drifts = (np.asarray(x) for x in _probes(sde, patterns, z, keys))
        # where nothing is random (a diagonal Jacobian) the spread is rounding, which is no standard error
        per_drift = np.sqrt(np.mean(drifts.mean(axis=0) ** 2))
        floor = rounding(values.dtype) * per_drift
        rows.append((values.mean(), max(values.std(ddof=1) / np.sqrt(probes), floor), per_drift))
    value, error, per_drift = (np.array(column) for column in zip(*rows, strict=True))
    return ProbedResidual(value, error, per_drift, probes)


def check_by_probes(sde: Sde, points: np.ndarray, key: Array) -> Check:
    """The residual of a large phase at points (n, dim), with its standard error."""
    probed = probed_residual(sde, jnp.asarray(points), key)
    worst, p_value = int(np.argmax(np.abs(probed.value / probed.error))), probed.p_value
    words = (
        f"by {probed.probes} probes at each point: {probed.value[worst]:.3g} +- {probed.error[worst]:.2g} at worst; "
        f"a relative drift error of {probed.smallest_seen():.1e} would have been seen; false alarm {FALSE_ALARM:g}"
    )
    figure = float(abs(probed.value[worst] / probed.error[worst]))
    return Check("Fokker-Planck residual", p_value >= FALSE_ALARM, figure, probed.bound, words, p_value)


@eqx.filter_jit
def _probes(sde: Sde, patterns: Array, z: Array, keys: Array) -> tuple[Array, Array]:
    """For each key, the residual by one probe, and what drift errors with these patterns of signs leave."""
    masks = np.repeat(np.eye(len(sde.slots)), sde.slots, axis=1).astype(z.dtype)
    slope = jax.grad(sde.hamiltonian)(z) / sde.temperature

    def at(key):
        sign_key, gamma_key = jax.random.split(key)
        signs = jax.random.rademacher(sign_key, z.shape, z.dtype)
        parts, push = jax.linearize(partial(sde.parts, key=gamma_key), z)
        turned = sum(push(mask * signs) * (mask * signs)[None, :] for mask in masks)
        shares = parts * slope[None, :] - turned
        return jnp.sum(shares), patterns @ shares[0]

    return jax.lax.map(at, keys)


def rounding(dtype: np.dtype | type) -> float:
    """The relative residual that rounding may leave."""
    info = np.finfo(dtype)
    return ROUNDING_FACTORS[info.bits] * float(info.eps)
