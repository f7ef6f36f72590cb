"""What a tuned run says of itself: reached or not, by which method, with which bias, at what price, and what it could
not have seen."""

import math
from dataclasses import replace
from typing import Any

import numpy as np

from ergodica.diagnostics.accuracy import LEVERAGE, names_of
from ergodica.driver.run import Run, Tuning
from ergodica.errors import InputError
from ergodica.report import paragraph, plain
from ergodica.targets import Posterior
from ergodica.tuning.ladder import Outcome
from ergodica.tuning.pilots import FIRST_PILOT_RUNG
from ergodica.tuning.settings import Settings


def tuning_of(plan: Settings, outcome: Outcome) -> Tuning:
    """The report on what came of a plan."""
    answer = outcome.answer
    settings = plan if answer is None else answer.settings
    spent = _spent(plan, outcome)
    rungs = [
        {
            "method": rung.settings.method, "step_size": rung.settings.way.step_size, "seed": rung.settings.seed,
            "steps": int(rung.run.settings["steps"]), "passes": rung.passes(),
            "worst_sd_error": float(np.max(rung.measured.sd_error)),
        }
        for rung in outcome.rungs
    ]  # fmt: skip
    if answer is not None:  # as long as it became
        settings = settings.with_way(settings.way, settings.rung, int(answer.run.settings["steps"]))
    lines = [*paragraph(_verdict(plan, outcome), ""), *_labelled("method", settings.method_words())]
    lines += _labelled("why", plan.reason)
    lines += _labelled("tried", f"first by {outcome.before}") if outcome.before else []
    for label, words in (("bias", _bias_words(plan, outcome)), ("sum", _sum_words(plan, outcome))):
        lines += _labelled(label, words) if words else []
    lines += _labelled("spent", _spent_words(plan, spent))
    lines += [] if outcome.is_reached else _labelled("advice", _advice(plan, outcome))
    lines += _labelled("not seen", _not_seen(plan, outcome))
    return Tuning(outcome.is_reached, "\n".join(lines), plain(rungs), _figures(outcome), spent, settings)


def _labelled(label: str, words: str) -> list[str]:
    return paragraph(words, f"  {label:<10} ")


def _verdict(plan: Settings, outcome: Outcome) -> str:
    accuracy = plan.asked.words(plan.kept)
    if outcome.is_reached:
        assert outcome.sums is not None
        return f"Reached: {accuracy}, R-hat {outcome.sums.r_hat:.4f}."
    return f"NOT reached: {accuracy}. {outcome.trouble[:1].upper()}{outcome.trouble[1:]}."


def _figures(outcome: Outcome) -> dict[str, Any]:
    if outcome.sums is None or outcome.answer is None:
        return {}
    found, asked = outcome.sums, outcome.answer.settings.accuracy
    return plain({
        "mean_allowed": asked.mean, "sd_allowed": asked.sd,
        "names": names_of(outcome.answer.run.posterior), "mean_bias": found.mean_bias, "mean_error": found.mean_error,
        "sd_bias": found.sd_bias, "sd_error": found.sd_error, "z": found.z,
    })  # fmt: skip


def _bias_words(plan: Settings, outcome: Outcome) -> str:
    answer, witness = outcome.answer, outcome.witness
    if answer is None:
        return ""
    if witness is None and answer.settings.method == "Metropolis":
        return "none: the Metropolis test makes the law exact, whatever the step"
    if witness is None:
        return "not known: no run with twice the step stayed finite, so there is nothing to compare with"
    way = answer.settings.way
    here, there = plan.bias(way), plan.bias(way.doubled())
    expected = float(np.mean((1 + np.asarray(there)) / (1 + np.asarray(here)) - 1))
    seen = float(np.mean(witness.measured.sd / answer.measured.sd - 1))
    beyond = 0.0 if outcome.sums is None else float(np.max(np.abs(outcome.sums.sd_bias - here)))
    words = f"{float(np.max(here)):+.1%} predicted for the worst sd; " if way.batch_size is not None else ""
    words += f"those of the witness, with twice the step, differ by {seen:+.1%} on average, {expected:+.1%} predicted; "
    words += f"up to {beyond:.1%} at this step was not predicted" if beyond else "the rest is within chance"
    shift = 0.0 if outcome.sums is None else float(np.max(np.abs(outcome.sums.mean_bias)))
    return words + (f"; means may be off by {shift:.2g} sd at this step" if shift else "")


def _sum_words(plan: Settings, outcome: Outcome) -> str:
    if outcome.sums is None or outcome.answer is None:
        return ""
    found, accuracy = outcome.sums, plan.accuracy
    names, parts = names_of(outcome.answer.run.posterior), []
    modes = len(plan.laplace.others) + 1
    half = f", half of what was asked, as {modes} modes were found" if modes > 1 else ""
    for what, total, bias, error, allowed, why in (
        ("sd", found.sd, found.sd_bias, found.sd_error, accuracy.sd, ""),
        ("mean", found.mean, found.mean_bias, found.mean_error, accuracy.mean, half),
    ):
        worst = int(np.argmax(np.nan_to_num(total, nan=np.inf)))
        digits = max(3, 1 - math.floor(math.log10(allowed)))
        parts.append(
            f"worst {what}, of {names[worst]}: bias {abs(bias[worst]):.{digits}f} + {found.z:.2f} x error "
            f"{error[worst]:.{digits + 1}f} = {total[worst]:.{digits}f}, and {allowed:g} is allowed{why}"
        )
    seen = f"; errors count 1/{LEVERAGE:g} of that of the comparison with the witness" if outcome.witness else ""
    return f"{'; '.join(parts)} (in units of the sd{seen})"


def _advice(plan: Settings, outcome: Outcome) -> str:
    """What to do where the accuracy was not reached."""
    found, asked, other = outcome.sums, plan.asked, "change variables so that the posterior is closer to a Gaussian"
    if found is None:
        return f"give a start nearer to the posterior (init=), use float64, or {other}"
    if not (np.isfinite(found.sd).all() and np.isfinite(found.mean).all()):
        return "leave out of keep= what never changes"
    if found.r_hat > asked.r_hat:
        return f"do not use these draws: chains are in several modes, or in a funnel that some do not enter; {other}"
    mean, sd = np.max(found.mean) * asked.mean / plan.accuracy.mean, np.max(found.sd)
    mean, sd = (math.ceil(100 * max(x, least)) / 100 for x, least in ((mean, asked.mean), (sd, asked.sd)))
    return f"{other}, or ask for less: these draws would do for eg.Accuracy(mean={mean:g}, sd={sd:g})"


def _spent(plan: Settings, outcome: Outcome) -> dict[str, float]:
    found = plan.laplace
    spent = {"mode": float(found.evaluations), "curvature": float(found.products)}
    if plan.noise is not None:
        spent["noise"] = float(plan.noise.passes)
    for rung in outcome.rungs:
        is_answer = outcome.answer is not None and rung is outcome.answer
        is_pilot = rung.settings.rung >= FIRST_PILOT_RUNG
        name = (
            "sampling" if is_answer else "pilots" if is_pilot else "witness" if rung is outcome.witness else "given up"
        )
        spent[name] = spent.get(name, 0.0) + rung.passes()
    return {name: round(value, 2) for name, value in spent.items()}


def _spent_words(plan: Settings, spent: dict[str, float]) -> str:
    unit = "passes over the data" if isinstance(plan.request.target, Posterior) else "gradients"
    return f"{sum(spent.values()):,.0f} {unit}: " + ", ".join(f"{value:,.0f} {name}" for name, value in spent.items())


def _not_seen(plan: Settings, outcome: Outcome) -> str:
    modes = len(plan.laplace.others) + 1
    found = f" ({modes} found)" if modes > 1 else ""
    words = f"modes that no search found{found}, and mass far out that no chain entered"
    if outcome.witness is not None:
        words += "; an error that is the same at this step and at twice the step"
    if not plan.laplace.peak.root.is_dense:
        words += "; other modes were not looked for, as the position is large"
    return words


def finished_run(plan: Settings, outcome: Outcome) -> Run:
    """The answer with its report and its witness."""
    if outcome.answer is None:
        raise InputError(f"nothing was sampled: {outcome.trouble}")
    tuning = tuning_of(plan, outcome)
    answer = outcome.answer.run
    witness = None if outcome.witness is None else outcome.witness.run
    return replace(answer, settings=answer.settings | {"tuning": tuning.to_dict()}, witness=witness, tuning=tuning)
