"""The audit's report, from what was found."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ergodica.report import Check
from ergodica.verify.audit.features import Features
from ergodica.verify.audit.ladder import Ladder
from ergodica.verify.audit.laws import Laws, laws
from ergodica.verify.audit.limit import CLEAR, limit, order, statistics
from ergodica.verify.audit.moments import Balance
from ergodica.verify.audit.noise import Noise
from ergodica.verify.audit.reference import Reference
from ergodica.verify.audit.result import FALSE_ALARM, Audit, Estimate, StepBias
from ergodica.verify.audit.rungs import ESCAPED, Rung
from ergodica.verify.audit.steps import Step
from ergodica.verify.audit.stuck import stuck
from ergodica.verify.audit.tails import any_of
from ergodica.verify.audit.trials import COARSE, Trial
from ergodica.verify.audit.verdict import (
    UNDECIDED,
    Names,
    balance_check,
    decision_check,
    law_checks,
    level,
    noise_check,
    percent,
    sensitivity,
    sensitivity_words,
    temperature_words,
)
from ergodica.verify.sde import coordinate_names

SCALES = {"temperature", "equipartition", "mean", "variance"}
VAGUE = 2.0  # width of an interval of orders that says little
BROAD = 0.1  # share of the temperature that an extrapolation may leave without a word


class Findings(NamedTuple):
    """All that an audit has seen."""

    step: Step
    law: Reference
    features: Features
    ladder: Ladder
    trial: Trial
    balance: Balance | None
    noise: Noise | None
    expected: np.ndarray
    expected_errors: np.ndarray


def title(step: Step, temperature: float) -> str:
    kind = "in JAX" if step.is_jax else "in NumPy"
    state = "" if step.is_bare else ", with a state of its own"
    return f"audit of a step {kind}{state}: does it sample exp(-U/{temperature:g}) in {step.dim} dimensions?"


def stopped(trial: Trial, step: Step, temperature: float) -> Audit:
    """A step of which the first trials say all that there is to say."""
    if trial.escape is not None:
        words = (
            f"runs away: by time {trial.escape:.3g} (steps times step size) the variance is {ESCAPED:g} times the "
            "claimed one, whatever the step size"
        )
        check = Check("stays", False, trial.escape, float("inf"), words, 0.0)
    elif not trial.is_finite:
        words = f"non-finite at every step size tried, down to {trial.step_size:.3g}"
        check = Check("finite", False, trial.step_size, 0.0, words, 0.0)
    elif not trial.moves:
        check = Check("moves", False, 0.0, 0.0, "position never moves", 0.0)
    else:
        words = "key is ignored: chains from the same start with other keys go the same way"
        if trial.heeds_start:
            words = (
                "randomness comes from init alone: steps ignore their key, and the state holds none; such a step is "
                "not ergodic (HMC must draw its momentum anew)"
            )
        check = Check("key", False, 0.0, 0.0, words, 0.0)
    note = check.explanation if check.name != "moves" else "position never moves, at any step size tried"
    figures = {"asked": temperature, "verdict": check.name}
    return Audit(title(step, temperature), (check,), (note,), figures, asked=temperature, p_value=0.0)


def unfinished(step: Step, temperature: float, smallest: float) -> Audit:
    """A step that stays finite at small step sizes, but not at three in a row that the budget was enough for."""
    words = (
        f"undecided: the budget was spent before three step sizes were found at which chains stay finite (down to "
        f"{smallest:.3g}); give more effort"
    )
    figures = {"asked": temperature, "verdict": "decides", "seen": {"temperature": np.inf}}
    check = Check("decides", False, np.inf, UNDECIDED, words)
    return Audit(title(step, temperature), (check,), (words,), figures, asked=temperature)


def summary(found: Findings, temperature: float, step_size: float | None) -> Audit:
    names = coordinate_names(found.step.layout.like(), "position", np.inf)
    tested = laws(found.ladder.three, found.features, found.law, found.expected, found.expected_errors)
    checks, p_value, seen = _checks(found, tested, names, temperature, step_size)
    sampled = _sampled(tested, temperature)
    rows = tuple(_row(rung, found, tested, names, temperature) for rung in _by_size(found.ladder))
    falling, bias_words = _order(found, tested, all(check.passed for check in checks))
    notes = _notes(found, checks, sampled, temperature, names, seen, bias_words)
    figures = {
        "temperature": list(sampled), "asked": temperature, "order": None if falling is None else list(falling),
        "p_value": p_value, "false_alarm": FALSE_ALARM, "seen": seen, "steps": [row._asdict() for row in rows],
    }  # fmt: skip
    return Audit(
        title(found.step, temperature), tuple(checks), tuple(notes), figures | _figures(found),
        sampled, temperature, rows, falling, p_value, FALSE_ALARM,
    )  # fmt: skip


def accused(report: Audit, culprit: str | None) -> Audit:
    """A report that rejects, with what is missing as its first words."""
    if culprit is None:
        return report
    return replace(report, notes=(culprit, *report.notes), figures=report.figures | {"culprit": culprit})


def _checks(
    found: Findings, tested: Laws, names: Names, temperature: float, step_size: float | None
) -> tuple[list[Check], float, dict[str, Any]]:
    """The checks, the p-value of those with one, and what errors would have been seen."""
    count = len(tested.tests) + (found.balance is not None) + (found.noise is not None)
    alpha = level(count)
    checks = _plain_checks(found, names, step_size)
    if found.balance is not None:
        checks.append(balance_check(found.balance, names, alpha))
    if found.noise is not None:
        checks.append(noise_check(found.noise, alpha))
    checks += law_checks(tested, names, found.features.pairs, found.features.triples, temperature, alpha)
    seen = sensitivity(tested, found.balance, alpha, found.step.dim)
    p_value = _overall(checks, count)
    in_vain = max(rung.relaxation for rung in found.ladder.rungs.values())
    unrelaxed = _unrelaxed(found, names)
    decides = decision_check(seen, None if found.ladder.is_relaxed else in_vain, tested.is_open(alpha), unrelaxed)
    return [*checks, decides], p_value, seen


def _sampled(tested: Laws, temperature: float) -> Estimate:
    test = tested.tests[0]
    pooled = test.limit.estimate(0, float(test.expected_error[0]))
    return Estimate(*(temperature * (x - test.expected[0] + 1) for x in pooled))


def _by_size(ladder: Ladder) -> list[Rung]:
    rungs = [rung for rung in ladder.rungs.values() if rung.is_finite and rung.blocks]
    return sorted(rungs, key=lambda rung: -rung.step_size)


def _overall(checks: list[Check], count: int) -> float:
    if any(not check.passed and check.p_value is None for check in checks):
        return 0.0
    return any_of(min(check.p_value for check in checks if check.p_value is not None), count)


def _plain_checks(found: Findings, names: Names, step_size: float | None) -> list[Check]:
    """What is seen without statistics."""
    checks = [_finite_check(found, step_size)]
    frozen = found.trial.frozen
    words = f"{', '.join(names[i] for i in frozen[:5])} never moves" if frozen else "every coordinate moves"
    checks.append(Check("moves", not frozen, len(frozen), 0, words))
    if found.trial.coarse:
        checks.append(_resolution_check(found.trial, names))
    return checks


def _resolution_check(trial: Trial, names: Names) -> Check:
    kind = "bfloat16" if trial.bits <= 8 else "float16"
    words = (
        f"{listed_names(trial.coarse, names)} kept with {trial.bits} significant bits, as {kind} has: moves below "
        f"{percent(0.5**trial.bits)} of a position are rounded away, so that there is no limit of small steps"
    )
    return Check("resolution", False, trial.bits, COARSE, words)


def _unrelaxed(found: Findings, names: Names) -> str | None:
    """What has not forgotten its start, and so what keeps the audit from passing: it may be slow, or never change."""
    if found.ladder.one_sided:
        return (
            f"{listed_names(found.ladder.one_sided, names)} on one side of the mean for as long as chains were run, in "
            "each of them and at every step size, though how far from it they are is forgotten: changes of side are "
            "rarer than the budget can see, or there are none and the step is not ergodic"
        )
    kept = stuck(found.ladder.three, found.features)
    if not kept.which:
        return None
    about = list(dict.fromkeys(found.features.about(k, names) for k in kept.which))
    more = f" and {len(about) - 3} more" if len(about) > 3 else ""
    return (
        f"{'; '.join(about[:3])}{more}: not forgotten within the record (over chains, the averages of its halves are "
        f"correlated by {kept.correlation:.2f}): changes are rarer than the budget can see, or there are none and the "
        "step is not ergodic"
    )


def listed_names(which: tuple[int, ...], names: Names) -> str:
    more = f" and {len(which) - 3} more" if len(which) > 3 else ""
    return f"{', '.join(names[i] for i in which[:3])}{more} {'is' if len(which) == 1 else 'are'}"


def _finite_check(found: Findings, step_size: float | None) -> Check:
    """Chains blow up from some step size on, if at all; not now and then."""
    top, rungs = found.ladder.three[0].step_size, list(found.ladder.rungs.values())
    if _is_now_and_then(rungs):
        rare = max(rung.step_size for rung in rungs if not rung.is_finite)
        words = "non-finite now and then, at no particular step size: chains at larger ones stay finite as long"
        return Check("finite", False, rare, 0.0, words)
    blown = [rung.step_size for rung in rungs if not rung.is_finite]
    if found.trial.blows_up is not None:
        blown.append(found.trial.blows_up)
    from_size = min(blown, default=np.inf)
    fine = step_size is None or step_size < from_size
    words = f"non-finite from step size {from_size:.3g}" if blown else "finite at every step size tried"
    return Check("finite", fine, top if step_size is None else step_size, from_size, words)


def _is_now_and_then(rungs: list[Rung]) -> bool:
    """Whether a step size is finite for about as many steps as one that is smaller by 4, or two that are smaller, take
    to blow up: excursions that a step is too large for get rarer by orders of magnitude as it is halved."""

    def smaller(finite: Rung, ratio: float) -> int:
        blown = [r for r in rungs if not r.is_finite and r.steps <= 2 * finite.steps]
        return sum(finite.step_size >= ratio * r.step_size for r in blown)

    return any(smaller(rung, 4) or smaller(rung, 1) > 1 for rung in rungs if rung.is_finite)


def _row(rung: Rung, found: Findings, tested: Laws, names: Names, temperature: float) -> StepBias:
    parts = found.features
    even, square = parts.columns(parts.equipartition) @ tested.weights, parts.columns(parts.square)
    select = np.column_stack([even, square.mean(1), square])
    means, errors = statistics(rung, select)
    means[0] += 1 - found.expected @ even
    k = int(np.argmax(np.abs(means[2:] - 1)))
    hot = Estimate.of(temperature * means[0], temperature * errors[0])
    return StepBias(
        rung.step_size, hot, Estimate.of(means[1], errors[1]), Estimate.of(means[2 + k], errors[2 + k]), names[k],
        rung.relaxation,
    )  # fmt: skip


def _order(found: Findings, tested: Laws, passed: bool) -> tuple[Estimate | None, str]:
    """The order of the clearest bias: against the claimed law, or against its own limit if that is wrong."""
    top = found.ladder.three[0].step_size
    rungs = [rung for rung in _by_size(found.ladder) if rung.is_relaxed and rung.step_size <= 2 * top]
    if not rungs:
        return None, "no step size relaxed within the budget: the bias is not known"
    parts = found.features
    linear, square, even = (parts.columns(part) for part in (parts.linear, parts.square, parts.equipartition))
    select = np.column_stack([even @ tested.weights, square.mean(1), even, linear, square])
    own = limit(found.ladder.three, select)
    own_blur = own.error + own.leftover + np.abs(own.half)
    goal, blur = (found.expected @ select, 0.0) if passed else (own.value, own_blur)
    both = [statistics(rung, select) for rung in rungs]
    bias, errors = np.stack([m - goal for m, _ in both]), np.stack([np.hypot(e, blur) for _, e in both])
    clear = np.sum((bias / np.maximum(errors, 1e-300)) ** 2, axis=0)
    k = int(np.argmax(clear))
    sizes = np.asarray([rung.step_size for rung in rungs])
    falling = order(sizes, bias[:, k], errors[:, k])
    if falling is None:
        if not passed:
            return None, "the order of its bias about its own limit is not clear"
        bound = float(np.abs(bias[0, :2]).max() + CLEAR * errors[0, :2].max())
        return None, f"bias too small to tell an order: below {percent(bound)} at step size {rungs[0].step_size:.3g}"
    if falling.high - falling.low > VAGUE:
        return falling, f"bias is no pure power of the step size at those tried: about {falling}"
    return falling, f"bias falls as step size to the power {falling}"


def _notes(
    found: Findings, checks: list[Check], sampled: Estimate, asked: float, names: Names,
    seen: dict[str, Any], bias_words: str,
) -> list[str]:  # fmt: skip
    notes = []
    failed = {check.name: check for check in checks if not check.passed}
    if "temperature" in failed:
        notes.append(temperature_words(sampled, asked, found.step.dim))
    if SCALES & failed.keys():  # the shape is measured on the claimed mean and scale
        failed.pop("shape", None)
    notes += [check.explanation for name, check in failed.items() if name != "temperature"]
    notes.append(bias_words)
    notes.append(sensitivity_words(seen))
    if seen["leftover"] > BROAD:
        notes.append(
            "at the smallest step sizes that the budget allows, the bias is too large to extrapolate well: what is "
            f"left may be {percent(seen['leftover'])} of the temperature; give more effort"
        )
    slow = sorted({k for rung in found.ladder.three for k in rung.slow})
    if slow:
        listed = ", ".join(list(dict.fromkeys(found.features.about(k, names) for k in slow))[:3])
        notes.append(
            f"{listed} had not forgotten the start when the budget was spent: a slow error would not have shown"
        )
    walled = tuple(int(i) for i in np.flatnonzero(found.features.has_wall))
    if found.balance is not None and walled:
        notes.append(
            f"{listed_names(walled, names)} bounded by a wall: diffusion and drift of one step are left out of the "
            "figures there"
        )
    if found.noise is None and not (found.step.is_jax and found.step.is_bare):
        notes.append(
            "the noise of consecutive steps was not looked at: at the largest step size of the verdict chains had not "
            "relaxed, or became non-finite"
        )
    provided = "" if found.law.is_exact else ", provided that the reference has found all modes"
    notes.append(f"held against {found.law.words}; a right sampler is rejected in {FALSE_ALARM:g} of audits{provided}")
    if not found.law.is_settled:
        notes.append(
            f"the reference has not settled (R-hat {found.law.rhat:.2f}): means, variances and shape are not judged"
        )
    return notes


def _figures(found: Findings) -> dict[str, Any]:
    """The ladder, and what one step and the noise showed."""
    figures: dict[str, Any] = {"ladder": [rung.step_size for rung in found.ladder.three]}
    if found.balance is not None:
        part, dim = found.balance, found.step.dim
        figures["one step"] = {
            "step_size": part.step_size,
            "residual": part.residual, "residual_error": part.error,
            "diffusion": part.diffusion, "diffusion_error": part.diffusion_error,
            "drift": part.drift, "drift_error": part.drift_error,
            "drift_over_noise": 1 - part.residual[:dim], "drift_over_noise_error": part.error[:dim],
        }  # fmt: skip
    if found.noise is not None:
        figures["noise"] = {"period": found.noise.period, "correlations": found.noise.correlations}
    return figures
