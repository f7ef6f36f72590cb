"""The front door: `eg.sample`, one call from a target to draws."""

import inspect
from collections.abc import Callable
from typing import ParamSpec

from ergodica.driver.execute import execute
from ergodica.driver.request import Request
from ergodica.driver.run import Run

P = ParamSpec("P")


def _called_as(request: Callable[P, Request]) -> Callable[[Callable[..., Run]], Callable[P, Run]]:
    """Gives a function the arguments of `request`, for people, editors and type checkers: they are listed once."""

    def with_arguments(function: Callable[..., Run]) -> Callable[P, Run]:
        function.__signature__ = inspect.signature(request).replace(return_annotation=Run)  # type: ignore[attr-defined]
        return function

    return with_arguments


@_called_as(Request)
def sample(*args: object, **kwargs: object) -> Run:
    """Sample a target: chains from their starts to draws, saved and resumable if you like.

    `eg.sample(target)` finds recipe, steps, step size and all that goes with them, and checks what it drew: `print`
    the run to see whether the accuracy was reached. For settings of your own give recipe, steps and step_size. With
    `batch_size` every step then reads a minibatch, and the recipe has to have friction or noise (`eg.sgld`, `eg.sghmc`,
    ...); without it every step reads all data, and `eg.hmc` is exact.

    Args:
        target: an eg.Density, eg.Posterior or eg.External.
        recipe: what one of the builders returns, or your own eg.Recipe.
        init: where to start: a position, which is dispersed for all chains but the first (by Laplace's width where the
            estimator finds a mode, else by a jitter: docs/explanation/diagnostics.md); `eg.same(position)` for all
            chains; a function of a key, called for each; or None for that of the target. A network is a position: an
            Equinox module, a Flax NNX module or state, a dictionary of arrays. With `transform=` a position is the
            constrained one that your functions see.
        steps: steps after warm-up; `steps // thin` draws are kept for each chain.
        step_size: a number, or a schedule: a function of the step's number (`eg.polynomial`, `eg.cyclical`, any optax
            schedule).
        accuracy: an `eg.Accuracy`, where settings are found.
        batch_size: rows in a minibatch; None: all data in every step.
        chains: how many, each from a start of its own.
        seed: same seed, same draws, bit for bit.
        temperature: T, the law is exp(-H/T).
        integrator: None picks one (see `eg.Kernel`).
        gradient_noise: V to compensate for: None, a constant, or `eg.PerExample()`.
        estimator: of the gradient: None (plain minibatches), `eg.ControlVariates()` or `eg.Svrg()`.
        share_batches: all chains see the same batches, in one matrix product: faster, but the chains are correlated.
        batches: "windows" of a shuffled copy, "epochs" (every row once in each), or "independent" (with replacement);
            None picks windows; where a batch has more than N/50 rows, rows drawn without replacement, independently for
            every step; and for data on disk epochs, shuffled block-wise: these come in no other way.
        warmup: steps before the first draw that is kept; or `eg.Optimise(optax.adamw(1e-3), steps=2_000)`.
        thin: keep every `thin`-th draw.
        keep: "draws", a function of the position whose values are kept instead, "moments": only count, mean and
            variance of each chain; or several of these by name, with `eg.mean` and `eg.score`, for `run.kept`.
        resample_every: draw the momentum again every so many steps; not with `eg.hmc`, whose trajectories always do.
        out: a netCDF file to write; draws go to disk as they come, and a run that was stopped can be resumed.
        resume: continue the run that was to become `out`, bit for bit as if it had not been stopped.
        progress: show a progress bar on a terminal.

    Returns:
        A Run: `run.posterior` has the tree of the start with leaves (chain, draw, ...).

    Example:
        >>> import ergodica as eg
        >>> run = eg.sample(eg.gallery.gaussian(2), eg.sghmc(), steps=200, step_size=0.3, chains=2)
        >>> run.posterior.shape
        (2, 200, 2)
    """
    request = Request(*args, **kwargs)  # type: ignore[arg-type]
    if not request.is_tuned:
        return execute(request)
    from ergodica.tuning.tuned import sample_tuned

    return sample_tuned(request)
