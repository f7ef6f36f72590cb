"""The verdict on a run, in words: what was looked at, what is wrong, and what to change. Limits: thresholds.py.

Some questions are essential: what was not looked at is unsure, never ok. R-hat and effective sizes compare chains with
each other. That says nothing where all of them began at one place, nor of a law that is too wide in every chain: which
is what gradient noise does. So a run passes only where its starts and the width of its law were looked at.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import PyTree

from ergodica.diagnostics import mixing, temperatures
from ergodica.diagnostics.bias import NOT_LOOKED_AT, bias_checks, compare
from ergodica.diagnostics.columns import (
    Columns,
    Effective,
    Named,
    bounded_columns,
    check_draws,
    correlation_of,
    effective,
    effective_from_moments,
)
from ergodica.diagnostics.settled import settled
from ergodica.diagnostics.stein import check_target, target_checks
from ergodica.diagnostics.thresholds import LARGEST_BIAS, LARGEST_WIDENING, NARROWEST_STARTS, SD_OFF, slack_for
from ergodica.errors import InputError
from ergodica.output.labelled import Moments, Temperatures, named
from ergodica.report import Check, Report, paragraph
from ergodica.targets import Target

ACCURACY_CHECK = "accuracy"
STARTS_CHECK, WIDTH_CHECK = "dispersed starts", "width of the law"
ONE_CHAIN = "Only moments of a single chain were kept: nothing can be said of its mixing. Run several chains."
ONLY_MOMENTS = "Only moments were kept: rank-normalised R-hat, effective sizes, tails and drift were not looked at."
OWN_STARTS = "Give init= a function of the key, so that every chain has a start of its own."
DECIDED_BY = (
    "run.halve() (`ergodica sample --halve`) compares with half the step, diagnose(target=...) (`ergodica diagnose "
    "run.nc --target module:target`) looks at the law itself."
)


class Diagnosis(Report):
    """The checks of a run; `str()` is the verdict in words, `passed` and `undecided` sum it up."""

    def __str__(self) -> str:
        names = max(len(check.name) for check in self.checks)
        lines = [self.title]
        for check in self.checks:
            mark = "unsure" if check.is_undecided else "ok" if check.passed else "WRONG"
            lines += paragraph(check.explanation, f"  {mark:<6} {check.name:<{names}}  ")
        for note in self.notes:
            lines += paragraph(note, "  - ")
        return "\n".join([*lines, *paragraph(self._close(), "")])

    def _close(self) -> str:
        wrong = [check.name for check in self.checks if not check.passed]
        unsure = [check.name for check in self.checks if check.is_undecided]
        blind = f"{len(unsure)} {'check' if len(unsure) == 1 else 'checks'} could not tell: {', '.join(unsure)}."
        if wrong:
            failed = f"{len(wrong)} of {len(self.checks)} checks failed: {', '.join(wrong)}"
            return f"{failed}; {blind}" if unsure else f"{failed}."
        if self.undecided:
            return f"NOT DECIDED: nothing is wrong, but {blind}"
        return f"No problem was found; {blind}" if unsure else "No problem was found in what was looked at."


def diagnose(
    posterior: PyTree,
    stats: Named,
    settings: Named,
    moments: Moments | None = None,
    halved: Any = None,
    target: Target | None = None,
    seed: int = 0,
    witness: Any = None,
    tuning: Any = None,
    measured: Temperatures | None = None,
) -> Diagnosis:
    """Look at a run: draws with leaves (chain, draw, ...), or None and the `moments` of the chains.

    `halved` is a run with half the step size, with posterior, stats and moments of its own: for the step-size bias.
    `target` is the one that was sampled: for the Stein discrepancy and the configurational temperature. `witness` and
    `tuning` are those of a tuned run, `measured` the temperatures of its coordinates.
    """
    check_target(target)
    variables = named(posterior) if posterior is not None else {}
    looked_at: Columns | None = None
    if variables:
        check_draws(variables, settings)
        looked_at = bounded_columns(variables, seed)
        by_chain = looked_at.values
    elif moments is not None:
        by_chain = mixing.chain_sums(moments)
    else:
        later = ": an unfinished run shows its moments at its end" if settings.get("is_finished") is False else ""
        raise InputError(f"there are neither draws nor moments to look at{later}")
    correlation = correlation_of(settings)
    good, is_finite = mixing.finite_chains(stats, settings, by_chain)
    title = _title(settings, looked_at, len(good))
    if not good.any():
        return Diagnosis(title, (is_finite,))
    checks: list[Check] = [is_finite]
    asked = {} if tuning is None else tuning.figures
    notes: tuple[str, ...] = ()
    found: Effective | None = None
    if looked_at is not None:
        kept = looked_at.only(good)
        slack = slack_for(float(asked.get("mean_allowed", 0.0)))
        found, parts = _draw_checks(kept, good, variables, stats, correlation, slack)
        checks += parts
        notes = (f"Looked at {kept.words}.",) if len(kept.names) < kept.total else ()
        notes += () if kept.thinning is None else (kept.thinning,)
    elif moments is not None and good.sum() > 1:
        found, notes = effective_from_moments(moments, good), (ONLY_MOMENTS,)
        checks += mixing.moment_checks(found, int(good.sum()))
    else:
        notes = (ONE_CHAIN,)
    allowed = max(SD_OFF, float(asked.get("sd_allowed", 0.0)))
    steps = (
        mixing.acceptance(stats, settings, good),
        temperatures.kinetic(stats, settings, good, correlation),
        temperatures.by_coordinate(measured, settings, good, correlation, allowed),
    )
    checks += [check for check in steps if check is not None]
    friction = temperatures.weak_friction(stats, settings)
    notes += () if friction is None else (friction,)
    if found is not None and (halved is not None or witness is not None):
        is_doubled = halved is None
        compared = compare(found, stats, settings, witness if is_doubled else halved, looked_at, is_doubled)
        limits = (max(LARGEST_BIAS, float(asked.get(f"{what}_allowed", 0.0))) for what in ("mean", "sd"))
        checks += bias_checks(compared._replace(allowed=tuple(limits)))
    elif found is not None and not mixing.is_integrator(settings, "leapfrog"):
        notes += (NOT_LOOKED_AT,)
    if target is not None and variables:
        parts, more = target_checks(variables, target, settings, good, correlation, seed)
        checks, notes = checks + parts, notes + more
    checks += [] if tuning is None else [accuracy_check(tuning)]
    checks += essential_checks(checks, found, stats, settings, len(good))
    if settings.get("cycle"):
        checks.append(_unsure(CYCLES_CHECK, CYCLES_WORDS))
    figures = {} if found is None else found._asdict()
    figures = {name: value for name, value in figures.items() if name not in ("low", "high")}
    return Diagnosis(title, tuple(checks), notes, figures)


def _draw_checks(
    kept: Columns, good: np.ndarray, variables: Named, stats: Named, correlation: float, slack: float
) -> tuple[Effective | None, list[Check]]:
    chains, draws = len(kept.values), kept.draws
    short = mixing.too_short(kept)
    if short is not None:
        return None, [short]
    found = effective(kept, correlation)
    thrown = mixing.signs_of_large_steps(stats, kept.values, good)
    checks = []
    if all(np.issubdtype(np.asarray(x).dtype, np.floating) for x in variables.values()):  # not for counts and flags
        checks.append(mixing.moving(kept, np.flatnonzero(good)))
    checks += [mixing.r_hat(found, chains, thrown, slack), *mixing.sample_sizes(found, chains, draws, thrown, slack)]
    checks += [mixing.monte_carlo_error(found, chains, correlation, thrown), settled(kept, correlation)]
    return found, checks


def _title(settings: Named, looked_at: Columns | None, chains: int) -> str:
    size = f"{chains} chains of which the moments were kept"
    if looked_at is not None:
        size = f"{chains} chains of {looked_at.draws:,} draws, {looked_at.total:,} numbers"
    recipe = settings.get("recipe")
    return f"Diagnosis of {size}" + (f" ({recipe})" if isinstance(recipe, str) and len(recipe) < 60 else "")


def essential_checks(
    checks: Sequence[Check], found: Effective | None, stats: Named, settings: Named, chains: int
) -> list[Check]:
    """The essential questions that `checks` leave open, as unsure, and where the chains began."""
    by_name = {check.name: check for check in checks}
    words = "There is nothing to compare: neither draws nor several chains were kept. Keep either."
    added = [] if {"R-hat", "R-hat of moments", "length"} & set(by_name) else [_unsure("R-hat", words)]
    return [*added, starts_check(found, settings, chains), *width_check(by_name, stats, settings)]


def accuracy_check(tuning: Any) -> Check:
    """Whether a tuned run reached the accuracy asked for, by the sum that it prints."""
    figures = {name: np.asarray(x, float) for name, x in tuning.figures.items() if name != "names"}
    worst, allowed = math.nan, float(figures.get("sd_allowed", math.nan))
    if figures:
        worst = float(np.max(np.abs(figures["sd_bias"]) + figures["z"] * figures["sd_error"]))
    words = " ".join(itertools.takewhile(lambda line: line[:1] != " ", tuning.words.splitlines()))
    return Check(ACCURACY_CHECK, bool(tuning.reached), worst, allowed, words, is_essential=True)


def starts_check(found: Effective | None, settings: Named, chains: int) -> Check:
    """Whether chains began apart: by a function of the key, or by at least half the width of what they drew."""
    starts = settings.get("starts")
    if chains < 2:
        return _unsure(STARTS_CHECK, "There is one chain, and nothing to compare it with: run several.")
    if starts is None:
        return _unsure(STARTS_CHECK, f"The settings of this run do not say where its chains began. {OWN_STARTS}")
    if starts == "one":
        words = (
            "All chains began at one position: R-hat cannot see modes that none of them visited. Give init= a position "
            "without eg.same, or a function of the key."
        )
        return _unsure(STARTS_CHECK, words)
    ratios = _start_ratios(found, settings)
    if ratios is None:
        if settings.get("start_widths") is None:
            return _ok(STARTS_CHECK, f"Every chain had a start of its own ({starts}).")
        words = f"Chains began apart ({starts}), but how far in terms of what was kept is not known. {OWN_STARTS}"
        return _unsure(STARTS_CHECK, words)
    middle, least = float(np.median(ratios)), int(np.argmin(ratios))
    assert found is not None
    seen = f"{starts}: {middle:.2g} sd of the draws for the median number, {ratios[least]:.2g} for {found.names[least]}"
    if middle < NARROWEST_STARTS:
        seen += f"; {NARROWEST_STARTS} is wanted"
        words = f"The chains began close together ({seen}), so R-hat sees little. {OWN_STARTS}"
        return _unsure(STARTS_CHECK, words, middle, NARROWEST_STARTS)
    words = f"Every chain had a start of its own ({seen}). Modes further off are not seen."
    return _ok(STARTS_CHECK, words, middle, NARROWEST_STARTS)


def _start_ratios(found: Effective | None, settings: Named) -> np.ndarray | None:
    """The sd of the starts over that of the draws, for each number; None where either is unknown."""
    widths = settings.get("start_widths")
    if found is None or not isinstance(widths, Mapping) or settings.get("keep", "draws") not in ("draws", "moments"):
        return None
    of_number = [_of_leaf(name, widths) for name in found.names]
    if any(width is None for width in of_number):
        return None
    with np.errstate(all="ignore"):
        return np.nan_to_num(np.asarray(of_number, float) / found.sd, nan=np.inf)


def _of_leaf(name: str, widths: Mapping[str, float]) -> float | None:
    return next((width for leaf, width in widths.items() if name == leaf or name.startswith(f"{leaf}[")), None)


def width_check(checks: Mapping[str, Check], stats: Named, settings: Named) -> tuple[Check, ...]:
    """By what the width was looked at; nothing where a check of it has failed, which says more."""
    laws = ("bias of sds", temperatures.BY_COORDINATE, temperatures.POSITIONS_BY_COORDINATE, "Stein discrepancy",
            "configurational temperature", ACCURACY_CHECK)  # fmt: skip
    found = [checks[name] for name in (*laws, "kinetic temperature") if name in checks]
    if any(not check.passed for check in found):
        return ()
    decided = [check.name for check in found if not check.is_undecided]
    others = [name for name in decided if name != "kinetic temperature"]
    if others:
        return (_ok(WIDTH_CHECK, f"Looked at by {' and '.join(others)}."),)
    if mixing.is_integrator(settings, "leapfrog"):
        return (_ok(WIDTH_CHECK, "A Metropolis test leaves it as it should be, once the chains have met."),)
    if temperatures.BY_COORDINATE in checks:
        words = "Not looked at: the temperatures of single coordinates are known too poorly. Run longer, or decide by "
        return (_unsure(WIDTH_CHECK, f"{words}another way: {DECIDED_BY}"),)
    if "kinetic temperature" not in decided:
        return (_unsure(WIDTH_CHECK, f"{_why_unseen(settings, 'kinetic temperature' in checks)} {DECIDED_BY}"),)
    return (_by_thermometer(checks["kinetic temperature"], stats, settings),)


def _why_unseen(settings: Named, is_short: bool) -> str:
    if is_short:
        return "Not looked at: the momenta's temperature is known too poorly. Run longer, or decide otherwise:"
    noise = "gradient noise widens it" if settings.get("batch_size") is not None else "steps widen it"
    return f"Not looked at: {noise}, without momentum there is no thermometer, and R-hat sees none of it."


def _by_thermometer(check: Check, stats: Named, settings: Named) -> Check:
    sensitivity = thermometer_sensitivity(stats, settings)
    if sensitivity is None:
        words = (
            "Not looked at: with a thermostat, or with friction that is not known, the momenta's temperature does not "
            f"tell it. {DECIDED_BY}"
        )
        return _unsure(WIDTH_CHECK, words)
    unseen = check.tolerance / sensitivity
    figure = math.sqrt(1 + unseen) - 1
    if unseen > LARGEST_WIDENING:
        words = (
            "Not looked at: friction takes the heat of gradient noise away before the thermometer sees it: of an excess"
            f" of variances it shows {sensitivity:.1g}. {DECIDED_BY}"
        )
        return _unsure(WIDTH_CHECK, words, figure, LARGEST_BIAS)
    words = (
        f"By the momenta's temperature gradient noise widens sds by {figure:.1%} at most, on average over numbers "
        f"({LARGEST_BIAS:.0%} is allowed). run.halve() also sees a bias of the step, or of one number among many."
    )
    return _ok(WIDTH_CHECK, words, figure, LARGEST_BIAS)


def thermometer_sensitivity(stats: Named, settings: Named) -> float | None:
    """The excess of the kinetic temperature over that of variances, where gradient noise makes both; None: unknown.

    For the splitting on a Gaussian 2 a^2 / (1 + a), a = exp(-friction step), whatever the curvature: friction takes the
    heat away just before the momenta are looked at. Euler's steps look after the kick, and see all of it.
    """
    friction, steps = settings.get("friction"), stats.get("step_size")
    if friction is None or steps is None:
        return None
    if not mixing.is_integrator(settings, "splitting"):
        return 1.0
    refreshed = 2 / settings["resample_every"] if settings.get("resample_every") else 0.0
    a = math.exp(-float(friction) * float(np.mean(steps)) - refreshed)
    return 2 * a**2 / (1 + a)


def _ok(name: str, words: str, figure: float = 0.0, tolerance: float = 0.0) -> Check:
    return Check(name, True, figure, tolerance, words, is_essential=True)


def _unsure(name: str, words: str, figure: float = math.nan, tolerance: float = math.nan) -> Check:
    return Check(name, True, figure, tolerance, words, is_undecided=True, is_essential=True)


CYCLES_CHECK = "weights of cycles"
CYCLES_WORDS = (
    "Not looked at: each cycle of step sizes ends in a mode that its long steps found, as often as these find it and "
    "not as often as the posterior has it, so that draws of several modes are not weighted by their masses. Within a "
    "mode they are as good as its short steps are. A constant step_size decides, where chains cross between modes."
)
