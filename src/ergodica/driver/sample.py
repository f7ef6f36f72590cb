"""sample(): one call from target and recipe to draws."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.diagnostics.columns import chain_correlation
from ergodica.driver.checkpoint import OLDER, Checkpoint, CouldNotWrite, check_same, read_checkpoint
from ergodica.driver.compose import Composed, compose, parts_of
from ergodica.driver.finite import Frozen, NothingSampled, warn_of_frozen
from ergodica.driver.loop import follow, warn_of_cuts, warn_of_refusals, warn_of_temperature
from ergodica.driver.request import Request
from ergodica.driver.run import Run, load
from ergodica.driver.same import Same
from ergodica.driver.store import SHARE
from ergodica.errors import InputError
from ergodica.host.atomic_files import check_name, remove_folder, remove_stale
from ergodica.host.lock import Lock
from ergodica.host.memory import available_memory
from ergodica.host.signals import noted_interrupts
from ergodica.kept_programs import keeping_programs
from ergodica.recipe import Recipe


def sample(
    target: Any,
    recipe: Recipe,
    init: PyTree | Callable[[Any], PyTree] | Same | None = None,
    *,
    steps: int,
    step_size: float | Callable[[Any], Any],
    batch_size: int | None = None,
    chains: int = 4,
    seed: int = 0,
    temperature: float = 1.0,
    integrator: Any = None,
    gradient_noise: Any = None,
    estimator: Any = None,
    share_batches: bool = False,
    batches: str | None = None,
    warmup: int = 0,
    thin: int = 1,
    keep: str | Callable[[PyTree], PyTree] = "draws",
    resample_every: int | None = None,
    out: Path | str | None = None,
    resume: bool = False,
    progress: bool = True,
) -> Run:
    """Sample the target with the recipe.

    Args:
        target: an eg.Density, eg.Posterior or eg.External.
        recipe: what one of the builders returns, or your own eg.Recipe.
        init: where to start: a position, which is dispersed for all chains but the first (by Laplace's width where the
            estimator finds a mode, else by a jitter: docs/explanation/diagnostics.md); `eg.same(position)` for all
            chains; a function of a key, called for each; or None for `target.init`.
        steps: steps after warm-up; `steps // thin` draws are kept for each chain.
        step_size: a number, or a schedule: a function of the step's number (`eg.polynomial`, `eg.cyclical`, any optax
            schedule).
        batch_size: rows in a minibatch; None: all data in every step.
        temperature: T, the law is exp(-H/T).
        integrator: None picks one (see `eg.Kernel`).
        gradient_noise: V to compensate for: None, a constant, or `eg.PerExample()`.
        estimator: of the gradient: None (plain minibatches), `eg.ControlVariates()` or `eg.Svrg()`.
        share_batches: all chains see the same batches, in one matrix product: faster, but the chains are correlated.
        batches: "windows" of a shuffled copy, "epochs" (every row once in each), or "independent" (with replacement);
            None picks windows; where a batch has more than N/50 rows, rows drawn without replacement, independently for
            every step; and for data on disk epochs, shuffled block-wise: these come in no other way.
        keep: "draws", a function of the position whose values are kept in their place, or "moments": only count, mean
            and variance of each chain.
        resample_every: draw the momentum anew every so many steps.
        out: a netCDF file to write; draws go to disk as they come, and a run that was stopped can be taken up.
        resume: go on with the run that was to become `out`, to the same bytes as if it had not been stopped.

    Returns:
        A Run: `run.posterior` has the tree of the start with leaves (chain, draw, ...).
    """
    request = Request(
        target=target, recipe=recipe, init=init, steps=steps, step_size=step_size, batch_size=batch_size, chains=chains,
        seed=seed, temperature=temperature, integrator=integrator, gradient_noise=gradient_noise, estimator=estimator,
        share_batches=share_batches, batches=batches, warmup=warmup, thin=thin, keep=keep,
        resample_every=resample_every, out=None if out is None else Path(out), resume=resume, progress=progress,
    )  # fmt: skip
    return carry_out(request)


def carry_out(request: Request) -> Run:
    """What was asked for; of a run that is finished already, what it left."""
    request.check()
    if request.folder is not None:
        check_name(request.folder)
    with Lock.beside(request.out):
        if request.out is not None and request.resume and request.out.exists():
            return _finished(request)
        with keeping_programs():
            run = compose(request)
        return _made(request, run)


def _made(request: Request, run: Composed) -> Run:
    checkpoint = run.checkpoint
    try:
        with noted_interrupts(None if checkpoint is None else checkpoint.how_to_resume()) as interrupts:
            lost = follow(run.engine, run.store, run.course, run.pace, checkpoint, interrupts, request.progress)
            found = _result(request, run, lost)
            if interrupts.received is not None:
                interrupts.stop(f"the run was at its end; {request.out} has all of it")
        return found
    except Exception as error:
        if checkpoint is not None and run.is_new and _is_void(error, checkpoint):
            checkpoint.remove()
        raise
    finally:
        run.engine.close()
        if checkpoint is not None:
            checkpoint.close()


def _is_void(error: Exception, checkpoint: Checkpoint) -> bool:
    """Whether nothing was left that could be gone on with: the corrected call would only be refused."""
    return isinstance(error, NothingSampled) or (checkpoint.step == 0 and not isinstance(error, CouldNotWrite))


def _result(request: Request, run: Composed, lost: list[Frozen]) -> Run:
    _check_draws(run)
    posterior, stats = run.store.posterior(), run.store.statistics()
    settings = run.settings | {
        "seconds": round(run.course.seconds, 3),
        "frozen": [one._asdict() for one in run.course.frozen],
    }
    if request.share_batches and request.chains > 1:
        settings["chain_correlation"] = chain_correlation(posterior)
    moments = run.engine.moments()
    if run.checkpoint is not None:
        sizes = run.engine.sizes.digest(request.total)
        settings["identity"] = run.checkpoint.identity | {"step_size": sizes, "steps": request.steps}
        with run.checkpoint.advising():
            posterior, stats = _written(run, settings, moments)
    # after the file: with warnings as errors there would never be one
    warn_of_frozen(lost)
    warn_of_cuts(run.course, float(np.max(stats["step_size"], initial=0.0)))
    warn_of_refusals(stats)
    warn_of_temperature(stats, settings)
    return Run(posterior, stats, settings, moments, again=lambda: carry_out(request.halved(settings)))


def _check_draws(run: Composed) -> None:
    """That all of them are there, before a file is made of them and they are removed."""
    expected = run.engine.kept.draws
    for column in (*run.store.leaves, *run.store.stats.values()):
        if column.count != expected:
            raise InputError(f"{column.path} has {column.count:,} draws, not {expected:,}: another process changed it")


def _written(run: Composed, settings: dict[str, Any], moments: Any) -> tuple[PyTree, dict[str, np.ndarray]]:
    """The file, from the draws on disk; and these, in memory where they fit, else mapped."""
    from ergodica.output.files import save_blocks
    from ergodica.output.labelled import named

    assert run.checkpoint is not None
    store = run.store
    names = [] if store.shape.one is None else list(named(store.shape.one))
    columns = dict(zip(names, store.leaves, strict=True))
    save_blocks(run.checkpoint.out, columns, store.stats, settings, moments)
    is_small = store.shape.bytes() * run.engine.kept.draws < SHARE * available_memory()
    posterior, stats = store.posterior(), store.statistics()
    if is_small:
        posterior, stats = jax.tree.map(np.ascontiguousarray, (posterior, stats))
    # maps of files that are removed stay readable until they are dropped
    run.checkpoint.remove()
    return posterior, stats


def _finished(request: Request) -> Run:
    """The run in `out`; refused where it is not the one asked for."""
    from ergodica.output.files import is_of_version_0_1_0

    assert request.out is not None
    assert request.folder is not None
    if is_of_version_0_1_0(request.out):
        raise InputError(f"{request.out} {OLDER}: give another `out`")
    found = load(request.out)
    before = found.settings.get("identity")
    if not isinstance(before, dict) or not isinstance(before.get("versions"), dict):
        raise InputError(
            f"{request.out} exists already and does not say what it was made of, so whether it is this run cannot be "
            "told: give another `out`"
        )
    parts = parts_of(request, is_resumed=True)
    parts.engine.close()
    check_same(before, parts.identity(request.total) | {"steps": request.steps}, request.out)
    with suppress(OSError):  # a folder that can only be read
        remove_stale(request.out)
    if request.folder.exists():
        _remove_left(request.folder, before, request.out)
    return replace(found, again=lambda: carry_out(request.halved(found.settings)))


def _remove_left(folder: Path, identity: dict[str, Any], out: Path) -> None:
    """What a kill left between the last byte of the file and the end; the folder of another run stays."""
    try:
        saved = read_checkpoint(folder)
    except InputError:
        return
    if saved is not None and saved.manifest["identity"] | {"steps": identity["steps"]} == identity:
        remove_folder(folder, out)
