"""sample(): chains over compiled chunks, one call from target and recipe to draws."""

import os
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica import structure
from ergodica.driver.batches import Gathers, Windows, batches_for
from ergodica.driver.chunk import Visit, chunk_length, run_chunk
from ergodica.driver.external import run_external
from ergodica.driver.finite import stop_if_non_finite
from ergodica.driver.keys import Purpose, step_keys
from ergodica.driver.progress import progress_bar
from ergodica.driver.run import Run
from ergodica.errors import InputError
from ergodica.integrators import Kernel, Leapfrog, State
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
    warmup: int = 0,
    thin: int = 1,
    resample_every: int | None = None,
    progress: bool = True,
) -> Run:
    """Sample the target with the recipe.

    Args:
        target: an eg.Density, eg.Posterior or eg.External.
        recipe: what one of the builders returns, or your own eg.Recipe.
        init: where to start: a position, a function of a key (dispersed starts), or None for `target.init`.
        steps: steps after warm-up; `steps // thin` draws are kept for each chain.
        step_size: a number, or a schedule: a function of the step's number (any optax schedule).
        batch_size: rows in a minibatch, a window of a shuffled copy; None: all data in every step.
        temperature: T, the law is exp(-H/T).
        integrator: None picks one (see `eg.Kernel`).
        gradient_noise: V to compensate for: None, a constant, or `eg.PerExample()`.

    Returns:
        A Run: `run.posterior` has the tree of the start with leaves (chain, draw, ...).
    """
    _check_counts(steps=steps, chains=chains, thin=thin, warmup=warmup)
    structure.check_temperature(temperature)
    kernel = Kernel(target, recipe, integrator, gradient_noise, resample_every)
    states = [_start(kernel, init, seed, chain, temperature) for chain in range(chains)]
    total = warmup + steps
    sizes = _step_sizes(step_size, total)
    kept = np.arange(warmup + thin - 1, total, thin)
    if not getattr(target, "has_potential", True):
        visits = run_external(kernel, states, seed, sizes, temperature, kept, progress)
    else:
        batches = _batches(kernel, states[0], batch_size, seed)
        visits = _run(_compiled_kernel(kernel, batches), batches, states, seed, sizes, temperature, kept, progress)
    _report(visits, sizes)
    stats = {
        "potential": visits.potential[:, kept],
        "accepted": visits.accepted[:, kept],
        "step_size": np.broadcast_to(sizes[kept], (chains, len(kept))),
    }
    settings = {"steps": steps, "batch_size": batch_size, "seed": seed, "temperature": temperature, "thin": thin}
    return Run(visits.position, stats, settings)


def _check_counts(**counts: Any) -> None:
    for name, value in counts.items():
        least = 0 if name == "warmup" else 1
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
            raise InputError(f"{name} must be a whole number of at least {least}, got {value!r}")


def _start(kernel: Kernel, init: Any, seed: int, chain: int, temperature: float) -> State:
    """A chain's first state; a function of the key gives each chain a start of its own."""
    zero = jnp.zeros((1,), jnp.int32)
    position = kernel.target.init if init is None else init
    if callable(position):
        position = position(step_keys(seed, chain, zero, Purpose.START)[0])
    if position is None:
        raise InputError("no start: give sample(..., init=position), or the target an `init`")
    return kernel.init(position, step_keys(seed, chain, zero, Purpose.INIT)[0], temperature)


def _step_sizes(step_size: Any, total: int) -> np.ndarray:
    """The size of every step, checked before the first one."""
    if not callable(step_size):
        structure.check_step_size(step_size)
        return np.full(total, step_size, float)
    try:
        sizes = np.asarray(jax.vmap(step_size)(jnp.arange(total)), float)
    except (TypeError, ValueError):  # a schedule of plain Python numbers
        sizes = np.array([step_size(t) for t in range(total)], float)
    if not (np.all(np.isfinite(sizes)) and np.all(sizes > 0)):
        t = int(np.argmin(np.isfinite(sizes) & (sizes > 0)))
        raise InputError(f"the step size must be positive, but the schedule gives {sizes[t]:g} at step {t}")
    return sizes


def _batches(kernel: Kernel, state: State, batch_size: int | None, seed: int) -> Windows | Gathers | None:
    if batch_size is None:
        return None
    if kernel.target.size is None:
        raise InputError("batch_size is for targets with data (eg.Posterior); this target has none: leave it out")
    kernel.target.check_batch_size(batch_size)
    if isinstance(kernel.integrator, Leapfrog):
        raise InputError(
            "a Metropolis test needs all data: leave batch_size out, or use a recipe with friction (eg.sghmc)"
        )
    is_paired = kernel.recipe.reads_potential(state.phase)
    if is_paired and (batch_size < 2 or batch_size % 2):
        raise InputError(
            f"the recipe reads z.potential, so a batch is two batches of half its size: give an even batch_size, "
            f"got {batch_size}"
        )
    is_compensated = kernel.gradient_noise is not None or kernel.recipe.gradient_noise is not None
    return batches_for(kernel.target, batch_size, is_paired, is_compensated, seed)


def _compiled_kernel(kernel: Kernel, batches: Windows | Gathers | None) -> Kernel:
    """With batches the compiled step carries no data set; without, it holds the rows as an argument."""
    if batches is not None:
        return eqx.tree_at(lambda k: k.target, kernel, kernel.target.without_data())
    if getattr(kernel.target, "data", None) is None:
        return kernel
    return eqx.tree_at(lambda k: k.target.data, kernel, jax.tree.map(jnp.asarray, kernel.target.data))


def _run(kernel, batches, states, seed, sizes, temperature, kept, progress) -> Visit:
    """Every chain through every chunk, a thread for each core; non-finite chains stop the run at a chunk's end."""
    total = len(sizes)
    length = chunk_length(states[0].phase.position, total)
    visits: list[list[Visit]] = [[] for _ in states]
    number = jnp.asarray(temperature, float)

    def advance(chain: int, first: int) -> None:
        numbers = np.arange(first, first + length)
        padded = sizes[np.minimum(numbers, total - 1)]
        states[chain], visit = run_chunk(
            kernel, batches, states[chain], jnp.asarray(seed), jnp.asarray(chain), jnp.asarray(numbers, jnp.int32),
            jnp.asarray(padded, float), number, jnp.asarray(total, jnp.int32),
        )  # fmt: skip
        visit = jax.tree.map(lambda leaf: np.asarray(leaf)[: total - first], visit)
        here = kept[(kept >= first) & (kept < first + length)] - first
        visits[chain].append(visit._replace(position=jax.tree.map(lambda leaf: leaf[here], visit.position)))

    threads = ThreadPoolExecutor(max_workers=min(len(states), os.cpu_count() or 1))
    with threads, progress_bar(total, progress) as update:
        for first in range(0, total, length):
            list(threads.map(lambda chain, first=first: advance(chain, first), range(len(states))))
            for chain, chunks in enumerate(visits):
                stop_if_non_finite(kernel, chunks[-1], chain, first, sizes)
            update(min(first + length, total))
    joined = [jax.tree.map(lambda *parts: np.concatenate(parts), *chunks) for chunks in visits]
    return jax.tree.map(lambda *parts: np.stack(parts), *joined)


def _report(visits: Visit, sizes: np.ndarray) -> None:
    """Where compensating for gradient noise cut the injected noise, say so once, with the step that would not."""
    steps_cut = int(np.count_nonzero(visits.cuts))
    if steps_cut:
        warnings.warn(
            f"gradient noise exceeded the noise to inject in {steps_cut} of {visits.cuts.size} steps "
            f"({int(visits.cuts.sum())} directions cut at zero): the law is too wide there. The largest admissible "
            f"step was {float(visits.largest_step.min()):.3g}, the run used up to {sizes.max():.3g}",
            stacklevel=3,
        )
