"""Many independent chains of a step: standard errors come from chains, never from a correlation time.

Numbers of steps and step size are traced, so that one compilation serves every step size. Keys count up: Threefry is
another function for every key, neighbours included, so they need no hash of their own.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.verify.audit.black_box import Step
from ergodica.verify.audit.features import Features

CALLS_IN_A_ROW = 120  # calls of a NumPy step in a row, divisible by many periods
SHORT_RUN = 16  # steps that are done sooner than threads are started
# parts of the chains that run side by side; a number of its own, so that results are the same everywhere
CHAIN_PARTS = 2
FORGOTTEN_BELOW = 0.35  # correlation with the start below which a feature counts as forgotten
CHANGED_SCORE = 4.5  # standard errors from n to 2n steps at which a mean has not settled
FAR_DEVIATIONS = 3.0  # deviations
RUNAWAY_GROWTH = 1.4  # of the mean square in each of the last two doublings of steps, by which chains run away
BURN_IN = 5  # relaxations before averaging: what is left of a wrong start is under 0.35^5 = 0.5 %
LEAST_BURN_IN = 2  # where five would take more than BUDGET_SHARES
PILOT_LENGTH = 8  # relaxations of the first averages, from which the rest is planned
RUNAWAY_VARIANCE = 1e4  # times the claimed variance: chains that go there are as good as non-finite
ESCAPED_VARIANCE = 3.0  # times the claimed variance
BUDGET_SHARES = 8  # the share of the budget that one phase of one step size may take is one in so many
PER_RELAXATION = 4  # observations


def key_base(seed: int, *purpose: int) -> np.ndarray:
    """Two words to count keys from, other ones for every purpose."""
    return np.random.SeedSequence([seed, *purpose]).generate_state(2, np.uint32)


class _Observed:
    """Chains of one step, of which features are observed."""

    def __init__(self, step: Step, features: Features, chains: int):
        self.step, self.features, self.chains = step, features, chains

    def observe(self, vectors: np.ndarray) -> np.ndarray:
        """Features (chains, ...) at positions (chains, dim)."""
        return np.asarray(_observed(self.features, jnp.asarray(vectors)))


class JaxChains(_Observed):
    """Chains of a step that JAX can trace, vmapped in CHAIN_PARTS parts."""

    _is_compiled = False

    def start(self, vectors: np.ndarray, key_base: np.ndarray) -> list[Any]:
        """States at positions (chains, dim)."""
        parts = np.split(np.asarray(vectors), CHAIN_PARTS)
        return [_start(self.step, jnp.asarray(part), _shifted(key_base, i)) for i, part in enumerate(parts)]

    def rekeyed(self, states: list[Any], key_base: np.ndarray) -> list[Any]:
        """The states, to be run with other keys: `run` is given those."""
        return states

    def hold_keys(self, states: list[Any]) -> bool:
        """Whether there is a key among the numbers of the states."""
        leaves = jax.tree.leaves(states)
        typed = [jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) for leaf in leaves]
        return any(typed) or any(leaf.dtype == jnp.uint32 and leaf.ndim > 1 for leaf in leaves)

    def run(
        self, states: list[Any], key_base: np.ndarray, first: int, step_size: float, blocks: int, thin: int
    ) -> tuple[list[Any], np.ndarray]:
        """The states after blocks * thin steps, the first of them number `first`, and features summed over blocks."""

        def one(i: int) -> tuple[Any, Array]:
            return self._run(i, states[i], key_base, first, step_size, blocks, thin)

        done = self._side_by_side(one, blocks * thin > SHORT_RUN)
        return [part for part, _ in done], np.concatenate([np.asarray(total) for _, total in done])

    def path(self, states: list[Any], key_base: np.ndarray, first: int, step_size: float, steps: int) -> np.ndarray:
        """Features (steps, chains, ...), of the first part of the chains, after each of so many steps."""
        state, rows = states[0], []
        for n in range(first, first + steps):  # by the program of `run`: no other is compiled for it
            state, observed = self._run(0, state, key_base, n, step_size, 1, 1)
            rows.append(observed)
        return np.stack(rows)

    def moved(self, vectors: np.ndarray, start: np.ndarray, key_base: np.ndarray, step_size: float) -> np.ndarray:
        """Positions after a step, in their own units, of the first part of the chains; `start`: keys of `start`."""
        state, _ = self._run(0, self.start(vectors, start)[0], key_base, 0, step_size, 1, 1)
        return np.asarray(jax.vmap(self.step.place)(state))

    def _run(
        self, part: int, state: Any, key_base: np.ndarray, first: int, step_size: float, blocks: int, thin: int
    ) -> tuple[Any, Array]:
        number, *counts = (jnp.asarray(x, jnp.int64) for x in (first, blocks, thin))
        h = jnp.asarray(step_size, jnp.float64)
        return _run(self.step, self.features, state, _shifted(key_base, part), number, h, *counts)

    def _side_by_side(self, work: Callable[[int], Any], is_long: bool) -> list[Any]:
        """Every part in its own thread; one after the other where that is no gain, and at first, to compile once."""

        def wide(i: int) -> Any:
            with jax.enable_x64(True):  # the setting belongs to a thread
                return jax.block_until_ready(work(i))

        if not (self._is_compiled and is_long):
            self._is_compiled = True
            return [wide(i) for i in range(CHAIN_PARTS)]
        with ThreadPoolExecutor(CHAIN_PARTS) as pool:
            return list(pool.map(wide, range(CHAIN_PARTS)))


def _shifted(key_base: np.ndarray, part: int) -> Array:
    return jnp.asarray(key_base + np.asarray([0, part << 20], np.uint32), jnp.uint32)


# Compiled once for a step, whatever the seed and the numbers in the target: the step's functions are static.


@eqx.filter_jit
def _observed(features: Features, vectors: Array) -> Array:
    return jax.vmap(features.observe)(vectors)


@eqx.filter_jit
def _start(step: Step, vectors: Array, key_base: Array) -> Any:
    return jax.vmap(step.start)(_keys(key_base, jnp.zeros((), jnp.int64), len(vectors)), vectors)


@eqx.filter_jit
def _run(
    step: Step,
    features: Features,
    states: Any,
    key_base: Array,
    first: Array,
    step_size: Array,
    blocks: Array,
    thin: Array,
) -> tuple[Any, Array]:
    def block(b: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
        states, total = carry
        begin = first + b * thin
        states = jax.lax.fori_loop(begin, begin + thin, lambda n, s: _forward(step, n, s, key_base, step_size), states)
        return states, total + jax.vmap(lambda s: features.observe(step.place(s)))(states)

    total = jnp.zeros((_count(states), features.size), jnp.float64)
    return jax.lax.fori_loop(jnp.zeros_like(blocks), blocks, block, (states, total))


def _forward(step: Step, n: Array, states: Any, key_base: Array, step_size: Array) -> Any:
    return jax.vmap(step.move, (0, 0, None))(_keys(key_base, n, _count(states)), states, step_size)


def _keys(key_base: Array, n: Array, count: int) -> Array:
    number = jnp.arange(count, dtype=jnp.uint32)
    first = jnp.broadcast_to(key_base[0] + n.astype(jnp.uint32), number.shape)
    return jax.random.wrap_key_data(jnp.stack([first, key_base[1] + number], axis=1))


def _count(states: Any) -> int:
    return len(jax.tree.leaves(states)[0])


class NumpyChains(_Observed):
    """Chains of a step that is called from Python, one after the other; methods as those of `JaxChains`."""

    def start(self, vectors, key_base):
        generators = (np.random.default_rng([*key_base, i]) for i in range(self.chains))
        return [(rng, self.step.start(rng, np.array(x))) for rng, x in zip(generators, vectors, strict=True)]

    def rekeyed(self, states, key_base):
        return [(np.random.default_rng([*key_base, i]), state) for i, (_, state) in enumerate(states)]

    def hold_keys(self, states):
        generators = np.random.Generator | np.random.BitGenerator | np.random.RandomState
        return any(isinstance(leaf, generators) for leaf in jax.tree.leaves([state for _, state in states]))

    def run(self, states, key_base, first, step_size, blocks, thin):
        positions = np.empty((blocks, self.chains, self.step.dim))
        after = []
        for i, (rng, state) in enumerate(states):
            for block in range(blocks):
                for _ in range(thin):
                    state = self.step.move(rng, state, step_size)
                positions[block, i] = self.step.place(state)
            after.append((rng, state))
        return after, np.sum([self.observe(x) for x in positions], axis=0)

    def path(self, states, key_base, first, step_size, steps):
        positions = np.empty((steps, self.chains, self.step.dim))
        # whole turns for each chain: a step may count its calls where nobody sees it, and chains that are to be
        # averaged must be in phase
        for i, (rng, state) in enumerate(states):
            for n in range(-(-steps // CALLS_IN_A_ROW) * CALLS_IN_A_ROW):
                state = self.step.move(rng, state, step_size)
                if n < steps:
                    positions[n, i] = self.step.place(state)
        return np.stack([self.observe(x) for x in positions])

    def moved(self, vectors, start, key_base, step_size):
        states = self.rekeyed(self.start(vectors, start), key_base)
        return np.stack([self.step.place(self.step.move(rng, state, step_size)) for rng, state in states])


Chains = JaxChains | NumpyChains


@dataclass
class Rung:
    """The chains at one step size."""

    step_size: float
    states: Any
    key_base: np.ndarray
    square: slice
    """Where in the features the squares of the position are."""
    steps: int = 0
    relaxation: int = 0
    """Steps after which every feature has forgotten its start; those made, if some have not."""
    is_relaxed: bool = True
    is_finite: bool = True
    blocks: int = 0
    total: np.ndarray = field(default_factory=lambda: np.zeros(0))
    """Sums of features over blocks, one row per chain."""
    parts: list[tuple[int, np.ndarray]] = field(default_factory=list)
    """The blocks and sums that `blocks` and `total` are made of, in the order of time."""
    squares: list[tuple[int, float]] = field(default_factory=list)
    """Steps made, doubling, and the largest mean square of a coordinate then, in units of the claimed variance."""
    slow: tuple[int, ...] = ()
    """Features that have not forgotten their start."""
    unwatched: slice = field(default_factory=lambda: slice(0, 0))
    """Features that need not have: products that forget before their factors do, or are found by `stuck`."""
    stayed: tuple[int, ...] = ()
    """Coordinates that were never seen to change sides of the mean, in any chain."""
    one_sided: tuple[int, ...] = ()
    """Coordinates that forget how far from the mean they are, twice in a row, and not on which side, in any chain."""

    @property
    def is_settled(self) -> bool:
        return self.is_finite and self.is_relaxed

    @property
    def thin(self) -> int:
        return max(self.relaxation // PER_RELAXATION, 1)

    @property
    def means(self) -> np.ndarray:
        return self.averages.mean(0)

    @property
    def errors(self) -> np.ndarray:
        """Standard errors of the means over chains, which are independent."""
        return self.averages.std(0, ddof=1) / np.sqrt(len(self.total))

    @property
    def averages(self) -> np.ndarray:
        return self.total / self.blocks

    @property
    def escape(self) -> float | None:
        """The time at which chains escape, by the logarithm of the mean square; None if they never do, or come back."""
        latest = [square for _, square in self.squares[-3:]]
        if not all(b > RUNAWAY_GROWTH * a or not np.isfinite(b) for a, b in pairwise(latest)):
            return None
        made, last = 0, 1.0
        for steps, square in self.squares:
            if not square < ESCAPED_VARIANCE:
                share = np.log(ESCAPED_VARIANCE / last) / np.log(square / last) if np.isfinite(square) else 1.0
                return self.step_size * (made + float(share) * (steps - made))
            made, last = steps, max(square, 0.1)
        return None

    @property
    def halves(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Averages over the first and the second half of the time; None where it was not divided."""
        if len(self.parts) < 2:
            return None
        made = np.cumsum([blocks for blocks, _ in self.parts])
        cut = int(np.argmin(np.abs(made[:-1] - made[-1] / 2))) + 1
        early = np.sum([sums for _, sums in self.parts[:cut]], axis=0)
        return early / made[cut - 1], (self.total - early) / (made[-1] - made[cut - 1])

    def advance(self, chains: Chains, blocks: int, thin: int) -> np.ndarray:
        """blocks * thin more steps; features summed over blocks."""
        self.states, sums = chains.run(self.states, self.key_base, self.steps, self.step_size, blocks, thin)
        self.steps += blocks * thin
        is_finite = np.isfinite(sums).all() and self._largest(sums) < RUNAWAY_VARIANCE * blocks
        self.is_finite = self.is_finite and bool(is_finite)
        return sums

    def _largest(self, observed: np.ndarray) -> float:
        return float(observed[:, self.square].mean(0).max())

    def relax(self, chains: Chains, at_start: np.ndarray, budget: int) -> None:
        """Doubles the number of steps until chains at 2n steps have forgotten where they were at n, and have the same
        means; or patience ends.

        n and 2n, not 0 and n: the start may be much narrower or wider than what the chains sample. Means as well:
        chains that forget where they were may still share a slow change, as of a thermostat.
        """
        before, forgot_before = at_start, 0
        linear = slice(0, self.square.start)
        has_stayed, size_forgotten = np.ones(self.square.start, bool), np.zeros(self.square.start, int)
        # correlations of unrelated numbers over few chains are large themselves
        bound = max(FORGOTTEN_BELOW, 3.5 / np.sqrt(len(at_start)))
        while True:
            made = max(self.steps, 1)
            now = self.advance(chains, 1, made)
            self.squares.append((self.steps, self._largest(now)))
            if not self.is_finite:
                return
            is_slow = np.abs((standard(before) * standard(now)).mean(0)) > bound
            is_slow |= _score(now - before) > CHANGED_SCORE
            # all coordinates together show what each alone does not; told as the energy
            is_slow[-1] |= _score((now - before)[:, self.square].mean(1)) > CHANGED_SCORE
            is_slow[self.unwatched] = False
            has_stayed &= (np.sign(now[:, linear]) == np.sign(before[:, linear])).all(0)
            self.stayed = tuple(np.flatnonzero(has_stayed).tolist())
            size_forgotten = np.where(is_slow[self.square], 0, size_forgotten + 1)
            self.one_sided = tuple(np.flatnonzero(has_stayed & (size_forgotten > 1)).tolist())
            self.slow = tuple(np.flatnonzero(is_slow).tolist())
            # twice in a row: a correlation that swings passes through zero
            if not self.slow and forgot_before:
                self.relaxation = forgot_before
                break
            forgot_before = 0 if self.slow else made
            if BUDGET_SHARES * 2 * self.steps > budget:
                self.relaxation, self.is_relaxed = made, not self.slow
                break
            before = now
        if self.is_relaxed:
            wanted = max(min(BURN_IN * self.relaxation, budget // BUDGET_SHARES), LEAST_BURN_IN * self.relaxation)
            self.advance(chains, 1, max(wanted - self.steps, 1))
        if self.is_finite:
            pilot = min(PILOT_LENGTH * self.relaxation, budget // (2 * BUDGET_SHARES))
            self.average(chains, max(pilot, self.relaxation))

    def average(self, chains: Chains, steps: int) -> None:
        """At least so many more steps, added to the averages; in two parts at first, which can be compared."""
        count = 1 if self.parts else 2
        for _ in range(count):
            blocks = max(-(-steps // (count * self.thin)), 1)
            sums = self.advance(chains, blocks, self.thin)
            self.parts.append((blocks, sums))
            self.total = sums if self.blocks == 0 else self.total + sums
            self.blocks += blocks


def _score(change: np.ndarray) -> np.ndarray:
    """A mean over chains in standard errors."""
    return np.abs(change.mean(0)) / np.maximum(change.std(0, ddof=1) / np.sqrt(len(change)), 1e-300)


def standard(x: np.ndarray) -> np.ndarray:
    """Mean 0 and deviation 1, far values held down: a few of them would make unrelated numbers look correlated."""
    return _scaled(np.clip(_scaled(x), -FAR_DEVIATIONS, FAR_DEVIATIONS))


def _scaled(x: np.ndarray) -> np.ndarray:
    spread = x.std(0)
    return (x - x.mean(0)) / np.where(spread > 0, spread, 1)
