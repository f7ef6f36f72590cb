"""What an audit returns: a report with the estimates that its words follow from, made of what was found."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ergodica.report import Check, Report, columns, number
from ergodica.verify.audit.black_box import Step
from ergodica.verify.audit.chains import ESCAPED_VARIANCE, Rung
from ergodica.verify.audit.checks import UNDECIDED_ABOVE, Findings, all_checks, listed_names, percent, sensitivity_words
from ergodica.verify.audit.ladder import Ladder
from ergodica.verify.audit.law_tests import CLEAR_BIAS, Laws, laws, limit, order, statistics
from ergodica.verify.audit.trials import Trial
from ergodica.verify.tails import FALSE_ALARM, Estimate

SCALE_CHECKS = {"temperature", "equipartition", "mean", "variance"}
VAGUE_ORDER = 2.0  # width of an interval of orders that says little
NARROW_INTERVAL = 0.1  # relative width of one that may be called a number by name
BROAD_LEFTOVER = 0.1  # share of the temperature that an extrapolation may leave without a word


class StepBias(NamedTuple):
    """One row of the table of bias: what the chain samples at one step size, against 1 for what was asked."""

    step_size: float
    temperature: Estimate
    """E[(x - m) dU/dx] over coordinates: the temperature sampled, in the units of `Audit.asked`."""
    variance: Estimate
    """Variance over that of the claimed law, mean over coordinates."""
    worst: Estimate
    """The same for the coordinate that is furthest off."""
    coordinate: str
    """Which coordinate that is."""
    relaxation: int
    """Steps after which the position has forgotten where it was."""

    def cells(self) -> tuple[str, ...]:
        worst = f"{self.worst} {self.coordinate}"
        return number(self.step_size), str(self.temperature), str(self.variance), worst, f"{self.relaxation:,}"


@dataclass(frozen=True)
class Audit(Report):
    """The checks of a black-box step, and what it samples: everything here is also in `figures`.

    Attributes:
        temperature: of the law in the limit of small steps; None where no chain could be run.
        asked: the temperature that was claimed.
        bias: a row per step size, largest first.
        order: p of a bias that falls as step_size^p; None where the bias is too small to tell.
        p_value: of the whole audit: how often a right sampler does as badly.
        false_alarm: how often a right sampler is rejected.
    """

    temperature: Estimate | None = None
    asked: float = 1.0
    bias: tuple[StepBias, ...] = ()
    order: Estimate | None = None
    p_value: float = 1.0
    false_alarm: float = FALSE_ALARM

    @property
    def is_decided(self) -> bool:
        """False where a law that is badly off would not have been seen either."""
        return all(check.passed for check in self.checks if check.name == "decides")

    @property
    def undecided(self) -> bool:
        """True when nothing is wrong, but too little was seen to tell."""
        return [check.name for check in self.checks if not check.passed] == ["decides"]

    def __str__(self) -> str:
        if not self.bias:
            return super().__str__()
        head = ("step size", "temperature", "variance / claimed", "worst coordinate", "steps to relax")
        lines = columns([head, *(row.cells() for row in self.bias)])
        return "\n".join([super().__str__(), "", *(f"  {line}" for line in lines)])


def title(step: Step, temperature: float) -> str:
    kind = "in JAX" if step.is_jax else "in NumPy"
    state = "" if step.is_bare else ", with a state of its own"
    return f"audit of a step {kind}{state}: does it sample exp(-U/{temperature:g}) in {step.dim} dimensions?"


def stopped(trial: Trial, step: Step, temperature: float) -> Audit:
    """A step of which the first trials say all that there is to say."""
    name, figure, bound, note = "key", 0.0, 0.0, None
    words = "key is ignored: chains from the same start with other keys go the same way"
    if trial.escape is not None:
        name, figure, bound = "stays", trial.escape, float("inf")
        words = (
            f"runs away: by time {trial.escape:.3g} (steps times step size) the variance is {ESCAPED_VARIANCE:g} times "
            "the claimed one, whatever the step size"
        )
    elif not trial.is_finite:
        name, figure = "finite", trial.step_size
        words = f"non-finite at every step size tried, down to {trial.step_size:.3g}"
    elif not trial.moves:
        name, words, note = "moves", "position never moves", "position never moves, at any step size tried"
    elif trial.heeds_start:
        words = (
            "randomness comes from init alone: steps ignore their key, and the state holds none; such a step is not "
            "ergodic (HMC must draw its momentum again)"
        )
    check, figures = Check(name, False, figure, bound, words, 0.0), {"asked": temperature, "verdict": name}
    return Audit(title(step, temperature), (check,), (note or words,), figures, asked=temperature, p_value=0.0)


def unfinished(step: Step, temperature: float, smallest: float) -> Audit:
    """A step that stays finite at small step sizes, but not at three in a row that the budget was enough for."""
    words = (
        f"undecided: the budget was spent before three step sizes were found at which chains stay finite (down to "
        f"{smallest:.3g}); give more effort"
    )
    figures = {"asked": temperature, "verdict": "decides", "seen": {"temperature": np.inf}}
    check = Check("decides", False, np.inf, UNDECIDED_ABOVE, words)
    return Audit(title(step, temperature), (check,), (words,), figures, asked=temperature)


def summary(found: Findings) -> Audit:
    asked = found.temperature
    tested = laws(found.ladder.three, found.features, found.law, found.expected, found.expected_errors)
    checks, p_value, seen = all_checks(found, tested)
    first = tested.tests[0]
    pooled = first.limit.estimate(0, float(first.expected_error[0]))
    sampled = Estimate(*(asked * (x - first.expected[0] + 1) for x in pooled))
    rows = tuple(_row(rung, found, tested) for rung in _by_size(found.ladder))
    falling, bias_words = _order(found, tested, all(check.passed for check in checks))
    figures = {
        "temperature": list(sampled), "asked": asked, "order": None if falling is None else list(falling),
        "p_value": p_value, "false_alarm": FALSE_ALARM, "seen": seen, "steps": [row._asdict() for row in rows],
    }  # fmt: skip
    notes = (*_law_notes(found, checks, sampled), bias_words, sensitivity_words(seen), *_limits_of(found, seen))
    figures |= _figures(found)
    return Audit(title(found.step, asked), tuple(checks), notes, figures, sampled, asked, rows, falling, p_value)


def _by_size(ladder: Ladder) -> list[Rung]:
    rungs = [rung for rung in ladder.rungs.values() if rung.is_finite and rung.blocks]
    return sorted(rungs, key=lambda rung: -rung.step_size)


def _row(rung: Rung, found: Findings, tested: Laws) -> StepBias:
    parts, asked = found.features, found.temperature
    even, square = parts.columns(parts.equipartition) @ tested.weights, parts.columns(parts.square)
    means, errors = statistics(rung, np.column_stack([even, square.mean(1), square]))
    means[0] += 1 - found.expected @ even
    k = int(np.argmax(np.abs(means[2:] - 1)))
    hot, variance, worst = (Estimate.of(f * means[i], f * errors[i]) for i, f in ((0, asked), (1, 1.0), (2 + k, 1.0)))
    return StepBias(rung.step_size, hot, variance, worst, found.names[k], rung.relaxation)


def _order(found: Findings, tested: Laws, passed: bool) -> tuple[Estimate | None, str]:
    """The order of the clearest bias: against the claimed law, or against its own limit if that is wrong."""
    top = found.ladder.three[0].step_size
    rungs = [rung for rung in _by_size(found.ladder) if rung.is_relaxed and rung.step_size <= 2 * top]
    if not rungs:
        return None, "no step size relaxed within the budget: the bias is not known"
    parts = found.features
    linear, square, even = (parts.columns(part) for part in (parts.linear, parts.square, parts.equipartition))
    select = np.column_stack([even @ tested.weights, square.mean(1), even, linear, square])
    goal, blur = found.expected @ select, 0.0
    if not passed:
        own = limit(found.ladder.three, select)
        goal, blur = own.value, own.error + own.leftover + np.abs(own.half)
    both = [statistics(rung, select) for rung in rungs]
    bias, errors = np.stack([m - goal for m, _ in both]), np.stack([np.hypot(e, blur) for _, e in both])
    k = int(np.argmax(np.sum((bias / np.maximum(errors, 1e-300)) ** 2, axis=0)))
    falling = order(np.asarray([rung.step_size for rung in rungs]), bias[:, k], errors[:, k])
    if falling is None and not passed:
        return None, "the order of its bias about its own limit is not clear"
    if falling is None:
        bound = float(np.abs(bias[0, :2]).max() + CLEAR_BIAS * errors[0, :2].max())
        return None, f"bias too small to tell an order: below {percent(bound)} at step size {rungs[0].step_size:.3g}"
    if falling.high - falling.low > VAGUE_ORDER:
        return falling, f"bias is no pure power of the step size at those tried: about {falling}"
    return falling, f"bias falls as step size to the power {falling}"


def _law_notes(found: Findings, checks: list[Check], sampled: Estimate) -> list[str]:
    """What is wrong with the law, the temperature first."""
    failed = {check.name: check.explanation for check in checks if not check.passed}
    if SCALE_CHECKS & failed.keys():  # the shape is measured on the claimed mean and scale
        failed.pop("shape", None)
    hot = failed.pop("temperature", None)
    first = [] if hot is None else [temperature_words(sampled, found.temperature, found.step.dim)]
    return [*first, *failed.values()]


def temperature_words(temperature: Estimate, asked: float, dim: int) -> str:
    """The law that it samples, by its temperature."""
    words = f"it samples at temperature {temperature}, asked for {asked:g}"
    ratio = Estimate(*(x / asked for x in temperature))
    if dim > 2 and ratio.low <= dim <= ratio.high and ratio.high - ratio.low < NARROW_INTERVAL * dim:
        times = "" if asked == 1 else f"{asked:g} times "
        words += (
            f": that is {times}the dimension, {dim}, or a factor of {dim} from elsewhere (a momentum that keeps "
            f"{1 - 1 / dim:.2g} of itself): eg.audit_family, in other dimensions, tells which"
        )
    return words


def _limits_of(found: Findings, seen: dict[str, Any]) -> list[str]:
    """What could not be seen, or was not looked at."""
    notes, names, law = [], found.names, found.law
    if seen["leftover"] > BROAD_LEFTOVER:
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
    if found.noise is None and not (found.step.is_jax and found.step.is_bare):
        notes.append(
            "the noise of consecutive steps was not looked at: at the largest step size of the verdict chains had not "
            "relaxed, or became non-finite"
        )
    walled = tuple(np.flatnonzero(found.features.has_wall).tolist())
    if found.balance is not None and walled:
        notes.append(
            f"{listed_names(walled, names)} bounded by a wall: diffusion and drift of one step are left out of the "
            "figures there"
        )
    provided = "" if law.is_exact else ", provided that the reference has found all modes"
    notes.append(f"held against {law.words}; a right sampler is rejected in {FALSE_ALARM:g} of audits{provided}")
    if not law.is_settled:
        notes.append(f"the reference has not settled (R-hat {law.rhat:.2f}): means, variances and shape are not judged")
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
