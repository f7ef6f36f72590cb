"""What must have been looked at before a run can pass: starts, and the width of the law. Unseen is unsure, never ok.

R-hat and effective sizes compare chains with each other. That says nothing where all of them began at one place, nor of
a law that is too wide in every chain equally: gradient noise does just that.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ergodica.diagnostics.bias import BIAS
from ergodica.diagnostics.effective import Effective
from ergodica.report import Check

STARTS, WIDTH = "dispersed starts", "width of the law"
NARROW = 0.5  # of the draws' sd, for the median number: starts closer together than that are one start
TOO_WIDE = (1 + BIAS) ** 2 - 1  # of a variance, where sds may be off by BIAS

OWN_STARTS = "Give init= a function of the key, so that every chain has a start of its own."
DECIDED_BY = (
    "run.halve() (`ergodica sample --halve`) compares with half the step, diagnose(target=...) (`ergodica diagnose "
    "run.nc --target module:target`) looks at the law itself."
)


def essential_checks(
    checks: Sequence[Check], found: Effective | None, stats: Mapping[str, Any], settings: Mapping[str, Any], chains: int
) -> list[Check]:
    """The essential questions that `checks` leave open, as unsure, and where the chains began."""
    by_name = {check.name: check for check in checks}
    added = [] if {"R-hat", "R-hat of moments", "length"} & set(by_name) else [_no_spread()]
    return [*added, starts_check(found, settings, chains), *width_check(by_name, stats, settings)]


def _no_spread() -> Check:
    words = (
        "There is nothing to compare: neither draws nor several chains were kept. Keep draws, or run several chains."
    )
    return _unsure("R-hat", words)


def starts_check(found: Effective | None, settings: Mapping[str, Any], chains: int) -> Check:
    """Whether chains began apart: by a function of the key, or by at least half the width of what they drew."""
    starts = settings.get("starts")
    if chains < 2:
        return _unsure(STARTS, "There is one chain, and nothing to compare it with: run several.")
    if starts is None:
        return _unsure(STARTS, f"The settings of this run do not say where its chains began. {OWN_STARTS}")
    if starts == "one":
        words = (
            "All chains began at one position: R-hat cannot see modes that none of them visited. Give init= a position "
            "without eg.same, or a function of the key."
        )
        return _unsure(STARTS, words)
    ratios = _start_ratios(found, settings)
    if ratios is None:
        words = f"Chains began apart ({starts}), but how far in terms of what was kept is not known. {OWN_STARTS}"
        return (
            _unsure(STARTS, words)
            if settings.get("start_widths") is not None
            else _ok(STARTS, f"Every chain had a start of its own ({starts}).")
        )
    middle, least = float(np.median(ratios)), int(np.argmin(ratios))
    assert found is not None
    seen = f"{starts}: {middle:.2g} sd of the draws for the median number, {ratios[least]:.2g} for {found.names[least]}"
    if middle < NARROW:
        words = f"The chains began close together ({seen}; {NARROW} is wanted), so R-hat sees little. {OWN_STARTS}"
        return _unsure(STARTS, words, middle, NARROW)
    return _ok(STARTS, f"Every chain had a start of its own ({seen}). Modes further off are not seen.", middle, NARROW)


def _start_ratios(found: Effective | None, settings: Mapping[str, Any]) -> np.ndarray | None:
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


def width_check(
    checks: Mapping[str, Check], stats: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[Check, ...]:
    """By what the width was looked at; nothing where a check of it has failed, which says more."""
    looking = ("bias of sds", "configurational temperature", "Stein discrepancy", "kinetic temperature")
    found = [checks[name] for name in looking if name in checks]
    if any(not check.passed for check in found):
        return ()
    decided = [check.name for check in found if not check.is_undecided]
    others = [name for name in decided if name != "kinetic temperature"]
    if others:
        return (_ok(WIDTH, f"Looked at by {' and '.join(others)}."),)
    if "leapfrog" in str(settings.get("integrator", "")).lower():
        return (_ok(WIDTH, "A Metropolis test leaves it as it should be, once the chains have met."),)
    if "kinetic temperature" not in decided:
        return (_unsure(WIDTH, f"{_why_unseen(settings, 'kinetic temperature' in checks)} {DECIDED_BY}"),)
    return (_by_thermometer(checks["kinetic temperature"], stats, settings),)


def _why_unseen(settings: Mapping[str, Any], is_short: bool) -> str:
    if is_short:
        return "Not looked at: the momenta's temperature is known too poorly. Run longer, or decide otherwise:"
    noise = "gradient noise widens it" if settings.get("batch_size") is not None else "steps widen it"
    return f"Not looked at: {noise}, without momentum there is no thermometer, and R-hat sees none of it."


def _by_thermometer(check: Check, stats: Mapping[str, Any], settings: Mapping[str, Any]) -> Check:
    sensitivity = thermometer_sensitivity(stats, settings)
    if sensitivity is None:
        words = (
            "Not looked at: with a thermostat, or with friction that is not known, the momenta's temperature does not "
            f"tell it. {DECIDED_BY}"
        )
        return _unsure(WIDTH, words)
    unseen = check.tolerance / sensitivity
    figure = math.sqrt(1 + unseen) - 1
    if unseen > TOO_WIDE:
        words = (
            "Not looked at: friction takes the heat of gradient noise away before the thermometer sees it: of an excess"
            f" of variances it shows {sensitivity:.1g}. {DECIDED_BY}"
        )
        return _unsure(WIDTH, words, figure, BIAS)
    words = (
        f"By the momenta's temperature gradient noise widens sds by {figure:.1%} at most, on average over numbers "
        f"({BIAS:.0%} is allowed). A bias of the step itself, or of one number among many, is for run.halve() to see."
    )
    return _ok(WIDTH, words, figure, BIAS)


def thermometer_sensitivity(stats: Mapping[str, Any], settings: Mapping[str, Any]) -> float | None:
    """The excess of the kinetic temperature over that of variances, where gradient noise makes both; None: unknown.

    For the splitting on a Gaussian 2 a^2 / (1 + a), a = exp(-friction step), whatever the curvature: friction takes the
    heat away just before the momenta are looked at. Euler's steps look after the kick, and see all of it.
    """
    friction, steps = settings.get("friction"), stats.get("step_size")
    if friction is None or steps is None:
        return None
    if "splitting" not in str(settings.get("integrator", "")).lower():
        return 1.0
    refreshed = 2 / settings["resample_every"] if settings.get("resample_every") else 0.0
    a = math.exp(-float(friction) * float(np.mean(steps)) - refreshed)
    return 2 * a**2 / (1 + a)


def _ok(name: str, words: str, figure: float = 0.0, tolerance: float = 0.0) -> Check:
    return Check(name, True, figure, tolerance, words, is_essential=True)


def _unsure(name: str, words: str, figure: float = math.nan, tolerance: float = math.nan) -> Check:
    return Check(name, True, figure, tolerance, words, is_undecided=True, is_essential=True)
