"""The loop over chunks: what happens between two of them, for chains in JAX and for gradients from outside."""

import warnings
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.driver.checkpoint import Checkpoint
from ergodica.driver.chunk import Visit
from ergodica.driver.finite import ADVICE, Frozen, newly_frozen, warn_of_frozen
from ergodica.driver.pace import Pace, now
from ergodica.driver.schedules import StepSizes
from ergodica.driver.store import Kept, Store
from ergodica.host.progress import counting
from ergodica.host.signals import Interrupts
from ergodica.integrators import Kernel
from ergodica.kept_programs import keeping_programs

ALLOWED = 0.05  # of the temperature: a diagnosis calls no less than that wrong
ENOUGH = 200  # draws of a chain: of fewer standard errors say little, and a start far out is most of the run


class Chains(Protocol):
    """What the loop asks of the chains."""

    kernel: Kernel
    sizes: StepSizes
    kept: Kept

    def advance(self, first: int, count: int, following: int) -> list[Visit | None]: ...
    def frozen_draw(self, chain: int) -> PyTree: ...
    def saved(self) -> tuple[PyTree, Any]: ...


@dataclass
class Course:
    """How far a run is, and what it has met."""

    total: int
    step: int = 0
    seconds: float = 0.0
    frozen: list[Frozen] = field(default_factory=list)
    steps_cut: int = 0
    directions_cut: int = 0
    steps_seen: int = 0
    largest_step: float = np.inf

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"frozen": [list(one) for one in self.frozen]}

    @classmethod
    def from_dict(cls, words: dict[str, Any], total: int) -> "Course":
        return cls(**words | {"frozen": [Frozen(*one) for one in words["frozen"]], "total": total})


def follow(
    chains: Chains,
    store: Store,
    course: Course,
    pace: Pace,
    checkpoint: Checkpoint | None,
    interrupts: Interrupts,
    progress: bool,
) -> list[Frozen]:
    """Every chain to its last step; what is kept goes to the store as it comes.

    Returns:
        The chains frozen in the last chunk, to be warned of when the file is written.
    """
    found: list[Frozen] = []
    total, is_first = course.total, True
    with counting("sampling", "steps", total, progress, course.step) as tell:
        count = pace.count(course.step) if course.step < total else 0
        while course.step < total:
            first, begin = course.step, now()
            following = pace.count(first + count) if first + count < total else 0
            with keeping_programs() if is_first else nullcontext():
                visits = chains.advance(first, count, following)
            is_first = False
            taken = now() - begin
            pace.made(count, taken)
            found = _note(chains, course, visits, first, count)
            with nullcontext() if checkpoint is None else checkpoint.advising():
                is_withdrawn = _withdraw(chains, store, visits, first)
                temperature = _keep(chains, store, visits, first, count)
                course.step, course.seconds, count = first + count, course.seconds + taken, following
                tell(course.step, _note_of(temperature, len(course.frozen)))
                if checkpoint is not None:
                    # of draws that were changed the checkpoint before says something else; of a chain that is frozen
                    # a warning follows, which is not given again
                    is_urgent = interrupts.received is not None or is_withdrawn or bool(found)
                    checkpoint.save_if_due(chains, course, is_urgent=is_urgent)
            if course.step < total:
                warn_of_frozen(found)
                if interrupts.received is not None:
                    interrupts.stop(f"stopped at step {course.step:,} of {total:,}; {interrupts.advice}")
    return found


def _note(chains: Chains, course: Course, visits: list[Visit | None], first: int, count: int) -> list[Frozen]:
    """What the steps met; the chains frozen in them."""
    before = max(first - 1, 0)
    sizes = np.append(chains.sizes.between(before, before + 1), chains.sizes.between(first, first + count))
    found = newly_frozen(chains.kernel, visits, first, sizes, course.frozen)
    course.frozen += found
    seen = [visit for visit in visits if visit is not None]
    course.steps_seen += count * len(visits)
    for visit in seen:
        cut = np.count_nonzero(visit.cuts)
        if cut:
            course.steps_cut += int(cut)
            course.directions_cut += int(visit.cuts.sum())
            course.largest_step = min(
                course.largest_step, float(visit.largest_step[visit.is_alive[1:]].min(initial=np.inf))
            )
    return found


def _note_of(temperature: float, frozen: int) -> str:
    """For the progress display."""
    words = f"kinetic temperature {temperature:.3g}" if np.isfinite(temperature) else ""
    return words + (f" [red]{frozen} chain{'s' if frozen > 1 else ''} non-finite[/red]" if frozen else "")


def _withdraw(chains: Chains, store: Store, visits: list[Visit | None], first: int) -> bool:
    """Take back the last draw of chains whose first evaluation in this chunk was not finite; whether there were any."""
    lost = [chain for chain, visit in enumerate(visits) if visit is not None and not visit.is_alive[0]]
    if not lost or first == 0 or len(chains.kept.between(first - 1, first)) == 0:
        return False
    for chain in lost:
        store.withdraw(chain, chains.frozen_draw(chain) if store.leaves else None)
    return True


def _keep(chains: Chains, store: Store, visits: list[Visit | None], first: int, count: int) -> float:
    """Hand the kept steps to the store; their mean kinetic temperature."""
    places = chains.kept.between(first, first + count) - first
    if len(places) == 0:
        return np.nan
    sizes = chains.sizes.between(first, first + count)[places]
    rows, draws = [], []
    for chain, visit in enumerate(visits):
        rows.append(_statistics(visit, places, sizes))
        if visit is not None:
            draws.append(visit.draws)
        elif store.leaves:
            one = chains.frozen_draw(chain)
            draws.append(jax.tree.map(lambda leaf: np.repeat(np.asarray(leaf)[None], len(places), axis=0), one))
    store.add(draws if store.leaves else [], {name: np.stack([row[name] for row in rows]) for name in rows[0]})
    temperatures = [row["kinetic_temperature"] for row in rows]
    known = np.concatenate(temperatures)
    return float(np.nanmean(known)) if np.isfinite(known).any() else np.nan


def _statistics(visit: Visit | None, places: np.ndarray, sizes: np.ndarray) -> dict[str, np.ndarray]:
    """Of one chain's kept steps; NaN from the first one on whose draw does not stand."""
    if visit is None:
        nothing = np.full(len(places), np.nan)
        met = {"potential": nothing, "gradient_norm": nothing, "kinetic_temperature": nothing}
        frozen = np.ones(len(places), bool)
        return {"step_size": sizes, **met, "diverging": frozen, "accepted": ~frozen}
    alive = visit.is_alive[1:][places]
    met = {
        "potential": visit.potential[places],
        "gradient_norm": visit.gradient_norm,
        "kinetic_temperature": visit.kinetic_temperature,
    }
    met = {name: np.where(alive, values, np.nan) for name, values in met.items()}
    return {"step_size": sizes, **met, "diverging": ~alive, "accepted": visit.accepted & alive}


def warn_of_cuts(course: Course, largest: float) -> None:
    """Where compensating for gradient noise cut the injected noise, say so once, with the step that would not."""
    if course.steps_cut:
        warnings.warn(
            f"gradient noise exceeded the noise to inject in {course.steps_cut} of {course.steps_seen} steps "
            f"({course.directions_cut} directions cut at zero): the law is too wide there. The largest admissible step "
            f"was {course.largest_step:.3g}, the run used up to {largest:.3g}",
            stacklevel=3,
        )


def warn_of_refusals(stats: dict[str, np.ndarray]) -> None:
    """A chain whose trajectories were all refused has not moved, and looks like any other."""
    stuck = np.flatnonzero(~stats["accepted"].any(axis=1) & ~stats["diverging"].all(axis=1))
    if stuck.size:
        chains = f"chain{'s' if stuck.size > 1 else ''} {', '.join(map(str, stuck[:10]))}"
        warnings.warn(f"{chains}: none of the steps kept was accepted, so nothing was sampled; {ADVICE}", stacklevel=3)


def warn_of_temperature(stats: dict[str, np.ndarray], settings: dict[str, Any]) -> None:
    """A run whose momenta are too hot or too cold has sampled another law: say so, as a diagnosis would."""
    good = np.asarray(~stats["diverging"].any(axis=1))
    met = stats["kinetic_temperature"][good]
    if met.size == 0 or met.shape[1] < ENOUGH or not np.isfinite(met).all():
        return
    if abs(met.mean() / settings["temperature"] - 1) <= ALLOWED:
        return
    from ergodica.diagnostics import temperatures

    check = temperatures.kinetic(stats, settings, good, float(settings.get("chain_correlation") or 0.0))
    if check is not None and not check.passed:
        warnings.warn(f"this is not the law asked for: {check.explanation}", stacklevel=3)
