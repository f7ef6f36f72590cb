"""Potentials and metrics that the registry is built on: smooth, and without a symmetry that could hide an error."""

from __future__ import annotations

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from .sde import Box


def one_peak(theta):
    """The paper's one-peak potential, on a vector of one number."""
    return 0.5 * jnp.sum(theta**2)


def two_peaks(theta):
    """The paper's two-peak potential, on a vector of one number."""
    return jnp.sum(theta**4 - 2 * theta**2)


def bent(theta):
    """A skewed, correlated, non-Gaussian potential in two dimensions or more."""
    first, rest = theta[0], theta[1:]
    return 0.1 * first**4 + 0.3 * first**2 + 0.2 * first + jnp.sum((rest - 0.3 * first**2 + 0.4) ** 2)


def around_bent(dim: int) -> Box:
    """A box outside of which exp(-`bent`) is below 1e-13 of its peak; the valley lies at rest = 0.3 first^2 - 0.4."""
    return ((-4.0, 4.0), *(((-6.2, 7.2),) * (dim - 1)))


def kinetic(potential: Callable) -> Callable:
    """H(theta, r) = U(theta) + r'r / 2 on z = (theta, r)."""

    def hamiltonian(z):
        theta, r = jnp.split(z, 2)
        return potential(theta) + 0.5 * jnp.sum(r**2)

    return hamiltonian


def root_of_potential(potential: Callable, offset: float, scale: float = 1.5) -> Callable:
    """G^-1/2 of the synthetic experiments, G^-1 = scale sqrt(U + offset), as a 1 x 1 matrix; offset > -min U."""
    return lambda theta: jnp.sqrt(scale * jnp.sqrt(potential(theta) + offset)).reshape(1, 1)


def dense(dim: int, seed: int) -> tuple[Callable, Callable]:
    """D(z) positive definite and Q(z) skew, both dense and both with every entry a function of every coordinate."""
    rng = np.random.default_rng(seed)
    angle_d, angle_q = 0.6 * rng.normal(size=(2, dim, dim, dim))
    base_d, base_q = rng.normal(size=(2, dim, dim))

    def diffusion(z):
        root = 0.5 * base_d + 0.6 * jnp.sin(jnp.einsum("ijk,k->ij", angle_d, z))
        return root @ root.T + 0.2 * jnp.eye(dim)

    def curl(z):
        half = base_q + jnp.cos(jnp.einsum("ijk,k->ij", angle_q, z) + 0.5)
        return half - half.T

    return diffusion, curl


def lower_block(matrix):
    """[[0, 0], [0, matrix]]: D of a sampler that has noise on the momentum only."""
    zero = jnp.zeros_like(matrix)
    return jnp.block([[zero, zero], [zero, matrix]])
