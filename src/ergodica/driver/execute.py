"""A request carried out: a run is made, resumed, or found finished."""

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.diagnostics.columns import chain_correlation
from ergodica.driver.build import Plan, plan_of
from ergodica.driver.checkpoint import (
    FINISHED_BY_0_1_0,
    Checkpoint,
    CouldNotWrite,
    Saved,
    check_same,
    read_checkpoint,
    starting_over,
)
from ergodica.driver.draws import MEMORY_SHARE, Store, in_memory, on_disk
from ergodica.driver.frozen import NothingSampled
from ergodica.driver.loop import run_loop
from ergodica.driver.part_folder import check_ours, cut_to, leaves_into
from ergodica.driver.request import Request
from ergodica.driver.run import Run, load
from ergodica.driver.work import Journal, SampledChains, warn_of_what_was_met
from ergodica.errors import InputError
from ergodica.host.atomic_files import check_name, could_not, remove_folder, remove_stale
from ergodica.host.lock import Lock
from ergodica.host.memory import available_memory
from ergodica.host.signals import noted_interrupts
from ergodica.kept_programs import keeping_programs


def execute(request: Request) -> Run:
    """The run that was requested; of one that is finished already, what it left."""
    request.check()
    if request.folder is not None:
        check_name(request.folder)
    with Lock.beside(request.out_path):
        if request.out_path is not None and request.resume and request.out_path.exists():
            return _finished(request)
        with keeping_programs():
            saved = None if request.out_path is None else _saved(request)
            plan = plan_of(request, saved is not None)
        try:
            return _made(plan, saved)
        finally:
            plan.chains.close()


def _made(plan: Plan, saved: Saved | None) -> Run:
    request, checkpoint = plan.request, None if plan.request.folder is None else Checkpoint(plan.request.folder)
    try:
        work = _begun(plan, saved, checkpoint)
        with noted_interrupts(None if checkpoint is None else checkpoint.how_to_resume()) as interrupts:
            run_loop(work, plan.pace, checkpoint, interrupts, request.progress)
            found = _result(plan, work, checkpoint)
            if interrupts.received is not None:
                interrupts.stop(f"the run was at its end; {request.out} has all of it")
        return found
    except Exception as error:
        if checkpoint is not None and request.out_path is not None and saved is None and _is_void(error, checkpoint):
            checkpoint.remove(request.out_path)
        raise
    finally:
        if checkpoint is not None:
            checkpoint.close()


def _is_void(error: Exception, checkpoint: Checkpoint) -> bool:
    """Whether nothing was left that could be resumed: the corrected call would only be refused."""
    return isinstance(error, NothingSampled) or (checkpoint.step == 0 and not isinstance(error, CouldNotWrite))


# -- beginning and resuming -----------------------------------------------------------------------------


def _saved(request: Request) -> Saved | None:
    """The checkpoint to resume; refuses to write over anything."""
    from ergodica.output.files import check_free

    out, folder = request.out_path, request.folder
    assert out is not None
    assert folder is not None
    check_free(out)
    with suppress(OSError):  # one without anything in it, which a run that was killed has made or emptied
        folder.rmdir()
    if not folder.exists():
        remove_stale(out)
        return None
    if not request.resume:
        raise InputError(
            f"{folder} holds an unfinished run: resume it (resume=True, --resume), remove it, or give another `out`"
        )
    check_ours(folder)
    remove_stale(out)
    return read_checkpoint(folder)


def _begun(plan: Plan, saved: Saved | None, checkpoint: Checkpoint | None) -> SampledChains:
    """The chains with somewhere to put their draws: at their start, or where the checkpoint left them."""
    request, shape = plan.request, plan.shape
    if checkpoint is None:
        store = in_memory(shape, plan.chains.kept.draws)
        return SampledChains(plan.chains, store, Journal(request.total), {}, plan.settings)
    folder = checkpoint.folder
    done = 0 if saved is None else int(saved.record["step"])
    if done > request.total:
        raise InputError(f"{folder} is at step {done:,} already, beyond the {request.total:,} requested")
    identity = plan.identity(done)
    journal = Journal(request.total) if saved is None else _resumed(plan, saved, identity)
    is_new = not folder.exists()
    if is_new:
        _make(folder)
    try:
        store = on_disk(shape, folder)
        work = SampledChains(plan.chains, store, journal, identity, plan.settings)
        if saved is None:
            checkpoint.save(work.snapshot(), wait=True)
        else:
            cut_to(saved, store.columns())
    except InputError:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return work


def _resumed(plan: Plan, saved: Saved, identity: dict[str, Any]) -> Journal:
    """How far a run is, its chains put where they were; refused where it is another run."""
    record, folder = saved.record, plan.request.folder
    assert folder is not None
    check_same(record["identity"], identity, folder)
    ended = record["journal"].get("total") == record["step"] != plan.request.total
    if ended and plan.request.keep == "moments":  # the last draw is counted before it is known to stand: see chunk.py
        raise InputError(
            f"{folder} holds moments of a run that had made all its {record['step']:,} steps: they can be written by "
            "the same call, but not be extended"
        )
    like, _ = plan.chains.saved()
    try:
        plan.chains.restore(leaves_into(saved, like, folder), record["cursor"])
        journal = Journal.from_dict(record["journal"], plan.request.total)
    except (KeyError, TypeError) as error:
        raise InputError(f"the checkpoint in {folder} is damaged: {starting_over(folder)}") from error
    plan.settings |= {name: record["settings"].get(name) for name in ("started", "starts", "start_widths")}
    return journal


def _make(folder: Path) -> None:
    try:
        folder.mkdir()
    except OSError as error:
        raise could_not("write", folder, error) from error


# -- the end of a run -----------------------------------------------------------------------------------


def _result(plan: Plan, work: SampledChains, checkpoint: Checkpoint | None) -> Run:
    request, store = plan.request, work.store
    _check_draws(store, plan.chains.kept.draws)
    posterior, stats = store.posterior(), store.statistics()
    settings = plan.settings | {
        "seconds": round(work.journal.seconds, 3),
        "frozen": [one._asdict() for one in work.journal.frozen],
    }
    if request.share_batches and request.chains > 1:
        settings["chain_correlation"] = chain_correlation(posterior)
    moments = plan.chains.moments()
    if checkpoint is not None:
        sizes = plan.chains.sizes.digest(request.total)
        settings["identity"] = work.identity | {"step_size": sizes, "steps": request.steps}
        with checkpoint.advising():
            posterior, stats = _written(plan, store, checkpoint, settings, moments)
    warn_of_what_was_met(work, stats, settings)
    return Run(posterior, stats, settings, moments, run_halved=lambda: execute(request.halved(settings)))


def _check_draws(store: Store, expected: int) -> None:
    """That all of them are there, before a file is made of them and they are removed."""
    for column in (*store.leaves, *store.stats.values()):
        if column.count != expected:
            raise InputError(f"{column.path} has {column.count:,} draws, not {expected:,}: another process changed it")


def _written(
    plan: Plan, store: Store, checkpoint: Checkpoint, settings: dict[str, Any], moments: Any
) -> tuple[PyTree, dict[str, np.ndarray]]:
    """The file, from the draws on disk; and these, in memory where they fit, else mapped."""
    from ergodica.output.files import save_blocks
    from ergodica.output.labelled import named

    out = plan.request.out_path
    assert out is not None
    names = [] if store.shape.one is None else list(named(store.shape.one))
    columns = dict(zip(names, store.leaves, strict=True))
    save_blocks(out, columns, store.stats, settings, moments)
    is_small = store.shape.bytes() * plan.chains.kept.draws < MEMORY_SHARE * available_memory()
    posterior, stats = store.posterior(), store.statistics()
    if is_small:
        posterior, stats = jax.tree.map(np.ascontiguousarray, (posterior, stats))
    # maps of files that are removed stay readable until they are dropped
    checkpoint.remove(out)
    return posterior, stats


# -- a run that is finished already ---------------------------------------------------------------------


def _finished(request: Request) -> Run:
    """The run in `out`; refused where it is not the one requested."""
    from ergodica.output.files import is_of_version_0_1_0

    out, folder = request.out_path, request.folder
    assert out is not None
    assert folder is not None
    if is_of_version_0_1_0(out):
        raise InputError(f"{out} {FINISHED_BY_0_1_0}: give another `out`")
    found = load(out)
    before = found.settings.get("identity")
    if not isinstance(before, dict) or not isinstance(before.get("versions"), dict):
        raise InputError(
            f"{out} exists already and does not say what it was made of, so whether it is this run is unknown: give "
            "another `out`"
        )
    plan = plan_of(request, is_resumed=True)
    plan.chains.close()
    check_same(before, plan.identity(request.total) | {"steps": request.steps}, out)
    with suppress(OSError):  # a folder that can only be read
        remove_stale(out)
    if folder.exists():
        _remove_left(folder, out, before)
    return replace(found, run_halved=lambda: execute(request.halved(found.settings)))


def _remove_left(folder: Path, out: Path, identity: dict[str, Any]) -> None:
    """What a kill left between the last byte of the file and the end; the folder of another run stays."""
    try:
        saved = read_checkpoint(folder)
    except InputError:
        return
    if saved is not None and saved.record["identity"] | {"steps": identity["steps"]} == identity:
        remove_folder(folder, out)
