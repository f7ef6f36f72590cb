"""Random keys of a run: a chain does not depend on chunk length, thinning, run length or its neighbours."""

from enum import IntEnum
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.compiling import sound_jit


class Purpose(IntEnum):
    """What a step's key is for; a number is never used for two things."""

    STEP = 0
    BATCH = 1
    SECOND_BATCH = 2
    INIT = 3
    START = 4


def seed_words(seed: int) -> np.ndarray:
    """A seed below 2^64 as two words; `jax.random.key` would drop the upper one where JAX is in 32 bits."""
    return np.asarray([seed >> 32, seed & 0xFFFFFFFF], np.uint32)


def step_keys(seed: int | np.ndarray | Array, chain: Array | int, steps: Array, purpose: Purpose | Array) -> Array:
    """fold_in(fold_in(fold_in(root, chain), step), purpose) for each step, of a seed or its words.

    Threefry: `rbg` differs under vmap.
    """
    words = seed_words(seed) if isinstance(seed, int) else seed
    root = jax.random.fold_in(jax.random.wrap_key_data(jnp.asarray(words), impl="threefry2x32"), chain)
    return jax.vmap(lambda step: jax.random.fold_in(jax.random.fold_in(root, step), purpose))(steps)


@sound_jit
def start_keys(seed: Any, chain: Any) -> tuple[Array, Array]:
    """The keys of a chain's start for INIT and START. `seed`: its words."""
    init, start = (step_keys(seed, chain, jnp.zeros((1,), jnp.int32), p)[0] for p in (Purpose.INIT, Purpose.START))
    return init, start


@sound_jit
def chunk_keys(seed: Any, chain: Any, steps: Any) -> Array:
    """The keys of a chunk's steps for STEP, BATCH and SECOND_BATCH, (step, 3); of chains (g,), (g, step, 3).
    `seed`: its words.

    By itself, because compiling random numbers takes longer than all else in a chunk: this is compiled once.
    """

    def of_one(chain: Array) -> Array:
        purposes = jnp.arange(3)
        return jax.vmap(lambda purpose: step_keys(seed, chain, steps, purpose), out_axes=1)(purposes)

    return jax.vmap(of_one)(chain) if chain.ndim else of_one(chain)
