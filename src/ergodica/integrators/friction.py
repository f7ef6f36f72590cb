"""The friction part of a splitting: dr = -D grad g(r) dt + sqrt(2 T D) dW over a time t, D fixed."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.energy import Gaussian
from ergodica.operators import DenseOperator, Operator, apply_scaled, entrywise, is_entrywise, psd_root, root
from ergodica.tree import Layout


class Decay(NamedTuple):
    """Ornstein-Uhlenbeck over a time t: r -> a r + N(0, T S), a = exp(-t D M^-1), S = M - a M a^T."""

    factor: Operator
    variance: Operator


def decay(diffusion: Operator, energy: Gaussian, layout: Layout, time: Any) -> Decay:
    """The exact law of friction for a Gaussian energy, entry by entry or as matrices."""
    mass, inverse = energy.mass_operator(layout), energy.inverse_operator(layout)
    time = jnp.asarray(time, layout.dtype)
    if is_entrywise(diffusion, mass):
        factor = entrywise(lambda d, i: jnp.exp(-time.astype(d.dtype) * d * i), diffusion, inverse)
        variance = entrywise(
            lambda d, i, m: -m * jnp.expm1(-2 * time.astype(d.dtype) * d * i), diffusion, inverse, mass
        )
        return Decay(factor, variance)
    # In r = M^1/2 s friction is ds = -K s dt + sqrt(2 T K) dW with K = M^-1/2 D M^-1/2 symmetric, so that
    # a = M^1/2 e^(-t K) M^-1/2 and S = M^1/2 (1 - e^(-2 t K)) M^1/2.
    half, back = psd_root(mass.to_dense()), psd_root(inverse.to_dense())
    kept, fresh = relaxation(time * (back @ diffusion.to_dense() @ back))
    factor, spread = half @ kept @ back, half @ fresh
    return Decay(DenseOperator(factor, layout, layout), DenseOperator(spread @ spread.T, layout, layout, spread))


@jax.custom_jvp
def relaxation(matrix: Array) -> tuple[Array, Array]:
    """e^-X and the symmetric root of 1 - e^-2X for a PSD matrix X; NaN where an eigenvalue is negative beyond rounding.

    A root by eigenvectors alone would be a factor of the same variance, but one that jumps with their signs: with the
    same normals, two nearby states would take different noise.
    """
    values, vectors = _spectrum(matrix)
    kept, fresh = jnp.exp(-values), jnp.sqrt(-jnp.expm1(-2 * values))
    return (vectors * kept[None, :]) @ vectors.T, (vectors * fresh[None, :]) @ vectors.T


@relaxation.defjvp
def _relaxation_jvp(primals, tangents):
    # In the eigenbasis a function f changes by its divided differences, [f(x_i) - f(x_j)] / (x_i - x_j) dX_ij, smooth
    # where eigenvalues meet; and S S = P gives dS_ij = dP_ij / (s_i + s_j).
    (matrix,), (change,) = primals, tangents
    values, vectors = _spectrum(matrix)
    inner = vectors.T @ change @ vectors
    least = jnp.minimum(values[:, None], values[None, :])
    gap = jnp.abs(values[:, None] - values[None, :])
    fresh = jnp.sqrt(-jnp.expm1(-2 * values))
    sums = fresh[:, None] + fresh[None, :]
    kept_change = -jnp.exp(-least) * _phi(gap) * inner
    fresh_change = 2 * jnp.exp(-2 * least) * _phi(2 * gap) * inner / jnp.where(sums > 0, sums, jnp.ones_like(sums))
    return relaxation(matrix), tuple(vectors @ x @ vectors.T for x in (kept_change, fresh_change))


def _spectrum(matrix: Array) -> tuple[Array, Array]:
    values, vectors = jnp.linalg.eigh(matrix)
    rounding = 10 * len(matrix) * jnp.finfo(matrix.dtype).eps * jnp.max(jnp.abs(values))
    return jnp.where(values < -rounding, jnp.nan, jnp.maximum(values, 0)), vectors


def symmetric_friction(
    diffusion: Operator, velocity: Callable[[PyTree], PyTree], momentum: PyTree, normal: PyTree, time: Any, heat: Any
) -> PyTree:
    """Half the drag, all the noise, half the drag: order 2 for an energy whose friction has no closed form.

    The drag dr/dt = -D v(r) is taken by a midpoint step, whose error of third order keeps the composition's second.
    """

    def drag(r: PyTree) -> PyTree:
        middle = tree.subtract(r, apply_scaled(diffusion, time / 4, velocity(r)))
        return tree.subtract(r, apply_scaled(diffusion, time / 2, velocity(middle)))

    noise = apply_scaled(root(diffusion), jnp.sqrt(2 * time * heat), normal)
    return drag(tree.add(drag(momentum), noise))


def coupling_decay(coupling: Callable[[PyTree], PyTree], momentum: PyTree, time: Any, is_elementwise: bool) -> PyTree:
    """dr/dt = -c(r) over a time t: the thermostat's part of the friction, the thermostat fixed.

    Entry by entry an exponential step, exact for c linear in r (all thermostats here), order 2 otherwise; for a
    coupling that mixes coordinates a midpoint step.
    """
    if not is_elementwise:
        middle = tree.add_scaled(momentum, -time / 2, coupling(momentum))
        return tree.add_scaled(momentum, -time, coupling(middle))
    value, slope = jax.jvp(coupling, (momentum,), (tree.ones_like(momentum),))

    def exponential(r, c, j):
        return r - tree.cast(time, r) * _phi(tree.cast(time, r) * j) * c

    return jax.tree.map(exponential, momentum, value, slope)


def _phi(x: Array) -> Array:
    """(1 - e^-x) / x."""
    is_small = jnp.abs(x) < 1e-4
    safe = jnp.where(is_small, jnp.ones_like(x), x)
    return jnp.where(is_small, 1 - x / 2 + x * x / 6, -jnp.expm1(-safe) / safe)
