"""The verdict on a run, in words: what was looked at, what is wrong, and what to change."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import PyTree

from ergodica.diagnostics import advice, mixing, temperatures
from ergodica.diagnostics.bias import NOT_LOOKED_AT, Bias, bias, bias_checks, known_order, order_of
from ergodica.diagnostics.chain_moments import from_moments, moment_checks
from ergodica.diagnostics.columns import Columns, at, columns
from ergodica.diagnostics.effective import Effective, effective
from ergodica.diagnostics.essential import essential_checks
from ergodica.diagnostics.settled import settled
from ergodica.diagnostics.witness import check_target, witness_checks
from ergodica.errors import InputError
from ergodica.output.labelled import named
from ergodica.report import Check, Report, paragraph


class Diagnosis(Report):
    """The checks of a run; `str()` is the verdict."""

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
    check_target(target)
    variables = named(posterior) if posterior is not None else {}
    if variables:
        check_draws(variables, settings)
    elif moments is None:
        later = ": an unfinished run shows its moments at its end" if settings.get("is_finished") is False else ""
        raise InputError(f"there are neither draws nor moments to look at{later}")
    correlation = _correlation(settings)
    looked_at = columns(variables, seed) if variables else None
    good, is_finite = mixing.finite_chains(stats, settings, _by_chain(looked_at, moments))
    checks: list[Check] = [is_finite]
    notes: tuple[str, ...] = ()
    found: Effective | None = None
    if good.any():
        found, parts, notes = _chain_part(looked_at, moments, good, variables, stats, correlation)
        checks += parts
        steps = (mixing.acceptance(stats, settings, good), temperatures.kinetic(stats, settings, good, correlation))
        checks += [check for check in steps if check is not None]
    if found is not None:
        parts, more = _bias_part(found, stats, settings, halved, looked_at)
        checks, notes = checks + parts, notes + more
    if target is not None and variables and good.any():
        parts, more = witness_checks(variables, target, settings, good, correlation, seed)
        checks, notes = checks + parts, notes + more
    if good.any():
        checks += essential_checks(checks, found, stats, settings, len(good))
    return Diagnosis(_title(settings, looked_at, moments), tuple(checks), notes, _figures(found))


def check_draws(variables: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
    """Raise InputError where there is not a single draw."""
    if min(np.shape(x)[1] for x in variables.values()) > 0:
        return
    if settings.get("is_finished") is False:
        raise InputError("the run has no draws yet: it has just begun, or is in warm-up")
    raise InputError("this run kept no draws: there is nothing to look at; run for more steps, or thin less")


def _chain_part(
    looked_at: Columns | None,
    moments: Any,
    good: np.ndarray,
    variables: Mapping[str, Any],
    stats: Mapping[str, Any],
    correlation: float,
) -> tuple[Effective | None, list[Check], tuple[str, ...]]:
    if looked_at is None:
        checks, notes = moment_checks(moments, good)
        return from_moments(moments, good) if good.sum() > 1 else None, checks, notes
    kept = looked_at.only(good)
    found, checks = _draw_checks(kept, good, variables, stats, correlation)
    return found, checks, (f"Looked at {kept.words}.",) if len(kept.names) < kept.total else ()


def _draw_checks(
    kept: Columns, good: np.ndarray, variables: Mapping[str, Any], stats: Mapping[str, Any], correlation: float
) -> tuple[Effective | None, list[Check]]:
    chains, draws = kept.values.shape[:2]
    short = mixing.too_short(kept)
    if short is not None:
        return None, [short]
    found = effective(kept, correlation)
    thrown = advice.thrown(stats, kept.values, good)
    checks = []
    if all(np.issubdtype(np.asarray(x).dtype, np.floating) for x in variables.values()):  # not for counts and flags
        checks.append(mixing.moving(kept, np.flatnonzero(good)))
    checks += [mixing.r_hat(found, chains, thrown), *mixing.sample_sizes(found, chains, draws, thrown)]
    checks += [mixing.monte_carlo_error(found, chains, correlation, thrown), settled(kept, correlation)]
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
    steps = _check_half(stats, halved.stats)
    known = None if steps is None else known_order(found, second, (settings, halved.settings), steps)
    return bias(found, second, *(known or (order_of(settings), None)))


def _check_same(size: int, other: int) -> None:
    if size != other:
        raise InputError(f"the two runs are of different positions: {size} numbers, and {other} with half the step")


def _check_half(stats: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[float, float] | None:
    """The mean step sizes of the two runs, where they are known."""
    if "step_size" not in stats or "step_size" not in other:
        return None
    step, half = (float(np.mean(x["step_size"])) for x in (stats, other))
    if not 1.8 < step / half < 2.2:
        raise InputError(f"the steps of the two runs are {step:.3g} and {half:.3g} on average: expected h and h/2")
    return step, half


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
