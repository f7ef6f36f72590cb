"""The claims about the one-dimensional experiments, each judged by a rule on the measured figures."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ergodica_paper.one_dimensional.batches import BATCH, ROWS, Shift
from ergodica_paper.one_dimensional.chains import PRINTED_OFFSET, SweepPoint
from ergodica_paper.one_dimensional.densities import BINS, ONE_PEAK, TWO_PEAKS, Peaks
from ergodica_paper.one_dimensional.divergence import difference
from ergodica_paper.one_dimensional.sweep import SAMPLERS, Curve
from ergodica_paper.result import Claim
from ergodica_paper.style import LABELS
from ergodica_paper.verdict import SURE, Answer, Measurement, Outcome, all_of, beyond_chance, counted, judged, yes_if

DENSITIES = (ONE_PEAK, TWO_PEAKS)
RIGHT = ("sgld", "sghmc", "gsgrhmc")
RESOLVED = 0.1  # of the naive sampler's limit: what is called zero must be shown to be less than that
AGREES = 0.5  # of a closed form: an error above that could not tell it from zero
_ERRORS = f"{SURE:g} standard errors"
_ZERO = (
    f"is within {_ERRORS} of 0, and by as many below {RESOLVED:g} of the naive sampler's limit in closed form (else it "
    "is unclear)"
)
_LOST = "steps at which chains become non-finite have no stationary law and are left out"


def curve(curves: Sequence[Curve], peaks: Peaks, sampler: str, **more: bool) -> Curve:
    """The curve of a sampler, with V subtracted and Euler's step unless said otherwise."""
    wanted = {"compensated": True, "printed": False, "splitting": False, **more}
    return next(
        c
        for c in curves
        if c.case.peaks is peaks
        and c.case.sampler == sampler
        and all(getattr(c.case, name) == value for name, value in wanted.items())
    )


def with_printed_offset(curves: Sequence[Curve], peaks: Peaks, sampler: str) -> Curve:
    """With one peak the printed offset is the valid one."""
    return curve(curves, peaks, sampler, printed=peaks.offset != PRINTED_OFFSET)


def at_zero(found: Curve) -> Measurement:
    """The limit at step 0; without one, a figure that no rule takes for certain."""
    return Measurement(float("nan"), float("inf")) if found.limit is None else found.limit.at_zero


def naive_limit(peaks: Peaks, offset: float) -> float:
    """KL(naive law || target) on the same 100 bins as the chains."""
    shares = peaks.naive_masses(offset)
    return float(np.sum(shares * np.log(shares / peaks.masses)))


def all_claims(curves: Sequence[Curve], shifts: Sequence[Shift], refusal: str) -> list[Claim]:
    return [
        _vanishes(curves),
        _right(curves),
        _closed_form(curves),
        _worst(curves),
        _subtracted(curves),
        _own_batch(shifts),
        _printed_offset(curves, refusal),
    ]


def is_zero(estimate: Measurement, bound: float) -> Outcome:
    """Within `SURE` standard errors of 0, and shown to be less than a bound: else a large error would say yes."""
    if beyond_chance(*estimate) != "unclear":
        return "no"
    return "yes" if estimate.value + SURE * estimate.error < bound else "unclear"


def _vanishes(curves: Sequence[Curve]) -> Claim:
    answers, figures, said = [], {}, []
    for peaks in DENSITIES:
        naive, right = (at_zero(curve(curves, peaks, s)) for s in ("naive_sgrhmc", "gsgrhmc"))
        bound = RESOLVED * naive_limit(peaks, peaks.offset)
        stays: dict[Outcome, Outcome] = {"yes": "no", "no": beyond_chance(*naive), "unclear": "unclear"}
        answers.append(Answer(peaks.name, all_of([stays[is_zero(naive, bound)], is_zero(right, bound)])))
        figures[peaks.name] = {"naive SGRHMC": naive.told(), "gSGRHMC": right.told()}
        said.append(f"{peaks.name}: naive {naive}, gSGRHMC {right}")
    return judged(
        name="naive-sgrhmc-does-not-converge",
        statement="The naive SGRHMC's KL does not vanish with the step, and gSGRHMC's does.",
        source="section 4.1 and figure 2, left",
        answers=answers,
        explanation=f"KL (nats) extrapolated to step 0, {'; '.join(said)}.",
        figures=figures,
        picture="kl-steps",
        rule=f"On a density it holds where the naive sampler's KL, extrapolated to step 0, is above 0 by {_ERRORS} "
        f"and gSGRHMC's {_ZERO}.",
    )


def _right(curves: Sequence[Curve]) -> Claim:
    limits = {f"{LABELS[s]}, {p.name}": (p, at_zero(curve(curves, p, s))) for p in DENSITIES for s in RIGHT}
    bounds = {p.name: RESOLVED * naive_limit(p, p.offset) for p in DENSITIES}
    answers = [Answer(name, is_zero(x, bounds[p.name])) for name, (p, x) in limits.items()]
    known = {name: x for name, (_, x) in limits.items() if np.isfinite(x.error)}
    farthest = max(known, key=lambda name: abs(known[name].value) / known[name].error, default="")
    said = f"; the one farthest from 0 in standard errors is {farthest}: {known[farthest]} nats" if farthest else ""
    return judged(
        name="recipes-have-the-right-law",
        statement="SGLD, SGHMC and gSGRHMC, which the recipe covers, leave the target invariant.",
        source="Theorem 1, section 4.1 (i)",
        answers=answers,
        explanation=f"{_zeros(answers)}{said}.",
        figures={name: x.told() for name, (_, x) in limits.items()},
        picture="kl-bars",
        rule=f"For a sampler and a density it holds where KL, extrapolated to step 0, {_ZERO}.",
    )


def _zeros(answers: Sequence[Answer]) -> str:
    yes, no, unclear = (sum(answer.outcome == outcome for answer in answers) for outcome in ("yes", "no", "unclear"))
    if yes == len(answers):
        return f"All {yes} limits of KL are zero"
    return f"Of {len(answers)} limits of KL {yes} are zero, {no} are not, and {unclear} are not known well enough"


def _closed_form(curves: Sequence[Curve]) -> Claim:
    answers, figures, said = [], {}, []
    for peaks in DENSITIES:
        got, exact = at_zero(curve(curves, peaks, "naive_sgrhmc")), naive_limit(peaks, peaks.offset)
        off = beyond_chance(got.value - exact, got.error) != "unclear"
        is_known = SURE * got.error < AGREES * exact
        answers.append(Answer(peaks.name, "no" if off else "yes" if is_known else "unclear"))
        said.append(f"{peaks.name}: {got} measured, {exact:.3g} in closed form")
        figures[peaks.name] = {
            **got.told(),
            "closed form on the bins": exact,
            "closed form without bins": peaks.naive_divergence(peaks.offset),
        }
    return judged(
        name="naive-sgrhmc-samples-another-law",
        statement="The naive SGRHMC samples exp(-U) G^1/2 instead of exp(-U).",
        source="our errata; the paper: 'this system cannot be written within our framework'",
        answers=answers,
        explanation=f"KL (nats) at step 0 on {BINS} bins, {'; '.join(said)}.",
        figures=figures,
        picture="kl-steps",
        kind="ours",
        rule=f"On a density it holds where its KL, extrapolated to step 0, is within {_ERRORS} of the closed form, and "
        f"these are less than {AGREES:g} of it (else it is unclear).",
    )


def _worst(curves: Sequence[Curve]) -> Claim:
    answers: list[Answer] = []
    worst, best, left_out = {}, {}, {}
    for peaks in DENSITIES:
        at = {s: curve(curves, peaks, s).points for s in SAMPLERS}
        rows = [{s: points[i] for s, points in at.items()} for i in range(len(at["sgld"]))]
        kept = [row for row in rows if not _lost(row.values())]
        asked: dict[float, Outcome] = {row["sgld"].step_size: all_of(_above(row)) for row in kept}
        answers += [Answer(f"{peaks.name} at step {step:g}", outcome) for step, outcome in asked.items()]
        worst[peaks.name] = [step for step, outcome in asked.items() if outcome == "yes"]
        best[peaks.name] = [row["sgld"].step_size for row in kept if _is_lowest(row)]
        left_out[peaks.name] = [row["sgld"].step_size for row in rows if _lost(row.values())]
    return judged(
        name="naive-sgrhmc-is-the-worst",
        statement="Of the four samplers the naive SGRHMC is the farthest from the target.",
        source="figure 2, left (step size not given)",
        answers=answers or [Answer("every step", "unclear")],
        where=_places(worst),
        explanation=(f"{counted(answers)}. " if answers else "")
        + f"Where its KL is the lowest of all the wrong sampler looks best: {_places(best)}. Left out for lost chains: "
        f"{_places(left_out)}.",
        figures={"worst at steps": worst, "best at steps": best, "left out": left_out},
        picture="kl-bars",
        rule=f"At a step on a density it holds where its KL is above each of the others' by {_ERRORS}, and the "
        f"contrary where one of theirs is above it by as many; {_LOST}.",
    )


def _lost(points: Any) -> bool:
    return any(point.non_finite for point in points)


def _above(row: dict[str, SweepPoint]) -> list[Outcome]:
    """Whether the naive sampler's KL is above that of each of the others."""
    naive = row["naive_sgrhmc"].kl
    others = [point.kl for sampler, point in row.items() if sampler != "naive_sgrhmc"]
    return [beyond_chance(*naive.minus(x)) for x in others]


def _is_lowest(row: dict[str, SweepPoint]) -> bool:
    return set(_above(row)) == {"no"}


def _places(steps: dict[str, list[float]]) -> str:
    """One peak at steps 0.01, 0.005; two peaks at step 0.02."""
    found = [
        f"{name} at step{'s' if len(at) > 1 else ''} " + ", ".join(f"{step:g}" for step in at)
        for name, at in steps.items()
        if at
    ]
    return "; ".join(found) or "nowhere"


def _subtracted(curves: Sequence[Curve]) -> Claim:
    gains = {f"{LABELS[s]}, {p.name}": _gains(curves, p, s) for p in DENSITIES for s in RIGHT}
    answers = [Answer(name, _is_gain([x for x in found.values() if x])) for name, found in gains.items()]
    every = [beyond_chance(*x) for found in gains.values() for x in found.values() if x]
    left_out = sum(x is None for found in gains.values() for x in found.values())
    first = next(iter(gains))
    step, gain = next(((e, x) for e, x in gains[first].items() if x), (0.0, Measurement(float("nan"), float("nan"))))
    return judged(
        name="subtracting-gradient-noise-helps",
        statement="Subtracting the gradient's variance makes finite steps more accurate.",
        source="section 3.1, paragraph on SGLD",
        answers=answers,
        explanation=f"{counted(answers)}. KL is lower with V subtracted at {every.count('yes')} of {len(every)} points "
        f"and higher at {every.count('no')} ({left_out} more left out for lost chains): {first} by {gain} nats at step "
        f"{step:g}.",
        figures={
            name: {f"step {e:g}": x.told() if x else "chains lost" for e, x in found.items()}
            for name, found in gains.items()
        },
        picture="kl-steps",
        rule=f"For a sampler and a density it holds where KL is lower with V subtracted by {_ERRORS} at some step, and "
        f"higher by as many at none; {_LOST}.",
    )


def _gains(curves: Sequence[Curve], peaks: Peaks, sampler: str) -> dict[float, Measurement | None]:
    """By step, KL without V subtracted less KL with it; None where either loses chains."""
    pairs = zip(
        curve(curves, peaks, sampler).points, curve(curves, peaks, sampler, compensated=False).points, strict=True
    )
    return {a.step_size: None if _lost((a, b)) else difference(b.divergence, a.divergence) for a, b in pairs}


def _is_gain(gains: Sequence[Measurement]) -> Outcome:
    found = {beyond_chance(*gain) for gain in gains}
    if "no" in found:
        return "no"
    return "yes" if "yes" in found else "unclear"


def _own_batch(shifts: Sequence[Shift]) -> Claim:
    first, last = shifts[0], shifts[-1]
    stays = yes_if(abs(last.own.value) > AGREES * abs(first.own.value))  # an error of the step would shrink with it
    answers = [Answer(f"step {s.step_size:g}", all_of([_is_biased(s), stays])) for s in shifts]
    return judged(
        name="own-batch-metric-is-biased",
        statement="A metric from the potential of the gradient's own batch biases the sampler, at every step size.",
        source="our errata, on the supplement's G defined through the minibatch potential",
        answers=answers,
        explanation=f"SGRLD with D ~ sqrt(U~), {ROWS:,} skewed data, batches of {BATCH}: the mean is off by "
        f"{first.own} posterior sd at step {first.step_size:g} and {last.own} at {last.step_size:g} with one batch for "
        f"both, by {first.crossed} and {last.crossed} with the library's crossed halves.",
        figures={
            f"step {s.step_size:g}": {"own batch": s.own.told(), "crossed halves": s.crossed.told()} for s in shifts
        },
        picture="own-batch",
        kind="ours",
        rule=f"At a step it holds where the mean is off by {_ERRORS} with one batch, and with crossed halves by no "
        f"more than {_ERRORS} and, with these, by less than {AGREES:g} of the former; and the shift with one batch at "
        f"the smallest step must be more than {AGREES:g} of that at the largest.",
    )


def _is_biased(shift: Shift) -> Outcome:
    own: Outcome = "unclear" if beyond_chance(*shift.own) == "unclear" else "yes"
    crossed = is_zero(Measurement(abs(shift.crossed.value), shift.crossed.error), AGREES * abs(shift.own.value))
    return all_of([own, crossed])


def _printed_offset(curves: Sequence[Curve], refusal: str) -> Claim:
    negative = {peaks: peaks.mass_below(-PRINTED_OFFSET) for peaks in DENSITIES}
    answers: list[Answer] = []
    figures: dict[str, Any] = {"what the library says to it": refusal or "accepted"}
    for peaks in DENSITIES:
        printed, valid = with_printed_offset(curves, peaks, "gsgrhmc"), curve(curves, peaks, "gsgrhmc")
        kept = all(not p.non_finite or v.non_finite for p, v in zip(printed.points, valid.points, strict=True))
        answers.append(Answer(peaks.name, yes_if(negative[peaks] < 0.5 and kept)))
        figures[peaks.name] = {
            f"mass where U + {PRINTED_OFFSET:g} < 0": negative[peaks],
            "printed offset": _told(printed),
            f"offset {peaks.offset:g}": _told(valid),
        }
    got, good = (curve(curves, TWO_PEAKS, "gsgrhmc", printed=p).points for p in (True, False))
    got, good = got[len(got) // 2], good[len(good) // 2]
    return judged(
        name="printed-offset-samples",
        statement=f"The constant C = {PRINTED_OFFSET:g} keeps U + C positive in most cases.",
        source="supplement, section F.1 (the paper: D = 1.5, C = 0.5)",
        answers=answers,
        explanation=f"U + {PRINTED_OFFSET:g} is negative on {negative[ONE_PEAK]:.0%} of the mass with one peak and "
        f"{negative[TWO_PEAKS]:.0%} with two. There, at step {got.step_size:g}, KL is "
        f"{got.kl} and {got.non_finite:,} chains are lost, against {good.kl} and {good.non_finite:,} with offset "
        f"{TWO_PEAKS.offset:g}." + (" The library refuses it." if refusal else ""),
        figures=figures,
        picture="densities",
        rule="On a density it holds where U + C is negative on less than half of the target's mass, and gSGRHMC loses "
        "chains at no step at which it loses none with a valid offset.",
    )


def _told(found: Curve) -> dict[str, Any]:
    return {f"step {p.step_size:g}": {**p.kl.told(), "non-finite chains": p.non_finite} for p in found.points}
