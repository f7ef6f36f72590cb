"""Where the reference's chains begin when a target has no draw of its own: far apart, then downhill, so that modes are
found that chains from one point would never see."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.tree import Layout

SMALLEST, LARGEST = 0.1, 30.0  # distances from the position, in deviations as its Hessian tells them
PROBES = 8  # random directions in which the Hessian is looked at
DESCENTS = 200
DEEP = 10.0  # energy above the lowest, in units of the temperature and for each coordinate, that is deep enough
BEYOND = 100.0  # times the distance of the farthest starts
NEAR = 0.1  # deviations around the position, where nothing else is finite


def spread_starts(
    target: Any, layout: Layout, position: np.ndarray, temperature: float, count: int, seed: list[int]
) -> np.ndarray:
    """(count, dim): about the position and about its mirror image, at distances of every order, after a descent.

    Those that do not come down are replaced by others that did.
    """
    rng = np.random.default_rng(seed)
    directions = rng.choice([-1.0, 1.0], size=(PROBES, layout.size))
    curvature = np.abs(np.asarray(_diagonal(target, layout, jnp.asarray(position), jnp.asarray(directions))))
    curvature = np.where(np.isfinite(curvature) & (curvature > 0), curvature, 1.0)
    deviation = np.sqrt(temperature / np.maximum(curvature, 1e-6 * curvature.max()))
    reach = np.exp(rng.uniform(np.log(SMALLEST), np.log(LARGEST), size=(count, 1)))
    side = rng.choice([-1.0, 1.0], size=(count, 1))
    far = side * position + reach * deviation * rng.standard_normal((count, layout.size))
    x, energy = (np.array(part) for part in _descended(target, layout, jnp.asarray(far)))
    # a potential without a floor has no modes: chains from the position will show it
    is_lost = np.max(np.abs(x) / (np.abs(position) + LARGEST * deviation), axis=1) > BEYOND
    energy = np.where(is_lost, np.inf, energy)
    bound = np.min(energy, initial=np.inf, where=np.isfinite(energy)) + DEEP * temperature * (1 + layout.size)
    low = np.flatnonzero(energy < bound)
    if not len(low):
        return position + NEAR * deviation * rng.standard_normal((count, layout.size))
    lost = np.flatnonzero(~(energy < bound))
    x[lost] = x[rng.choice(low, size=len(lost))]
    return x


@eqx.filter_jit
def _diagonal(target: Any, layout: Layout, x: Array, directions: Array) -> Array:
    """Hutchinson's estimate of the Hessian's diagonal."""

    def slope(x: Array) -> Array:
        return jax.grad(lambda x: target.potential(layout.unravel(x)))(x)

    along = jax.linearize(slope, x)[1]
    return jnp.mean(directions * jax.vmap(along)(directions), axis=0)


@eqx.filter_jit
def _descended(target: Any, layout: Layout, x: Array) -> tuple[Array, Array]:
    """Points after gradient descent with a step of their own, and their energies."""

    def evaluate(x: Array) -> tuple[Array, Array]:
        energy, gradient = target.evaluate(layout.unravel(x))
        return energy.astype(jnp.float64), layout.ravel(gradient).astype(jnp.float64)

    def body(_: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        x, energy, gradient, step = carry
        moved = x - step * gradient
        lower, slope = evaluate(moved)
        is_lower = lower < energy
        picked = jax.tree.map(
            lambda new, old: jnp.where(is_lower, new, old), (moved, lower, slope), (x, energy, gradient)
        )
        return *picked, jnp.where(is_lower, 1.5 * step, step / 4)

    def one(x: Array) -> tuple[Array, Array]:
        energy, gradient = evaluate(x)
        # the first step goes about as far as the point is from 0
        step = (1 + jnp.linalg.norm(x)) / jnp.maximum(jnp.linalg.norm(gradient), 1e-30)
        end = jax.lax.fori_loop(0, DESCENTS, body, (x, energy, gradient, step))
        return end[0], end[1]

    return jax.vmap(one)(x)
