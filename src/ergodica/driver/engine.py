"""Chains over compiled chunks: one call for each chain on a thread per core, or for a group on the same batches."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.driver.chunk import Chain, ChunkPlan, ChunkRecord, chunk_length, run_chunk, standing, with_reference
from ergodica.driver.draws import MERGED_AFTER_DRAWS, Bath, halved_rows, no_squares, stretch_of, temperatures_of
from ergodica.driver.keeping import (
    Averages,
    emptied,
    merged_averages,
    moments_of_chains,
    no_averages,
    no_averages_yet,
)
from ergodica.driver.kept import pooled_log_density
from ergodica.driver.keys import chunk_keys, seed_words
from ergodica.driver.large import LARGE_POSITION, LargeChain, large_chunk_length
from ergodica.driver.minibatches import Gathered, Independent, Minibatches, RowNumbers, Windows, places_ahead
from ergodica.driver.request import Request
from ergodica.driver.schedules import StepSizes
from ergodica.host.threads import Threads
from ergodica.integrators import Kernel, State

if TYPE_CHECKING:
    from ergodica.driver.streamed import Feed
    from ergodica.gradients.control import References

MOST_ROW_NUMBERS = 2**24  # numbers of rows that are drawn ahead for a chunk of one chain


class Chains(ABC):
    """The chains of a run: `Engine` in compiled code, `ExternalEngine` with gradients from outside.

    Between two calls of `advance` they can be saved.
    """

    batch_kind: str | None = None
    refresh: int | None = None
    """Steps between two references of a gradient estimator, where it has them."""
    chains: list[Chain]
    bath: Bath | None = None

    def __init__(self, kernel: Kernel, request: Request, sizes: StepSizes, states: list[State], threads: Threads):
        position = states[0].phase.position
        self.kernel, self.sizes, self.kept, self.keeping = kernel, sizes, request.kept, request.keeping
        self.threads, self.temperature = threads, jnp.asarray(request.temperature, float)
        self.length = chunk_length(position, len(states), request.share_batches)
        self.blank: Averages | None = None
        """What a chain's averages are at the start of a run."""
        self.totals: list[Averages] | None = None
        if self.keeping.is_averaged:
            self.blank = no_averages(self.keeping, position, self.kept.draws)
            self.totals = [no_averages_yet(self.blank)] * len(states)

    @abstractmethod
    def advance(self, first: int, count: int, following: int) -> list[ChunkRecord | None]:
        """Steps first, ..., first + count - 1 of every chain; None of one that is frozen. `following`: how many come
        after them, to be read ahead."""

    @abstractmethod
    def saved(self) -> tuple[PyTree, Any]:
        """All that a checkpoint must hold: arrays, and the cursor of the data."""

    @abstractmethod
    def restore(self, saved: PyTree, cursor: Any) -> None: ...

    def close(self) -> None:
        self.threads.close()

    def program(self) -> int | None:
        """A number that tells compiled chunks apart: those that agree have been compiled, and take as long."""
        return None

    def is_alive(self, chain: int) -> bool:
        return bool(self.chains[chain].is_alive)

    def frozen_draw(self, chain: int) -> PyTree:
        """What a frozen chain adds at every step that is kept."""
        return self.keeping.drawn(self.chains[chain].state.phase.position)

    def moments(self) -> Any:
        """Count, mean and variance of each chain, leaves (chain, ...); None where nothing is averaged."""
        if self.totals is None:
            return None
        new = [chain.averages for chain in self.chains]
        totals = [
            total if one is None else merged_averages(total, one) for total, one in zip(self.totals, new, strict=True)
        ]
        return moments_of_chains(totals, [one.log_sums for one in new if one is not None and one.batches is not None])

    def scores(self) -> dict[str, float]:
        """The mean log predictive density of each score's rows, by the draws of all chains so far."""
        if not self.keeping.scores or self.totals is None:
            return {}
        moments = self.moments()
        if not moments.count.sum():
            return {}
        return {name: float(pooled_log_density(one, moments.count).mean()) for name, one in moments.score.items()}

    def measure(self, bath: Bath) -> None:
        """Count squares of the momentum, from the first step after the warm-up on."""
        self.bath = bath
        self.chains = [self._placed(one._replace(squares=no_squares(one.state.phase.position))) for one in self.chains]

    def temperatures(self) -> Any:
        """By coordinate; None where they are not measured."""
        if self.bath is None:
            return None
        sums, warmup, total = [chain.squares for chain in self.chains], self.kept.warmup, self.kept.total
        squares, like = self.bath.squares(float(self.sizes.given)), self.chains[0].state.phase.position
        return temperatures_of(sums, total - warmup, self._stretch(total - 1), squares, like)

    def _placed(self, chain: Chain) -> Chain:
        """Where a chunk leaves it."""
        return chain

    def _stretch(self, step: int) -> int:
        """Steps of a row of the thermometer at this one: rows hold all steps up to the next multiple of `length`."""
        return stretch_of(self.chains[0].squares, (step // self.length + 1) * self.length - self.kept.warmup)

    def _rows(self, first: int) -> np.ndarray:
        """Where the steps of a chunk are counted. Rows are made longer, each two of them one, at fixed steps."""
        steps = np.arange(first, first + self.length) - self.kept.warmup
        if self.bath is None:
            return np.full(self.length, -1, np.int32)
        return np.where(steps < 0, -1, steps // self._stretch(first)).astype(np.int32)

    def _lengthen_rows(self, first: int) -> None:
        if self.bath is None or first == 0 or first % self.length:
            return
        before = self._stretch(first - 1)
        while before < self._stretch(first):
            before *= 2
            self.chains = [self._placed(one._replace(squares=halved_rows(one.squares))) for one in self.chains]


def threads_for(chains: int) -> Threads:
    """Those of an engine with so many chains."""
    return Threads(_workers(chains), "ergodica", _as_here())


def _workers(chains: int) -> int:
    return min(chains, os.cpu_count() or 1)


def _as_here() -> Callable[[], None]:
    """Sets float64 in a new thread as it is in this one: `with jax.enable_x64(True)` holds in its own thread alone."""
    is_wide = jax.dtypes.canonicalize_dtype(float) == np.float64

    def enter() -> None:
        jax.enable_x64(is_wide).__enter__()

    return enter


class Engine(Chains):
    """Chains in compiled chunks.

    Args:
        own: each chain's reference of a gradient estimator, or None.
        feed: where the batches come from a stream.
    """

    def __init__(
        self,
        kernel: Kernel,
        request: Request,
        sizes: StepSizes,
        states: list[State],
        threads: Threads,
        *,
        own: list[PyTree],
        references: "References | None",
        batches: Minibatches | None,
        feed: "Feed | None",
    ):
        super().__init__(kernel, request, sizes, states, threads)
        self.seed, self.batches, self.feed = seed_words(request.seed), batches, feed
        position = states[0].phase.position
        self.is_large = tree.size(position) >= LARGE_POSITION and not request.share_batches
        if self.is_large:
            stored = jax.eval_shape(self.keeping.drawn, position)
            self.length = large_chunk_length(tree.size(position), self.kept.thin, tree.size(stored))
        self.references, self.refresh = references, None if references is None else references.refresh
        self.numbered = None
        if batches is not None:
            self.batch_kind = batches.kind
        if feed is not None:
            self.length = min(self.length, feed.longest)
        if isinstance(batches, Gathered) and not isinstance(batches, Independent):
            self.numbered = RowNumbers(batches, request.seed)
            self.length = max(2, min(self.length, MOST_ROW_NUMBERS // (batches.length * (1 + batches.is_paired))))
        # where rows were put that JAX may not move elsewhere
        held = [leaf for leaf in jax.tree.leaves(batches) if isinstance(leaf, jax.Array) and leaf.committed]
        self._device = next(iter(held[0].devices())) if held else None
        alive, has_before = jnp.ones((), bool), self.is_large or self.keeping.draws is not None
        self.chains = [
            self._placed(Chain(state, alive, state.phase.position if has_before else None, self.blank, reference))
            for state, reference in zip(states, own, strict=True)
        ]
        groups = np.array_split(np.arange(len(states)), _workers(len(states)))
        self.groups = groups if request.share_batches else None

    def close(self) -> None:
        super().close()
        if self.feed is not None:
            self.feed.close()

    def program(self) -> int | None:
        leaves, structure = jax.tree.flatten((self.kernel, self.batches, self.keeping, self.chains[0]))
        kinds = tuple((leaf.shape, str(leaf.dtype)) if eqx.is_array(leaf) else leaf for leaf in leaves)
        try:
            return hash((structure, kinds, self.length, len(self.chains), self.groups is None))
        except TypeError:  # something that a person's own module holds
            return None

    def _placed(self, chain: Chain) -> Chain:
        """A chain that JAX may still move is another program to it, compiled once more."""
        return chain if self._device is None else jax.device_put(chain, self._device)

    def advance(self, first: int, count: int, following: int) -> list[ChunkRecord | None]:
        self._lengthen_rows(first)
        if self.references is not None and self.references.is_due(first):
            self._renew_references(self.references)
        handed = None if self.feed is None else self.feed.take(count, following, self.length)
        if self.groups is None:
            living = [i for i in range(len(self.chains)) if self.is_alive(i)]
            jobs = {i: self.threads.submit(self._advance_one, i, first, count, handed) for i in living}
            records = [jobs[i].result() if i in jobs else None for i in range(len(self.chains))]
        else:
            groups = [self.threads.submit(self._advance_group, g, first, count, handed) for g in self.groups]
            records = [record for job in groups for record in job.result()]
        if self.totals is not None and ((first + count) % self.length == 0 or first + count == self.kept.total):
            self._merge_averages(is_last=first + count == self.kept.total)
        return records

    def _span(self, number: Any, first: int, count: int, handed: PyTree) -> ChunkPlan:
        # NumPy arrays: each one made by JAX costs as much as several steps
        steps = np.arange(first, first + self.length, dtype=np.int32)
        keys = chunk_keys(self.seed, np.asarray(number, np.int32), steps)
        # a group has the batches of chain 0, as in a run where each has its own
        chain = int(np.min(number)) if self.groups is None else 0
        places = self._places(chain, first, count, steps, keys, handed)
        padded = np.empty(self.length, self.temperature.dtype)
        padded[:count] = self.sizes.between(first, first + count)
        padded[count:] = padded[count - 1]
        kept = np.full(self.length // self.kept.thin + 1, self.length, np.int32)
        here = self.kept.between(first, first + count) - first
        kept[: len(here)] = here
        made, is_last = np.asarray(count, np.int32), np.asarray(first + count == self.kept.total, np.int32)
        was_kept = np.asarray(first > 0 and len(self.kept.between(first - 1, first)) > 0)
        rows = self._rows(first)
        return ChunkPlan(keys, places, steps, padded, made, is_last, was_kept, rows, kept, self.temperature)

    def _places(self, chain: int, first: int, count: int, steps: np.ndarray, keys: Array, handed: PyTree) -> PyTree:
        """Of a chunk's batches."""
        if handed is not None:  # it goes in as it is: through another compiled call it would be copied
            return handed[chain]
        if self.numbered is not None:
            # of the steps that are made: all of a chunk's would take as long as many steps of a short one
            rows = self.numbered.rows(chain, first, count)
            places = np.zeros((self.length, *rows.shape[1:]), rows.dtype)
            places[:count] = rows
            return places
        if not isinstance(self.batches, Windows | Independent):
            return None
        own = keys if self.groups is None else chunk_keys(self.seed, np.asarray(chain, np.int32), steps)
        return places_ahead(self.batches, own)

    def _advance_one(self, chain: int, first: int, count: int, handed: PyTree) -> ChunkRecord:
        span = self._span(chain, first, count, handed)
        if self.is_large:
            large = LargeChain(self.kernel, self.batches, self.keeping, self.kept, first)
            self.chains[chain], record = large.advance(self.chains[chain], span, count)
            return self._with_standing(chain, record, first, count)
        self.chains[chain], record = run_chunk(self.kernel, self.batches, self.keeping, self.chains[chain], span)
        return self._trimmed(chain, record, first, count)

    def _advance_group(self, group: np.ndarray, first: int, count: int, handed: PyTree) -> list[ChunkRecord | None]:
        # stacked and taken apart by NumPy: JAX takes as long as hundreds of steps over that many small arrays
        chains = jax.tree.map(lambda *leaves: np.stack(leaves), *(self.chains[i] for i in group))
        was_alive = [self.is_alive(i) for i in group]
        span = self._span(group, first, count, handed)
        chains, record = jax.tree.map(np.asarray, run_chunk(self.kernel, self.batches, self.keeping, chains, span))
        records: list[ChunkRecord | None] = []
        for place, i in enumerate(group):
            self.chains[i] = jax.tree.map(lambda leaf, p=place: leaf[p], chains)
            one = jax.tree.map(lambda leaf, p=place: leaf[:, p], record)
            records.append(self._trimmed(int(i), one, first, count) if was_alive[place] else None)
        return records

    def _trimmed(self, chain: int, record: ChunkRecord, first: int, count: int) -> ChunkRecord:
        n = self.kept.before(first + count) - self.kept.before(first)

        def cut(part: PyTree, length: int) -> PyTree:
            return jax.tree.map(lambda leaf: np.asarray(leaf)[:length], part)

        trimmed = ChunkRecord(*cut(record[:4], n), *cut(record[4:6], count + 1), *cut(record[6:], count))
        return self._with_standing(chain, trimmed, first, count)

    def _with_standing(self, chain: int, record: ChunkRecord, first: int, count: int) -> ChunkRecord:
        """With the draws that do not stand replaced."""
        if record.draws is None or record.is_alive.all():
            return record
        is_alive = record.is_alive[1:][self.kept.between(first, first + count) - first]
        return record._replace(draws=standing(record.draws, is_alive, self.frozen_draw(chain)))

    def _merge_averages(self, is_last: bool) -> None:
        assert self.totals is not None
        for i, chain in enumerate(self.chains):
            assert chain.averages is not None
            if is_last or int(chain.averages.draws.number) + self.length > MERGED_AFTER_DRAWS:
                self.totals[i] = merged_averages(self.totals[i], chain.averages)
                self.chains[i] = self._placed(chain._replace(averages=emptied(chain.averages)))

    def _renew_references(self, references: "References") -> None:
        for i, chain in enumerate(self.chains):
            if self.is_alive(i):
                renewed = references.renewed(chain.state.phase.position, chain.reference)
                self.chains[i] = chain._replace(reference=renewed)

    def saved(self) -> tuple[PyTree, Any]:
        cursor = None if self.feed is None else self.feed.cursor
        shared = None if self.references is None else self.references.shared
        return (self.chains, self.totals, shared), cursor

    def restore(self, saved: PyTree, cursor: Any) -> None:
        chains, self.totals, shared = saved
        self.chains = [self._placed(jax.tree.map(jnp.asarray, chain)) for chain in chains]
        if self.references is not None and shared is not None:
            self.references.shared = jax.tree.map(jnp.asarray, shared)
            self.kernel = with_reference(self.kernel, self.references.shared)
        if self.feed is not None:
            self.feed.seek(cursor)
