"""What a tuned run says of itself: reached or not, by which method, with which bias, at what price, and what it could
not have seen."""

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
    lines = [_verdict(plan, outcome), *_labelled("method", settings.method_words()), *_labelled("why", plan.reason)]
    for label, words in (("bias", _bias_words(plan, outcome)), ("sum", _sum_words(plan, outcome))):
        lines += _labelled(label, words) if words else []
    lines += _labelled("spent", _spent_words(plan, spent))
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
    if witness is None:
        return "none of the step: a Metropolis test makes the law exact"
    way = answer.settings.way
    here, there = plan.bias(way), plan.bias(way.doubled())
    expected = float(np.mean((1 + np.asarray(there)) / (1 + np.asarray(here)) - 1))
    seen = float(np.mean(witness.measured.sd / answer.measured.sd - 1))
    beyond = 0.0 if outcome.sums is None else float(np.max(np.abs(outcome.sums.sd_bias - here)))
    shift = 0.0 if outcome.sums is None else float(np.max(np.abs(outcome.sums.mean_bias)))
    words = f"sds {float(np.max(here)):+.1%} predicted in the worst number; " if way.batch_size is not None else ""
    words += f"against twice the step sds are {seen:+.1%} on average, {expected:+.1%} predicted; beyond the prediction "
    words += f"up to {beyond:.1%} at this step" if beyond else "nothing was seen"
    return words + (f"; means off by up to {shift:.2g} sd at this step" if shift else "")


def _sum_words(plan: Settings, outcome: Outcome) -> str:
    if outcome.sums is None or outcome.answer is None:
        return ""
    found, accuracy = outcome.sums, plan.accuracy
    names, parts = names_of(outcome.answer.run.posterior), []
    for what, total, bias, error, allowed in (
        ("sd", found.sd, found.sd_bias, found.sd_error, accuracy.sd),
        ("mean", found.mean, found.mean_bias, found.mean_error, accuracy.mean),
    ):
        worst = int(np.argmax(np.nan_to_num(total, nan=np.inf)))
        parts.append(
            f"{what} of {names[worst]}: bias {abs(bias[worst]):.3f} + {found.z:.2f} x error {error[worst]:.4f} = "
            f"{total[worst]:.3f} of {allowed:g}"
        )
    seen = "" if outcome.witness is None else f" (errors with those of the comparison, over {LEVERAGE:g})"
    return f"in the worst numbers, in sds: {'; '.join(parts)}{seen}"


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
    words = f"modes that no search found ({modes} found)" if modes > 1 else "modes that no search found"
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
