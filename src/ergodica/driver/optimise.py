"""Before the first step of a sampler: an optimiser takes chains from their starts to where the posterior is, and the
squares of its gradients give each coordinate a scale."""

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.driver.large import LARGE_OPTIONS
from ergodica.driver.minibatches import Gathered, Minibatches
from ergodica.driver.request import PerChain, Request
from ergodica.errors import InputError
from ergodica.host.threads import Threads
from ergodica.host.validate import kind_of, whole
from ergodica.recipe import Recipe
from ergodica.targets import Target
from ergodica.targets.domain import fold, leaf_boxes
from ergodica.tree import first_non_finite

if TYPE_CHECKING:
    from ergodica.driver.streamed import Feed

OPTIMISED_AT_A_TIME = 500  # steps
SCALE_BATCHES = 200  # gradients at the starts, for a scale without an optimiser
PURPOSE = 7  # of the random numbers, beside those of keys.Purpose


class Optimise(eqx.Module):
    """`warmup=eg.Optimise(optax.adamw(1e-3), steps=2_000)`: every chain begins where an optimiser takes it.

    Use it for networks, whose posterior no sampler finds from a random start. Each chain has its own start and its own
    batches: chains of different starts (`init=function`) are an ensemble. The gradient is that of U/N, the mean loss of
    a row, so that learning rates are the usual ones. After the last of these steps nothing adaptive is left: an
    optimiser that goes on clipping or rescaling noisy gradients while it samples has another law.

    Args:
        optimiser: an optax.GradientTransformation, with any schedule, clipping or weight decay.
        steps: how many.
        settle: steps of the sampler, after these, before the first draw is kept.

    Example:
        >>> import optax, ergodica as eg
        >>> warmup = eg.Optimise(optax.adam(0.1), steps=50)
        >>> run = eg.sample(eg.gallery.gaussian(2), eg.sghmc(), steps=100, step_size=0.3, chains=2, warmup=warmup)
        >>> run.posterior.shape
        (2, 100, 2)
    """

    optimiser: Any
    steps: int = eqx.field(static=True)
    settle: int = eqx.field(static=True)

    def __init__(self, optimiser: Any, steps: int, settle: int = 0):
        if not isinstance(optimiser, optax.GradientTransformation):
            raise InputError(f"eg.Optimise takes an optax optimiser, as optax.adamw(1e-3), got {kind_of(optimiser)}")
        self.optimiser = optimiser
        self.steps = whole("eg.Optimise: steps", steps, 1)
        self.settle = whole("eg.Optimise: settle", settle, 0)


def for_scale() -> Optimise:
    """One that stays where it is, and measures gradients."""
    return Optimise(optax.set_to_zero(), SCALE_BATCHES)


class _Carry(eqx.Module):
    position: PyTree
    state: PyTree
    squares: PyTree
    potential: Array


def optimised(
    warmup: Optimise,
    target: Target,
    batches: Minibatches | None,
    positions: list[PyTree],
    seed: int,
    threads: Threads,
    feed: "Feed | None",
) -> tuple[list[PyTree], PyTree]:
    """Where the optimiser takes each chain, and the mean squared gradient of U/N in the second half of its steps."""
    chains = [_begun(warmup, jax.tree.map(jnp.asarray, position)) for position in positions]
    generators = [np.random.default_rng([seed, chain, PURPOSE]) for chain in range(len(chains))]
    half, length = warmup.steps // 2, min(OPTIMISED_AT_A_TIME, warmup.steps)
    if feed is not None:
        length = min(length, feed.longest)
    for first in range(0, warmup.steps, length):
        count = min(length, warmup.steps - first)
        following = max(0, min(length, warmup.steps - first - count))
        if feed is not None:
            places = feed.take(count, following, length)
        else:
            places = [_places(batches, generator, length) for generator in generators]
        counted = np.int32(half - first)
        jobs = [
            threads.submit(_optimise, warmup.optimiser, target, batches, chain, place, np.int32(count), counted)
            for chain, place in zip(chains, places, strict=True)
        ]
        chains = [job.result() for job in jobs]
        for number, chain in enumerate(chains):
            _check_finite(chain, number, first + count)
    total = jax.tree.map(lambda *leaves: sum(leaves) / len(leaves), *(chain.squares for chain in chains))
    return [chain.position for chain in chains], jax.tree.map(lambda leaf: leaf / (warmup.steps - half), total)


def _begun(warmup: Optimise, position: PyTree) -> _Carry:
    state = jax.tree.map(jnp.asarray, warmup.optimiser.init(position))
    return _Carry(position, state, jax.tree.map(jnp.zeros_like, position), jnp.zeros(()))


def _check_finite(chain: _Carry, number: int, made: int) -> None:
    bad = first_non_finite(chain.position, "position")
    if bad is not None or not np.isfinite(chain.potential):
        raise InputError(
            f"the optimiser of the warm-up lost chain {number} within {made} steps: "
            f"{bad or f'the potential is {chain.potential}'}; try a smaller learning rate, optax.clip_by_global_norm "
            "before it, or another start"
        )


def _places(batches: Minibatches | None, generator: np.random.Generator, length: int) -> PyTree:
    """Random ones, (length, 1, ...), as `Minibatches.at` takes them."""
    if batches is None:
        return None
    rows: Any = batches
    shape = (length, 1, rows.length) if isinstance(batches, Gathered) else (length, 1)
    return generator.integers(rows.size, size=shape, dtype=np.int32)


@partial(eqx.filter_jit, compiler_options=LARGE_OPTIONS)  # type: ignore[call-overload]
def _optimise(
    optimiser: Any, target: Target, batches: Minibatches | None, carry: _Carry, places: PyTree, made: Any, half: Any
) -> _Carry:
    rows = target.size or 1

    def one(i: Array, carry: _Carry) -> _Carry:
        place = jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, i, keepdims=False), places)
        batch = None if batches is None else batches.at(place)
        potential, gradient = target.evaluate(carry.position, batch)
        gradient = jax.tree.map(lambda leaf: leaf / rows, gradient)
        with jax.numpy_dtype_promotion("standard"):  # optax needs it, whatever the user has set
            updates, state = optimiser.update(gradient, carry.state, carry.position)
            position = _inside(target.domain, optax.apply_updates(carry.position, updates))
        share = (i >= half).astype(jnp.int32)
        squares = jax.tree.map(lambda sums, g: sums + tree.cast(share, g) * g * g, carry.squares, gradient)
        return _Carry(position, state, squares, jnp.asarray(potential, carry.potential.dtype))

    return jax.lax.fori_loop(0, made, one, carry)


def _inside(domain: PyTree, position: PyTree) -> PyTree:
    if domain is None:
        return position
    leaves, structure = jax.tree.flatten(position)
    pairs = zip(leaf_boxes(domain, position), leaves, strict=True)
    return jax.tree.unflatten(structure, [fold(box, leaf)[0] for box, leaf in pairs])


def begun_from(request: Request, positions: list[PyTree], recipe: Recipe, settle: int) -> Request:
    """The request, from there: what is left of the warm-up are the sampler's own steps."""
    started = PerChain(tuple(positions), request.target.coordinates)
    return replace(request, init=started, recipe=recipe, warmup=settle)
