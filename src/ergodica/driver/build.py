"""From a request to a plan: the kernel, the chains at their start, their batches, and their pace."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica import tree
from ergodica.driver.constrained import as_begun
from ergodica.driver.draws import DrawShape, check_room
from ergodica.driver.engine import Chains, Engine, threads_for
from ergodica.driver.loop import Pace
from ergodica.driver.minibatches import Minibatches, ShuffledCopy, batches_for, kind_for
from ergodica.driver.request import Request
from ergodica.driver.schedules import StepSizes
from ergodica.driver.starts import Motion, Starts
from ergodica.errors import InputError
from ergodica.host.progress import spinner
from ergodica.host.threads import Threads
from ergodica.host.tracing import versions
from ergodica.host.validate import kind_of
from ergodica.integrators import Kernel, State
from ergodica.output.labelled import named
from ergodica.targets import DataTarget

if TYPE_CHECKING:
    from ergodica.driver.streamed import Feed


@dataclass
class Plan:
    """A run that is ready to go: everything checked, nothing compiled yet but what looks at the start."""

    request: Request
    kernel: Kernel
    state: State
    chains: Chains
    pace: Pace
    shape: DrawShape
    settings: dict[str, Any]
    is_paired: bool

    def extend(self, steps: int) -> None:
        """More steps; those made stay, as where a finished run is resumed with more."""
        self.request = replace(self.request, steps=steps)
        self.chains.kept, self.chains.sizes = self.request.kept, StepSizes(self.request.step_size, self.request.total)
        self.pace.total, self.settings["steps"] = self.request.total, steps

    def identity(self, step: int) -> dict[str, Any]:
        """What must be the same for a run to be resumed at `step`; of its steps' sizes those before it."""
        from ergodica.driver.identity import batch_like, coordinates_digest, data_digest, numbers_of, step_digest

        free = ("steps", "step_size", "started", "recipe", "starts", "start_widths", "friction", "least_friction")
        same = {name: value for name, value in self.settings.items() if name not in free}
        kernel, request = self.kernel, self.request
        batch = batch_like(request.target, request.batch_size, self.is_paired)
        same["recipe"] = numbers_of((kernel.recipe, kernel.integrator, kernel.gradient_noise))
        same["model"] = step_digest(self.chains.kernel, self.state, batch, request.keeping)
        if request.target.coordinates is not None:  # its arrays are arguments of the step, and not in its digest
            same["coordinates"] = coordinates_digest(request.target.coordinates)
        same["data"] = data_digest(request.target)
        same["step_size"] = self.chains.sizes.digest(step)
        return same


def plan_of(request: Request, is_resumed: bool) -> Plan:
    """The chains at their start; of a run that is resumed without the search for a mode, which it has behind it."""
    request = as_begun(request)
    threads = threads_for(request.chains)
    try:
        if request.recipe.learns_scale or not isinstance(request.warmup, int):
            request = _warmed(request, threads, is_resumed)
        return _plan(request, _kernel(request), threads, is_resumed)
    except BaseException:
        threads.close()
        raise


def _kernel(request: Request) -> Kernel:
    return Kernel(request.target, request.recipe, request.integrator, request.gradient_noise, request.resample_every)


def _warmed(request: Request, threads: Threads, is_resumed: bool) -> Request:
    """The request from where an optimiser took the chains, and with the scale that it learned.

    Of a run that is resumed it is done again where a scale is learned, which is part of the recipe: same seed, same
    bits.
    """
    from ergodica.driver.optimise import Optimise, begun_from, for_scale, optimised
    from ergodica.samplers.preconditioned import scale_of, scaled_recipe

    warmup = request.warmup if isinstance(request.warmup, Optimise) else None
    if warmup is None and not isinstance(request.warmup, int):
        raise InputError(f"warmup is {kind_of(request.warmup)}: expected a number of steps, or eg.Optimise(...)")
    if not request.target.has_potential:
        raise InputError("eg.Optimise and eg.preconditioned need a target that is evaluated in JAX, not eg.External")
    if warmup is not None and request.recipe.learns_scale and request.batch_size is None:
        raise InputError(
            "eg.preconditioned learns from gradients, and those of all data vanish where an optimiser arrives: give a "
            "batch_size, warmup=0 to learn at the starts, or the scales themselves, eg.sghmc(scale=...)"
        )
    if is_resumed and warmup is not None and not request.recipe.learns_scale:
        return begun_from(request, _starts(request), request.recipe, request.settling)
    # without an optimiser all chains begin as they would, by the scale that is found where the first one begins
    starts = _starts(request) if warmup is not None else [Starts(_kernel(request), request).first().phase.position]
    alone = replace(request, chains=len(starts))
    held, batches, feed = _batches(alone, _kernel(request), False, None)
    try:
        with spinner("optimising" if warmup else "measuring gradients", request.progress):
            positions, squares = optimised(
                warmup or for_scale(), held.target, batches, starts, request.seed, threads, feed
            )
    finally:
        if feed is not None:
            feed.close()
    recipe = scaled_recipe(request.recipe, scale_of(squares)) if request.recipe.learns_scale else request.recipe
    if warmup is None:
        return replace(request, recipe=recipe)
    return begun_from(request, positions, recipe, request.settling)


def _starts(request: Request) -> list[PyTree]:
    """Of all chains, as they would begin without a warm-up."""
    kernel = _kernel(request)
    starts = Starts(kernel, request)
    first = starts.first()
    if starts.is_spread:
        sizes = StepSizes(request.step_size, request.total)
        starts.jitter(Motion(kernel, first, request.temperature), float(sizes.between(0, 1)[0]))
    return [state.phase.position for state in (first, *starts.others())]


def _plan(request: Request, kernel: Kernel, threads: Threads, is_resumed: bool) -> Plan:
    copy = _copy_begun(request, kernel, threads)
    sizes = StepSizes(request.step_size, request.total)
    starts = Starts(kernel, request)
    first = starts.first()
    motion = Motion(kernel, first, request.temperature)
    if starts.is_spread:
        starts.jitter(motion, float(sizes.between(0, 1)[0]))
    states = [first, *starts.others()]
    shape = _shape(request, first.phase.position)
    is_paired = request.batch_size is not None and kernel.recipe.reads_potential(first.phase)
    request.check_batches(kernel, is_paired)
    if request.out is None:
        check_room(shape, request.kept.draws)  # before the search for a mode, which may take a while
    if request.target.has_potential:
        references, own, estimated = None, [None] * len(states), kernel
        if request.estimator is not None:
            from ergodica.gradients.control import References

            references = References(request.estimator, request.target)
            positions = [state.phase.position for state in states]
            own = references.blank(positions) if is_resumed else references.begin(positions)
            if references.whitening is not None and starts.is_spread:
                starts.laplace(references.whitening)
                states = [first, *starts.others()]
            estimated = references.kernel(kernel, own)
        held, batches, feed = _batches(request, estimated, is_paired, copy)
        chains: Chains = Engine(
            held, request, sizes, states, threads, own=own, references=references, batches=batches, feed=feed
        )
    else:
        from ergodica.driver.external import ExternalEngine

        chains = ExternalEngine(kernel, request, sizes, states, threads)
    settings = request.described(kernel) | starts.words([chain.state.phase.position for chain in chains.chains])
    if motion.bath is not None and not callable(request.step_size):
        chains.measure(motion.bath)
    settings["thermometer"] = None
    if chains.bath is not None:
        leaves = {name: list(leaf.shape) for name, leaf in named(first.phase.position).items()}
        settings["thermometer"] = {"coordinates": chains.bath.kind, "leaves": leaves}
        settings["least_friction"] = float(np.min(chains.bath.rates()[0]))
    settings |= {"friction": motion.friction, "batches": chains.batch_kind, "versions": versions()}
    settings["started"] = datetime.now(UTC).isoformat(timespec="seconds")
    pace = Pace(chains.length, request.total, chains.refresh, chains.program())
    return Plan(request, kernel, first, chains, pace, shape, settings, is_paired)


def _is_compensated(kernel: Kernel) -> bool:
    return kernel.gradient_noise is not None or kernel.recipe.gradient_noise is not None


def _copy_begun(request: Request, kernel: Kernel, threads: Threads) -> ShuffledCopy | None:
    """The copy of the rows that windows are cut from, made while the starts are looked at, and before it is known
    whether batches come in pairs, which are shorter.

    Not during the search for a mode, which may need the memory; and what cannot be right is left to those who refuse
    it.
    """
    target, size = request.target, request.batch_size
    if size is None or request.estimator is not None or not isinstance(target, DataTarget):
        return None
    if target.source is not None or target.data is None or size > target.size:
        return None
    if kind_for(target.size, size, _is_compensated(kernel), request.batches) != "windows":
        return None
    return ShuffledCopy(target.data, target.size, size - 1, request.seed, threads)


def _shape(request: Request, position: PyTree) -> DrawShape:
    dtype, keeping = np.dtype(tree.common_dtype(position)), request.keeping
    if keeping.draws is None:
        return DrawShape(None, request.chains, dtype)
    if isinstance(keeping.draws, str) and keeping.coordinates is None:  # tracing would take longer than many steps
        one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), position)
        return DrawShape(one, request.chains, dtype)
    return DrawShape(kept_shapes(keeping.drawn, position), request.chains, dtype)


def kept_shapes(keep: Callable[[PyTree], PyTree], position: PyTree) -> PyTree:
    """Of what a function keeps of one position."""
    one = jax.eval_shape(lambda q: jax.tree.map(jnp.asarray, keep(q)), position)
    if not jax.tree.leaves(one):
        raise InputError("the function given as keep returned no arrays: expected what is to be kept of a position")
    return one


def _batches(
    request: Request, kernel: Kernel, is_paired: bool, copy: ShuffledCopy | None
) -> "tuple[Kernel, Minibatches | None, Feed | None]":
    """The kernel that the compiled step holds, and where its batches come from: without batches it holds all rows, as
    an argument."""
    target, size, source = request.target, request.batch_size, request.target.source
    if size is None:
        if target.data is None:
            return kernel, None, None
        if source is not None:
            raise InputError(
                "the data of this target stay on disk, so a compiled step cannot go through all of them: give "
                "batch_size, or target.loaded() if they fit in memory"
            )
        rows = jax.tree.map(jnp.asarray, target.data)
        return eqx.tree_at(lambda k: k.target.data, kernel, rows), None, None
    light = eqx.tree_at(lambda k: k.target, kernel, kernel.target.without_data())
    is_compensated = _is_compensated(kernel)
    if source is None:
        assert isinstance(target, DataTarget)
        found = batches_for(target, size, is_paired, is_compensated, request.seed, request.batches, copy)
        return light, found, None
    if is_compensated:
        raise InputError(
            "data on disk are read in epochs, whose gradients are not independent from step to step, and subtracting "
            "their noise would be wrong: use gradient_noise=None, or target.loaded() if the data fit in memory"
        )
    from ergodica.data import Batches, open_stream
    from ergodica.driver.streamed import Feed, Handed

    stream, lanes = open_stream(source, size, request.seed, is_paired), 1 if request.share_batches else request.chains
    kind = "as given" if isinstance(source, Batches) else "epochs"
    return light, Handed(kind, size, is_paired), Feed(stream, lanes, source.row_bytes() * size)
