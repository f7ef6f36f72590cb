"""A run with `out`: begun, resumed or found finished; in the folder `run.nc.part` until all of it is in `run.nc`."""

import shutil
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

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
from ergodica.driver.draws import MEMORY_SHARE, on_disk
from ergodica.driver.execute import Longer, final_settings, half_of, run_to_the_end
from ergodica.driver.loop import run_loop
from ergodica.driver.part_folder import check_ours, columns_of, cut_to, leaves_into, part_folder
from ergodica.driver.request import Request
from ergodica.driver.run import Run, load
from ergodica.driver.work import Journal, NothingSampled, SampledChains
from ergodica.errors import InputError
from ergodica.host.atomic_files import check_name, could_not, remove_folder, remove_stale
from ergodica.host.lock import Lock
from ergodica.host.memory import available_memory
from ergodica.host.signals import noted_interrupts
from ergodica.kept_programs import keeping_programs
from ergodica.output.files import check_free, is_of_version_0_1_0, save_blocks
from ergodica.output.labelled import as_tree_of

AT_ITS_END = "the run was at its end; {} has all of it"


def execute_on_disk(request: Request, longer: Longer | None, label: str) -> Run:
    out = Path(request.out or "")
    folder = part_folder(out)
    check_name(folder)
    with Lock.beside(out):
        if request.resume and out.exists():
            return _finished(request, out, folder)
        with keeping_programs():
            saved = _saved(request, out, folder)
            plan = plan_of(request, saved is not None)
        try:
            return _made(plan, saved, out, Checkpoint(folder), longer, label)
        finally:
            plan.chains.close()


def _made(plan: Plan, saved: Saved | None, out: Path, checkpoint: Checkpoint, longer: Longer | None, label: str) -> Run:
    try:
        work = _begun(plan, saved, checkpoint, label)
        with noted_interrupts(checkpoint.how_to_resume()) as interrupts:
            show = plan.request.progress
            run_to_the_end(plan, work, longer, lambda: run_loop(work, plan.pace, checkpoint, interrupts, show))
            found = _result(plan, work, out, checkpoint)
            if interrupts.received is not None:
                is_part = longer is not None  # of a tuned run
                more = "which is a part of the run; the same call with resume=True (command line: --resume) resumes it"
                interrupts.stop(f"{out} is finished, {more}" if is_part else AT_ITS_END.format(out))
        return found
    except Exception as error:
        # where nothing was left that could be resumed, the corrected call would only be refused
        is_void = isinstance(error, NothingSampled) or (checkpoint.step == 0 and not isinstance(error, CouldNotWrite))
        if saved is None and is_void:
            checkpoint.remove(out)
        raise
    finally:
        checkpoint.close()


# -- beginning and resuming -----------------------------------------------------------------------------


def _saved(request: Request, out: Path, folder: Path) -> Saved | None:
    """The checkpoint to resume; refuses to write over anything."""
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


def _begun(plan: Plan, saved: Saved | None, checkpoint: Checkpoint, label: str) -> SampledChains:
    """The chains with somewhere to put their draws: at their start, or where the checkpoint left them."""
    folder, total = checkpoint.folder, plan.request.total
    done = 0 if saved is None else int(saved.record["step"])
    if done > total:
        raise InputError(f"{folder} is at step {done:,} already, beyond the {total:,} requested")
    identity = plan.identity(done)
    journal = Journal(total) if saved is None else _resumed(plan, saved, identity, folder)
    is_new = not folder.exists()
    if is_new:
        try:
            folder.mkdir()
        except OSError as error:
            raise could_not("write", folder, error) from error
    try:
        work = SampledChains(plan.chains, on_disk(plan.shape, folder), journal, identity, plan.settings, label)
        if saved is None:
            checkpoint.save(work.snapshot(), wait=True)
        else:
            cut_to(saved, work.store)
    except InputError:
        if is_new:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    return work


def _resumed(plan: Plan, saved: Saved, identity: dict[str, Any], folder: Path) -> Journal:
    """How far a run is, its chains put where they were; refused where it is another run."""
    record = saved.record
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


# -- the end of a run -----------------------------------------------------------------------------------


def _result(plan: Plan, work: SampledChains, out: Path, checkpoint: Checkpoint) -> Run:
    """The file, from the draws on disk; and these, in memory where they fit, else mapped."""
    request, store, draws = plan.request, work.store, plan.request.kept.draws
    for column in columns_of(store).values():  # before a file is made of them and they are removed
        if column.count != draws:
            raise InputError(f"{column.path} has {column.count:,} draws, not {draws:,}: another process changed it")
    settings, moments, temperatures = final_settings(plan, work), plan.chains.moments(), plan.chains.temperatures()
    sizes = plan.chains.sizes.digest(request.total)
    settings["identity"] = work.identity | {"step_size": sizes, "steps": request.steps}
    with checkpoint.advising():
        leaves, columns = store.leaves, store.stats
        save_blocks(out, leaves, columns, settings, moments, temperatures=temperatures)  # pyright: ignore
        posterior, stats = store.posterior(), store.statistics()
        if store.shape.bytes() * draws < MEMORY_SHARE * available_memory():
            posterior, stats = jax.tree.map(np.ascontiguousarray, (posterior, stats))
        # maps of files that are removed stay readable until they are dropped
        checkpoint.remove(out)
    work.warn_of_what_was_met(stats, settings, temperatures)
    half = half_of(request, settings)
    found = Run(posterior, stats, settings, moments, temperatures=temperatures, run_halved=half)
    return replace(found, coordinates=request.target.coordinates)


# -- a run that is finished already ---------------------------------------------------------------------


def _finished(request: Request, out: Path, folder: Path) -> Run:
    """The run in `out`; refused where it is not the one requested."""
    if is_of_version_0_1_0(out):
        raise InputError(f"{out} {FINISHED_BY_0_1_0}: give another `out`")
    found = load(out)
    before = found.settings.get("identity")
    if not isinstance(before, dict) or not isinstance(before.get("versions"), dict):
        raise InputError(
            f"{out} exists already and does not say what it was made of, so whether it is this run is unknown: give "
            "another `out`"
        )
    plan = plan_of(request, True)
    plan.chains.close()
    check_same(before, plan.identity(request.total) | {"steps": request.steps}, out)
    with suppress(OSError):  # a folder that can only be read
        remove_stale(out)
    with suppress(InputError):  # a checkpoint that cannot be read is not known to be of this run
        # what a kill left between the last byte of the file and the end; the folder of another run stays
        left = read_checkpoint(folder)
        if left is not None and left.record["identity"] | {"steps": before["steps"]} == before:
            remove_folder(folder, out)
    coordinates = plan.request.target.coordinates
    if found.posterior is not None and coordinates is not None:
        draws = as_tree_of(found.posterior, plan.shape.one, 2, out)
        found = replace(found, posterior=draws, coordinates=coordinates)
    return replace(found, run_halved=half_of(request, found.settings))
