"""Random keys of a run: a chain does not depend on chunk length, thinning, run length or its neighbours."""

from enum import IntEnum

import jax
from jaxtyping import Array


class Purpose(IntEnum):
    """What a step's key is for; a number is never used for two things."""

    STEP = 0
    BATCH = 1
    SECOND_BATCH = 2
    INIT = 3
    START = 4


def step_keys(seed: int | Array, chain: Array | int, steps: Array, purpose: Purpose) -> Array:
    """fold_in(fold_in(fold_in(root, chain), step), purpose) for each step. Threefry: `rbg` differs under vmap."""
    root = jax.random.fold_in(jax.random.key(seed, impl="threefry2x32"), chain)
    return jax.vmap(lambda step: jax.random.fold_in(jax.random.fold_in(root, step), purpose))(steps)
