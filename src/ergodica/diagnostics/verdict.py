"""The verdict on a run, in words: what was looked at, what is wrong, and what to change."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import PyTree

from ergodica.diagnostics import mixing, temperatures
from ergodica.diagnostics.bias import NOT_LOOKED_AT, Bias, bias, bias_checks, order_of
from ergodica.diagnostics.chain_moments import from_moments, moment_checks
from ergodica.diagnostics.columns import Columns, at, columns
from ergodica.diagnostics.effective import Effective, effective
from ergodica.diagnostics.scores import gradients_at_draws
from ergodica.diagnostics.stein import kernel_stein_discrepancy
from ergodica.errors import InputError
from ergodica.output.names import named
from ergodica.report import Check, Report, paragraph

RIGHT = 0.005  # p-value of the Stein discrepancy below which the draws are called wrong


class Diagnosis(Report):
    """The checks of a run; `str()` is the verdict."""

    def __str__(self) -> str:
        names = max(len(check.name) for check in self.checks)
        lines = [self.title]
        for check in self.checks:
            lines += paragraph(check.explanation, f"  {'ok   ' if check.passed else 'WRONG'} {check.name:<{names}}  ")
        for note in self.notes:
            lines += paragraph(note, "  - ")
        wrong = [check.name for check in self.checks if not check.passed]
        if wrong:
            lines += paragraph(f"{len(wrong)} of {len(self.checks)} checks failed: {', '.join(wrong)}.", "")
        else:
            lines.append("No problem was found in what was looked at.")
        return "\n".join(lines)


def diagnose(
    posterior: PyTree,
    stats: Mapping[str, Any],
    settings: Mapping[str, Any],
    moments: Any = None,
    halved: Any = None,
    target: Any = None,
    seed: int = 0,
) -> Diagnosis:
    """Look at a run: draws with leaves (chain, draw, ...), or None and the `moments` of the chains.

    `halved` is a run with half the step size, with posterior, stats and moments of its own: for the step-size bias.
    `target` is the one that was sampled: for the Stein discrepancy and the configurational temperature.
    """
    variables = named(posterior) if posterior is not None else {}
    if variables and min(np.shape(x)[1] for x in variables.values()) == 0:
        raise InputError("this run kept no draws: there is nothing to look at; run for more steps, or thin less")
    if not variables and moments is None:
        raise InputError("there are neither draws nor moments to look at")
    correlation = _correlation(settings)
    looked_at = columns(variables, seed) if variables else None
    good, is_finite = mixing.finite_chains(stats, settings, _by_chain(looked_at, moments))
    checks: list[Check] = [is_finite]
    notes: tuple[str, ...] = ()
    found: Effective | None = None
    if good.any() and looked_at is not None:
        kept = looked_at.only(good)
        found, parts = _draw_checks(kept, good, variables, correlation)
        checks += parts
        if len(kept.names) < kept.total:
            notes += (f"Looked at {kept.words}.",)
    elif good.any():
        parts, notes = moment_checks(moments, good)
        checks += parts
        found = from_moments(moments, good) if good.sum() > 1 else None
    if good.any():
        others = (mixing.acceptance(stats, settings, good), temperatures.kinetic(stats, settings, good, correlation))
        checks += [check for check in others if check is not None]
    if found is not None:
        parts, more = _bias_part(found, stats, settings, halved, looked_at)
        checks, notes = checks + parts, notes + more
    if target is not None and variables and good.any():
        parts, more = _target_part(variables, target, settings, good, seed)
        checks, notes = checks + parts, notes + more
    return Diagnosis(_title(settings, looked_at, moments), tuple(checks), notes, _figures(found))


def _draw_checks(
    kept: Columns, good: np.ndarray, variables: Mapping[str, Any], correlation: float
) -> tuple[Effective | None, list[Check]]:
    chains, draws = kept.values.shape[:2]
    short = mixing.too_short(kept)
    if short is not None:
        return None, [short]
    found = effective(kept, correlation)
    checks = []
    if all(np.issubdtype(np.asarray(x).dtype, np.floating) for x in variables.values()):  # not for counts and flags
        checks.append(mixing.moving(kept, np.flatnonzero(good)))
    checks += [mixing.r_hat(found, chains), *mixing.sample_sizes(found, chains, draws)]
    checks += [mixing.monte_carlo_error(found, chains, correlation), mixing.drift(kept, found, correlation)]
    return found, checks


def _bias_part(
    found: Effective, stats: Mapping[str, Any], settings: Mapping[str, Any], halved: Any, looked_at: Columns | None
) -> tuple[list[Check], tuple[str, ...]]:
    if halved is None:
        has_test = "leapfrog" in str(settings.get("integrator", "")).lower()
        return [], () if has_test else (NOT_LOOKED_AT,)
    compared = compare(found, stats, settings, halved, looked_at)
    return bias_checks(compared), ()


def compare(
    found: Effective, stats: Mapping[str, Any], settings: Mapping[str, Any], halved: Any, looked_at: Columns | None
) -> Bias:
    """The run against the one with half the step, in the same numbers."""
    if halved.posterior is not None and looked_at is not None:
        other = at(named(halved.posterior), looked_at.places)
        _check_same(looked_at.total, other.total)
        good, _ = mixing.finite_chains(halved.stats, halved.settings, other.values)
        other = other.only(good)
        if not good.any() or mixing.too_short(other) is not None:
            raise InputError("the run with half the step has no draws to compare with: run it longer")
        second = effective(other, _correlation(halved.settings))
    elif halved.moments is not None and looked_at is None:
        good, _ = mixing.finite_chains(halved.stats, halved.settings, _by_chain(None, halved.moments))
        if good.sum() < 2:
            raise InputError("the run with half the step kept moments of a single chain: several are needed to compare")
        second = from_moments(halved.moments, good)
        _check_same(len(found.names), len(second.names))
    else:
        raise InputError("one run kept draws and the other, with half the step, moments: keep the same in both")
    _check_half(stats, halved.stats)
    return bias(found, second, order_of(settings))


def _check_same(size: int, other: int) -> None:
    if size != other:
        raise InputError(f"the two runs are of different positions: {size} numbers, and {other} with half the step")


def _check_half(stats: Mapping[str, Any], other: Mapping[str, Any]) -> None:
    if "step_size" not in stats or "step_size" not in other:
        return
    step, half = (float(np.mean(x["step_size"])) for x in (stats, other))
    if not 1.8 < step / half < 2.2:
        raise InputError(f"the steps of the two runs are {step:.3g} and {half:.3g} on average: expected h and h/2")


def _target_part(
    variables: Mapping[str, Any], target: Any, settings: Mapping[str, Any], good: np.ndarray, seed: int
) -> tuple[list[Check], tuple[str, ...]]:
    if next(iter(variables.values())).shape[1] < 8:
        return [], ()
    positions, gradients = gradients_at_draws(variables, target, good)
    stein = kernel_stein_discrepancy(positions, gradients, float(settings.get("temperature", 1.0)), seed)
    count = positions.shape[0] * positions.shape[1]
    words = (
        f"From the target's gradients at {count:,} draws the kernel Stein discrepancy is {stein.discrepancy:.3g}; "
        f"right draws stay below {stein.usual:.3g} 19 times of 20 and exceed this with chance {stein.p_value:.2g} "
        f"({RIGHT} is allowed)."
    )
    if stein.p_value < RIGHT:
        words += " The draws do not have the target's law: look for a bias (halve the step), or for chains not settled."
    check = Check("Stein discrepancy", stein.p_value >= RIGHT, stein.discrepancy, stein.usual, words, stein.p_value)
    return [check, temperatures.configurational(positions, gradients, settings)], ()


def _by_chain(looked_at: Columns | None, moments: Any) -> np.ndarray:
    """Numbers by chain that are finite unless the chain is not."""
    if looked_at is not None:
        return looked_at.values
    means = named(moments.mean).values()
    return np.stack([np.asarray(leaf, np.float64).reshape(len(leaf), -1).sum(axis=1) for leaf in means], axis=1)


def _correlation(settings: Mapping[str, Any]) -> float:
    return float(settings.get("chain_correlation") or 0.0)


def _title(settings: Mapping[str, Any], looked_at: Columns | None, moments: Any) -> str:
    if looked_at is not None:
        chains, draws = looked_at.values.shape[:2]
        size = f"{chains} chains of {draws:,} draws, {looked_at.total:,} numbers"
    else:
        size = f"{len(moments.count)} chains of which the moments were kept"
    recipe = settings.get("recipe")
    return f"Diagnosis of {size}" + (f" ({recipe})" if isinstance(recipe, str) and len(recipe) < 60 else "")


def _figures(found: Effective | None) -> dict[str, Any]:
    if found is None:
        return {}
    names = ("mean", "sd", "mean_error", "sd_error", "bulk", "tail", "r_hat")
    return {"names": found.names, **{name: getattr(found, name) for name in names}}
