"""What a hand-written SDE's residual is made of, and which one slip explains that it does not vanish.

A drift made by Theorem 1 with slips in it is f = -phi D grad H - Q grad H + gamma T div D + alpha T div Q: right where
phi = gamma = alpha = 1, friction missing at phi = 0, Gamma of the wrong sign at gamma = alpha = -1, and so on. The
Q is not known, and need not be: `with_slips` tells whether there is one. For each kind of slip the residual is a
polynomial in one unknown factor, and the slip is the explanation when one factor makes it vanish at every point: it is
solved for at one half of the points, and held against the other half.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.compiling import quick_filter_jit
from ergodica.verify.hand_written import HandWritten, in_chunks
from ergodica.verify.stationarity import Residual, left_by_drift

NUMBERS_AT_ONCE = 4_000_000  # of derivatives of D held in memory
MAPPED_ABOVE = 12  # coordinates: up to them second derivatives of D are all made at once
SIMPLE_FACTORS = (0.0, -1.0, 2.0, 0.5)
LARGEST_FACTOR = 100.0  # a larger factor would only drown the residual in its own scale


class Terms(NamedTuple):
    """f, A = D grad H and G = T div D at n points, each with the derivatives d_i v_i that make up its divergence.

    Args:
        points, slope: (n, dim); the slope is grad H / T.
        energy: H / T, (n,).
        parts, spreads: (n, 3, dim): f, A, G, and d/dz_i of their i-th entries.
        diffusion: (n, dim, dim).
        jacobian: d/dz_k D_ij, (n, dim, dim, dim).
        bend: sum_ij D_ij d_i d_j D, (n, dim, dim).
        temperature: T.
    """

    points: np.ndarray
    energy: np.ndarray
    slope: np.ndarray
    parts: np.ndarray
    spreads: np.ndarray
    diffusion: np.ndarray
    jacobian: np.ndarray
    bend: np.ndarray
    temperature: float

    @property
    def flows(self) -> np.ndarray:
        """v_i (d_i H) / T for v = f, A, G: (n, 3, dim)."""
        return self.parts * self.slope[:, None, :]

    @property
    def frozen(self) -> list[int]:
        """The coordinates that never move: no drift, no noise."""
        moves = np.abs(self.parts[:, 0]) + np.abs(np.einsum("nii->ni", self.diffusion))
        return np.flatnonzero(np.all(moves == 0, axis=0)).tolist()

    def take(self, rows: slice) -> "Terms":
        return Terms(*(value[rows] for value in self[:-1]), temperature=self.temperature)

    def residual(self) -> Residual:
        """Of the current c = f + A - G."""
        return with_slips((1.0, 1.0, 1.0), self)

    @property
    def per_drift(self) -> np.ndarray:
        return left_by_drift(self.flows[:, 0], self.spreads[:, 0])


def with_slips(factors: tuple[float, float, float], terms: Terms) -> Residual:
    """s - alpha d, s = c . grad H / T and d = div c, for c = f + phi A - gamma G.

    Zero at every point exactly when f = -phi D grad H + gamma T div D - Q grad H + alpha T div Q with a skew Q: then
    s = alpha (div Q) . grad H and d = (div Q) . grad H, since Q is skew and div div Q = 0. Conversely, for alpha != 0,
    s = alpha d says that c leaves exp(-H / (alpha T)) invariant, and Theorem 2 gives the Q; for alpha = 0, c is
    orthogonal to grad H, and (grad H c' - c grad H') / |grad H|^2 is one.
    """
    phi, gamma, alpha = factors
    return weighted((1.0, phi, -gamma), 1.0, alpha, terms)


def weighted(parts: tuple[float, float, float], flow: float, spread: float, terms: Terms) -> Residual:
    """flow c . grad H / T - spread div c for a combination c of f, A, G, and the sum of the sizes of its terms."""
    weights = np.array(parts)[:, None]
    each = np.concatenate([flow * weights * terms.flows, -spread * weights * terms.spreads], axis=1)
    return Residual(each.sum(axis=(1, 2)), np.abs(each).sum(axis=(1, 2)))


def terms_at(sde: HandWritten, points: np.ndarray) -> Terms:
    """The terms of a hand-written SDE at points (n, dim)."""
    n, dim = points.shape
    rows = int(np.clip(NUMBERS_AT_ONCE // dim**3, 1, n))
    f, df = in_chunks(_drift, sde.drift_function, points, rows)
    d, jacobian, curve, bend = in_chunks(_diffusion, sde.diffusion_function, points, rows)
    h, slope, hessian = in_chunks(_hamiltonian, sde.hamiltonian_function, points, rows)
    t = sde.temperature
    with np.errstate(all="ignore"):  # what is not finite is refused, or left out, by those who ask
        friction = np.einsum("nij,nj->ni", d, slope)
        friction_spread = np.einsum("niji,nj->ni", jacobian, slope) + np.sum(d * hessian, axis=-1)
        parts = np.stack([f, friction, t * np.einsum("nijj->ni", jacobian)], axis=1)
        spreads = np.stack([df, friction_spread, t * curve], axis=1)
    return Terms(points, h / t, slope / t, parts, spreads, d, jacobian, bend, t)


# One compiled function for each of f, D and H: samplers that differ in one of them share the others.
@quick_filter_jit
def _drift(drift: Callable, points: Array) -> tuple[Array, ...]:
    """f and d_i f_i."""
    units = jnp.eye(points.shape[-1], dtype=points.dtype)

    def at(z):
        value, push = jax.linearize(drift, z)
        return value, jnp.diagonal(jax.vmap(push)(units))

    return jax.vmap(at)(points)


@quick_filter_jit
def _hamiltonian(hamiltonian: Callable, points: Array) -> tuple[Array, ...]:
    """H, its gradient and its Hessian."""
    units = jnp.eye(points.shape[-1], dtype=points.dtype)

    def at(z):
        (value, slope), push = jax.linearize(jax.value_and_grad(hamiltonian), z)
        return value, slope, jax.vmap(push)(units)[1]

    return jax.vmap(at)(points)


@quick_filter_jit
def _diffusion(diffusion: Callable, points: Array) -> tuple[Array, ...]:
    """D, its Jacobian, d_i sum_j d_j D_ij, and sum_ij D_ij d_i d_j D."""
    dim = points.shape[-1]
    over = jax.vmap if dim <= MAPPED_ABOVE else lambda function: partial(jax.lax.map, function)
    units = jnp.eye(dim, dtype=points.dtype)

    def first(z):
        value, push = jax.linearize(diffusion, z)
        return value, jax.vmap(push, out_axes=-1)(units)

    def at(z):
        (value, jacobian), push = jax.linearize(first, z)

        def second(unit):
            slope = push(unit)[1]
            return jnp.einsum("i,ijj->", unit, slope), jnp.einsum("abj,j->ab", slope, value @ unit)

        curves, bends = over(second)(units)
        return value, jacobian, curves, jnp.sum(bends, axis=0)

    return jax.vmap(at)(points)


ResidualOf = Callable[[float, Terms], Residual]  # of a slip by some factor

# In the order in which they are named, where several explain the same drift.
SLIP_KINDS: dict[str, ResidualOf] = {
    "correction": lambda x, terms: with_slips((1.0, x, x), terms),
    "correction of D": lambda x, terms: with_slips((1.0, x, 1.0), terms),
    "correction of Q": lambda x, terms: with_slips((1.0, 1.0, x), terms),
    "friction": lambda x, terms: with_slips((x, 1.0, 1.0), terms),
    "diffusion": lambda x, terms: with_slips((x, x, 1.0), terms),
    # the same process against the law at temperature T / x, exp(-x H / T)
    "temperature": lambda x, terms: weighted((1.0, x, -1.0), x, 1.0, terms),
}
POSITIVE_KINDS = ("diffusion", "temperature")  # whose factor has a meaning only above zero


@dataclass(frozen=True)
class Repair:
    """A slip that explains everything that was seen: what is `factor` times what it should be."""

    kind: str
    factor: float
    words: str
    advice: str
    figure: float  # largest relative residual that is left at points that were not used to find the factor

    def misplaced(self, terms: Terms) -> np.ndarray | None:
        """f minus the right drift for the D given, (n, dim), where it can be told without Q."""
        _, friction, correction = np.moveaxis(terms.parts, 1, 0)
        if self.kind == "correction of D":
            return (self.factor - 1) * correction
        if self.kind == "friction":
            return (1 - self.factor) * friction
        if self.kind == "diffusion":
            return (1 - self.factor) * (friction - correction)
        return None


def find_repairs(terms: Terms, tolerance: float) -> list[Repair]:
    """Every single slip that explains the residual, the one to name first; two slips where no single one does."""
    half = len(terms.points) // 2
    known, fresh = terms.take(slice(half)), terms.take(slice(half, None))
    found: dict[str, Repair] = {}
    for kind, residual in SLIP_KINDS.items():
        for factor in factors(residual, known, nearness(tolerance)):
            figure = float(np.max(residual(factor, fresh).relative))
            is_possible = abs(factor) < LARGEST_FACTOR and (factor > 0 or kind not in POSITIVE_KINDS)
            if is_possible and figure <= tolerance and kind not in found:
                found[kind] = Repair(kind, factor, slip(kind, factor, terms.temperature), REPAIR_ADVICE[kind], figure)
    # The simplest first: a friction that is off by an odd factor comes after the noise and the temperature.
    ordered = sorted(found.values(), key=lambda repair: repair.kind == "friction" and repair.factor not in (0.0, -1.0))
    return ordered or pairs(terms, tolerance)


def nearness(tolerance: float) -> float:
    """How close to a simple number a factor must be to be that number."""
    return min(1e5 * tolerance, 0.01)


def factors(residual: ResidualOf, terms: Terms, near: float) -> Iterator[float]:
    """Where the mean square of the residual, a polynomial of degree 4 in the factor, has its turning points."""
    (below, _), (zero, _), (above, scale) = (residual(x, terms) for x in (-1.0, 0.0, 1.0))
    # the residual is a x^2 + b x + c, and so the slope of its mean square is a cubic
    a, b, c = np.stack([(above + below) / 2 - zero, (above - below) / 2, zero]) / np.where(scale == 0, 1.0, scale)
    slope = [2 * a @ a, 3 * a @ b, b @ b + 2 * a @ c, b @ c]
    if not np.all(np.isfinite(slope)) or not np.any(slope[:3]):
        return
    # a coefficient that is rounding would bring in roots near infinity
    size = np.max(np.abs(slope))
    roots = np.roots(np.where(np.abs(slope) < 1e-24 * size, 0.0, slope))
    for root in roots[np.abs(roots.imag) <= 1e-6 * (1 + np.abs(roots))].real:
        yield next((simple for simple in SIMPLE_FACTORS if abs(root - simple) < near), float(root))


def pairs(terms: Terms, tolerance: float) -> list[Repair]:
    """Gamma and friction both slipped, as in the paper's Eq. `ExSGRHMC`."""
    for friction in (-1.0, 0.0):
        for correction in SIMPLE_FACTORS:
            figure = float(np.max(with_slips((friction, correction, correction), terms).relative))
            if figure <= tolerance:
                each = {"correction": correction, "friction": friction}
                words = " and ".join(slip(kind, factor, terms.temperature) for kind, factor in each.items())
                advice = " and ".join(REPAIR_ADVICE[kind] for kind in each)
                return [Repair(" and ".join(each), correction, words, advice, figure)]
    return []


SLIP_WORDS = {
    0.0: "is missing",
    -1.0: "has the wrong sign",
    2.0: "is twice what it should be",
    0.5: "is half of what it should be",
}
TERM_NAMES = {
    "correction": "the correction Gamma",
    "correction of D": "the part of the correction Gamma that comes from D",
    "correction of Q": "the part of the correction Gamma that comes from Q",
    "friction": "the friction",
}
REPAIR_ADVICE = {
    "correction": "the drift should contain T Gamma, Gamma_i = sum_j d/dz_j (D + Q)_ij",
    "correction of D": "the drift should contain T sum_j d/dz_j D_ij",
    "correction of Q": "the drift should contain T sum_j d/dz_j Q_ij",
    "friction": "the drift should contain -D grad H",
    "diffusion": "or change the drift to fit the D given",
    "temperature": "put the right T into the noise and the correction",
}


def slip(kind: str, factor: float, temperature: float) -> str:
    """What is wrong, in words."""
    if kind == "temperature":
        return f"the temperature is {temperature / factor:.6g} instead of {temperature:.6g}"
    if kind == "diffusion":
        return f"the diffusion is off by a factor, multiply D by {factor:.6g}"
    return f"{TERM_NAMES[kind]} {SLIP_WORDS.get(factor, f'is {factor:.6g} times what it should be')}"


def in_words(repairs: list[Repair]) -> str:
    """The repair, and those that come to the same here."""
    if not repairs:
        return (
            "No simple repair: neither Gamma nor friction missing, of the wrong sign or off by a factor, nor the "
            "diffusion or the temperature off by a factor, explains the residual."
        )
    first, *rest = repairs
    others = [other.words for other in rest if not other.kind.startswith(first.kind)]
    same = f" Here that is the same as: {'; '.join(others)}." if others else ""
    return f"Repair: {first.words}; {first.advice}. Then the residual vanishes.{same}"
