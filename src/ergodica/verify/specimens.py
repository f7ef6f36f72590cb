"""The library's samplers by name, each with a small law to certify it on: `ergodica certify sgrhmc`."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import ergodica as eg

MATRIX = np.array([[1.2, 0.5], [0.5, 0.8]])
SKEW = np.array([[0.0, -1.3], [1.3, 0.0]])
FRICTION, DAMPING = 0.8, 0.1


def bent(q: Any) -> Any:
    """Two coordinates, coupled, without a symmetry that could hide an error."""
    return jnp.sum(q**4) / 8 + (q[0] + 0.5 * q[1] ** 2) ** 2 / 2 + 0.3 * q[1]


def coupled_gammas(q: Any) -> Any:
    return jnp.sum(q - 1.5 * jnp.log(q)) + 0.3 * (q[0] - q[1]) ** 2


def information(q: Any) -> Any:
    mixed = 0.4 * jnp.sin(q[0] - q[1])
    return jnp.stack([jnp.stack([1.1 + 0.3 * jnp.cos(q[0]), mixed]), jnp.stack([mixed, 1.4 + q[1] ** 2])])


def curved(z: Any) -> Any:
    return 1.2 + 0.5 * jnp.sin(z.position[0] - 0.7 * z.position[1])


def second_moment(q: Any) -> Any:
    return (0.5 + q[0] ** 2 * q[1] ** 2 + q**2) ** 2


def free() -> Any:
    return eg.Density(bent, init=jnp.array([0.6, -0.3]))


def positive() -> Any:
    return eg.Density(coupled_gammas, init=jnp.array([1.3, 2.1]), domain=eg.positive)


SAMPLERS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "sgld": (lambda: eg.sgld(MATRIX), free),
    "sgfs": (lambda: eg.sgfs(4 * MATRIX, 0.05, damping=0.4), free),
    "sgrld": (lambda: eg.sgrld(eg.expanded_mean()), positive),
    "psgld": (lambda: eg.psgld(second_moment, damping=0.3), free),
    "irreversible_langevin": (lambda: eg.irreversible_langevin(SKEW, MATRIX), free),
    "hmc": (lambda: eg.hmc(MATRIX), free),
    "sghmc": (lambda: eg.sghmc(FRICTION, MATRIX), free),
    "relativistic_sghmc": (lambda: eg.relativistic_sghmc(FRICTION, mass=0.6, speed=1.4), free),
    "sgnht": (lambda: eg.sgnht(FRICTION), free),
    "coordinate_sgnht": (lambda: eg.coordinate_sgnht(FRICTION), free),
    "riemannian_sgnht": (lambda: eg.riemannian_sgnht(eg.Scaled(curved)), free),
    "sgrhmc": (lambda: eg.sgrhmc(eg.fisher(information, damping=DAMPING)), free),
    "gsgrhmc": (lambda: eg.gsgrhmc(), free),
}
