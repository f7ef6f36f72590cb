"""Naive SGRHMC with a diagonal metric. The scalar and dense forms, and naive SGHMC, are in `equations`."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from .potentials import bent, kinetic, lower_block
from .sde import HandwrittenSde, SdeFamily, box


def diagonal_sgrhmc(name: str, coupled: float) -> SdeFamily:
    """SGRHMC with a diagonal metric in two dimensions, and its naive form without Gamma.

    For coupled = 0 entry i is a function of coordinate i alone, and the naive form samples exp(-U) det(G)^1/2: with
    g = diag(G^-1/2) and p = exp(-H) / prod(g), g_i p no longer depends on g_i, so d_i (g_i p) = -U_i g_i p.
    """

    def root(theta):
        a, b = theta
        return jnp.stack([1.1 + 0.5 * jnp.tanh(a) * jnp.cos(coupled * b), 0.9 + 0.3 * jnp.sin(b + coupled * a)])

    def drift_with(factor):
        def drift(z):
            theta, r = jnp.split(z, 2)
            g, gamma = root(theta), jnp.diag(jax.jacfwd(root)(theta))
            return jnp.concatenate([g * r, -g * jax.grad(bent)(theta) + factor * gamma - g**2 * r])

        return drift

    right = HandwrittenSde(
        name, 4, drift_with(1), lambda z: lower_block(jnp.diag(root(z[:2]) ** 2)), kinetic(bent), box(4, 3.0), "SGRHMC"
    )
    other = None if coupled else lambda z: kinetic(bent)(z) + jnp.sum(jnp.log(root(z[:2])))
    return right, right.but(f"{name}_naive", "Eq. SGRHMCnaive: no Gamma", drift=drift_with(0), other_law=other)


FAMILIES: list[SdeFamily] = [
    diagonal_sgrhmc("sgrhmc_separable", coupled=0.0),
    diagonal_sgrhmc("sgrhmc_diagonal", coupled=0.7),
]
