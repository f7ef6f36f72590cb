"""Many independent chains of a step: standard errors come from chains, never from a correlation time.

Numbers of steps and step size are traced, so that one compilation serves every step size. Keys count up: Threefry is
another function for every key, neighbours included, so they need no hash of their own.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.verify.audit.features import Features
from ergodica.verify.audit.steps import Step

TURN = 120  # calls of a NumPy step in a row, divisible by many periods
TOO_SHORT = 16  # steps that are done sooner than threads are started
THREADS = 2  # parts of the chains that run side by side; a number of its own, so that results are the same everywhere


def words(seed: int, *purpose: int) -> np.ndarray:
    """Two words to count keys from, other ones for every purpose."""
    return np.random.SeedSequence([seed, *purpose]).generate_state(2, np.uint32)


class JaxChains:
    """Chains of a step that JAX can trace, vmapped in THREADS parts."""

    def __init__(self, step: Step, features: Features, chains: int):
        self.step, self.features, self.chains = step, features, chains
        self._is_compiled = False

    def observe(self, vectors: np.ndarray) -> np.ndarray:
        return np.asarray(_observed(self.features, jnp.asarray(vectors)))

    def start(self, vectors: np.ndarray, word: np.ndarray) -> Any:
        """States at positions (chains, dim)."""
        parts = np.split(np.asarray(vectors), THREADS)
        return [_start(self.step, jnp.asarray(part), _shifted(word, i)) for i, part in enumerate(parts)]

    def rekeyed(self, states: Any, word: np.ndarray) -> Any:
        """The states, to be run with other keys: `run` is given those."""
        return states

    def hold_keys(self, states: Any) -> bool:
        """Whether there is a key among the numbers of the states."""
        leaves = jax.tree.leaves(states)
        typed = [jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
        return any(typed) or any(leaf.dtype == jnp.uint32 and leaf.ndim > 1 for leaf in leaves)

    def run(
        self, states: Any, word: np.ndarray, first: int, step_size: float, blocks: int, thin: int
    ) -> tuple[Any, np.ndarray]:
        """The states after blocks * thin steps, the first of them number `first`, and features summed over blocks."""
        numbers = [jnp.asarray(x, jnp.int64) for x in (first, blocks, thin)]
        h = jnp.asarray(step_size, jnp.float64)

        def one(i: int) -> Any:
            return _run(self.step, self.features, states[i], _shifted(word, i), numbers[0], h, *numbers[1:])

        done = self._side_by_side(one, blocks * thin > TOO_SHORT)
        return [part for part, _ in done], np.concatenate([np.asarray(total) for _, total in done])

    def path(self, states: Any, word: np.ndarray, first: int, step_size: float, steps: int) -> np.ndarray:
        """Features (steps, chains, ...) of the first part of the chains after each of so many steps: no program is
        compiled for it."""
        state, rows, shifted = states[0], [], _shifted(word, 0)
        one, h = jnp.ones((), jnp.int64), jnp.asarray(step_size, jnp.float64)
        for n in range(first, first + steps):
            state, observed = _run(self.step, self.features, state, shifted, jnp.asarray(n, jnp.int64), h, one, one)
            rows.append(observed)
        return np.stack(rows)

    def moved(self, vectors: np.ndarray, start: np.ndarray, word: np.ndarray, step_size: float) -> np.ndarray:
        """Positions after a step, in their own units, of the first part of the chains."""
        state, one = self.start(vectors, start)[0], jnp.ones((), jnp.int64)
        h = jnp.asarray(step_size, jnp.float64)
        state, _ = _run(self.step, self.features, state, _shifted(word, 0), 0 * one, h, one, one)
        return np.asarray(jax.vmap(self.step.place)(state))

    def _side_by_side(self, work: Callable[[int], Any], is_long: bool) -> list[Any]:
        """Every part in its own thread; one after the other where that is no gain, and at first, to compile once."""

        def wide(i: int) -> Any:
            with jax.enable_x64(True):  # the setting belongs to a thread
                return jax.block_until_ready(work(i))

        if not (self._is_compiled and is_long):
            self._is_compiled = True
            return [wide(i) for i in range(THREADS)]
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(wide, range(THREADS)))


def _shifted(word: np.ndarray, part: int) -> Array:
    return jnp.asarray(word + np.asarray([0, part << 20], np.uint32), jnp.uint32)


# Compiled once for a step, whatever the seed and the numbers in the target: the step's functions are static.


@eqx.filter_jit
def _observed(features: Features, vectors: Array) -> Array:
    return jax.vmap(features.observe)(vectors)


@eqx.filter_jit
def _start(step: Step, vectors: Array, word: Array) -> Any:
    return jax.vmap(step.start)(_keys(word, jnp.zeros((), jnp.int64), len(vectors)), vectors)


@eqx.filter_jit
def _run(
    step: Step, features: Features, states: Any, word: Array, first: Array, step_size: Array, blocks: Array, thin: Array
) -> tuple[Any, Array]:
    def block(b: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
        states, total = carry
        begin = first + b * thin
        states = jax.lax.fori_loop(begin, begin + thin, lambda n, s: _forward(step, n, s, word, step_size), states)
        return states, total + jax.vmap(lambda s: features.observe(step.place(s)))(states)

    total = jnp.zeros((_count(states), features.size), jnp.float64)
    return jax.lax.fori_loop(jnp.zeros_like(blocks), blocks, block, (states, total))


def _forward(step: Step, n: Array, states: Any, word: Array, step_size: Array) -> Any:
    return jax.vmap(step.move, (0, 0, None))(_keys(word, n, _count(states)), states, step_size)


def _keys(word: Array, n: Array, count: int) -> Array:
    number = jnp.arange(count, dtype=jnp.uint32)
    first = jnp.broadcast_to(word[0] + n.astype(jnp.uint32), number.shape)
    return jax.random.wrap_key_data(jnp.stack([first, word[1] + number], axis=1))


def _count(states: Any) -> int:
    return len(jax.tree.leaves(states)[0])


class NumpyChains:
    """Chains of a step that is called from Python, one after the other."""

    def __init__(self, step: Step, features: Features, chains: int):
        self.step, self.features, self.chains = step, features, chains

    def observe(self, vectors: np.ndarray) -> np.ndarray:
        return np.asarray(_observed(self.features, jnp.asarray(vectors)))

    def start(self, vectors: np.ndarray, word: np.ndarray) -> Any:
        generators = [np.random.default_rng([*word, i]) for i in range(self.chains)]
        return [(rng, self.step.start(rng, np.array(x))) for rng, x in zip(generators, vectors, strict=True)]

    def rekeyed(self, states: Any, word: np.ndarray) -> Any:
        """The states, with other generators for their steps."""
        return [(np.random.default_rng([*word, i]), state) for i, (_, state) in enumerate(states)]

    def hold_keys(self, states: Any) -> bool:
        """Whether there is a generator among the parts of the states."""
        generators = np.random.Generator | np.random.BitGenerator | np.random.RandomState
        return any(isinstance(leaf, generators) for leaf in jax.tree.leaves([state for _, state in states]))

    def run(
        self, states: Any, word: np.ndarray, first: int, step_size: float, blocks: int, thin: int
    ) -> tuple[Any, np.ndarray]:
        positions = np.empty((blocks, self.chains, self.step.dim))
        after = []
        for i, (rng, state) in enumerate(states):
            for block in range(blocks):
                for _ in range(thin):
                    state = self.step.move(rng, state, step_size)
                positions[block, i] = self.step.place(state)
            after.append((rng, state))
        return after, np.sum([self.observe(x) for x in positions], axis=0)

    def path(self, states: Any, word: np.ndarray, first: int, step_size: float, steps: int) -> np.ndarray:
        """The same. Whole turns for each chain: a step may count its calls where nobody sees it, and chains that are
        to be averaged must be in phase."""
        positions = np.empty((steps, self.chains, self.step.dim))
        for i, (rng, state) in enumerate(states):
            for n in range(-(-steps // TURN) * TURN):
                state = self.step.move(rng, state, step_size)
                if n < steps:
                    positions[n, i] = self.step.place(state)
        return np.stack([self.observe(x) for x in positions])

    def moved(self, vectors: np.ndarray, start: np.ndarray, word: np.ndarray, step_size: float) -> np.ndarray:
        """Positions after a step, in their own units."""
        states = self.rekeyed(self.start(vectors, start), word)
        return np.stack([self.step.place(self.step.move(rng, state, step_size)) for rng, state in states])
