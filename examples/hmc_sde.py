"""HMC as a hand-written SDE: a drift, a diffusion and the law they claim, for `ergodica rebuild-curl hmc_sde:sde`."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

FRICTION = 1.0


class Sde(NamedTuple):
    """dz = drift(z) dt + sqrt(2 diffusion(z)) dW, which claims to leave exp(-hamiltonian) invariant; z = (q, r)."""

    drift: Callable
    diffusion: Callable
    hamiltonian: Callable
    box: list[tuple[float, float]] | None = None


def potential(q):
    return q**4 / 4 - q**2 / 2


def hamiltonian(z):
    return potential(z[0]) + z[1] ** 2 / 2


def hmc_drift(z):
    return jnp.stack([z[1], -jax.grad(potential)(z[0])])


def sghmc_drift(z):
    return jnp.stack([z[1], -jax.grad(potential)(z[0]) - FRICTION * z[1]])


def friction(z):
    return jnp.diag(jnp.array([0.0, FRICTION], z.dtype))


sde = Sde(hmc_drift, lambda z: jnp.zeros((2, 2), z.dtype), hamiltonian)
sghmc = Sde(sghmc_drift, friction, hamiltonian)
without_noise = Sde(sghmc_drift, lambda z: jnp.zeros((2, 2), z.dtype), hamiltonian)  # friction and no noise: wrong

if __name__ == "__main__":
    import ergodica as eg

    q = eg.rebuild_curl(*sde)
    print(q)
    print("Q at (0.5, -1):", q.curl((0.5, -1.0)).round(8).tolist())
