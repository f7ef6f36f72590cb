"""Every linear pair of builder and integrator, each with its exact discrete law, on one Gaussian posterior.

The posterior has rows x_i with log likelihood x_i . q - q^T A q / 2 under the prior exp(-q^T P q / 2), so

    grad U~ = P q + N (A q - mean of the batch) = K (q - m) + n,    K = P + N A,    K m = N mu,    n ~ N(0, V),

where the batch's rows are drawn afresh, with mean mu and a batch mean of covariance V / N^2. A wrong N/n changes K, m
and V.
"""

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, PyTree

import ergodica as eg
from tests.statistical.discrete_law import LinearChain, aboba, curl_of, euler

SIZE, ROWS, DIM = 6, 2, 3  # N, n, numbers in the position

PRIOR = np.array([[0.5, 0.1, 0.0], [0.1, 0.4, -0.1], [0.0, -0.1, 0.3]])
SHARE = np.array([[1.0, 0.3, -0.1], [0.3, 0.7, 0.2], [-0.1, 0.2, 0.8]]) / SIZE
ROW_MEAN = np.array([0.9, -1.4, 0.5]) / SIZE
ROW_WEIGHTS = np.array([1.6, 0.4])  # of mean 1
PRECISION = PRIOR + SIZE * SHARE
CENTRE = np.linalg.solve(PRECISION, SIZE * ROW_MEAN)

VECTOR = np.array([0.6, 1.0, 0.8])
DENSE = np.array([[0.9, 0.3, -0.2], [0.3, 0.7, 0.1], [-0.2, 0.1, 1.1]])
SKEW = np.array([[0.0, -0.7, 0.4], [0.7, 0.0, -0.5], [-0.4, 0.5, 0.0]])
FRICTION = np.array([[1.9, 0.4, 0.2], [0.4, 1.5, -0.3], [0.2, -0.3, 2.2]])
MASS = np.array([[0.8, -0.2, 0.1], [-0.2, 1.1, 0.15], [0.1, 0.15, 0.9]])
NOISE_VECTOR = np.array([2.0, 1.0, 1.5])
NOISE = np.array([[1.9, -0.6, 0.3], [-0.6, 1.3, 0.5], [0.3, 0.5, 1.5]])

Shape = Callable[[np.ndarray], PyTree]


def as_array(vector: np.ndarray) -> np.ndarray:
    return vector


def as_tree(vector: np.ndarray) -> dict[str, np.ndarray]:
    """A position of two leaves, whose matrices are in the order of ravel_pytree."""
    return {"pair": vector[:2], "single": vector[2]}


def log_prior(position: PyTree) -> Array:
    q, _ = ravel_pytree(position)
    return -jnp.sum(q * (jnp.asarray(PRIOR) @ q)) / 2


def log_likelihood(position: PyTree, batch: Array) -> Array:
    # a sum of products: XLA is ten times slower at a matrix product of its own for every chain
    q, _ = ravel_pytree(position)
    return jnp.sum((batch - (jnp.asarray(SHARE / 2) @ q)[None, :]) * q[None, :], axis=1)


def posterior(kind: type[eg.Posterior] = eg.Posterior) -> eg.Posterior:
    """With N rows whose mean is ROW_MEAN to rounding, so that all data give exact gradients."""
    spread = np.random.default_rng(5).standard_normal((SIZE, DIM))
    return kind(log_prior, log_likelihood, ROW_MEAN + spread - spread.mean(axis=0))


class Rows(eqx.Module):
    """Batches whose gradient noise is V. One normal vector moves all rows: only their mean reaches the gradient."""

    shape: ClassVar[tuple[int, ...]] = (DIM,)
    root: Array

    def __init__(self, gradient_noise: Any):
        self.root = jnp.asarray(np.linalg.cholesky(as_matrix(gradient_noise)) / SIZE)

    def __call__(self, key: Array) -> Array:
        return self.rows(jax.random.normal(key, self.shape))

    def rows(self, normal: Array) -> Array:
        return jnp.asarray(ROW_MEAN)[None, :] + jnp.asarray(ROW_WEIGHTS)[:, None] * (self.root @ normal)[None, :]


class PairedRows(eqx.Module):
    """Two independent batches for a recipe that reads z.potential: the gradient noise of their mean is V / 2."""

    shape: ClassVar[tuple[int, ...]] = (2, DIM)
    each: Rows

    def rows(self, normals: Array) -> eg.BatchPair:
        return eg.BatchPair(self.each.rows(normals[0]), self.each.rows(normals[1]))


def as_matrix(value: Any) -> np.ndarray:
    value = np.asarray(value, float)
    return value if value.ndim == 2 else np.diag(np.broadcast_to(value, DIM))


def symmetric_root(value: Any) -> np.ndarray:
    values, vectors = np.linalg.eigh(as_matrix(value))
    return (vectors * np.sqrt(values)) @ vectors.T


class Case(NamedTuple):
    """A recipe and, by the same numbers, what its hand-derived law is made of.

    curl is Q on the position or, where there is a mass, R = Q_rq. gradient_noise is given to the kernel in the shape
    of the position, and to the law as it is.
    """

    name: str
    recipe: eg.Recipe
    integrator: type[eg.Euler] | type[eg.Splitting]
    step_size: float
    gradient_noise: Any
    diffusion: Any
    curl: Any = None
    mass: Any = None
    is_run: bool = True  # over chains as well, where compiling costs a second or two

    def law(self, temperature: float, compensate: bool | None, step_size: float | None = None) -> LinearChain:
        """The exact chain; compensate as in `discrete_law`: None, False (noise left alone), True."""
        eps = self.step_size if step_size is None else step_size
        common = dict(eps=eps, T=temperature, V=self.gradient_noise, compensate=compensate)
        if self.mass is None:
            return euler(PRECISION, CENTRE, diffusion=(self.diffusion,), Q=self.curl, **common)
        if self.integrator is eg.Splitting:
            return aboba(PRECISION, CENTRE, diffusion=self.diffusion, R=self.curl, M=self.mass, **common)
        curl = curl_of(self.curl, DIM, DIM)
        return euler(PRECISION, CENTRE, diffusion=(0.0, self.diffusion), Q=curl, M=self.mass, **common)

    def kernel(self, compensate: bool | None, shaped: Shape = as_array, **changed: Any) -> eg.Kernel:
        """The kernel under test; `changed` replaces a part of it, to make it wrong."""
        noise = as_entries(self.gradient_noise, shaped) if compensate else None
        if self.recipe.gradient_noise is not None:
            # SGFS compensates by itself where there is a batch; a V of 0 given to the kernel goes before its own
            noise = 0.0 if compensate is False else None
        parts = dict(target=posterior(), recipe=self.recipe, integrator=self.integrator(), gradient_noise=noise)
        return eg.Kernel(**{**parts, **changed})


def as_entries(value: Any, shaped: Shape) -> Any:
    return shaped(value) if np.ndim(value) == 1 else value


def position_cases(shaped: Shape = as_array) -> list[Case]:
    """SGLD, SGRLD with constant metric, SGFS, irreversible Langevin."""
    kinds = {"scalar": (0.8, 1.5), "vector": (VECTOR, NOISE_VECTOR), "dense": (DENSE, NOISE)}
    cases = []
    for kind, (d, v) in kinds.items():
        cases.append(Case(f"sgld {kind}", eg.sgld(as_entries(d, shaped)), eg.Euler, 0.3, v, d))
        metric = 1.25 * d
        cases.append(Case(f"sgrld {kind}", eg.sgrld(as_entries(metric, shaped)), eg.Euler, 0.25, v, metric))
    for kind, v, damping in (("scalar", 1.5, 0.9), ("vector", NOISE_VECTOR, 0.7), ("dense", NOISE, DENSE)):
        eps = 0.35
        d = 2 * np.linalg.inv(eps * as_matrix(v) + 4 * as_matrix(damping))
        recipe = eg.sgfs(as_entries(v, shaped), eps, damping)
        cases.append(Case(f"sgfs {kind}", recipe, eg.Euler, eps, v, d, is_run=kind != "vector"))
    for kind, d in (("scalar", 0.8), ("dense", DENSE)):
        recipe = eg.irreversible_langevin(SKEW, as_entries(d, shaped))
        cases.append(Case(f"irreversible {kind}", recipe, eg.Euler, 0.25, NOISE, d, SKEW, is_run=kind == "dense"))
    return cases


def momentum_cases(shaped: Shape = as_array) -> list[Case]:
    """SGHMC and SGRHMC with constant metric, by both integrators."""
    cases = []
    masses = {
        "scalar": (1.7, 0.8, 1.5),
        "vector": (2 * VECTOR, VECTOR[::-1], NOISE_VECTOR),
        "dense": (FRICTION, MASS, NOISE),
    }
    for integrator, eps in ((eg.Euler, 0.2), (eg.Splitting, 0.6)):
        tail = integrator.__name__
        for kind, (c, mass, v) in masses.items():
            recipe = eg.sghmc(as_entries(c, shaped), as_entries(mass, shaped))
            cases.append(Case(f"sghmc {kind} {tail}", recipe, integrator, eps, v, c, 1.0, mass))
        for kind, metric, v in (("scalar", 1.6, 1.5), ("vector", 2 * VECTOR, NOISE_VECTOR), ("dense", FRICTION, NOISE)):
            recipe = eg.sgrhmc(as_entries(metric, shaped))
            cases.append(Case(f"sgrhmc {kind} {tail}", recipe, integrator, eps, v, metric, symmetric_root(metric), 1.0))
    return cases


def mixed_cases(shaped: Shape = as_array) -> list[Case]:
    """Structures that meet in one step: a diagonal with a matrix, a full R."""
    cases = []
    pairs = {"dense friction": (FRICTION, 0.8), "dense mass": (1.7, MASS), "vector and dense": (2 * VECTOR, MASS)}
    skewed = DENSE + SKEW
    for integrator, eps in ((eg.Euler, 0.2), (eg.Splitting, 0.6)):
        tail = integrator.__name__
        for kind, (c, mass) in pairs.items():
            recipe = eg.sghmc(as_entries(c, shaped), as_entries(mass, shaped))
            cases.append(Case(f"{kind} {tail}", recipe, integrator, eps, NOISE, c, 1.0, mass))
        recipe = eg.Recipe(
            energy={"momentum": eg.Gaussian(MASS)},
            diffusion={"momentum": eg.Constant(FRICTION)},
            curl={("position", "momentum"): eg.Constant(-skewed.T)},
        )
        cases.append(Case(f"full curl {tail}", recipe, integrator, eps, NOISE, FRICTION, skewed, MASS))
    cases.append(Case("vector and dense V", eg.sgld(as_entries(VECTOR, shaped)), eg.Euler, 0.3, NOISE, VECTOR))
    cases.append(Case("dense and vector V", eg.sgld(DENSE), eg.Euler, 0.3, NOISE_VECTOR, DENSE))
    return cases
