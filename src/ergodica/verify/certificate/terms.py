"""Everything that a hand-written SDE's residual is made of, at many points at once: what repairs are tried on."""

from collections.abc import Callable
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
