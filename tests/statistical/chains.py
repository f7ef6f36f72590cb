"""Many independent chains of one kernel, so that standard errors come from chains and never from a correlation time.

One compilation serves a kernel and an `observe`: numbers of steps, step size, temperature and the numbers inside the
kernel are traced. Pass functions of modules, not new lambdas: a new function is a new compilation.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jaxtyping import Array, PyTree

import ergodica as eg
from ergodica.integrators import State

# jaxlib 0.10.2 on CPU: under vmap and jit a matrix-vector product beside a reduction is silently wrong in the rows
# beyond 16,384 (float64; 32,768 in float32). jax-ml/jax issue 39103; 0.10.1 does not have it.
MOST_CHAINS = 16_384

# A test compiles longer than it runs: JAX 0.10's simple emitters make that half the time. Later ones refuse the option.
SIMPLE = {"xla_cpu_use_fusion_emitters": False} if jaxlib.__version__.startswith("0.10.") else {}


def position_of(phase: Any) -> PyTree:
    return phase.position


def run_chains(
    kernel: eg.Kernel, positions: PyTree, key: Array, step_size: float, steps: int, *,
    temperature: float = 1.0, batches: Callable[[Array], PyTree] | None = None,
    burn_in: int = 0, thin: int = 1, observe: Callable[[Any], PyTree] = position_of,
) -> PyTree:  # fmt: skip
    """The mean over time of observe(phase), one for each chain: NumPy leaves of shape (chains, ...).

    Args:
        positions: starts, with a leading axis of chains. Auxiliaries are drawn from their law.
        steps: after `burn_in`; every `thin`-th of them is observed.
        batches: key -> batch, called afresh for every chain and step. None: all data.
        observe: of one chain's phase.
    """
    k_start, k_run = jax.random.split(key)
    states = start(kernel, positions, k_start, temperature)
    _, total = _advance(
        kernel, states, k_run, step_size, burn_in + steps, temperature, batches, observe, burn_in, thin, 1
    )
    return jax.tree.map(lambda x: np.asarray(x) / (steps // thin), total)


def start(kernel: eg.Kernel, positions: PyTree, key: Array, temperature: float = 1.0) -> State:
    """States at `positions`, one for each chain, auxiliaries drawn from their law."""
    return _start(kernel, positions, key, jnp.asarray(temperature))


def advance(
    kernel: eg.Kernel, states: State, key: Array, step_size: float, steps: int, *,
    temperature: float = 1.0, batches: Callable[[Array], PyTree] | None = None, steps_per_key: int = 1,
) -> State:  # fmt: skip
    """The states after `steps` steps. `steps_per_key` other than 1 is the error of using a key again."""
    return _advance(kernel, states, key, step_size, steps, temperature, batches, _nothing, steps, 1, steps_per_key)[0]


def mean_and_error(per_chain: Any) -> tuple[np.ndarray, np.ndarray]:
    """The mean over chains and its standard error."""
    per_chain = np.asarray(per_chain)
    return per_chain.mean(axis=0), per_chain.std(axis=0, ddof=1) / np.sqrt(len(per_chain))


def _chains(states: State) -> int:
    return len(jax.tree.leaves(states.phase)[0])


def _nothing(phase: Any) -> None:
    return None


@eqx.filter_jit
def _start(kernel, positions, key, temperature):
    keys = jax.random.split(key, len(jax.tree.leaves(positions)[0]))
    return jax.vmap(lambda q, k: kernel.init(q, k, temperature))(positions, keys)


def _advance(kernel, states, key, step_size, steps, temperature, batches, observe, burn_in, thin, steps_per_key):
    if _chains(states) > MOST_CHAINS:
        raise ValueError(
            f"got {_chains(states)} chains, at most {MOST_CHAINS} are compiled rightly: run several blocks"
        )
    # as arrays they are traced; a Python number would be a constant of the compiled loop
    numbers = [jnp.asarray(x, jnp.int32) for x in (steps, burn_in, thin, steps_per_key)]
    return _loop(kernel, states, key, jnp.asarray(step_size), jnp.asarray(temperature), batches, observe, *numbers)


@partial(eqx.filter_jit, compiler_options=SIMPLE)
def _loop(kernel, states, key, step_size, temperature, batches, observe, steps, burn_in, thin, steps_per_key):
    words = jax.random.key_data(jax.random.split(key))
    chain = jnp.arange(_chains(states), dtype=jnp.uint32)

    def keys(word, number):
        # Threefry is another function for every key, neighbours included: keys that count up need no hash of their own,
        # and the loop without one compiles a third faster.
        first = jnp.broadcast_to(word[0] + number.astype(jnp.uint32), chain.shape)
        return jax.random.wrap_key_data(jnp.stack([first, word[1] + chain], axis=1))

    def one(state, noise, batch):
        rows = None if batches is None else batches(batch)
        return kernel.step(state, noise, step_size, rows, temperature)[0]

    def body(number, carry):
        states, total = carry
        states = jax.vmap(one)(states, keys(words[0], number // steps_per_key), keys(words[1], number))
        after = number + 1 - burn_in
        is_due = (after > 0) & (after % thin == 0)
        total = jax.lax.cond(is_due, lambda: _add(total, jax.vmap(observe)(states.phase)), lambda: total)
        return states, total

    shapes = jax.eval_shape(jax.vmap(observe), states.phase)
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    return jax.lax.fori_loop(0, steps, body, (states, zeros))


def _add(x: PyTree, y: PyTree) -> PyTree:
    return jax.tree.map(jnp.add, x, y)
