"""A chunk: many steps of a chain in one compiled call, with its random numbers drawn ahead of the loop."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.compiling import sound_filter_jit
from ergodica.driver.batches import Batches
from ergodica.driver.keys import Purpose
from ergodica.driver.moments import Running, add_draw
from ergodica.energy import Gaussian
from ergodica.integrators import Kernel, Leapfrog, Setting, State
from ergodica.phase import Phase, Point

LONGEST = 4_000  # of one or two chains; what a chunk costs beside its steps is a tenth at a thousand
SHORT = 2_000  # of many chains, where a chunk of all of them takes two seconds
SHARED = 1_000  # of chains on the same batches, whose random numbers of a chunk should stay in the cache
NUMBERS = 2**22  # of random numbers and draws held at a time, in the size of the position


def chunk_length(position: PyTree, chains: int, is_shared: bool = False) -> int:
    """One for a run, at least 2: XLA would round a loop of one step differently."""
    longest = SHARED if is_shared else max(SHORT, 2 * LONGEST // max(2, chains))
    return int(max(2, min(longest, NUMBERS // max(1, tree.size(position)))))


class Chain(NamedTuple):
    """A chain between two chunks: all that a checkpoint must hold of it."""

    state: State
    is_alive: Array
    """False once a step would have left the finite numbers: the state stays as it was before it."""
    moments: Running | None = None
    reference: PyTree = None
    """Of a gradient estimator that has one for each chain: centre, gradient, potential."""


class Span(NamedTuple):
    """Which steps a chunk makes, and with what."""

    keys: Array  # (length, 3); (g, length, 3) for a group of chains on the same batches
    places: PyTree  # of the batches, (length, ...)
    steps: Any  # (length,), as the next two from NumPy
    step_sizes: Any  # (length,)
    made: Any  # how many of them are made
    kept: Any  # places of the steps kept, padded with `length`
    temperature: Array


class Visit(NamedTuple):
    """What is noted: of each step made, and of each step kept; JAX arrays, then NumPy's."""

    draws: Any  # of the steps kept; None where only moments are
    gradient_norm: Any  # of the steps kept, as the next two
    kinetic_temperature: Any
    accepted: Any
    potential: Any  # (length,), of each step's batch; NaN where the target gives gradients only
    is_alive: Any  # (length,)
    cuts: Any  # (length,)
    largest_step: Any  # (length,)


class Note(NamedTuple):
    """What is noted of one step."""

    position: PyTree
    potential: Array
    gradient_norm: Array
    kinetic_temperature: Array
    accepted: Array
    is_alive: Array
    cuts: Array
    largest_step: Array


@sound_filter_jit
def run_chunk(
    kernel: Kernel, batches: Batches | None, keep: str | Callable, chain: Chain, span: Span
) -> tuple[Chain, Visit]:
    """The first `span.made` of the steps; one compilation serves every chunk of a run.

    With keys of a group all leaves of `chain` have a leading axis: g chains on the same batches.
    """
    is_group = span.keys.ndim == 3
    length = span.steps.size
    draws = _draws_ahead(kernel, chain, span, is_group)
    is_kept = jnp.zeros((length,), bool).at[span.kept].set(True, mode="drop")

    def one(chain: Chain, draw: Any, batch: PyTree, step_size: Array, is_kept: Array) -> tuple[Chain, Note]:
        return _step(kernel, keep, chain, draw, batch, step_size, span.temperature, is_kept)

    step = jax.vmap(one, in_axes=(0, 0, None, None, None)) if is_group else one

    def body(i: Array, carry: tuple[Chain, Note]) -> tuple[Chain, Note]:
        chain, notes = carry
        draw, place, step_size, is_kept_now = jax.tree.map(
            lambda leaf: jax.lax.dynamic_index_in_dim(leaf, i, keepdims=False),
            (draws, span.places, span.step_sizes, is_kept),
        )
        batch = None if batches is None else batches.at(place)
        chain, note = step(chain, draw, batch, step_size, is_kept_now)
        write = jax.lax.dynamic_update_index_in_dim
        return chain, jax.tree.map(lambda notes, note: write(notes, note, i, 0), notes, note)

    blank = jax.vmap(lambda chain: _blank(chain, keep)) if is_group else lambda chain: _blank(chain, keep)
    notes = jax.tree.map(lambda leaf: jnp.zeros((length, *leaf.shape), leaf.dtype), jax.eval_shape(blank, chain))
    # not a scan: how many steps are made is known when it runs, and a chunk cut short is the same program
    chain, notes = jax.lax.fori_loop(0, span.made, body, (chain, notes))
    return chain, _visit(notes, keep, span.kept, is_group)


def _draws_ahead(kernel: Kernel, chain: Chain, span: Span, is_group: bool) -> Any:
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
    keep: str | Callable,
    chain: Chain,
    draw: Any,
    batch: PyTree,
    step_size: Array,
    temperature: Array,
    is_kept: Array,
) -> tuple[Chain, Note]:
    if chain.reference is not None:
        kernel = with_reference(kernel, chain.reference)
    advance = kernel.step if isinstance(kernel.integrator, Leapfrog) else kernel.step_with
    new, info = advance(chain.state, draw, step_size, batch, temperature)
    is_alive = chain.is_alive & all_finite(new.phase)
    state = jax.tree.map(lambda a, b: jnp.where(is_alive, a, b), new, chain.state)
    position = state.phase.position
    dtype = tree.common_dtype(position)
    note = Note(
        None if keep == "moments" else position,
        jnp.asarray(info.potential, dtype),
        info.gradient_norm,
        kinetic_temperature(kernel, info.rubbed),
        info.accepted,
        is_alive,
        jnp.where(is_alive, info.cuts, 0),
        jnp.asarray(info.largest_step, dtype),
    )
    moments = None if chain.moments is None else add_draw(chain.moments, position, is_kept & is_alive)
    return Chain(state, is_alive, moments, chain.reference), note


def _blank(chain: Chain, keep: str | Callable) -> Note:
    """A note without values, for its shapes."""
    position = chain.state.phase.position
    number = jnp.zeros((), tree.common_dtype(position))
    truth, whole = jnp.zeros((), bool), jnp.zeros((), jnp.int32)
    return Note(None if keep == "moments" else position, number, number, number, truth, truth, whole, number)


def _visit(notes: Note, keep: str | Callable, kept: Array, is_group: bool) -> Visit:
    def chosen(leaf: PyTree) -> PyTree:
        return jax.tree.map(lambda x: jnp.take(x, kept, axis=0, mode="clip"), leaf)

    draws = None if keep == "moments" else chosen(notes.position)
    if callable(keep):
        function = jax.vmap(keep) if is_group else keep
        draws = jax.vmap(function)(draws)
    return Visit(
        draws,
        chosen(notes.gradient_norm),
        chosen(notes.kinetic_temperature),
        chosen(notes.accepted),
        notes.potential,
        notes.is_alive,
        notes.cuts,
        notes.largest_step,
    )


def all_finite(phase: Phase) -> Array:
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(phase)]))


def kinetic_temperature(kernel: Kernel, phase: Phase) -> Array:
    """r^T M^-1 r / d over the Gaussian momenta, in the mean T; NaN where there is none."""
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
