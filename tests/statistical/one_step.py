"""The affine map that one step of a linear sampler is, read off its kernel without sampling."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import PyTree

import ergodica as eg
from ergodica.integrators import Setting
from tests.statistical.discrete_law import LinearChain

CORNERS = 16  # the same for every case, so that the cases share what JAX compiles for each operation


class OneStep(NamedTuple):
    """z' = transition z + offset + injected N(0, 1) + gradient N(0, 1)."""

    transition: np.ndarray
    offset: np.ndarray
    injected: np.ndarray
    gradient: np.ndarray

    @property
    def noise(self) -> np.ndarray:
        return self.injected @ self.injected.T + self.gradient @ self.gradient.T

    def chain(self) -> LinearChain:
        return LinearChain(self.transition, self.offset, self.noise)


def one_step(
    kernel: eg.Kernel, step_size: float, temperatures: tuple[float, ...], position: PyTree, batches: Any = None
) -> list[OneStep]:
    """The map at each temperature, from its values at 0 and at every unit vector of phase, draws and batch.

    `batches.rows(normals)` makes a batch of an array of `batches.shape`. Everything goes through at once under vmap and
    not under jit, where each case would be compiled.
    """
    state = kernel.init(position, jax.random.key(1))
    draws = kernel.integrator.draw(kernel.recipe, state.phase, jax.random.key(2), Setting(step_size, 1.0))
    normals = jnp.zeros(0 if batches is None else batches.shape)
    parts = (state.phase, draws, normals)
    flat, unravel = ravel_pytree(parts)
    corners = jnp.eye(CORNERS, len(flat), k=-1)

    def step(point, temperature):
        phase, draws, normals = unravel(point)
        batch = None if batches is None else batches.rows(normals)
        new, _ = kernel.step_with(state._replace(phase=phase), draws, step_size, batch, temperature)
        return ravel_pytree(new.phase)[0]

    over_corners = jax.vmap(step, in_axes=(0, None))
    values = np.asarray(jax.vmap(over_corners, in_axes=(None, 0))(corners, jnp.asarray(temperatures)))
    borders = np.cumsum([ravel_pytree(part)[0].size for part in parts])
    return [OneStep(*_columns(value, borders)) for value in values]


def _columns(value: np.ndarray, borders: np.ndarray) -> tuple[np.ndarray, ...]:
    transition, injected, gradient, _ = np.split((value[1:] - value[0]).T, borders, axis=1)
    return transition, value[0], injected, gradient
