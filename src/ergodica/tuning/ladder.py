"""The run: a witness with twice the step first, then the answer, compared; a smaller step where they disagree.

The witness is the pilot that tells the length. Twice the step at constant friction times step has four times the bias
and takes a quarter of the steps, so what differs shows three times as large as what is wrong. Each rung is an ordinary
run, with a seed of its own.
"""

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.diagnostics.accuracy import LEVERAGE, MeasuredNumbers, Sums, measured, names_of, sums
from ergodica.driver.execute import execute
from ergodica.driver.request import Request
from ergodica.driver.run import Run
from ergodica.driver.work import NothingSampled
from ergodica.errors import NonFiniteError
from ergodica.tuning import law
from ergodica.tuning.plan import LENGTH_MARGIN, SamplingWay
from ergodica.tuning.settings import Settings

MOST_RUNGS = 4  # answers; each costs four times the last
MOST_LENGTHENINGS = 6
MOST_TIMES = 64  # what was planned: a run is never longer
HOPELESS_R_HAT = 1.5  # after two lengthenings: chains are at places that do not communicate
WITNESS_ROOM = 0.45  # of the tolerance: what the witness's own error may take of it
FEWEST_STEPS = 200  # of each chain
LONGEST_FACTOR = 4.0  # by which a run is lengthened at once


class LadderRung(NamedTuple):
    """A run of the ladder, what it was made with, and what was measured."""

    settings: Settings
    run: Run
    measured: MeasuredNumbers

    @property
    def steps(self) -> int:
        """Of all chains, with the warm-up."""
        request = self.settings.request
        return (int(self.run.settings["steps"]) + self.settings.way.warmup) * request.chains

    def passes(self) -> float:
        """Over the data."""
        way, costs = self.settings.way, self.settings.costs
        if way.method == "Metropolis":
            return float(self.steps * (way.leaps + 1))
        return self.steps * (1.0 if way.batch_size is None else 2 * way.batch_size / costs.rows)


class Outcome(NamedTuple):
    """What came of a way: the answer, its witness, and whether the accuracy was reached."""

    answer: LadderRung | None
    witness: LadderRung | None
    sums: Sums | None
    is_reached: bool
    rungs: list[LadderRung]
    trouble: str = ""
    before: str = ""
    """Why a way that was tried first did not do."""


Longer = Callable[[PyTree, dict[str, np.ndarray], int], int | None]
"""Steps of each chain that a run should have, from draws, statistics and how often it was lengthened; None: enough."""


class Place(NamedTuple):
    """Where rungs are made: in memory, or in a folder from which they can be resumed."""

    made: Callable[[Settings, str, Longer], Run]


def in_memory() -> Place:
    def made(settings: Settings, label: str, longer: Longer) -> Run:
        times, asked = itertools.count(), settings.request
        request = Request(asked.target, progress=asked.progress, **settings.arguments)
        return execute(request, lambda posterior, stats: longer(posterior, stats, next(times)), label)

    return Place(made)


def climb(settings: Settings, place: Place) -> Outcome:
    """Rungs until the accuracy is reached, the bias does not fall, or there were four."""
    rungs: list[LadderRung] = []
    witness = _witness(settings, place)
    if witness is not None:
        rungs.append(witness)
    way, trouble, answer, found = settings.way, "", None, None
    for number in range(1, MOST_RUNGS + 1):
        if witness is None:  # twice the step was too much: this rung becomes the witness
            answer = finite_rung(_sized(settings.with_way(way, number), None), place, "sampling", lambda *_: None)
        else:
            answer, found = _answer(settings, way, number, witness, place)
        if answer is None:
            trouble = f"chains became non-finite at step {way.step_size:.3g}"
        else:
            rungs.append(answer)
            if found is not None and found.is_within(settings.accuracy):
                return Outcome(answer, witness, found, True, rungs)
            if found is not None:
                trouble = complaint(answer, found)
                if found.is_unbiased_within(settings.accuracy) or not _is_biased(settings, found):
                    break  # a smaller step would not help: chains have not met, or the run would be too long
        if number == MOST_RUNGS:
            break
        witness, way = answer if answer is not None else None, way.halved()
    if answer is None or found is None:
        return Outcome(answer, None, None, False, rungs, trouble or "no two steps could be compared")
    return Outcome(answer, witness, found, False, rungs, trouble)


def _witness(settings: Settings, place: Place) -> LadderRung | None:
    """With twice the step, long enough for the comparison; None where its chains do not stay finite."""
    doubled = _sized(settings.with_way(settings.way.doubled(), 0), None)
    accuracy, z = settings.accuracy, settings.accuracy.z(settings.kept)
    bias = settings.bias(settings.way)

    def longer(posterior: PyTree, _: Any, times: int) -> int | None:
        met = measured(posterior)
        room = np.stack([(accuracy.sd - np.abs(bias)) * np.ones_like(met.sd), np.full_like(met.sd, accuracy.mean)])
        share = z * np.stack([met.sd_error, met.mean_error]) / LEVERAGE / (WITNESS_ROOM * room)
        factor = float(np.max(np.square(share), initial=0.0))
        if not math.isfinite(factor) or factor <= 1.1 or times >= 2:
            return None
        return int(draws_of(posterior) * doubled.way.thin * min(LONGEST_FACTOR, LENGTH_MARGIN * factor))

    return finite_rung(doubled, place, "witness", longer)


def _answer(
    settings: Settings, way: SamplingWay, number: int, witness: LadderRung, place: Place
) -> tuple[LadderRung | None, Sums | None]:
    """The run with half the witness's step, as long as its errors say; and what was reached."""
    accuracy, bias = settings.accuracy, (settings.bias(way), settings.bias(way.doubled()))
    here = _sized(settings.with_way(way, number), _steps_from(settings, way, witness))

    def longer(posterior: PyTree, _: Any, times: int) -> int | None:
        met = measured(posterior)
        found = sums(accuracy, met, witness.measured, bias)
        is_hopeless = times >= MOST_LENGTHENINGS or (times >= 2 and found.r_hat > HOPELESS_R_HAT)
        factor = None if is_hopeless or found.is_within(accuracy) else _factor(accuracy, found, met, witness.measured)
        if factor is None:
            return None
        return min(MOST_TIMES * here.steps, math.ceil(draws_of(posterior) * here.way.thin * factor))

    rung = finite_rung(here, place, "sampling", longer)
    if rung is None:
        return None, None
    return rung, sums(accuracy, rung.measured, witness.measured, bias)


def _factor(accuracy: Any, found: Sums, met: MeasuredNumbers, witness: MeasuredNumbers) -> float | None:
    """How many times as long the run must be; None where that would not help: the bias, or the witness, is too much."""
    needed = 1.0
    for bias, run, other, tolerance in (
        (found.sd_bias, met.sd_error, witness.sd_error, accuracy.sd),
        (found.mean_bias, met.mean_error, witness.mean_error, accuracy.mean),
    ):
        room = (tolerance - np.abs(bias)) / found.z
        left = (np.square(np.maximum(room, 0)) - np.square(other / LEVERAGE)) / (1 + 1 / LEVERAGE**2)
        if not np.all(left > 0):
            return None
        needed = max(needed, float(np.max(np.square(run) / left)))
    if found.r_hat > accuracy.r_hat:
        needed = max(needed, 1.5)
    return float(np.clip(LENGTH_MARGIN * needed, 1.2, LONGEST_FACTOR))


def _steps_from(settings: Settings, way: SamplingWay, witness: LadderRung) -> int:
    """Steps of each chain, from the errors of the witness and the times that the law gives."""
    accuracy, met, other = settings.accuracy, witness.measured, witness.settings.way
    z, made = accuracy.z(settings.kept), int(witness.run.settings["steps"])
    planned = way.steps / settings.request.chains
    bias = np.abs(settings.bias(way))
    needed = 0.0
    for error, tolerance, times in (
        (met.sd_error, accuracy.sd - bias, law.time_of_squares),
        (met.mean_error, accuracy.mean, law.time_of_means),
    ):
        here, there = (float(times(one.step_size, one.c, one.slowest)) for one in (way, other))
        ratio = here / there
        room = np.square(tolerance / z) - np.square(error / LEVERAGE)
        room = np.maximum(room, np.square(tolerance / z) / 4) / (1 + 1 / LEVERAGE**2)
        needed = max(needed, float(np.max(np.square(error) * made * ratio / room)))
    if not math.isfinite(needed):
        return math.ceil(planned)
    return math.ceil(np.clip(LENGTH_MARGIN * needed, planned / 2, LONGEST_FACTOR * planned))


def _sized(settings: Settings, steps: int | None) -> Settings:
    """With so many steps of each chain, and never too few to measure an error."""
    least = max(FEWEST_STEPS, 50 * settings.way.thin)
    return settings.with_way(settings.way, settings.rung, max(least, settings.steps if steps is None else steps))


def finite_rung(settings: Settings, place: Place, label: str, longer: Longer) -> LadderRung | None:
    """The rung; None where a chain did not stay finite."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the report says what was met
            run = place.made(settings, f"{label}, step {settings.way.step_size:.2g}", longer)
    except (NonFiniteError, NothingSampled):
        return None
    return LadderRung(settings, run, measured(run.posterior)) if run.is_finite else None


def draws_of(posterior: PyTree) -> int:
    return int(jax.tree.leaves(posterior)[0].shape[1])


def _is_biased(settings: Settings, found: Sums) -> bool:
    """Whether it is the bias that keeps some number from its tolerance: a smaller step has a quarter of it."""
    accuracy = settings.accuracy
    return bool(np.any(np.abs(found.sd_bias) > accuracy.sd / 2) or np.any(np.abs(found.mean_bias) > accuracy.mean / 2))


def complaint(rung: LadderRung, found: Sums) -> str:
    accuracy, parts, names = rung.settings.accuracy, [], names_of(rung.run.posterior)
    unknown = np.flatnonzero(~np.isfinite(found.sd + found.mean))
    if len(unknown):
        is_constant = rung.measured.sd[unknown[0]] == 0
        what = "never changes, and has no sd to measure by" if is_constant else "is not finite, or draws are too few"
        parts.append(f"the number {names[unknown[0]]} {what}: leave it out by `keep`")
    if np.any(found.sd > accuracy.sd):
        worst = float(np.nanmax(found.sd))
        parts.append(f"sds may be off by {worst:.1%} (bias {np.nanmax(np.abs(found.sd_bias)):.1%})")
    if np.any(found.mean > accuracy.mean):
        parts.append(f"means may be off by {float(np.nanmax(found.mean)):.2g} sd")
    if found.r_hat > accuracy.r_hat:
        parts.append(f"chains do not agree (R-hat {found.r_hat:.3f})")
    return "; ".join(parts)
