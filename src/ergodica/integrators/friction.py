"""The friction part of a splitting: dr = -D grad g(r) dt + sqrt(2 T D) dW over a time t, D fixed."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

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
    # In r = M^1/2 s friction is ds = -K s dt + sqrt(2 T K) dW with K = M^-1/2 D M^-1/2 symmetric: diagonal in its
    # eigenvectors W, where a = M^1/2 W e^(-t k) W^T M^-1/2 and S = M^1/2 W (1 - e^(-2 t k)) W^T M^1/2.
    half, back = psd_root(mass.to_dense()), psd_root(inverse.to_dense())
    rates, vectors = jnp.linalg.eigh(back @ diffusion.to_dense() @ back)
    outer, inner = half @ vectors, vectors.T @ back
    factor = (outer * jnp.exp(-time * rates)[None, :]) @ inner
    spread = outer * jnp.sqrt(-jnp.expm1(-2 * time * jnp.maximum(rates, 0)))[None, :]
    return Decay(DenseOperator(factor, layout, layout), DenseOperator(spread @ spread.T, layout, layout, spread))


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
        # r - t phi(t j) c, phi(x) = (1 - e^-x) / x
        x = tree.cast(time, r) * j
        is_small = jnp.abs(x) < 1e-4
        safe = jnp.where(is_small, jnp.ones_like(x), x)
        phi = jnp.where(is_small, 1 - x / 2 + x * x / 6, -jnp.expm1(-safe) / safe)
        return r - tree.cast(time, r) * phi * c

    return jax.tree.map(exponential, momentum, value, slope)
