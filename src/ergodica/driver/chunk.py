"""A chunk: many steps of a chain in one compiled call, with its random numbers drawn ahead of the loop."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.compiling import sound_filter_jit
from ergodica.driver.draws import add_squares
from ergodica.driver.keeping import Averages, Keeping, add_to_averages
from ergodica.driver.keys import Purpose
from ergodica.driver.minibatches import Minibatches
from ergodica.energy import Gaussian
from ergodica.integrators import Kernel, Leapfrog, Setting, State, StepInfo
from ergodica.phase import Phase, Point

LONGEST_CHUNK = 4_000  # of one or two chains; what a chunk costs beside its steps is a tenth at a thousand
SHORT_CHUNK = 2_000  # of many chains, where a chunk of all of them takes two seconds
SHARED_CHUNK = 1_000  # of chains on the same batches, whose random numbers of a chunk should stay in the cache
CHUNK_NUMBERS = 2**22  # of random numbers and draws held at a time, in the size of the position


def chunk_length(position: PyTree, chains: int, is_shared: bool = False) -> int:
    """One for a run, at least 2: XLA would round a loop of one step differently."""
    longest = SHARED_CHUNK if is_shared else max(SHORT_CHUNK, 2 * LONGEST_CHUNK // max(2, chains))
    return int(max(2, min(longest, CHUNK_NUMBERS // max(1, tree.size(position)))))


class Chain(NamedTuple):
    """A chain between two chunks: all that a checkpoint must hold of it."""

    state: State
    is_alive: Array
    """False once an evaluation or a step was not finite: the position is then the last that was followed by a finite
    evaluation, and stays."""
    before: PyTree = None
    """The position one step earlier, to go back to: a state is known to be good only when the next step has evaluated
    the potential. None of a small position of which only averages are kept, which wait for that evaluation."""
    averages: Averages | None = None
    reference: PyTree = None
    """Of a gradient estimator that has one for each chain: centre, gradient, potential."""
    squares: PyTree = None
    """Of the momentum, leaves (row, coordinate): the thermometer; None where it would not be exact."""


class ChunkPlan(NamedTuple):
    """Which steps a chunk makes, and with what."""

    keys: Array  # (length, 3); (g, length, 3) for a group of chains on the same batches
    places: PyTree  # of the batches, (length, ...)
    steps: Any  # (length,), as the next two from NumPy
    step_sizes: Any  # (length,)
    made: Any  # how many of them are made
    is_last: Any  # 1 in the last chunk of a run, else 0: then the last state is evaluated too
    was_kept: Any  # whether the step before them was
    rows: Any  # (length,), where each is counted by the thermometer; negative: nowhere
    kept: Any  # places of the steps kept, padded with `length`
    temperature: Array


class ChunkRecord(NamedTuple):
    """What is noted: of each step made, and of each step kept; JAX arrays, then NumPy's."""

    draws: Any  # of the steps kept; None where only moments are
    gradient_norm: Any  # of the steps kept, as the next two
    kinetic_temperature: Any
    accepted: Any
    potential: Any  # (length + 1,), of each step's batch, and after the last; NaN where there are gradients only
    is_alive: Any  # (length + 1,), of the draw before the chunk, and of each step's
    cuts: Any  # (length,)
    largest_step: Any  # (length,)


class StepRecord(NamedTuple):
    """What is noted of one step."""

    position: PyTree
    potential: Array
    gradient_norm: Array
    kinetic_temperature: Array
    accepted: Array
    is_good: Array
    """Whether the evaluation was finite, and with it the state that the step began with."""
    is_alive: Array
    cuts: Array
    largest_step: Array


@sound_filter_jit
def run_chunk(
    kernel: Kernel, batches: Minibatches | None, keeping: Keeping, chain: Chain, span: ChunkPlan
) -> tuple[Chain, ChunkRecord]:
    """The first `span.made` of the steps; one compilation serves every chunk of a run.

    With keys of a group all leaves of `chain` have a leading axis: g chains on the same batches.
    """
    is_group = span.keys.ndim == 3
    length = span.steps.size
    draws = _draws_ahead(kernel, chain, span, is_group)
    is_kept = jnp.zeros((length,), bool).at[span.kept].set(True, mode="drop")
    was_kept = jnp.concatenate([jnp.asarray(span.was_kept)[None], is_kept])
    start = chain

    def one(chain: Chain, draw: Any, batch: PyTree, step_size: Array, row: Array, was_kept: Array, made: Array) -> Any:
        return _step(kernel, keeping, chain, draw, batch, step_size, span.temperature, row, was_kept, made)

    step = jax.vmap(one, in_axes=(0, 0, None, None, None, None, None)) if is_group else one

    def body(i: Array, carry: tuple[Chain, StepRecord]) -> tuple[Chain, StepRecord]:
        chain, notes = carry
        # one beyond the last step is not made: it only evaluates, on that step's batch
        made = jnp.minimum(i, span.made - 1)
        draw, place, step_size, row = jax.tree.map(
            lambda leaf: jax.lax.dynamic_index_in_dim(leaf, made, keepdims=False),
            (draws, span.places, span.step_sizes, jnp.asarray(span.rows)),
        )
        batch = None if batches is None else batches.at(place)
        chain, note = step(chain, draw, batch, step_size, row, was_kept[i], i < span.made)
        write = jax.lax.dynamic_update_index_in_dim
        return chain, jax.tree.map(lambda notes, note: write(notes, note, i, 0), notes, note)

    blank = (
        jax.vmap(lambda chain: blank_note(chain, keeping.draws is not None))
        if is_group
        else lambda chain: blank_note(chain, keeping.draws is not None)
    )
    notes = jax.tree.map(lambda leaf: jnp.zeros((length + 1, *leaf.shape), leaf.dtype), jax.eval_shape(blank, chain))
    # not a scan: how many steps are made is known when it runs, and a chunk cut short is the same program
    chain, notes = jax.lax.fori_loop(0, span.made + span.is_last, body, (chain, notes))

    def settled(start: Chain, chain: Chain, notes: StepRecord) -> tuple[Chain, Array]:
        return _settled(start, chain, notes, span)

    settle = jax.vmap(settled, in_axes=(0, 0, 1), out_axes=(0, 1)) if is_group else settled
    chain, is_alive = settle(start, chain, notes)
    return chain, _visit(notes, is_alive, keeping, span.kept, is_group)


def _draws_ahead(kernel: Kernel, chain: Chain, span: ChunkPlan, is_group: bool) -> Any:
    """The random numbers of every step, (length, ...), for a group (length, g, ...)."""

    def of_one(keys: Array, phase: Phase) -> Any:
        keys = keys[:, Purpose.STEP]
        if isinstance(kernel.integrator, Leapfrog):
            return keys
        setting = Setting(span.step_sizes[0], span.temperature, None, span.steps[0])
        return jax.vmap(lambda key: kernel.integrator.draw(kernel.recipe, phase, key, setting))(keys)

    phase = chain.state.phase
    return jax.vmap(of_one, out_axes=1)(span.keys, phase) if is_group else of_one(span.keys, phase)


def _step(
    kernel: Kernel,
    keeping: Keeping,
    chain: Chain,
    draw: Any,
    batch: PyTree,
    step_size: Array,
    temperature: Array,
    row: Array,
    was_kept: Array,
    is_made: Array,
) -> tuple[Chain, StepRecord]:
    new, info = advanced(kernel, chain, draw, batch, step_size, temperature)
    note = noted(kernel, chain, info, all_finite(new.phase))
    state = jax.tree.map(lambda a, b: jnp.where(note.is_alive & is_made, a, b), new, chain.state)
    averages = chain.averages
    if averages is not None:  # the draw of the step before, now that what follows it is known to be finite
        averages = counted(averages, keeping, chain.state.phase.position, was_kept, note.is_good)
    squares = chain.squares
    if squares is not None:
        squares = add_squares(squares, info.mean_momentum, row, note.is_alive & is_made & (row >= 0))
    note = note._replace(position=None if keeping.draws is None else state.phase.position)
    return Chain(state, note.is_alive, chain.before, averages, chain.reference, squares), note


def advanced(
    kernel: Kernel, chain: Chain, draw: Any, batch: PyTree, step_size: Array, temperature: Array
) -> tuple[State, StepInfo]:
    """A step of the chain; of a trajectory `draw` is its key."""
    if chain.reference is not None:
        kernel = with_reference(kernel, chain.reference)
    advance = kernel.step if isinstance(kernel.integrator, Leapfrog) else kernel.step_with
    return advance(chain.state, draw, step_size, batch, temperature)


def noted(kernel: Kernel, chain: Chain, info: StepInfo, is_finite: Array) -> StepRecord:
    """What is noted of a step, without its position. `is_finite`: whether the phase after it is."""
    is_good = chain.is_alive & is_finite_evaluation(info, is_finite)
    is_alive = is_good & is_finite
    dtype = tree.common_dtype(chain.state.phase.position)
    return StepRecord(
        None,
        jnp.asarray(info.potential, dtype),
        info.gradient_norm,
        kinetic_temperature(kernel, info.after_friction),
        info.accepted,
        is_good,
        is_alive,
        jnp.where(is_alive, info.cuts, 0),
        jnp.asarray(info.largest_step, dtype),
    )


def counted(averages: Averages, keeping: Keeping, position: PyTree, was_kept: Array, is_good: Array) -> Averages:
    """With this draw, if it was to be kept."""
    if keeping.is_plain:
        return add_to_averages(averages, keeping, position, was_kept & is_good)
    # a function of the user's may cost more than a step: it is not called where its value is not wanted
    return jax.lax.cond(
        was_kept, lambda a: add_to_averages(a, keeping, position, is_good), lambda a: a, averages
    )  # fmt: skip


def is_finite_evaluation(info: StepInfo, is_finite: Array) -> Array:
    """Whether potential and gradient were finite; `is_finite`: whether the phase after the step is. A length that
    overflows where the gradient itself does not leaves the phase finite."""
    is_gradient = is_finite | jnp.isfinite(info.gradient_norm)
    return is_gradient if info.potential is None else is_gradient & jnp.isfinite(info.potential)


def _settled(start: Chain, chain: Chain, notes: StepRecord, span: ChunkPlan) -> tuple[Chain, Array]:
    """The chain after its chunk, and which draws stand, from the one before the chunk on.

    A draw stands if its own step and the evaluation of the next one were finite; that of the chunk's last step until
    the next chunk tells. A chain that is not alive goes back to the last position that stands.
    """
    steps = jnp.arange(len(notes.is_good), dtype=jnp.int32)
    after = notes.is_good | (steps >= span.made + span.is_last)
    is_alive = after & jnp.concatenate([start.is_alive[None], notes.is_alive[:-1]])
    is_alive = is_alive | (steps > span.made)  # of which nothing is known, and nobody asks
    chain = chain._replace(is_alive=is_alive[span.made])
    if start.before is None:
        return chain, is_alive
    # positions at places 0 (one step before the chunk), 1 (its start), 2 (after its first step), ...
    first_bad = jnp.where(is_alive.all(), span.made, jnp.argmin(is_alive).astype(jnp.int32))

    def at(place: Array) -> PyTree:
        def leaf(before: Array, start: Array, later: Array) -> Array:
            in_chunk = jax.lax.dynamic_index_in_dim(later, jnp.maximum(place - 2, 0), keepdims=False)
            return jnp.where(place >= 2, in_chunk, jnp.where(place == 1, start, before))

        return jax.tree.map(leaf, start.before, start.state.phase.position, notes.position)

    before = at(first_bad)
    position = jax.tree.map(
        lambda here, back: jnp.where(chain.is_alive, here, back), chain.state.phase.position, before
    )
    state = chain.state._replace(phase=chain.state.phase._replace(position=position))
    return chain._replace(state=state, before=before), is_alive


def blank_note(chain: Chain, has_position: bool) -> StepRecord:
    """A note without values, for its shapes."""
    position = chain.state.phase.position
    number = jnp.zeros((), tree.common_dtype(position))
    truth, whole = jnp.zeros((), bool), jnp.zeros((), jnp.int32)
    return StepRecord(position if has_position else None, number, number, number, truth, truth, truth, whole, number)


def _visit(notes: StepRecord, is_alive: Array, keeping: Keeping, kept: Array, is_group: bool) -> ChunkRecord:
    def chosen(leaf: PyTree) -> PyTree:
        return jax.tree.map(lambda x: jnp.take(x, kept, axis=0, mode="clip"), leaf)

    draws = None
    if keeping.draws is not None:
        function = jax.vmap(keeping.drawn) if is_group else keeping.drawn
        draws = jax.vmap(function)(chosen(notes.position))
    return ChunkRecord(
        draws,
        chosen(notes.gradient_norm),
        chosen(notes.kinetic_temperature),
        chosen(notes.accepted),
        notes.potential,
        is_alive,
        notes.cuts,
        notes.largest_step,
    )


def standing(draws: PyTree, is_alive: np.ndarray, last: PyTree) -> PyTree:
    """The draws of a chunk, (draw, ...), with those that do not stand replaced by where the chain stays."""

    def leaf(drawn: np.ndarray, last: Any) -> np.ndarray:
        drawn = np.array(drawn)
        drawn[~is_alive] = last
        return drawn

    return jax.tree.map(leaf, draws, last)


def all_finite(phase: Phase) -> Array:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(phase)]))


def kinetic_temperature(kernel: Kernel, phase: Phase) -> Array:
    """r^T M^-1 r / d over the Gaussian momenta, on average T; NaN where there is none."""
    dtype = tree.common_dtype(phase.position)
    names = [name for name in kernel.recipe.momenta if isinstance(kernel.recipe.energy[name], Gaussian)]
    if not names:
        return jnp.asarray(jnp.nan, dtype)
    energies = [kernel.recipe.energy[name].value(Point(phase), name) for name in names]
    count = sum(tree.size(getattr(phase, name)) for name in names)
    return jnp.asarray(2 / count * sum(energies[1:], start=energies[0]), dtype)


def with_reference(kernel: Kernel, reference: PyTree) -> Kernel:
    """The kernel whose target has this centre, gradient and potential."""
    return eqx.tree_at(lambda k: (k.target.centre, k.target.gradient, k.target.centre_potential), kernel, reference)
