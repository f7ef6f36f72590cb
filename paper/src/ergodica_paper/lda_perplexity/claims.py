"""The paper's claims on perplexity, each decided by paired comparisons of runs."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from ergodica.lda.corpus import Documents
from ergodica.lda.expanded_mean import ExpandedMean, phi_of
from ergodica.lda.samplers import LDA_PRESETS
from ergodica_paper.lda_perplexity.comparison import (
    AS_GOOD,
    METRICS,
    RULE,
    PerplexityComparison,
    Question,
    answers,
    judge,
    told,
)
from ergodica_paper.lda_perplexity.plan import (
    CONSTANT_METRIC,
    RIEMANNIAN,
    WITH_MOMENTUM,
    Runs,
    best_constant,
    best_prior,
    named,
    other_priors,
    resampled,
)
from ergodica_paper.lda_runs import SHOWN_PRESETS, Setup
from ergodica_paper.result import Claim, Kind
from ergodica_paper.style import LABELS
from ergodica_paper.verdict import Answer, Measurement, judged, yes_if

MAIN_TEXT = "section 4.2, figure 3 (right)"
SUPPLEMENT = "supplement, settings of the LDA experiment"
DRAWS, DRAWN_WORDS, DRAWN_ALPHA, REJECTED = 20_000, 20, 0.1, 1e-3  # for the law of the expanded mean
ROUNDING = 1e-5  # of float32


Comparisons = dict[str, list[PerplexityComparison]]  # by claim


def claims_of(runs: Runs, comparisons: Comparisons) -> list[Claim]:
    """All but that of the expanded mean, which needs no corpus."""
    return [make(runs, comparisons) for make in (_riemannian, _momentum, _schedule, _priors, _resampling)]


def expanded_mean(seed: int) -> Claim:
    """With theta_kw ~ Gamma(alpha, 1) the library's topic has the law Dir(alpha), and its gradient is of that prior."""
    first, law = first_entries(seed)
    distance, p_value = stats.kstest(first, law.cdf)
    mean, off = Measurement(float(first.mean()), float(law.std() / math.sqrt(DRAWS))), _off_the_prior(seed)
    answers = [
        Answer("the law of a topic", yes_if(bool(p_value > REJECTED))),
        Answer("the gradient of the prior", yes_if(off < ROUNDING)),
    ]
    return judged(
        "expanded-mean", "In the expanded mean a topic has the Dirichlet prior of the original model.",
        "figure 3 (upper left)", answers,
        f"Of {DRAWS:,} topics of {DRAWN_WORDS} words with alpha = {DRAWN_ALPHA:g} the first entry has the mean {mean} "
        f"(Dirichlet: {law.mean():.4g}) and its law the Kolmogorov-Smirnov distance {distance:.2g}, p = {p_value:.2g}. "
        f"The library's gradient is off that of the prior by {off:.1e} of its size.",
        {
            "mean": mean.told(), "mean of the Dirichlet law": float(law.mean()),
            "Kolmogorov-Smirnov distance": float(distance), "p-value": float(p_value), "gradient off by": off,
        },
        picture="dirichlet",
        rule=f"A Kolmogorov-Smirnov test of {DRAWS:,} of the library's topics against the Beta law of an entry of "
        f"Dir(alpha) has p > {REJECTED:g}, where a distance of {_seen():.2g} would be seen; and without documents the "
        f"library's gradient is that of the prior Gamma(alpha, 1) to {ROUNDING:g} of its size.",
    )  # fmt: skip


def first_entries(seed: int) -> tuple[np.ndarray, Any]:
    """Of the library's topics, drawn from the prior; and the law of an entry of a Dirichlet variable."""
    theta = np.random.default_rng((seed, 6)).gamma(DRAWN_ALPHA, size=(DRAWN_WORDS, DRAWS)).astype(np.float32)
    return phi_of(theta)[0], stats.beta(DRAWN_ALPHA, DRAWN_ALPHA * (DRAWN_WORDS - 1))


def _off_the_prior(seed: int) -> float:
    """The library's dU/dtheta, with documents that count for nothing, against -d/dtheta log Gamma(alpha, 1)."""
    model = ExpandedMean(DRAWN_WORDS, 4, 1e-30, DRAWN_ALPHA, 0.1, sweeps=2, burn_in=1)
    theta = model.init(seed)
    got = model.gradient(theta, Documents.of([[0, 1]]), visit=0, seed=0).astype(float)
    right = 1 - (DRAWN_ALPHA - 1) / theta.astype(float)
    return float(np.abs(got / right - 1).max())


def _seen() -> float:
    """The distance above which the test rejects."""
    return float(stats.kstwo.isf(REJECTED, DRAWS))


def comparisons_of(runs: Runs) -> Comparisons:
    """By claim."""
    metric_pairs = [(r, c) for r in RIEMANNIAN for c in CONSTANT_METRIC]
    momentum_pairs = [(after, before) for before, after in WITH_MOMENTUM.items()]
    return {
        "lda-riemannian": judge(_samplers(runs, metric_pairs)),
        "lda-momentum": judge(_samplers(runs, momentum_pairs)),
        "lda-schedule": judge(_against_constants(runs)),
        "lda-priors": judge(_against_priors(runs), is_as_good_enough=True),
        "lda-resampling": judge(_with_resampling(runs)),
    }


def _samplers(runs: Runs, pairs: Sequence[tuple[str, str]]) -> list[Question]:
    return [
        Question(
            f"{LABELS[first]} against {LABELS[second]}", f"{preset} preset", metric,
            runs.every(Setup(first, preset)), runs.every(Setup(second, preset)),
        )
        for first, second in pairs for preset in SHOWN_PRESETS for metric in METRICS
    ]  # fmt: skip


def _against_constants(runs: Runs) -> list[Question]:
    """SGRLD's schedule against the constant step that was chosen as the best."""
    found = []
    for preset in runs.plan.presets:
        for metric in METRICS:
            best = best_constant(runs, preset, metric)
            where = f"{preset} preset, best constant {dict(best.changes)['step_size']:g}"
            ours, others = runs.judging(Setup("sgrld", preset)), runs.judging(best)
            found.append(Question("schedule against constant step", where, metric, ours, others))
    return found


def _against_priors(runs: Runs) -> list[Question]:
    """The paper's priors against those that were chosen as the best of the others."""
    found = []
    for sampler in CONSTANT_METRIC:
        for metric in METRICS:
            best = best_prior(runs, sampler, metric)
            what, where = f"{LABELS[sampler]} at the paper's priors", f"best other {named(best)}"
            ours, others = runs.judging(Setup(sampler, "paper")), runs.judging(best)
            found.append(Question(what, where, metric, ours, others))
    return found


def _with_resampling(runs: Runs) -> list[Question]:
    return [
        Question(
            f"{LABELS[sampler]} resampled", f"{preset} preset, every {setup.resample_every} steps", metric,
            runs.every(setup), runs.every(Setup(sampler, preset)),
        )
        for sampler in WITH_MOMENTUM.values() for preset in runs.plan.presets
        for setup in resampled(runs.plan, sampler, preset) for metric in METRICS
    ]  # fmt: skip


def _riemannian(runs: Runs, comparisons: Comparisons) -> Claim:
    statement = "On LDA the Riemannian samplers reach a lower perplexity than the others."
    return _decided(runs, comparisons, "lda-riemannian", statement, MAIN_TEXT, "perplexity", _every(runs))


def _momentum(runs: Runs, comparisons: Comparisons) -> Claim:
    statement = "Momentum helps: SGHMC is better than SGLD, and SGRHMC better than SGRLD."
    return _decided(runs, comparisons, "lda-momentum", statement, MAIN_TEXT, "perplexity", _every(runs))


def _schedule(runs: Runs, comparisons: Comparisons) -> Claim:
    tried = f"constant step of {len(runs.plan.steps)}, or more where the best is at an end,"
    rule = f"{_chosen(runs, tried)} {RULE}"
    statement = "A constant step is worse than the schedule for SGRLD."
    return _decided(runs, comparisons, "lda-schedule", statement, SUPPLEMENT, "steps", rule)


def _priors(runs: Runs, comparisons: Comparisons) -> Claim:
    own = LDA_PRESETS["paper"]["sgld"]
    statement = f"gamma = {own.gamma:g}, alpha = {own.alpha:g} is best for SGLD and SGHMC."
    rule = f"{_chosen(runs, f'of {len(other_priors(runs.plan, CONSTANT_METRIC[0]))} other priors')} {AS_GOOD}"
    return _decided(runs, comparisons, "lda-priors", statement, SUPPLEMENT, "priors", rule)


def _resampling(runs: Runs, comparisons: Comparisons) -> Claim:
    statement = "Resampling the momentum now and then helps (an option in the paper, which claims nothing)."
    return _decided(
        runs,
        comparisons,
        "lda-resampling",
        statement,
        "algorithm 1, an option",
        "resampling",
        _every(runs),
        kind="ours",
    )


def _every(runs: Runs) -> str:
    return f"Over {runs.plan.runs} runs of each: {RULE}"


def _chosen(runs: Runs, what: str) -> str:
    """How the rival came to be it."""
    fresh = runs.plan.runs - runs.plan.choosing
    return f"The rival is the best {what} in the first {_runs(runs.plan.choosing)}, judged in {fresh} fresh ones:"


def _runs(count: int) -> str:
    return "run" if count == 1 else f"{count} runs"


def _decided(
    runs: Runs,
    comparisons: Comparisons,
    name: str,
    statement: str,
    source: str,
    picture: str,
    rule: str,
    kind: Kind = "paper",
) -> Claim:
    mine = comparisons[name]
    return judged(
        name, statement, source, answers(mine), told(mine), _figures(mine),
        rule=rule, picture=picture, kind=kind, is_demo=runs.pool.is_demo,
    )  # fmt: skip


def _figures(comparisons: Sequence[PerplexityComparison]) -> dict[str, Any]:
    return {
        c.words: {
            "lower by (%)": c.percent, "standard error (%)": c.percent_error, "corrected p-value": c.p_value,
            "holds": c.outcome,
        }
        for c in comparisons
    }  # fmt: skip
