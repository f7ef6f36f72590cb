"""From a request to a plan: the kernel, the chains at their start, their batches, and their pace."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica import data, tree
from ergodica.driver.chunk import chunk_length
from ergodica.driver.draws import DrawShape, KeptSteps, check_room
from ergodica.driver.engine import Engine, threads_for
from ergodica.driver.external import ExternalEngine
from ergodica.driver.identity import batch_like, data_digest, numbers_of, step_digest, versions
from ergodica.driver.loop import Pace
from ergodica.driver.minibatches import Batches, Numbered, ShuffledCopy, batches_for, copy_for
from ergodica.driver.request import Request
from ergodica.driver.schedules import StepSizes
from ergodica.driver.starts import Starts, motion_of
from ergodica.driver.streamed import Feed, FromDisk, Given, feed_length
from ergodica.driver.work import Chains
from ergodica.errors import InputError
from ergodica.gradients.control import References
from ergodica.host.threads import Threads
from ergodica.integrators import Kernel, State
from ergodica.targets import Posterior

MOST_ROW_NUMBERS = 2**24  # numbers of rows that are drawn ahead for a chunk of one chain


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

    def identity(self, step: int) -> dict[str, Any]:
        """What must be the same for a run to be resumed at `step`; of its steps' sizes those before it."""
        free = ("steps", "step_size", "started", "recipe", "starts", "start_widths", "friction")
        same = {name: value for name, value in self.settings.items() if name not in free}
        kernel, request = self.kernel, self.request
        batch = batch_like(request.target, request.batch_size, self.is_paired)
        same["recipe"] = numbers_of((kernel.recipe, kernel.integrator, kernel.gradient_noise))
        same["model"] = step_digest(self.chains.kernel, self.state, batch, request.keep)
        same["data"] = data_digest(request.target)
        same["step_size"] = self.chains.sizes.digest(step)
        return same


def plan_of(request: Request, is_resumed: bool) -> Plan:
    """The chains at their start; of a run that is resumed without the search for a mode, which it has behind it."""
    kernel = Kernel(request.target, request.recipe, request.integrator, request.gradient_noise, request.resample_every)
    threads = threads_for(request.chains)
    try:
        return _plan(request, kernel, threads, is_resumed)
    except BaseException:
        threads.close()
        raise


def _copy_begun(request: Request, kernel: Kernel, threads: Threads) -> ShuffledCopy | None:
    """The copy of the rows that windows are cut from: made while the starts are looked at. Not during the search for a
    mode, which may need the memory; and what cannot be right is left to those who refuse it."""
    target, size = request.target, request.batch_size
    if size is None or request.estimator is not None or not isinstance(target, Posterior):
        return None
    if target.source is not None or target.data is None or size > target.size:
        return None
    return copy_for(target, size, _is_compensated(kernel), request.seed, request.batches, threads)


def _plan(request: Request, kernel: Kernel, threads: Threads, is_resumed: bool) -> Plan:
    copy = _copy_begun(request, kernel, threads)
    sizes = StepSizes(request.step_size, request.total)
    starts = Starts(kernel, request)
    first = starts.first()
    motion = motion_of(kernel, first, request.temperature)
    if starts.is_spread:
        starts.jitter(motion, float(sizes.between(0, 1)[0]))
    states = [first, *starts.others()]
    kept = KeptSteps(request.warmup, request.thin, request.total)
    shape = _shape(request, states[0].phase.position)
    is_paired = request.batch_size is not None and kernel.recipe.reads_potential(states[0].phase)
    request.check_batches(kernel, is_paired)
    length = chunk_length(states[0].phase.position, len(states), request.share_batches)
    if request.out is None:
        check_room(shape, kept.draws)  # before the search for a mode, which may take a while
    common: dict[str, Any] = {
        "seed": request.seed, "sizes": sizes, "kept": kept,
        "temperature": request.temperature, "keep": request.keep,
    }  # fmt: skip
    kind = None
    if not request.target.has_potential:
        if request.share_batches or request.estimator is not None:
            raise InputError("share_batches and estimator are for targets with data (eg.Posterior): leave them out")
        chains: Chains = ExternalEngine(kernel, states, **common)
        pace, began = Pace(length, request.total), [state.phase.position for state in states]
    else:
        common["threads"] = threads
        engine = _compiled(request, kernel, starts, states, common, length, is_paired, is_resumed, copy)
        pace = Pace(engine.length, request.total, engine.references.refresh, engine.program())
        kind = None if engine.batches is None else engine.batches.kind
        chains, began = engine, [chain.state.phase.position for chain in engine.chains]
    started = datetime.now(UTC).isoformat(timespec="seconds")
    settings = request.described(kernel) | starts.words(began) | {
        "friction": motion.friction, "batches": kind, "versions": versions(), "started": started,
    }  # fmt: skip
    return Plan(request, kernel, states[0], chains, pace, shape, settings, is_paired)


def _shape(request: Request, position: PyTree) -> DrawShape:
    dtype = np.dtype(tree.common_dtype(position))
    if request.keep == "moments":
        return DrawShape(None, request.chains, dtype)
    if not callable(request.keep):
        one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), position)
        return DrawShape(one, request.chains, dtype)
    one = jax.eval_shape(lambda q: jax.tree.map(jnp.asarray, request.keep(q)), position)  # type: ignore[operator]
    if not jax.tree.leaves(one):
        raise InputError("the function given as keep returned no arrays: expected what is to be kept of a position")
    return DrawShape(one, request.chains, dtype)


def _compiled(
    request: Request, kernel: Kernel, starts: Starts, states: list[State], common: dict[str, Any], length: int,
    is_paired: bool, is_resumed: bool, copy: ShuffledCopy | None,
) -> Engine:  # fmt: skip
    references = References(request.estimator, request.target)
    positions = [state.phase.position for state in states]
    own = references.blank(positions) if is_resumed else references.begin(positions)
    if references.whitening is not None and starts.is_spread:
        starts.laplace(references.whitening)
        states = [states[0], *starts.others()]
    kernel = references.kernel(kernel, own)
    batches, feed = None, None
    if request.batch_size is not None:
        batches, feed = _batches(request, kernel, is_paired, copy)
        kernel = eqx.tree_at(lambda k: k.target, kernel, kernel.target.without_data())
        if feed is not None:
            length = min(length, feed_length(request.target, request.batch_size, feed.chains))
        if isinstance(batches, Numbered):
            length = max(2, min(length, MOST_ROW_NUMBERS // request.batch_size))
    else:
        kernel = _holding_rows(kernel)
    return Engine(
        kernel, batches, states, **common, length=length, is_shared=request.share_batches, feed=feed,
        references=references, own=own,
    )  # fmt: skip


def _is_compensated(kernel: Kernel) -> bool:
    return kernel.gradient_noise is not None or kernel.recipe.gradient_noise is not None


def _batches(
    request: Request, kernel: Kernel, is_paired: bool, copy: ShuffledCopy | None
) -> tuple[Batches, Feed | None]:
    size = request.batch_size
    assert size is not None
    is_compensated = _is_compensated(kernel)
    source = request.target.source
    if source is None:
        kind, seed = request.batches, request.seed
        return batches_for(request.target, size, is_paired, is_compensated, seed, kind, copy), None
    if is_compensated:
        raise InputError(
            "data on disk are read in epochs, whose gradients are not independent from step to step, and subtracting "
            "their noise would be wrong: use gradient_noise=None, or target.loaded() if the data fit in memory"
        )
    feed = Feed(data.open_stream(source, size, request.seed, is_paired), 1 if request.share_batches else request.chains)
    handed = Given if isinstance(source, data.Batches) else FromDisk
    return handed(size, is_paired), feed


def _holding_rows(kernel: Kernel) -> Kernel:
    """Without batches the compiled step holds all rows, as an argument."""
    if kernel.target.data is None:
        return kernel
    if kernel.target.source is not None:
        raise InputError(
            "the data of this target stay on disk, so a compiled step cannot go through all of them: give batch_size, "
            "or target.loaded() if they fit in memory"
        )
    return eqx.tree_at(lambda k: k.target.data, kernel, jax.tree.map(jnp.asarray, kernel.target.data))
