"""Chains on a target whose gradient comes from outside JAX: called between two compiled halves of a step."""

from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica import tree
from ergodica.compiling import sound_filter_jit
from ergodica.driver.chunk import Chain, ChunkRecord, all_finite, is_finite_evaluation, kinetic_temperature, standing
from ergodica.driver.draws import add_squares
from ergodica.driver.engine import Chains
from ergodica.driver.keeping import Averages, Keeping, add_to_averages, emptied, merged_averages
from ergodica.driver.keys import Purpose, step_keys
from ergodica.driver.request import Request
from ergodica.driver.schedules import StepSizes
from ergodica.errors import InputError
from ergodica.host.threads import Threads
from ergodica.integrators import Kernel, Setting, State
from ergodica.integrators.kernel import with_domain_only
from ergodica.phase import Evaluation


class ExternalEngine(Chains):
    """Every chain, step by step; they take turns in the target's batches."""

    def __init__(self, kernel: Kernel, request: Request, sizes: StepSizes, states: list[State], threads: Threads):
        super().__init__(kernel, request, sizes, states, threads)
        self.target, self.light, self.seed = kernel.target, with_domain_only(kernel), request.seed
        self.chains = [Chain(state, jnp.ones((), bool), state.phase.position, self.blank) for state in states]
        self._batches, self._given = iter(self.target.batches), 0

    def advance(self, first: int, count: int, following: int) -> list[ChunkRecord | None]:
        notes: list[list[ChunkRecord]] = [[] for _ in self.chains]
        was_alive = [self.is_alive(i) for i in range(len(self.chains))]
        sizes = self.sizes.between(first, first + count)
        self._lengthen_rows(first)
        self._row = dict(enumerate(self._rows(first), first))
        for step, size in zip(range(first, first + count), sizes, strict=True):
            for i in range(len(self.chains)):
                batch = self._next_batch(step, i)
                if was_alive[i]:
                    notes[i].append(self._step(i, step, size, batch))
        return [self._visit(i, notes[i], first) if was_alive[i] else None for i in range(len(self.chains))]

    def _next_batch(self, step: int, chain: int) -> Any:
        try:
            batch = next(self._batches)
        except StopIteration:
            total = self.kept.total
            raise InputError(
                f"the target's batches ran out at step {step} of {total} (chain {chain}): give an iterable of at least "
                f"{total * len(self.chains)} batches, or fewer steps"
            ) from None
        self._given += 1
        return batch

    def _step(self, i: int, step: int, size: float, batch: Any) -> ChunkRecord:
        chain, number = self.chains[i], jnp.asarray(size, float)
        key = step_keys(self.seed, i, jnp.asarray([step]), Purpose.STEP)[0]
        probed, draws = _probe(self.light, chain.state, key, number, self.temperature)
        gradient = jax.tree.map(np.zeros_like, probed.phase.position)
        if bool(chain.is_alive) and bool(all_finite(probed.phase)):
            # a number of its own for every record, so that no two gradients share their random stream
            # the first one must be finite: later a chain may overflow, and is frozen
            seed = int(np.random.SeedSequence([self.seed, i, step]).generate_state(1)[0])
            gradient = self.target.gradient_at(probed.phase.position, batch, seed, is_finite=step == 0)
        row = jnp.asarray(self._row[step])
        self.chains[i], record = _finish(self.light, chain, probed, gradient, draws, number, self.temperature, row)
        record = jax.tree.map(np.asarray, record)
        self._average(i, step, chain, record)
        return record

    def _average(self, i: int, step: int, chain: Chain, record: ChunkRecord) -> None:
        """The draw of the step before, now that a finite gradient follows it; nothing follows the last one."""
        if self.totals is None:
            return
        draws = [(step - 1, chain.state.phase.position, record.is_alive[0])]
        if step == self.kept.total - 1:
            draws.append((step, record.draws, record.is_alive[1]))
        for number, draw, is_alive in draws:
            if is_alive and number >= 0 and len(self.kept.between(number, number + 1)):
                averages = _averaged(self.chains[i].averages, self.keeping, draw)
                self.totals[i] = merged_averages(self.totals[i], averages)
                self.chains[i] = self.chains[i]._replace(averages=emptied(averages))

    def _visit(self, chain: int, notes: list[ChunkRecord], first: int) -> ChunkRecord:
        count = len(notes)
        whole = jax.tree.map(lambda *parts: np.stack(parts), *notes)
        # a draw stands if its own step and the gradient after it were finite
        is_alive = np.append(whole.is_alive[:, 0], True)
        is_alive[1:] &= whole.is_alive[:, 1]
        kept = self.kept.between(first, first + count) - first
        draws, *met = (jax.tree.map(lambda leaf: leaf[kept], part) for part in whole[:4])
        potential = np.append(whole.potential, np.asarray(np.nan, whole.potential.dtype))
        record = ChunkRecord(None, met[0], met[1], met[2], potential, is_alive, whole.cuts, whole.largest_step)
        if self.keeping.draws is None:
            return record
        if len(kept):
            draws = jax.tree.map(np.asarray, jax.vmap(self.keeping.drawn)(draws))
        if len(kept) and not is_alive.all():
            draws = standing(draws, is_alive[1:][kept], self.frozen_draw(chain))
        return record._replace(draws=draws)

    def saved(self) -> tuple[PyTree, Any]:
        return (self.chains, self.totals), {"batches": self._given}

    def restore(self, saved: PyTree, cursor: Any) -> None:
        chains, self.totals = saved
        self.chains = jax.tree.map(jnp.asarray, chains)
        own = getattr(self.target.batches, "seek", None)
        if own is not None:
            own(int(cursor["batches"]))
            self._batches = iter(self.target.batches)
        else:
            next(islice(self._batches, cursor["batches"], cursor["batches"]), None)
        self._given = int(cursor["batches"])


@sound_filter_jit
def _probe(kernel: Kernel, state: State, key: Any, step_size: Any, temperature: Any) -> tuple[State, Any]:
    setting = Setting(step_size, temperature, kernel.target.domain, state.steps)
    draws = kernel.integrator.draw(kernel.recipe, state.phase, key, setting)
    return kernel.probe(state, draws, step_size, temperature), draws


@sound_filter_jit
def _finish(
    kernel: Kernel, chain: Chain, probed: State, gradient: Any, draws: Any, step_size: Any, temperature: Any, row: Any
) -> tuple[Chain, ChunkRecord]:
    new, info = kernel.finish(probed, (Evaluation(gradient),), draws, step_size, None, temperature)
    is_finite = all_finite(new.phase)
    is_good = chain.is_alive & all_finite(probed.phase) & is_finite_evaluation(info, is_finite)
    is_alive = is_good & is_finite
    state = jax.tree.map(lambda a, b: jnp.where(is_alive, a, b), new, chain.state)
    # where the gradient was not finite, the draw that led to it is withdrawn
    position = jax.tree.map(lambda a, b: jnp.where(is_good, a, b), state.phase.position, chain.before)
    before = jax.tree.map(lambda a, b: jnp.where(is_good, a, b), chain.state.phase.position, chain.before)
    state = state._replace(phase=state.phase._replace(position=position))
    nothing = jnp.asarray(jnp.nan, tree.common_dtype(position))
    temperature_now = kinetic_temperature(kernel, info.after_friction)
    cuts = jnp.where(is_alive, info.cuts, 0)
    both = jnp.stack([is_good, is_alive])
    record = ChunkRecord(
        position, info.gradient_norm, temperature_now, info.accepted, nothing, both, cuts, info.largest_step
    )
    squares = chain.squares
    if squares is not None:
        squares = add_squares(squares, info.mean_momentum, row, is_alive & (row >= 0))
    return Chain(state, is_alive, before, chain.averages, squares=squares), record


@sound_filter_jit
def _averaged(averages: Averages, keeping: Keeping, position: PyTree) -> Averages:
    return add_to_averages(averages, keeping, position, jnp.ones((), bool))
