"""Chains on a target whose gradient comes from outside JAX: called between two compiled halves of a step."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ergodica.driver.chunk import Visit
from ergodica.driver.finite import stop_if_non_finite
from ergodica.driver.keys import Purpose, step_keys
from ergodica.driver.progress import progress_bar
from ergodica.errors import InputError
from ergodica.integrators import Kernel, Leapfrog, Setting, State
from ergodica.phase import Evaluation


def run_external(
    kernel: Kernel,
    states: list[State],
    seed: int,
    sizes: np.ndarray,
    temperature: float,
    kept: np.ndarray,
    progress: bool,
) -> Visit:
    """Every chain, step by step, each with batches of its own from the target's source."""
    if isinstance(kernel.integrator, Leapfrog):
        raise InputError("this target gives gradients only, so there is no Metropolis test: use a recipe with friction")
    batches = iter(kernel.target.batches)
    light = eqx.tree_at(lambda k: k.target, kernel, _Place(kernel.target.domain))
    heat, keep = jnp.asarray(temperature, float), set(kept.tolist())
    visits: list[list[Visit]] = [[] for _ in states]
    with progress_bar(len(sizes), progress) as update:
        for step, size in enumerate(sizes):
            for chain, state in enumerate(states):
                key = step_keys(seed, chain, jnp.asarray([step]), Purpose.STEP)[0]
                probed, draws = _probe(light, state, key, jnp.asarray(size, float), heat)
                try:
                    batch = next(batches)
                except StopIteration:
                    raise InputError(
                        f"the target's batches ran out at step {step} of {len(sizes)} (chain {chain}): give an "
                        f"iterable of at least {len(sizes) * len(states)} batches, or fewer steps"
                    ) from None
                # a number of its own for every visit, so that no two gradients share their random stream
                gradient = kernel.target.gradient_at(probed.phase.position, batch, _visit_seed(seed, chain, step))
                states[chain], visit = _finish(light, probed, gradient, draws, jnp.asarray(size, float), heat)
                visit = jax.tree.map(lambda leaf: np.asarray(leaf)[None], visit)
                stop_if_non_finite(kernel, visit, chain, step, sizes)
                position = jax.tree.map(lambda leaf, n=int(step in keep): leaf[:n], visit.position)
                visits[chain].append(visit._replace(position=position))
            update(step + 1)
    joined = [jax.tree.map(lambda *parts: np.concatenate(parts), *chain) for chain in visits]
    return jax.tree.map(lambda *parts: np.stack(parts), *joined)


class _Place(eqx.Module):
    """All that a compiled half needs to know of the target."""

    domain: Any


def _visit_seed(seed: int, chain: int, step: int) -> int:
    return int(np.random.SeedSequence([seed, chain, step]).generate_state(1)[0])


@eqx.filter_jit
def _probe(kernel: Kernel, state: State, key: Any, step_size: Any, temperature: Any) -> tuple[State, Any]:
    setting = Setting(step_size, temperature, kernel.target.domain, state.steps)
    draws = kernel.integrator.draw(kernel.recipe, state.phase, key, setting)
    return kernel.probe(state, draws, step_size, temperature), draws


@eqx.filter_jit
def _finish(kernel: Kernel, state: State, gradient: Any, draws: Any, step_size: Any, temperature: Any):
    state, info = kernel.finish(state, (Evaluation(gradient),), draws, step_size, None, temperature)
    is_finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(state.phase)]))
    nothing = jnp.asarray(jnp.nan)
    return state, Visit(state.phase.position, nothing, info.cuts, info.largest_step, info.accepted, is_finite)
