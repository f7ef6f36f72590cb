"""The target as a witness: what its gradients on all data say of the draws."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ergodica.data.iterable import Batches
from ergodica.diagnostics import temperatures
from ergodica.diagnostics.scores import gradients_at_draws
from ergodica.diagnostics.stein import Stein, kernel_stein_discrepancy
from ergodica.errors import InputError
from ergodica.report import Check
from ergodica.targets.base import Target

RIGHT = 0.002  # p-value of the Stein discrepancy below which the draws are called wrong
FEWEST = 8  # draws of a chain
ENOUGH = 50  # independent draws: with fewer the discrepancy sees little
LEFT_OUT = "Stein discrepancy and configurational temperature were left out: "


def check_target(target: Any) -> None:
    if target is not None and not isinstance(target, Target):
        raise InputError(
            f"target is {str(target)[:60]!r} ({type(target).__name__}): expected the target that was sampled, such as "
            "eg.Posterior(...) or eg.Density(...)"
        )


def witness_checks(
    variables: Mapping[str, Any],
    target: Target,
    settings: Mapping[str, Any],
    good: np.ndarray,
    correlation: float = 0.0,
    seed: int = 0,
) -> tuple[list[Check], tuple[str, ...]]:
    """Stein discrepancy and configurational temperature; or a note on why they are left out."""
    reason = _no_witness(variables, target, settings)
    if reason is not None:
        return [], (LEFT_OUT + reason + ".",)
    positions, gradients = gradients_at_draws(variables, target, good)
    if not np.isfinite(gradients).all():
        return [], (LEFT_OUT + "the target's gradient is not finite at some of the draws.",)
    stein = kernel_stein_discrepancy(
        positions, gradients, float(settings.get("temperature", 1.0)), seed, correlation=correlation
    )
    count = positions.shape[0] * positions.shape[1]
    thermometer = temperatures.configurational(positions, gradients, settings, correlation)
    return [_stein_check(stein, count), thermometer], ()


def _no_witness(variables: Mapping[str, Any], target: Target, settings: Mapping[str, Any]) -> str | None:
    if settings.get("keep", "draws") != "draws":
        return "a function of the position was kept (keep=), not the position that the target's gradient needs"
    if not target.has_potential:
        return "this target gives gradients of batches only, and they need all data"
    if target.domain is not None:
        return "the target has a domain, and they hold for densities that vanish at the border"
    if isinstance(getattr(target, "source", None), Batches):
        return "the data are an iterator of batches, and they need all data"
    if next(iter(variables.values())).shape[1] < FEWEST:
        return f"chains have fewer than {FEWEST} draws"
    return None


def _stein_check(stein: Stein, count: int) -> Check:
    words = (
        f"From the target's gradients at {count:,} draws the kernel Stein discrepancy is {stein.discrepancy:.3g}; "
        f"right draws stay below {stein.usual:.3g} 19 times of 20 and exceed this with chance {stein.p_value:.2g} "
        f"({RIGHT} is allowed)."
    )
    passed = stein.p_value >= RIGHT
    if not passed:
        words += " The draws do not have the target's law: look for a bias (halve the step), or for chains not settled."
    is_blunt = passed and stein.worth < ENOUGH
    if is_blunt:
        words += f" But the draws are worth {stein.worth:.0f} independent ones: too few to tell."
    return Check("Stein discrepancy", passed, stein.discrepancy, stein.usual, words, stein.p_value, is_blunt)
