"""The parts of a run put together from what was asked for: chains at their start, or where a checkpoint left them."""

import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica import data, tree
from ergodica.driver.batches import Batches, FromDisk, Given, Numbered, batches_for, copy_for
from ergodica.driver.checkpoint import Checkpoint, Saved, check_ours, check_same, read_checkpoint, starting_over
from ergodica.driver.chunk import chunk_length
from ergodica.driver.engine import Engine, threads_for
from ergodica.driver.external import ExternalEngine
from ergodica.driver.feed import Feed, feed_length
from ergodica.driver.fingerprint import batch_like, data_digest, numbers_of, step_digest, versions
from ergodica.driver.loop import Course
from ergodica.driver.motion import motion_of
from ergodica.driver.pace import Pace
from ergodica.driver.request import Request
from ergodica.driver.schedules import StepSizes
from ergodica.driver.shuffled import ShuffledCopy
from ergodica.driver.starts import Starts
from ergodica.driver.store import Kept, Shape, Store, in_memory, on_disk
from ergodica.errors import InputError
from ergodica.gradients.control import References
from ergodica.host.atomic_files import could_not, remove_stale
from ergodica.host.threads import Threads
from ergodica.integrators import Kernel, State
from ergodica.targets import Posterior

MOST_ROWS = 2**24  # numbers of rows that are drawn ahead for a chunk of one chain


@dataclass
class Parts:
    """What a run is made of, before anything of it is on disk."""

    request: Request
    kernel: Kernel
    state: State
    engine: Any
    pace: Pace
    kept: Kept
    shape: Shape
    store: Store | None
    settings: dict[str, Any]
    is_paired: bool

    def identity(self, step: int) -> dict[str, Any]:
        """What must be the same for a run to go on from `step`; of its steps' sizes those before it."""
        free = ("steps", "step_size", "started", "recipe", "starts", "start_widths", "friction")
        same = {name: value for name, value in self.settings.items() if name not in free}
        kernel, request = self.kernel, self.request
        batch = batch_like(request.target, request.batch_size, self.is_paired)
        same["recipe"] = numbers_of((kernel.recipe, kernel.integrator, kernel.gradient_noise))
        same["model"] = step_digest(self.engine.kernel, self.state, batch, request.keep)
        same["data"] = data_digest(request.target)
        same["step_size"] = self.engine.sizes.digest(step)
        return same


@dataclass
class Composed:
    """A run, ready to go."""

    engine: Any
    store: Store
    course: Course
    pace: Pace
    checkpoint: Checkpoint | None
    settings: dict[str, Any]
    is_new: bool


def compose(request: Request) -> Composed:
    """Everything checked, nothing compiled yet but what looks at the start."""
    saved = None if request.out is None else _saved(request)
    parts = parts_of(request, saved is not None)
    if request.out is not None:
        return _on_disk(parts, saved)
    assert parts.store is not None
    return Composed(parts.engine, parts.store, Course(request.total), parts.pace, None, parts.settings, True)


def parts_of(request: Request, is_resumed: bool) -> Parts:
    """The chains at their start; of a run that is taken up without the search for a mode, which it has behind it."""
    kernel = Kernel(request.target, request.recipe, request.integrator, request.gradient_noise, request.resample_every)
    threads = threads_for(request.chains)
    try:
        return _parts(request, kernel, threads, is_resumed)
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


def _parts(request: Request, kernel: Kernel, threads: Threads, is_resumed: bool) -> Parts:
    copy = _copy_begun(request, kernel, threads)
    sizes = StepSizes(request.step_size, request.total)
    starts = Starts(kernel, request)
    first = starts.first()
    motion = motion_of(kernel, first, request.temperature)
    if starts.is_spread:
        starts.jitter(motion, float(sizes.between(0, 1)[0]))
    states = [first, *starts.others()]
    kept = Kept(request.warmup, request.thin, request.total)
    shape = _shape(request, states[0].phase.position)
    is_paired = request.batch_size is not None and kernel.recipe.reads_potential(states[0].phase)
    request.check_batches(kernel, is_paired)
    length = chunk_length(states[0].phase.position, len(states), request.share_batches)
    # asked for before the search for a mode, which may take a while
    store = in_memory(shape, kept.draws) if request.out is None else None
    common: dict[str, Any] = {
        "seed": request.seed, "sizes": sizes, "kept": kept,
        "temperature": request.temperature, "keep": request.keep,
    }  # fmt: skip
    kind = None
    if not request.target.has_potential:
        if request.share_batches or request.estimator is not None:
            raise InputError("share_batches and estimator are for targets with data (eg.Posterior): leave them out")
        engine: Any = ExternalEngine(kernel, states, **common)
        pace = Pace(length, request.total)
    else:
        common["threads"] = threads
        engine = _compiled(request, kernel, starts, states, common, length, is_paired, is_resumed, copy)
        pace = Pace(engine.length, request.total, engine.references.refresh, engine.program())
        kind = None if engine.batches is None else engine.batches.kind
    started = datetime.now(UTC).isoformat(timespec="seconds")
    began = [chain.state.phase.position for chain in engine.chains]
    settings = request.described(kernel) | starts.words(began) | {
        "friction": motion.friction, "batches": kind, "versions": versions(), "started": started,
    }  # fmt: skip
    return Parts(request, kernel, states[0], engine, pace, kept, shape, store, settings, is_paired)


def _shape(request: Request, position: PyTree) -> Shape:
    dtype = np.dtype(tree.common_dtype(position))
    if request.keep == "moments":
        return Shape(None, request.chains, dtype)
    if not callable(request.keep):
        one = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), position)
        return Shape(one, request.chains, dtype)
    one = jax.eval_shape(lambda q: jax.tree.map(jnp.asarray, request.keep(q)), position)  # type: ignore[operator]
    if not jax.tree.leaves(one):
        raise InputError("the function given as keep returned no arrays: expected what is to be kept of a position")
    return Shape(one, request.chains, dtype)


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
            length = max(2, min(length, MOST_ROWS // request.batch_size))
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
    source = getattr(request.target, "source", None)
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
    if getattr(kernel.target, "data", None) is None:
        return kernel
    if getattr(kernel.target, "source", None) is not None:
        raise InputError(
            "the data of this target stay on disk, so a compiled step cannot go through all of them: give batch_size, "
            "or target.loaded() if they fit in memory"
        )
    return eqx.tree_at(lambda k: k.target.data, kernel, jax.tree.map(jnp.asarray, kernel.target.data))


def _saved(request: Request) -> Saved | None:
    """The checkpoint to go on from; refuses to write over anything."""
    from ergodica.output.files import check_free

    assert request.out is not None
    assert request.folder is not None
    check_free(request.out)
    with suppress(OSError):  # one without anything in it, which a run that was killed has made or emptied
        request.folder.rmdir()
    if not request.folder.exists():
        remove_stale(request.out)
        return None
    if not request.resume:
        raise InputError(
            f"{request.folder} holds an unfinished run: go on with it (resume=True, --resume), remove it, or give "
            "another `out`"
        )
    check_ours(request.folder)
    remove_stale(request.out)
    return read_checkpoint(request.folder)


def _on_disk(parts: Parts, saved: Saved | None) -> Composed:
    request, engine = parts.request, parts.engine
    assert request.out is not None
    assert request.folder is not None
    done = 0 if saved is None else int(saved.manifest["course"]["step"])
    if done > request.total:
        raise InputError(f"{request.folder} is at step {done:,} already, beyond the {request.total:,} asked for")
    identity = parts.identity(done)
    course = Course(request.total) if saved is None else _taken_up(parts, saved, identity)
    is_new = not request.folder.exists()
    if is_new:
        _make(request.folder)
    try:
        store = on_disk(parts.shape, request.folder)
        if saved is not None:
            saved.take_up(store.columns())
        checkpoint = Checkpoint(request.out, store, identity, parts.settings, parts.kept.before)
        if saved is None:
            checkpoint.save_if_due(engine, course, is_urgent=True)
    except InputError:
        if is_new:
            shutil.rmtree(request.folder, ignore_errors=True)
        raise
    return Composed(engine, store, course, parts.pace, checkpoint, parts.settings, saved is None)


def _taken_up(parts: Parts, saved: Saved, identity: dict[str, Any]) -> Course:
    """How far a run is, its chains put where they were; refused where it is another run."""
    manifest, folder = saved.manifest, parts.request.folder
    assert folder is not None
    check_same(manifest["identity"], identity, folder)
    ended = manifest["course"].get("total") == manifest["course"].get("step") != parts.request.total
    if ended and parts.request.keep == "moments":  # the last draw is counted before it is known to stand: see chunk.py
        raise InputError(
            f"{folder} holds moments of a run that had made all its {manifest['course']['step']:,} steps: they can be "
            "written by the same call, but not be extended"
        )
    like, _ = parts.engine.saved()
    try:
        parts.engine.restore(saved.into(like, folder), manifest["cursor"])
        course = Course.from_dict(manifest["course"], parts.request.total)
    except (KeyError, TypeError) as error:
        raise InputError(f"the checkpoint in {folder} is damaged: {starting_over(folder)}") from error
    parts.settings |= {name: manifest["settings"].get(name) for name in ("started", "starts", "start_widths")}
    return course


def _make(folder: Path) -> None:
    try:
        folder.mkdir()
    except OSError as error:
        raise could_not("write", folder, error) from error
