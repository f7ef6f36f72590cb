"""A chunk of a large position, a network's: nothing of its size is written that is not wanted.

A chunk of a small one (chunk.py) draws its random numbers ahead, notes the position of every step and keeps the state
of a chain that died, each a pass over all numbers; with a few hundred thousand of them these take longer than the
gradient. Here random numbers are drawn where they are used. The loop is cut at the steps that are kept: a position is
written there, and at no other. A chain that died goes on from its start again, on the host, to its last good step:
same numbers, same steps; that happens once in a chain's life.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.compiling import SOUND_OPTIONS
from ergodica.driver.chunk import (
    Chain,
    ChunkPlan,
    ChunkRecord,
    StepRecord,
    advanced,
    blank_note,
    counted,
    noted,
    with_reference,
)
from ergodica.driver.draws import KeptSteps, add_squares
from ergodica.driver.keeping import Keeping
from ergodica.driver.keys import Purpose
from ergodica.driver.minibatches import Minibatches
from ergodica.integrators import Kernel, Leapfrog, Setting, State, StepInfo
from ergodica.phase import Phase
from ergodica.recipe import evaluate

LARGE_POSITION = 10_000  # numbers: below, a loop in the loop costs more than it saves
LARGE_CHUNK = 2_000  # steps
CHUNK_WORK = 2**26  # numbers of all steps of a chunk
QUICK_NOTES = ("potential", "cuts", "largest_step")  # of every step; all else of the last one of a stretch
DRAWN_NUMBERS = 2**24  # of draws that a chunk holds
# Loops over many numbers are what such a step is made of besides matrix products, and these have their own width.
LARGE_OPTIONS = {"xla_cpu_prefer_vector_width": 512, **SOUND_OPTIONS}


def large_chunk_length(size: int, thin: int, drawn: int) -> int:
    """Steps of a chunk. `drawn`: numbers kept of a draw."""
    steps = max(2, min(LARGE_CHUNK, CHUNK_WORK // size))
    if drawn:
        steps = min(steps, max(2, thin * (DRAWN_NUMBERS // drawn)))
    return steps


class Stretches(NamedTuple):
    """The stretches that a chunk is cut into: each ends at a step that is kept, before the last step, or with it."""

    ends: np.ndarray  # (n,), how many steps of the chunk are made by then
    was_kept: np.ndarray  # (n,), whether the state that a stretch begins with is a draw to be counted
    places: np.ndarray  # (n,), where the state that it ends with is stored; beyond all draws: nowhere
    count: Any

    @classmethod
    def of(cls, kept: KeptSteps, first: int, count: int, length: int) -> "Stretches":
        """Of the steps first, ..., first + count - 1."""
        draws = kept.between(first, first + count) - first + 1
        ends = np.unique(np.concatenate([draws, [max(1, count - 1), count]]))
        most = length // kept.thin + 1
        size = most + 2
        begins = np.concatenate([[0], ends[:-1]])
        was_kept = np.isin(begins, draws)
        was_kept[0] = first > 0 and len(kept.between(first - 1, first)) > 0
        places = np.where(np.isin(ends, draws), np.searchsorted(draws, ends), most)

        def padded(values: np.ndarray, dtype: Any) -> np.ndarray:
            return np.concatenate([values, np.zeros(size - len(ends))]).astype(dtype)

        return cls(padded(ends, np.int32), padded(was_kept, bool), padded(places, np.int32), np.int32(len(ends)))

    def real_ends(self) -> np.ndarray:
        return self.ends[: self.count]


class LargeRecord(NamedTuple):
    """What a chunk leaves besides the chain: stored draws (place, ...), and notes of its steps."""

    draws: PyTree
    notes: StepRecord


class _Quick(NamedTuple):
    """What changes in the steps of a stretch before its last."""

    i: Array
    state: State
    squares: PyTree
    is_alive: Array
    notes: dict[str, Array]
    """Of the potential, and of gradient noise that was cut: a number for each step of the chunk."""


def _run_large_chunk(
    kernel: Kernel, batches: Minibatches | None, keeping: Keeping, chain: Chain, span: ChunkPlan, stretches: Stretches
) -> tuple[Chain, LargeRecord]:
    """The first `span.made` of the steps; a chain that dies stops there, and what it leaves is of no use."""
    length, most, start = span.steps.size, len(stretches.ends) - 2, chain

    def advance(i: Array, chain: Chain) -> tuple[Chain, StepInfo]:
        key, place, step_size, row, step = jax.tree.map(
            lambda leaf: jax.lax.dynamic_index_in_dim(leaf, i, keepdims=False),
            (span.keys[:, Purpose.STEP], span.places, *map(jnp.asarray, (span.step_sizes, span.rows, span.steps))),
        )
        batch = None if batches is None else batches.at(place)
        new, info = _advanced(kernel, chain, key, batch, step_size, span.temperature, step)
        squares = chain.squares
        if squares is not None:
            squares = add_squares(squares, info.mean_momentum, row, row >= 0)
        return chain._replace(state=new, squares=squares), info

    def quick(carry: _Quick) -> _Quick:
        """A step within a stretch. Of it only the potential is looked at: what else is not finite stays so until the
        stretch ends. What does not change in these steps is not carried through them: XLA would copy it."""
        i, state, squares, _, notes = carry
        new, info = advance(i, start._replace(state=state, squares=squares))
        write = jax.lax.dynamic_update_index_in_dim
        notes = {name: write(met, jnp.asarray(getattr(info, name), met.dtype), i, 0) for name, met in notes.items()}
        return _Quick(i + 1, new.state, new.squares, jnp.isfinite(info.potential), notes)  # pyright: ignore

    def full(i: Array, chain: Chain, notes: StepRecord) -> tuple[Chain, StepRecord]:
        new, info = advance(i, chain)
        note = noted(kernel, chain, info, _is_finite(new.state.phase))
        write = jax.lax.dynamic_update_index_in_dim
        return new._replace(is_alive=note.is_alive), jax.tree.map(lambda n, x: write(n, x, i, 0), notes, note)

    def stretch(j: Array, carry: tuple[Chain, PyTree, StepRecord]) -> tuple[Chain, PyTree, StepRecord]:
        chain, draws, notes = carry
        position = chain.state.phase.position
        if chain.averages is not None:
            was_kept = jnp.asarray(stretches.was_kept)[j]
            averages = counted(chain.averages, keeping, position, was_kept, chain.is_alive)
            chain = chain._replace(averages=averages)
        chain = chain._replace(before=position)
        begin = jnp.where(j == 0, 0, jnp.asarray(stretches.ends)[j - 1])
        last = jnp.asarray(stretches.ends)[j] - 1
        met = {name: getattr(notes, name) for name in QUICK_NOTES}
        carried = _Quick(begin, chain.state, chain.squares, chain.is_alive, met)
        _, state, squares, is_alive, met = jax.lax.while_loop(
            lambda carry: (carry.i < last) & carry.is_alive, quick, carried
        )
        chain = chain._replace(state=state, squares=squares, is_alive=is_alive)
        chain, notes = full(last, chain, notes._replace(**met))
        if keeping.draws is not None:
            place, value = jnp.asarray(stretches.places)[j], keeping.drawn(chain.state.phase.position)
            write = jax.lax.dynamic_update_index_in_dim
            draws = jax.tree.map(lambda draws, x: write(draws, x, place, 0), draws, value)
        return chain, draws, notes

    notes = jax.tree.map(lambda leaf: jnp.zeros((length, *leaf.shape), leaf.dtype), blank_note(chain, False))
    like = jax.eval_shape(keeping.drawn, chain.state.phase.position)
    draws = jax.tree.map(lambda leaf: jnp.zeros((most + 1, *leaf.shape), leaf.dtype), like)
    chain, draws, notes = jax.lax.fori_loop(0, stretches.count, stretch, (chain, draws, notes))
    return chain, LargeRecord(draws, notes)


def _advanced(
    kernel: Kernel, chain: Chain, key: Array, batch: PyTree, step_size: Array, temperature: Array, step: Array
) -> tuple[State, StepInfo]:
    """A step whose second half waits for the potential.

    Without that XLA copies the position at the start of every step: the new one could be written over the old one while
    the potential still reads it.
    """
    if isinstance(kernel.integrator, Leapfrog):
        return advanced(kernel, chain, key, batch, step_size, temperature)
    if chain.reference is not None:
        kernel = with_reference(kernel, chain.reference)
    state = chain.state
    draws = kernel.integrator.draw(kernel.recipe, state.phase, key, Setting(step_size, temperature, None, step))
    probed = kernel.probe(state, draws, step_size, temperature)
    reads_potential = kernel.recipe.reads_potential(state.phase)
    evaluations = evaluate(kernel.target, probed.phase.position, batch, reads_potential)
    for one in evaluations:
        assert one.potential is not None  # a target without one is not sampled here
        step_size = jnp.where(jnp.isfinite(one.potential), step_size, jnp.nan)
    return kernel.finish(probed, evaluations, draws, step_size, batch, temperature)


run_large_chunk = eqx.filter_jit(_run_large_chunk, compiler_options=LARGE_OPTIONS)  # type: ignore[call-overload]


def _is_finite(phase: Phase) -> Array:
    """By the sum of squares, which takes a fifth of the time of looking at each number. A phase of 1e19 in float32 is
    as good as infinite."""
    return jnp.isfinite(tree.dot(phase, phase))


class LargeChain(NamedTuple):
    """All that the steps of one chain are made with, for the host's part."""

    kernel: Kernel
    batches: Minibatches | None
    keeping: Keeping
    kept: KeptSteps
    first: int

    def advance(self, start: Chain, span: ChunkPlan, count: int) -> tuple[Chain, ChunkRecord]:
        """`count` steps from `start`, and what is noted of them; of a chain that died up to its last good step."""
        chain, record = self._made(start, span, count)
        notes = jax.tree.map(np.asarray, record.notes)
        potential = np.append(notes.potential[:count], 0.0).astype(notes.potential.dtype)
        ends = Stretches.of(self.kept, self.first, count, span.steps.size).real_ends() - 1
        # a draw stands if its own step and the evaluation of the next one were finite
        stands = np.isfinite(potential)
        stands[ends] = notes.is_good[ends]
        stands[ends + 1] &= notes.is_alive[ends]
        stands = np.logical_and.accumulate(stands)
        if self.first + count == self.kept.total and stands.all():
            chain, ending = self._evaluated(chain, span, count)
            stands[count], potential[count] = bool(ending.is_good[0]), ending.potential[0]
        if not stands.all():
            chain, last = self._frozen(start, span, int(np.argmin(stands)) - 1)
            stands[last + 1 :] = False
        kept = self.kept.between(self.first, self.first + count) - self.first
        draws = None
        if self.keeping.draws is not None:
            draws = jax.tree.map(lambda leaf: np.asarray(leaf)[: len(kept)], record.draws)
        met = (notes.gradient_norm[kept], notes.kinetic_temperature[kept], notes.accepted[kept])
        return chain, ChunkRecord(draws, *met, potential, stands, notes.cuts[:count], notes.largest_step[:count])

    def _made(self, start: Chain, span: ChunkPlan, count: int) -> tuple[Chain, LargeRecord]:
        span = span._replace(made=np.asarray(count, np.int32))
        stretches = Stretches.of(self.kept, self.first, count, span.steps.size)
        return run_large_chunk(self.kernel, self.batches, self.keeping, start, span, stretches)

    def _evaluated(self, chain: Chain, span: ChunkPlan, made: int) -> tuple[Chain, StepRecord]:
        """The chain after `made` steps with its last draw counted, which is known to be good once what follows it was
        evaluated: by one step, on that step's batch, of which nothing is kept."""
        step = self.first + made
        is_kept = step > 0 and len(self.kept.between(step - 1, step)) > 0
        most = len(span.kept)
        stretches = Stretches(
            np.eye(1, most + 2, dtype=np.int32)[0], np.full(most + 2, is_kept), np.full(most + 2, most, np.int32),
            np.int32(1),
        )  # fmt: skip
        at = max(made - 1, 0)
        last = jax.tree.map(lambda leaf: np.roll(np.asarray(leaf), -at, axis=0), (span.places, span.step_sizes))
        span = span._replace(places=last[0], step_sizes=last[1], rows=np.full_like(span.rows, -1))
        beyond, record = run_large_chunk(self.kernel, self.batches, self.keeping, chain, span, stretches)
        return chain._replace(averages=beyond.averages), jax.tree.map(np.asarray, record.notes)

    def _frozen(self, start: Chain, span: ChunkPlan, last: int) -> tuple[Chain, int]:
        """The chain where it stays, and after how many steps of the chunk that is: `last`, or fewer, where a number was
        not finite before the potential showed it. -1: at the position one step before the chunk."""
        if last < 0:
            chain, position = start, start.before
        else:
            good, bad = 0, last + 1  # finite after `good` steps, not after `bad`
            while bad - good > 1:
                middle = last if bad > last else (good + bad) // 2
                if _is_finite(self._after(start, span, middle).state.phase):
                    good = middle
                else:
                    bad = middle
            last = good
            chain, _ = self._evaluated(self._after(start, span, last), span, last)
            position = chain.state.phase.position
        state = chain.state._replace(phase=chain.state.phase._replace(position=position))
        return chain._replace(state=state, before=position, is_alive=jnp.zeros((), bool)), last

    def _after(self, start: Chain, span: ChunkPlan, count: int) -> Chain:
        return self._made(start, span, count)[0] if count else start
