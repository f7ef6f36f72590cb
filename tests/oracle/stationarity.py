"""Does dz = f dt + sqrt(2 T D) dW leave exp(-H / T) invariant? Point by point, and under an integral.

Both answers come with the size of what cancelled, so that their ratio reads as a relative error: about 1e-15 for a
right drift, of order one for a wrong one. f, D and H are jnp functions of one flat vector; all is done in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache

import jax
import jax.numpy as jnp
import numpy as np

Box = Sequence[tuple[float, float]]
NODES = {1: 400, 2: 128, 3: 48}
# Each function is compiled once and run once or twice, so optimising the code costs more than it saves.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def fokker_planck(
    drift: Callable, diffusion: Callable, hamiltonian: Callable, z: np.ndarray, temperature: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """(residual, scale) at z, shaped (d,) or (n, d).

    residual = [-sum_i d_i (f_i p) + sum_ij d_i d_j (T D_ij p)] / p with p = exp(-H / T), Eq. `FokkerPlank`. Written
    out, so that p, which underflows in the tails, never appears:

        - d_i f_i + f_i H_i / T
        + T d_i d_j D_ij - (d_i D_ij) H_j - (d_j D_ij) H_i + D_ij H_i H_j / T - D_ij H_ij

    scale is the sum of the absolute values of these terms, index by index.
    """
    points = np.atleast_2d(np.asarray(z, np.float64))
    f, df = at(drift, 1, points)
    d, dd, ddd = at(diffusion, 2, points)
    _, g, hess = at(hamiltonian, 2, points)
    terms = (
        -np.einsum("nii->ni", df),
        f * g / temperature,
        temperature * np.einsum("nijij->nij", ddd).reshape(len(points), -1),
        -np.einsum("niji,nj->nij", dd, g).reshape(len(points), -1),
        -np.einsum("nijj,ni->nij", dd, g).reshape(len(points), -1),
        np.einsum("nij,ni,nj->nij", d, g, g).reshape(len(points), -1) / temperature,
        -(d * hess).reshape(len(points), -1),
    )
    every = np.concatenate(terms, axis=1)
    shape = np.shape(z)[:-1]
    return every.sum(axis=1).reshape(shape), np.abs(every).sum(axis=1).reshape(shape)


def with_slope(below: Callable) -> Callable:
    """From point -> (highest derivative, ..., value) to one derivative more, in one pass."""

    def carried(point):
        values = below(point)
        return values[0], values

    def above(point):
        slope, values = jax.jacfwd(carried, has_aux=True)(point)
        return (slope, *values)

    return above


@lru_cache(maxsize=256)
def compiled(function: Callable, order: int) -> Callable:
    """points -> (order-th derivative, ..., value). Kept by function: the samplers of a family share D and H."""
    tower = lambda point: (function(point),)  # noqa: E731
    for _ in range(order):
        tower = with_slope(tower)
    return jax.jit(jax.vmap(tower), compiler_options=QUICK)


def at(function: Callable, order: int, points: np.ndarray) -> tuple[np.ndarray, ...]:
    """(value, ..., order-th derivative) of a (hashable) jnp function at points (n, d), in float64."""
    with jax.enable_x64(True):
        return tuple(np.asarray(value) for value in reversed(compiled(function, order)(jnp.asarray(points))))


@cache
def observables(dim: int) -> tuple[Callable, ...]:
    """Five smooth functions without a symmetry that could hide an error: odd and even, local and global."""
    a = np.linspace(0.7, -0.4, dim) if dim > 1 else np.array([0.7])
    b = np.linspace(0.5, 1.1, dim)

    def linear(z):
        return jnp.dot(b, z)

    def bump(z):
        return jnp.exp(-0.5 * jnp.sum((z - 0.5 * a) ** 2))

    def wave(z):
        return jnp.sin(jnp.dot(a, z) + 0.3)

    def square(z):
        return 0.5 * jnp.dot(b, z) ** 2 - 0.3 * jnp.sum(a * z**2)

    def step(z):
        return jnp.tanh(0.6 * jnp.dot(b, z) - 0.2) * jnp.cos(0.8 * jnp.dot(a, z))

    return linear, bump, wave, square, step


def quadrature(box: Box, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (n, d) and weights (n,) of the tensor Gauss-Legendre rule on the box."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    axes = [low + (high - low) * (x + 1) / 2 for low, high in box]
    weights = [(high - low) / 2 * w for low, high in box]
    points = np.stack([g.ravel() for g in np.meshgrid(*axes, indexing="ij")], axis=-1)
    return points, np.prod([g.ravel() for g in np.meshgrid(*weights, indexing="ij")], axis=0)


@lru_cache(maxsize=8)
def probes(functions: tuple[Callable, ...], box: Box, nodes: int) -> tuple[np.ndarray, ...]:
    """The rule, with gradients (k, n, d) and Hessians (k, n, d, d) of the test functions: one for all samplers."""
    points, weights = quadrature(box, nodes)
    _, slopes, bends = zip(*(at(phi, 2, points) for phi in functions), strict=True)
    return points, weights, np.stack(slopes), np.stack(bends)


def weak_form(
    drift: Callable,
    diffusion: Callable,
    hamiltonian: Callable,
    box: Box,
    test_functions: Sequence[Callable] | None = None,
    temperature: float = 1.0,
    nodes: int | None = None,
) -> np.ndarray:
    """One ratio per test function: integral of (L phi) p, over the integral of the absolute values of its terms.

    L phi = f . grad phi + T D : hess phi, p = exp(-H / T). It vanishes for every phi exactly when p is invariant, and
    asks for no derivative of f or D. The box must hold the law: what is cut off shows up as a residual.
    """
    dim = len(box)
    sides = tuple(tuple(side) for side in box)
    points, weights, slopes, bends = probes(tuple(test_functions or observables(dim)), sides, nodes or NODES[dim])
    (f,), (d,), (energy,) = (at(function, 0, points) for function in (drift, diffusion, hamiltonian))
    mass = weights * np.exp((energy.min() - energy) / temperature)
    first, second = f * slopes, temperature * d * bends
    total = first.sum(axis=-1) + second.sum(axis=(-2, -1))
    scale = np.abs(first).sum(axis=-1) + np.abs(second).sum(axis=(-2, -1))
    return (total @ mass) / (scale @ mass)
