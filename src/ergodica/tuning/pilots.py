"""All data with a Metropolis test: exact at every step, so without a witness; short pilots set the step and the scale.

Laplace's widths are a first guess. Where a posterior is not Gaussian, or has no mode, pilots of 100 trajectories put
the covariance of what they drew beside it, and take as many leaps as are cheapest for what was accepted.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree
from scipy.stats import norm

from ergodica.diagnostics.accuracy import MeasuredNumbers, Sums, measured, sums
from ergodica.driver.constrained import as_sampled
from ergodica.driver.run import Run
from ergodica.tuning.ladder import (
    HOPELESS_R_HAT,
    LONGEST_FACTOR,
    MOST_LENGTHENINGS,
    MOST_TIMES,
    LadderRung,
    Outcome,
    Place,
    complaint,
    draws_of,
    finite_rung,
)
from ergodica.tuning.plan import LENGTH_MARGIN, QUARTER_TURN, SamplingWay, trajectory
from ergodica.tuning.settings import Settings

PILOT_STEPS = (100, 100, 200, 400)  # trajectories of each chain
FIRST_PILOT_RUNG = 10  # their seeds are apart from those of the ladder
SETTLED_WIDTHS = (0.7, 1.5)  # sds in whitened units
SETTLED_ACCEPTANCE = (0.6, 0.97)
SETTLED_R_HAT = 1.15
KNOWN_DRAWS = 10.0  # what Laplace's covariance counts for, in draws, and each number once more
MOST_HALVINGS = 3  # of the step, where chains were stuck
STUCK_FACTOR, STUCK_LEAST = 4.0, 20  # longest row of rejections, over what chance makes of the share accepted
LOST_ACCEPTANCE = 0.02  # as if that share were accepted, where chains did not stay finite


class Pilot(NamedTuple):
    """What a pilot has met."""

    acceptance: float
    widths: np.ndarray
    """Of its draws, in units of the scale it was made with."""
    covariance: np.ndarray
    r_hat: float
    ends: tuple[PyTree, ...]

    @property
    def is_settled(self) -> bool:
        low, high = SETTLED_WIDTHS
        is_scaled = bool(np.all((self.widths > low) & (self.widths < high)))
        return (
            is_scaled and SETTLED_ACCEPTANCE[0] < self.acceptance < SETTLED_ACCEPTANCE[1] and self.r_hat < SETTLED_R_HAT
        )


def metropolis(plan: Settings, place: Place) -> Outcome:
    """Pilots until step and scale have settled, then a run that is lengthened until the accuracy is reached."""
    way = next(way for way in plan.ways if way.method == "Metropolis")
    # no turning by gradient noise, of which there is none; every number of the position is looked at in pilots
    settings = replace(plan, noise=None, ways=(way, *(other for other in plan.ways if other is not way)))
    rungs: list[LadderRung] = []
    # at all modes in turn, where there are several, so that R-hat sees whether they communicate
    apart = settings.arguments["init"].positions if settings.laplace.others else None
    pilot = None
    for number, steps in enumerate(PILOT_STEPS):
        request = replace(settings.request, keep=as_sampled(settings.request))
        shown = replace(settings, request=request).with_way(settings.way, FIRST_PILOT_RUNG + number, steps)
        rung = finite_rung(shown, place, f"pilot {number + 1}", lambda *_: None)
        if rung is None:
            settings = _with_leaps(settings, LOST_ACCEPTANCE)
            continue
        rungs.append(rung)
        pilot = _looked_at(settings, rung.run)
        if pilot.is_settled:
            break
        settings = _improved(settings, pilot)
    if pilot is None:
        return Outcome(None, None, None, False, rungs, "chains became non-finite at every step tried")
    settings = replace(settings, starts=apart or pilot.ends)
    halvings = 0
    while True:
        answer, found = _run(settings.with_way(settings.way, plan.rung + halvings), place)
        if answer is None or found is None:
            return Outcome(None, None, None, False, rungs, "chains became non-finite")
        rungs.append(answer)
        stuck = stuck_for(answer.run.stats["accepted"])
        if not stuck or halvings == MOST_HALVINGS:
            break
        halvings += 1
        way = settings.way._replace(step_size=settings.way.step_size / 2, leaps=2 * settings.way.leaps)
        settings = replace(settings, ways=(way, *settings.ways[1:]))
    is_reached = found.is_within(settings.accuracy) and not stuck
    words = f"a chain was stuck for {stuck} trajectories in a row: there are places that it can hardly enter; "
    trouble = "" if is_reached else (words * bool(stuck) + complaint(answer, found)).removesuffix("; ")
    return Outcome(answer, None, found, is_reached, rungs, trouble)


def stuck_for(accepted: np.ndarray) -> int:
    """The longest row of rejections in (chain, draw) where it is no chance; 0 where it is.

    The step is too long for the curvature there. Such places are entered as seldom as they are left, so that they are
    missing in most runs, and in the scatter that tells the error.
    """
    longest = int(np.diff(np.flatnonzero(np.pad(accepted, ((0, 0), (1, 1)), constant_values=True))).max()) - 1
    by_chance = math.log(accepted.size) / -math.log(1 - min(float(np.mean(accepted)), 0.99) + 1e-12)
    return longest if longest > max(STUCK_LEAST, STUCK_FACTOR * by_chance) else 0


def _run(settings: Settings, place: Place) -> tuple[LadderRung | None, Sums | None]:
    accuracy, thin = settings.accuracy, settings.way.thin

    def longer(posterior: PyTree, stats: dict[str, np.ndarray], times: int) -> int | None:
        if stuck_for(stats["accepted"]):
            return None
        found = sums(accuracy, measured(posterior))
        is_known = np.isfinite(found.sd).all()  # not of a kept number that never changes
        is_hopeless = not is_known or times >= MOST_LENGTHENINGS or (times >= 2 and found.r_hat > HOPELESS_R_HAT)
        if is_hopeless or found.is_within(accuracy):
            return None
        return min(MOST_TIMES * settings.steps, math.ceil(draws_of(posterior) * thin * _factor(settings, found)))

    rung = finite_rung(settings, place, "sampling", longer)
    return rung, None if rung is None else sums(accuracy, rung.measured)


def _factor(settings: Settings, found: Sums) -> float:
    accuracy = settings.accuracy
    shares = np.concatenate([found.sd / accuracy.sd, found.mean / accuracy.mean])
    needed = float(np.max(np.square(shares)))
    if found.r_hat > accuracy.r_hat:
        needed = max(needed, 1.5)
    return float(np.clip(LENGTH_MARGIN * needed, 1.2, LONGEST_FACTOR))


def _looked_at(settings: Settings, run: Run) -> Pilot:
    """The second half of a pilot, in whitened units."""
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(run.posterior)]
    flat = np.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in leaves], axis=2)
    late = flat[:, flat.shape[1] // 2 :]
    u = settings.root.pulled((late - settings.laplace.peak.point).reshape(-1, late.shape[2]))
    met: MeasuredNumbers = measured(late)
    widths = u.std(axis=0)
    covariance = np.cov(u.T).reshape(u.shape[1], u.shape[1]) if settings.root.is_dense else widths**2
    accepted = run.stats["accepted"][:, run.stats["accepted"].shape[1] // 2 :]
    last = jax.tree.map(lambda leaf: np.asarray(leaf)[:, -1], run.posterior)
    ends = tuple(jax.tree.map(lambda leaf, chain=chain: leaf[chain], last) for chain in range(len(accepted)))
    return Pilot(float(np.mean(accepted)), widths, covariance, float(np.max(met.r_hat)), ends)


def _improved(settings: Settings, pilot: Pilot) -> Settings:
    """Leaps by the acceptance, scale by the covariance beside what was assumed."""
    low, high = SETTLED_WIDTHS
    if not np.all((pilot.widths > low) & (pilot.widths < high)):
        count = pilot.covariance.shape[0]
        drawn, known = 100.0, KNOWN_DRAWS + count
        root = settings.root
        if root.is_dense:
            mixed = (drawn * pilot.covariance + known * np.eye(count)) / (drawn + known)
            root = root.turned(np.linalg.cholesky(mixed))
        else:
            root = root.wider(np.sqrt((drawn * pilot.covariance + KNOWN_DRAWS) / (drawn + KNOWN_DRAWS)))
        peak = settings.laplace.peak._replace(root=root)
        settings = replace(settings, laplace=settings.laplace._replace(peak=peak))
    return _with_leaps(replace(settings, starts=pilot.ends), pilot.acceptance)


def _with_leaps(settings: Settings, acceptance: float) -> Settings:
    """A quarter turn in the number of leaps that costs least, from the share of trajectories that was accepted."""
    way = settings.way
    turn = QUARTER_TURN / math.sqrt(way.slowest)
    error = -2 * float(norm.ppf(np.clip(acceptance, 0.02, 0.98) / 2)) * (turn / way.step_size) ** 2
    leaps, time = trajectory(error)
    changed: SamplingWay = way._replace(step_size=turn / leaps, leaps=leaps, time=time)
    return replace(settings, ways=(changed, *settings.ways[1:]))
