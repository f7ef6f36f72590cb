"""The work of `eg.sample`, as the loop sees it: chains advance, draws are kept, what goes wrong is noted and told."""

import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from ergodica import structure
from ergodica.driver.chunk import ChunkRecord
from ergodica.driver.draws import Store
from ergodica.driver.engine import Chains
from ergodica.driver.loop import now
from ergodica.errors import InputError, NonFiniteError
from ergodica.integrators import Kernel
from ergodica.kept_programs import keeping_programs

if TYPE_CHECKING:
    from ergodica.driver.checkpoint import Snapshot

ADVICE = "the step size is probably too large: try a tenth of it"
WALL_ADVICE = "where the density is zero behind a wall, give the target a domain= (eg.Box, eg.positive)"
LOST_AT_ONCE = 1_000  # steps: where no chain outlives them, nothing was sampled
ALLOWED_TEMPERATURE = 0.05  # of the temperature: a diagnosis calls no less than that wrong
LEAST_FRICTION = 1e-3  # times step: below it a diagnosis may call friction too small
EVALUATIONS = 100  # of held-out rows in a run, about
ENOUGH_DRAWS = 200  # of a chain: of fewer standard errors say little, and a start far out is most of the run


# -- chains that are no longer finite: frozen, named, with the step and what to do; never a NaN in silence ---


class NothingSampled(InputError):
    """No chain got far enough to be worth keeping."""


class Frozen(NamedTuple):
    """A chain that went no further, the first step whose draw does not stand, and the potential met after it where that
    was not finite."""

    chain: int
    step: int
    step_size: float
    potential: str | None = None

    def words(self) -> str:
        met = "is no longer finite" if self.potential is None else f"met a potential of {self.potential}"
        return f"chain {self.chain} {met} at step {self.step} with step size {self.step_size:g}"

    def advice(self) -> str:
        return ADVICE if self.potential is None else f"{ADVICE}; {WALL_ADVICE}"


def newly_frozen(
    kernel: Kernel, records: Sequence[ChunkRecord | None], first: int, sizes: np.ndarray, known: Sequence[Frozen]
) -> list[Frozen]:
    """Those frozen in the chunk that began at step `first`.

    `sizes`: of the step before the chunk, and of its own. Where a field of the recipe knows the reason (`eg.gsgrhmc`:
    its offset) the run stops with it.
    """
    found = []
    for chain, record in enumerate(records):
        if record is None or record.is_alive.all():
            continue
        at = int(np.argmin(record.is_alive))
        potential = record.potential[at]
        is_met = kernel.target.has_potential and not np.isfinite(potential)
        found.append(Frozen(chain, first - 1 + at, float(sizes[at]), f"{float(potential):g}" if is_met else None))
        if first + at == 0:
            met = f"its potential is {potential:g}" if is_met else "its gradient is not finite"
            raise NothingSampled(f"chain {chain} cannot start: {met}; start elsewhere, and {WALL_ADVICE}")
        reason = _explanation(kernel, record.potential[: at + 1])
        if reason is not None:
            raise NonFiniteError(f"{found[-1].words()}: {reason}")
    everyone = [*known, *found]
    if found and len(everyone) == len(records) and all(frozen.step < LOST_AT_ONCE for frozen in everyone):
        steps = max(frozen.step for frozen in everyone) + 1
        example = min(everyone, key=lambda frozen: frozen.step)
        raise NothingSampled(
            f"no chain is finite for more than {steps} steps, as {example.words()}: {example.advice()}"
        )
    return found


def _explanation(kernel: Kernel, potentials: Any) -> str | None:
    lowest = float(np.min(potentials[np.isfinite(potentials)], initial=np.inf))
    fields = (*kernel.recipe.diffusion.values(), *kernel.recipe.curl.values())
    return next((words for field in fields if (words := structure.explanation(field, lowest))), None)


# -- how far a run is ---------------------------------------------------------------------------------


@dataclass
class Journal:
    """How far a run is, and what it has met."""

    total: int
    step: int = 0
    seconds: float = 0.0
    frozen: list[Frozen] = field(default_factory=list)
    steps_cut: int = 0
    directions_cut: int = 0
    steps_seen: int = 0
    largest_step: float = np.inf
    evaluations: list[tuple[int, dict[str, float]]] = field(default_factory=list)
    """Of held-out rows (eg.score): steps made, and the score of each name."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"frozen": [list(one) for one in self.frozen]}

    @classmethod
    def from_dict(cls, words: dict[str, Any], total: int) -> "Journal":
        return cls(**words | {"frozen": [Frozen(*one) for one in words["frozen"]], "total": total})

    def note(self, chains: Chains, records: list[ChunkRecord | None], first: int, count: int) -> list[Frozen]:
        """What the steps met; the chains frozen in them."""
        before = max(first - 1, 0)
        sizes = np.append(chains.sizes.between(before, before + 1), chains.sizes.between(first, first + count))
        found = newly_frozen(chains.kernel, records, first, sizes, self.frozen)
        self.frozen += found
        self.steps_seen += count * len(records)
        for record in (record for record in records if record is not None and record.cuts.any()):
            self.steps_cut += int(np.count_nonzero(record.cuts))
            self.directions_cut += int(record.cuts.sum())
            largest = float(record.largest_step[record.is_alive[1:]].min(initial=np.inf))
            self.largest_step = min(self.largest_step, largest)
        return found


class SampledChains:
    """The chains of a run, what is kept of them, and how far they are: the loop's `Work`."""

    unit = "steps"

    def __init__(
        self,
        chains: Chains,
        store: Store,
        journal: Journal,
        identity: dict[str, Any],
        settings: dict[str, Any],
        label: str = "sampling",
    ):
        self.label = label
        self.chains, self.store, self.journal = chains, store, journal
        self.identity, self.settings = identity, settings
        self.lost: list[Frozen] = []
        """Chains frozen in the last stretch, of which nobody has been warned yet."""
        self._stretch: tuple[int, int, list[ChunkRecord | None]] = (0, 0, [])
        self._is_withdrawn, self._temperature, self._is_first = False, np.nan, True

    @property
    def step(self) -> int:
        return self.journal.step

    @property
    def total(self) -> int:
        return self.journal.total

    def advance(self, count: int, following: int) -> bool:
        first, begin = self.step, now()
        with keeping_programs() if self._is_first else nullcontext():
            records = self.chains.advance(first, count, following)
        self._is_first = False
        self.journal.seconds += now() - begin
        self.lost = self.journal.note(self.chains, records, first, count)
        self._stretch = (first, count, records)
        return True

    def keep(self) -> None:
        first, count, records = self._stretch
        self._is_withdrawn = _withdraw(self.chains, self.store, records, first)
        self._temperature = _keep(self.chains, self.store, records, first, count)
        self.journal.step = first + count
        if self.chains.keeping.scores and self._is_evaluated():
            self.journal.evaluations.append((self.step, self.chains.scores()))

    def _is_evaluated(self) -> bool:
        """At the same steps in every run, whatever its pace: at ends of chunks, about a hundred times."""
        every = self.chains.length * -(-self.total // (EVALUATIONS * self.chains.length))
        return self.step > self.chains.kept.warmup and (self.step % every == 0 or self.step == self.total)

    def must_save(self) -> bool:
        return self._is_withdrawn or bool(self.lost)

    def announce(self) -> None:
        """Say which chains were frozen, once for each. Where warnings are errors this ends the run: what it has must be
        on disk by then."""
        lost, self.lost = self.lost, []
        for frozen in lost:
            warnings.warn(f"{frozen.words()} and stays at its last finite state: {frozen.advice()}", stacklevel=3)

    def snapshot(self) -> "Snapshot":
        from ergodica.driver.checkpoint import Snapshot
        from ergodica.driver.part_folder import DrawFiles, moment_arrays, numbered_leaves

        tree, cursor = self.chains.saved()
        files = DrawFiles(self.store)
        record = {
            "step": self.step, "journal": self.journal.to_dict(), "draws": self.chains.kept.before(self.step),
            "cursor": cursor, "settings": self.settings,
            "identity": self.identity | {"step_size": self.chains.sizes.digest(self.step)},
        }  # fmt: skip
        return Snapshot(numbered_leaves(tree) | files.last | moment_arrays(self.chains.moments()), record, files)

    def reached(self) -> tuple[int, int, str]:
        frozen = len(self.journal.frozen)
        words = f"kinetic temperature {self._temperature:.3g}" if np.isfinite(self._temperature) else ""
        if self.journal.evaluations:
            words += "".join(f" {name} {score:.4g}" for name, score in self.journal.evaluations[-1][1].items())
        words += f" [red]{frozen} chain{'s' if frozen > 1 else ''} non-finite[/red]" if frozen else ""
        return self.step, self.total, words

    def where(self) -> str:
        return f"stopped at step {self.step:,} of {self.total:,}"

    def warn_of_what_was_met(self, stats: dict[str, np.ndarray], settings: dict[str, Any], temperatures: Any) -> None:
        """All that a person should know before they read the draws; after the file is written, because where warnings
        are errors there would never be one."""
        self.announce()
        _warn_of_cuts(self.journal, float(np.max(stats["step_size"], initial=0.0)))
        _warn_of_refusals(stats)
        _warn_of_temperature(stats, settings, temperatures)


def _withdraw(chains: Chains, store: Store, records: list[ChunkRecord | None], first: int) -> bool:
    """Withdraw the last draw of chains whose first evaluation in this chunk was not finite; whether there were any."""
    lost = [chain for chain, record in enumerate(records) if record is not None and not record.is_alive[0]]
    if not lost or first == 0 or len(chains.kept.between(first - 1, first)) == 0:
        return False
    for chain in lost:
        store.withdraw(chain, chains.frozen_draw(chain) if store.leaves else None)
    return True


def _keep(chains: Chains, store: Store, records: list[ChunkRecord | None], first: int, count: int) -> float:
    """Hand the kept steps to the store; their mean kinetic temperature."""
    places = chains.kept.between(first, first + count) - first
    if len(places) == 0:
        return np.nan
    sizes = chains.sizes.between(first, first + count)[places]
    rows, draws = [], []
    for chain, record in enumerate(records):
        rows.append(_statistics(record, places, sizes))
        if record is not None:
            draws.append(record.draws)
        elif store.leaves:
            one = chains.frozen_draw(chain)
            draws.append(jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], len(places), axis=0), one))
    store.add(draws if store.leaves else [], {name: np.stack([row[name] for row in rows]) for name in rows[0]})
    known = np.concatenate([row["kinetic_temperature"] for row in rows])
    return float(np.nanmean(known)) if np.isfinite(known).any() else np.nan


def _statistics(record: ChunkRecord | None, places: np.ndarray, sizes: np.ndarray) -> dict[str, np.ndarray]:
    """Of one chain's kept steps; NaN from the first one on whose draw does not stand."""
    if record is None:
        nothing = np.full(len(places), np.nan)
        met = {"potential": nothing, "gradient_norm": nothing, "kinetic_temperature": nothing}
        frozen = np.ones(len(places), bool)
        return {"step_size": sizes, **met, "diverging": frozen, "accepted": ~frozen}
    alive = record.is_alive[1:][places]
    met = {
        "potential": record.potential[places],
        "gradient_norm": record.gradient_norm,
        "kinetic_temperature": record.kinetic_temperature,
    }
    met = {name: np.where(alive, values, np.nan) for name, values in met.items()}
    return {"step_size": sizes, **met, "diverging": ~alive, "accepted": record.accepted & alive}


# -- warnings at the end of a run -----------------------------------------------------------------------


def _warn_of_cuts(journal: Journal, largest: float) -> None:
    """Where compensating for gradient noise cut the injected noise, say so once, with the step that would not."""
    if journal.steps_cut:
        warnings.warn(
            f"gradient noise exceeded the noise to inject in {journal.steps_cut} of {journal.steps_seen} steps "
            f"({journal.directions_cut} directions cut at zero): the law is too wide there. The largest admissible "
            f"step was {journal.largest_step:.3g}, the run used up to {largest:.3g}",
            stacklevel=3,
        )


def _warn_of_refusals(stats: dict[str, np.ndarray]) -> None:
    """A chain whose trajectories were all refused has not moved, and looks like any other."""
    stuck = np.flatnonzero(~stats["accepted"].any(axis=1) & ~stats["diverging"].all(axis=1))
    if stuck.size:
        chains = f"chain{'s' if stuck.size > 1 else ''} {', '.join(map(str, stuck[:10]))}"
        warnings.warn(f"{chains}: none of the steps kept was accepted, so nothing was sampled; {ADVICE}", stacklevel=3)


def _warn_of_temperature(stats: dict[str, np.ndarray], settings: dict[str, Any], measured: Any) -> None:
    """A run whose momenta are too hot or too cold has sampled another law: say so, as a diagnosis would."""
    good = np.asarray(~stats["diverging"].any(axis=1))
    met = stats["kinetic_temperature"][good]
    if met.size == 0 or met.shape[1] < ENOUGH_DRAWS or not np.isfinite(met).all():
        return
    off = abs(met.mean() / settings["temperature"] - 1)
    if measured is not None:
        means = np.average(measured.values[good], axis=1, weights=measured.steps).mean(axis=0)
        off = max(off, float(np.max(np.abs(means / settings["temperature"] - 1), initial=0.0)))
    is_refreshed = settings.get("least_friction", np.inf) * stats["step_size"].mean() >= LEAST_FRICTION
    if off <= ALLOWED_TEMPERATURE and is_refreshed:
        return
    from ergodica.diagnostics import temperatures

    correlation = float(settings.get("chain_correlation") or 0.0)
    checks = [temperatures.kinetic(stats, settings, good, correlation)]
    checks.append(temperatures.by_coordinate(measured, settings, good, correlation))
    wrong = [check.explanation for check in checks if check is not None and not check.passed]
    friction = temperatures.weak_friction(stats, settings)
    if wrong:  # by coordinate, where that is known: it names the worst, and says how many are off
        warnings.warn(
            f"this is not the law asked for: {' '.join([wrong[-1], *filter(None, [friction])])}", stacklevel=3
        )
    elif friction is not None:
        warnings.warn(friction, stacklevel=3)
