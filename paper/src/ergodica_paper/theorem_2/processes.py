"""The processes that Theorem 2 is put to by name: three samplers of the paper, and one that fails its condition."""

from typing import Any

import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.verify.sde import RecipeSde
from ergodica_paper.flat import flat_sde
from ergodica_paper.processes import Process


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


# -- a process that fails the condition ---------------------------------------------------------------

PUSH = np.array([1.0, 0.5])


def cauchy(z: Any) -> Any:
    """H of a Cauchy law in two dimensions."""
    return 1.5 * jnp.log1p(jnp.sum(z**2))


def constant_current(z: Any) -> Any:
    """f = constant / p: the current f p is the same everywhere, without divergence and without an end."""
    return jnp.exp(cauchy(z)) * jnp.asarray(PUSH, z.dtype)


NOT_INTEGRABLE = Process(constant_current, lambda z: jnp.zeros((2, 2), z.dtype), cauchy)


def curl_of_the_push(z: Any) -> Any:
    """Q_12 = (c_1 z_2 - c_2 z_1) / p, which is no less a Q of `constant_current` by Eq. `CorrectDrift`."""
    entry = jnp.exp(cauchy(z)) * (PUSH[0] * z[1] - PUSH[1] * z[0])
    return jnp.stack([jnp.stack([0 * entry, entry]), jnp.stack([-entry, 0 * entry])])
