"""Slips that anybody makes: each is one change to a right sampler."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from ergodica_paper.printed import RIGHT
from ergodica_paper.printed.potentials import around_bent, bent, dense, kinetic, lower_block, two_peaks
from ergodica_paper.printed.sde import HandwrittenSde, SdeFamily, correction


def sghmc(friction: float = 0.7) -> SdeFamily:
    """SGHMC on the two-peak law with one block of Q, or the noise, of the wrong sign or size."""

    def drift_with(sign_velocity=1.0, sign_force=1.0):
        def drift(z):
            theta, r = jnp.split(z, 2)
            force = sign_force * jax.grad(two_peaks)(theta)
            return jnp.concatenate([sign_velocity * r, -force - friction * r])

        return drift

    def diffusion_of(amount):
        return lambda z: lower_block(jnp.full((1, 1), amount, z.dtype))

    energy = kinetic(two_peaks)
    right = HandwrittenSde(
        "sghmc", 2, drift_with(), diffusion_of(friction), energy, ((-3.0, 3.0), (-9.0, 9.0)), "Eq. SGHMC"
    )
    skew = "mutation: one block of Q has the other sign, so that Q is not skew"
    return (
        right,
        right.but("sghmc_curl_sign_position", skew, drift=drift_with(sign_velocity=-1.0)),
        right.but("sghmc_curl_sign_momentum", skew, drift=drift_with(sign_force=-1.0)),
        right.but("sghmc_frozen_position", "mutation: the position never moves", drift=drift_with(sign_velocity=0.0)),
        right.but(
            "sghmc_noise_without_two",
            "mutation: noise sqrt(C) dW, a temperature of one half",
            diffusion=diffusion_of(friction / 2),
            other_law=lambda z: 2 * energy(z),
        ),
        right.but(
            "sghmc_temperature_is_friction",
            "mutation: noise sqrt(2 C C) dW, which is 2 T D with the temperature T = C",
            diffusion=diffusion_of(friction**2),
            other_law=lambda z: energy(z) / friction,
        ),
    )


def langevin() -> SdeFamily:
    """SGLD with a constant dense D: noise without the 2, of temperature d, or through the element-wise root of D."""
    matrix = np.array([[1.2, 0.5], [0.5, 0.8]])
    elementwise = np.sqrt(matrix)

    def drift(theta):
        return -jnp.asarray(matrix) @ jax.grad(bent)(theta)

    def constant(value):
        return lambda theta: jnp.asarray(value)

    right = HandwrittenSde("sgld_dense", 2, drift, constant(matrix), bent, around_bent(2), "Eq. SGLD")
    half, entries = "mutation: noise sqrt(D) dW", "mutation: noise sqrt(2) E dW, E the element-wise root of D"
    return (
        right,
        right.but(
            "sgld_noise_without_two", half, diffusion=constant(matrix / 2), other_law=lambda theta: 2 * bent(theta)
        ),
        right.but(
            "sgld_temperature_is_dimension",
            "mutation: noise sqrt(2 d D) dW, the temperature d",
            diffusion=constant(2 * matrix),
            box=((-5.0, 5.0), (-8.2, 15.0)),
            other_law=lambda theta: bent(theta) / 2,
        ),
        right.but("sgld_elementwise_root", entries, diffusion=constant(elementwise @ elementwise.T)),
    )


def state_dependent() -> SdeFamily:
    """The element-wise root again, for a D(z) whose Gamma is right, and Gamma of the wrong index.

    D is symmetric, so the index to get wrong is the one of the derivative: a sum of d_i D_ij, not of d_j D_ij.
    """

    def matrix(z):
        a, b = z
        mixed = 0.4 + 0.2 * jnp.sin(a)
        return jnp.array([[1.0 + 0.3 * jnp.tanh(b), mixed], [mixed, 0.9 + 0.2 * jnp.cos(a + b)]])

    def elementwise(z):
        root = jnp.sqrt(matrix(z))
        return root @ root.T

    def own_index(z):
        return jnp.einsum("iji->i", jax.jacfwd(matrix)(z))

    def drift_with(gamma):
        return lambda z: -matrix(z) @ jax.grad(bent)(z) + gamma(z)

    drift = drift_with(correction(matrix))
    right = HandwrittenSde("sgrld_positive", 2, drift, matrix, bent, around_bent(2), "Eq. CorrectDrift")
    source = "mutation: noise sqrt(2) E dW, E the element-wise root of D(z)"
    return (
        right,
        right.but("sgrld_elementwise_root", source, diffusion=elementwise),
        right.but("sgrld_gamma_index", "mutation: Gamma_i = sum_j d_i D_ij", drift=drift_with(own_index)),
    )


def update(dim: int) -> SdeFamily:
    """Eq. `CorrectDrift` with dense D(z), Q(z): Gamma absent, or of the wrong index."""
    diffusion, curl = dense(dim, seed=dim)
    both = lambda z: diffusion(z) + curl(z)  # noqa: E731

    def drift_with(gamma):
        return lambda z: gamma(z) - both(z) @ jax.grad(bent)(z)

    name, right = f"dense_{dim}d", RIGHT[f"dense_{dim}d"]
    transposed = correction(lambda z: both(z).T)
    return (
        right,
        right.but(f"{name}_gamma_dropped", "mutation: Gamma dropped", drift=drift_with(jnp.zeros_like)),
        right.but(f"{name}_gamma_index", "mutation: sum_j d_j (D+Q)_ji", drift=drift_with(transposed)),
    )


FAMILIES: list[SdeFamily] = [
    update(2),
    update(3),
    sghmc(),
    langevin(),
    state_dependent(),
]
