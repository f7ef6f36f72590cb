"""Processes on flat vectors that several items draw at random: smooth ones, and linear ones with a known law."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_continuous_lyapunov


class Process(NamedTuple):
    """drift, diffusion and hamiltonian of one flat vector."""

    drift: Callable
    diffusion: Callable
    hamiltonian: Callable


def of(sde: Any) -> Process:
    """Of anything with these three, a `RecipeSde` or a printed `HandwrittenSde`."""
    return Process(sde.drift, sde.diffusion, sde.hamiltonian)


# -- smooth functions, the same for random recipes and random processes --------------------------------


class Waves(eqx.Module):
    """Entries sin(w . z + phase), of any shape; xp is jnp, or np for an oracle."""

    waves: np.ndarray
    phases: np.ndarray

    def __call__(self, z: Any, xp: Any = jnp) -> Any:
        return xp.sin(self.waves @ z + self.phases)


def draw_waves(rng: np.random.Generator, dim: int, *shape: int) -> Waves:
    """Of a vector of `dim` numbers."""
    return Waves(0.6 * rng.normal(size=(*shape, dim)), rng.uniform(0, 6, shape))


def draw_bowl(rng: np.random.Generator, dim: int) -> np.ndarray:
    """The matrix of a quadratic form that rises in every direction."""
    k = rng.normal(size=(dim, dim))
    return 0.15 * k @ k.T + 0.8 * np.eye(dim)


class WavyBowl(eqx.Module):
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


# -- random processes in two dimensions, with a current that has no divergence ------------------------


class Current(eqx.Module):
    """-D grad H + div D, and a current round the level lines of s p over p: no recipe, but its law is exp(-H).

    (d_2 (s p), -d_1 (s p)) has no divergence whatever s is. Theorem 2 must find Q_12 = s.
    """

    energy: WavyBowl
    diffusion: Diffusion
    stream: Waves

    def __call__(self, z: Any) -> Any:
        slope = jax.grad(self.energy)(z)
        spread = jnp.einsum("ijj->i", jax.jacfwd(self.diffusion)(z))
        along = jax.grad(self.stream)(z) - self.stream(z) * slope
        return spread - self.diffusion(z) @ slope + jnp.stack([along[1], -along[0]])


def circling(seed: Any) -> tuple[Process, Waves]:
    """A process, and the Q_12 that was put into it."""
    rng = np.random.default_rng(seed)
    energy = WavyBowl(draw_bowl(rng, 2), draw_waves(rng, 2))
    diffusion, stream = Diffusion(draw_waves(rng, 2, 2, 2)), draw_waves(rng, 2)
    return Process(Current(energy, diffusion, stream), diffusion, energy), stream


# -- random processes whose law comes from a linear equation ------------------------------------------

SLOWEST = 0.4  # rate at which an Ornstein-Uhlenbeck process comes back, at least
LONGEST = 16.0  # ratio of the variances along its law's axes, at most: a grid must hold the thin side and the long one


class Linear(eqx.Module):
    """A z."""

    matrix: np.ndarray

    def __call__(self, z: Any) -> Any:
        return jnp.asarray(self.matrix, z.dtype) @ z


class ConstantMatrix(eqx.Module):
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
            return Process(Linear(a), ConstantMatrix(d), Bowl(np.linalg.inv(s))), -a @ s - d
