"""Hand-written processes in two and three dimensions, as modules: those of one kind share what is compiled for them."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.compiling import quick_filter_jit
from ergodica.phase import phase_type
from ergodica.verify.completeness.grid import bulk_points, holding


class Process(NamedTuple):
    drift: Callable
    diffusion: Callable
    hamiltonian: Callable


def two_wells(q):
    return q**4 / 4 - q**2 / 2


def hmc_energy(z):
    return two_wells(z[0]) + z[1] ** 2 / 2


def hmc_drift(z):
    return jnp.stack([z[1], -jax.grad(two_wells)(z[0])])


def sghmc_drift(z):
    return jnp.stack([z[1], -jax.grad(two_wells)(z[0]) - 0.7 * z[1]])


def sgnht_drift(z):
    return jnp.stack([z[1], -jax.grad(two_wells)(z[0]) - z[2] * z[1], z[1] ** 2 - 1])


def turned(energy):
    """The drift J grad H with J = [[0, 1], [-1, 0]]: Q = -J, whatever the energy."""
    return lambda z: jnp.array([[0.0, 1.0], [-1.0, 0.0]]) @ jax.grad(energy)(z)


def nothing(z):
    return jnp.zeros((2, 2), z.dtype)


HMC = Process(hmc_drift, nothing, hmc_energy)
SGHMC = Process(sghmc_drift, lambda z: jnp.diag(jnp.array([0.0, 0.7])), hmc_energy)
SGNHT = Process(
    sgnht_drift, lambda z: jnp.diag(jnp.array([0.0, 0.9, 0.0])), lambda z: hmc_energy(z[:2]) + (z[2] - 0.9) ** 2 / 2
)


class Waves(eqx.Module):
    """Entries sin(w . z + phase), of any shape."""

    waves: jax.Array
    phases: jax.Array

    def __call__(self, z):
        return jnp.sin(self.waves @ z + self.phases)


class Energy(eqx.Module):
    stiffness: jax.Array
    ripple: Waves

    def __call__(self, z):
        return z @ self.stiffness @ z / 2 + self.ripple(z)


class Diffusion(eqx.Module):
    factor: Waves

    def __call__(self, z):
        factor = self.factor(z)
        return factor @ factor.T + 0.2 * jnp.eye(z.size)


class Drift(eqx.Module):
    """-(D + Q) grad H + Gamma by dense automatic differentiation: Theorem 1, not by the library."""

    energy: Energy
    diffusion: Diffusion
    curl: Waves

    def __call__(self, z):
        def both(z):
            half = self.curl(z)
            return self.diffusion(z) + 1.2 * (half - half.T)

        return -both(z) @ jax.grad(self.energy)(z) + jnp.einsum("ijj->i", jax.jacfwd(both)(z))


def random_process(dim: int, seed: int) -> Process:
    rng = np.random.default_rng(seed)

    def waves(*shape):
        return Waves(jnp.asarray(0.6 * rng.normal(size=(*shape, dim))), jnp.asarray(rng.uniform(0, 6, shape)))

    k = rng.normal(size=(dim, dim))
    energy = Energy(jnp.asarray(0.15 * k @ k.T + 0.8 * np.eye(dim)), waves())
    diffusion = Diffusion(waves(dim, dim))
    return Process(Drift(energy, diffusion, waves(dim, dim)), diffusion, energy)


class OnPosition(eqx.Module):
    function: Callable

    def __call__(self, z):
        return self.function(z.position)


@quick_filter_jit
def _drifts(process, field, points):
    recipe = eg.Recipe(
        diffusion={"position": eg.Dense(OnPosition(process.diffusion))}, curl={("position", "position"): field}
    )
    target, phase = eg.Density(process.hamiltonian), phase_type(("position",))
    return jax.vmap(lambda z: (recipe.drift(target, phase(z)).position, process.drift(z)))(points)


@quick_filter_jit
def _energies(process, points):
    return jax.vmap(process.hamiltonian)(points)


def true_error(q, process: Process, count: int = 10_000) -> float:
    """Largest error of the drift through a recipe that holds q.field, off the grid in the bulk, over its rms."""
    dim = len(q.box)

    def energies(points):
        padded = np.resize(points, (40_000, dim))
        return np.asarray(_energies(process, jnp.asarray(padded)))[: len(points)]

    bulk, lowest = holding(energies, dim, np.log(1e4))
    points = bulk_points(energies, bulk, lowest + np.log(1e4), count, seed=1234)
    assert len(points) == count
    rebuilt, given = (np.asarray(x) for x in _drifts(process, q.field, jnp.asarray(points)))
    return float(np.abs(rebuilt - given).max() / np.sqrt(np.square(given).sum(axis=1).mean()))
