"""sample(): one call from target and recipe to draws."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.driver.checkpoint import part_folder
from ergodica.driver.compose import Composed, compose
from ergodica.driver.correlation import chain_correlation
from ergodica.driver.finite import NothingSampled
from ergodica.driver.loop import follow, warn_of_cuts
from ergodica.driver.request import Request
from ergodica.driver.run import Run, load
from ergodica.driver.store import SHARE, available_memory
from ergodica.errors import InputError
from ergodica.recipe import Recipe


def sample(
    target: Any,
    recipe: Recipe,
    init: PyTree | Callable[[Any], PyTree] | None = None,
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
    batches: str = "windows",
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
        init: where to start: a position, a function of a key (dispersed starts), or None for `target.init`.
        steps: steps after warm-up; `steps // thin` draws are kept for each chain.
        step_size: a number, or a schedule: a function of the step's number (`eg.polynomial`, `eg.cyclical`, any optax
            schedule).
        batch_size: rows in a minibatch; None: all data in every step.
        temperature: T, the law is exp(-H/T).
        integrator: None picks one (see `eg.Kernel`).
        gradient_noise: V to compensate for: None, a constant, or `eg.PerExample()`.
        estimator: of the gradient: None (plain minibatches), `eg.ControlVariates()` or `eg.Svrg()`.
        share_batches: all chains see the same batches, in one matrix product: faster, but the chains are correlated.
        batches: "windows" of a shuffled copy, "epochs" (every row once in each), or "independent" (with replacement).
            Data on disk come in epochs, shuffled block-wise.
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
    if request.out is not None and request.resume and request.out.exists():
        return _finished(request)
    run = compose(request)
    try:
        follow(run.engine, run.store, run.course, run.pace, run.checkpoint, request.progress)
        return _result(request, run)
    except NothingSampled:
        if run.checkpoint is not None and run.is_new:
            run.checkpoint.remove()
        raise
    finally:
        run.engine.close()
        if run.checkpoint is not None:
            run.checkpoint.close()


def _result(request: Request, run: Composed) -> Run:
    posterior, stats = run.store.posterior(), run.store.statistics()
    warn_of_cuts(run.course, float(np.max(stats["step_size"], initial=0.0)))
    settings = run.settings | {
        "seconds": round(run.course.seconds, 3),
        "frozen": [one._asdict() for one in run.course.frozen],
    }
    if request.share_batches and request.chains > 1:
        settings["chain_correlation"] = chain_correlation(posterior)
    moments = run.engine.moments()
    if run.checkpoint is not None:
        posterior, stats = _written(run, settings, moments)
    return Run(posterior, stats, settings, moments, again=lambda: carry_out(request.halved()))


def _written(run: Composed, settings: dict[str, Any], moments: Any) -> tuple[PyTree, dict[str, np.ndarray]]:
    """The file, from the draws on disk; and these, in memory where they fit, else mapped."""
    from ergodica.output.files import save_blocks
    from ergodica.output.names import named

    assert run.checkpoint is not None
    store = run.store
    names = [] if store.shape.one is None else list(named(store.shape.one))
    columns = dict(zip(names, store.leaves, strict=True))
    save_blocks(run.checkpoint.out, columns, store.stats, settings, moments)
    is_small = store.shape.bytes() * next(iter(store.stats.values())).count < SHARE * available_memory()
    posterior, stats = store.posterior(), store.statistics()
    if is_small:
        posterior, stats = jax.tree.map(np.ascontiguousarray, (posterior, stats))
    # maps of files that are removed stay readable until they are dropped
    run.checkpoint.remove()
    return posterior, stats


def _finished(request: Request) -> Run:
    """The run in `out`; refused where it is not the one asked for."""
    assert request.out is not None
    found = load(request.out)
    request.check()
    names = ("steps", "warmup", "thin", "batch_size", "chains", "seed", "temperature")
    differing = [name for name in names if found.settings.get(name) != getattr(request, name)]
    if differing:
        listed = ", ".join(f"{n} {found.settings.get(n)}, not {getattr(request, n)}" for n in differing)
        raise InputError(f"{request.out} is a finished run with {listed}: give another `out`")
    shutil.rmtree(part_folder(request.out), ignore_errors=True)
    return replace(found, again=lambda: carry_out(request.halved()))
