"""The processes whose curl is rebuilt: three samplers of the paper, random ones, and one that fails the condition."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_continuous_lyapunov

import ergodica as eg
from ergodica.paper.flat import flat_sde
from ergodica.verify.sde import RecipeSde


class Process(NamedTuple):
    """drift, diffusion and hamiltonian of one flat vector."""

    drift: Callable
    diffusion: Callable
    hamiltonian: Callable


def two_wells(q: Any) -> Any:
    return jnp.sum(q**4 / 4 - q**2 / 2)


def named() -> dict[str, RecipeSde]:
    """As the library's builders make them, on two wells in one dimension."""
    target = eg.Density(two_wells, init=np.array([0.8]))
    return {
        "hmc": flat_sde(eg.hmc(), target),
        "sghmc": flat_sde(eg.sghmc(friction=0.7), target),
        "sgnht": flat_sde(eg.sgnht(diffusion=0.9), target),
    }


def of(sde: RecipeSde) -> Process:
    return Process(sde.drift, sde.diffusion, sde.hamiltonian)


# -- random processes in two dimensions, with a current that has no divergence ------------------------


class Waves(eqx.Module):
    """Entries sin(w . z + phase), of any shape."""

    waves: np.ndarray
    phases: np.ndarray

    def __call__(self, z: Any) -> Any:
        return jnp.sin(self.waves @ z + self.phases)


class Energy(eqx.Module):
    """A bowl with ripples."""

    stiffness: np.ndarray
    ripple: Waves

    def __call__(self, z: Any) -> Any:
        return z @ self.stiffness @ z / 2 + self.ripple(z)


class Diffusion(eqx.Module):
    """Dense, with every entry a function of every coordinate."""

    factor: Waves

    def __call__(self, z: Any) -> Any:
        factor = self.factor(z)
        return factor @ factor.T + 0.2 * jnp.eye(z.size, dtype=z.dtype)


class Current(eqx.Module):
    """-D grad H + div D, and a current round the level lines of s p over p: no recipe, but its law is exp(-H).

    (d_2 (s p), -d_1 (s p)) has no divergence whatever s is. Theorem 2 must find Q_12 = s.
    """

    energy: Energy
    diffusion: Diffusion
    stream: Waves

    def __call__(self, z: Any) -> Any:
        slope = jax.grad(self.energy)(z)
        spread = jnp.einsum("ijj->i", jax.jacfwd(self.diffusion)(z))
        along = jax.grad(self.stream)(z) - self.stream(z) * slope
        return spread - self.diffusion(z) @ slope + jnp.stack([along[1], -along[0]])


def random(seed: Any) -> tuple[Process, Waves]:
    """A process, and the Q_12 that was put into it."""
    rng = np.random.default_rng(seed)

    def waves(*shape: int) -> Waves:
        return Waves(0.6 * rng.normal(size=(*shape, 2)), rng.uniform(0, 6, shape))

    k = rng.normal(size=(2, 2))
    energy, diffusion, stream = Energy(0.15 * k @ k.T + 0.8 * np.eye(2), waves()), Diffusion(waves(2, 2)), waves()
    return Process(Current(energy, diffusion, stream), diffusion, energy), stream


# -- random processes whose law comes from a linear equation ------------------------------------------

SLOWEST = 0.4  # rate at which an Ornstein-Uhlenbeck process comes back, at least
LONGEST = 16.0  # ratio of the variances along its law's axes, at most: a grid must hold the thin side and the long one


class Linear(eqx.Module):
    """A z."""

    matrix: np.ndarray

    def __call__(self, z: Any) -> Any:
        return jnp.asarray(self.matrix, z.dtype) @ z


class Constant(eqx.Module):
    """The same numbers everywhere."""

    value: np.ndarray

    def __call__(self, z: Any) -> Any:
        return jnp.asarray(self.value, z.dtype)


class Bowl(eqx.Module):
    """z . P z / 2."""

    precision: np.ndarray

    def __call__(self, z: Any) -> Any:
        return z @ jnp.asarray(self.precision, z.dtype) @ z / 2


def ornstein_uhlenbeck(seed: Any, dim: int) -> tuple[Process, np.ndarray]:
    """dz = A z dt + sqrt(2 D) dW with random A and D, and the Q that Theorem 2 must find.

    No Q goes into it: the covariance S of its law solves A S + S A^T + 2 D = 0. Then Q = -A S - D is skew and
    A = -(D + Q) S^-1, Eq. `CorrectDrift`. Half of the D have one direction without noise.
    """
    rng = np.random.default_rng(seed)
    while True:
        factor = rng.normal(size=(dim, dim - rng.integers(2)))
        a, d = rng.normal(size=(dim, dim)), factor @ factor.T
        a -= (np.linalg.eigvals(a).real.max() + SLOWEST) * np.eye(dim)
        s = solve_continuous_lyapunov(a, -2 * d)
        s = (s + s.T) / 2
        low, *_, high = np.linalg.eigvalsh(s)
        if 0 < high < LONGEST * low:
            return Process(Linear(a), Constant(d), Bowl(np.linalg.inv(s))), -a @ s - d


# -- a process that fails the condition ---------------------------------------------------------------

PUSH = np.array([1.0, 0.5])


def cauchy(z: Any) -> Any:
    """H of a Cauchy law in two dimensions."""
    return 1.5 * jnp.log1p(jnp.sum(z**2))


def constant_current(z: Any) -> Any:
    """f = constant / p: the current f p is the same everywhere, without divergence and without an end."""
    return jnp.exp(cauchy(z)) * jnp.asarray(PUSH, z.dtype)


NOT_INTEGRABLE = Process(constant_current, lambda z: jnp.zeros((2, 2), z.dtype), cauchy)
