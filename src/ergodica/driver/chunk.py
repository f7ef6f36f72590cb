"""A chunk: many steps of one chain in one compiled call, with its random numbers drawn ahead of the loop."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.driver.batches import Gathers, Windows
from ergodica.driver.keys import Purpose, step_keys
from ergodica.integrators import Kernel, Leapfrog, Setting, State

LONGEST = 1_000
NUMBERS = 2**22  # of random numbers and draws held at a time, in the size of the position


def chunk_length(position: PyTree, steps: int) -> int:
    """One length for a run, at least 2: a loop of one step would round differently."""
    return int(max(2, min(LONGEST, steps, NUMBERS // max(1, tree.size(position)))))


class Visit(NamedTuple):
    """What is noted of each step."""

    position: PyTree
    potential: Any  # of the batch; NaN where the target gives gradients only
    cuts: Array
    largest_step: Array
    accepted: Array
    is_finite: Array


@eqx.filter_jit
def run_chunk(
    kernel: Kernel,
    batches: Windows | Gathers | None,
    state: State,
    seed: Array,
    chain: Array,
    steps: Array,
    step_sizes: Array,
    temperature: Array,
    last: Array,
) -> tuple[State, Visit]:
    """The steps numbered `steps`; those from `last` on are passed over, so that one compilation serves the run."""
    keys = step_keys(seed, chain, steps, Purpose.STEP)
    places = None
    if batches is not None:
        places = jax.vmap(batches.places)(
            step_keys(seed, chain, steps, Purpose.BATCH), step_keys(seed, chain, steps, Purpose.SECOND_BATCH)
        )
    is_trajectory = isinstance(kernel.integrator, Leapfrog)
    if is_trajectory:
        draws = keys
    else:
        setting = Setting(step_sizes[0], temperature, None, steps[0])
        draws = jax.vmap(lambda key: kernel.integrator.draw(kernel.recipe, state.phase, key, setting))(keys)

    def body(state: State, inputs: Any) -> tuple[State, Visit]:
        draw, place, step, step_size = inputs
        if is_trajectory:
            new, info = kernel.step(state, draw, step_size, None, temperature)
        else:
            batch = None if batches is None else batches.at(place)
            new, info = kernel.step_with(state, draw, step_size, batch, temperature)
        is_active = step < last
        new = jax.tree.map(lambda a, b: jnp.where(is_active, a, b), new, state)
        is_finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(new.phase)]))
        cuts = jnp.where(is_active, info.cuts, 0)
        return new, Visit(new.phase.position, info.potential, cuts, info.largest_step, info.accepted, is_finite)

    return jax.lax.scan(body, state, (draws, places, steps, step_sizes))
