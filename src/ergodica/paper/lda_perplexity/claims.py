"""The paper's claims on perplexity, each decided by paired comparisons of runs."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from ergodica.lda.samplers import PRESETS
from ergodica.paper.lda_perplexity.comparison import (
    AS_GOOD,
    METRICS,
    RULE,
    Comparison,
    Question,
    judge,
    told,
    verdict_of,
)
from ergodica.paper.lda_perplexity.plan import (
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
from ergodica.paper.lda_runs import SHOWN_PRESETS, Setup
from ergodica.paper.result import Claim, Kind
from ergodica.paper.style import LABELS
from ergodica.paper.verdict import Answer, plus_minus, verdict, yes_if

MAIN_TEXT = "section 4.2, figure 3 (right)"
SUPPLEMENT = "supplement, settings of the LDA experiment"
DRAWS, DRAWN_WORDS, DRAWN_ALPHA, REJECTED = 20_000, 20, 0.1, 1e-3  # for the law of the expanded mean


def claims_of(runs: Runs) -> list[Claim]:
    """All but that of the expanded mean, which needs no corpus."""
    return [_riemannian(runs), _momentum(runs), _schedule(runs), _priors(runs), _resampling(runs)]


def expanded_mean(seed: int) -> Claim:
    """theta_kw / theta_k. with theta_kw ~ Gamma(alpha, 1) has the law Dir(alpha): an entry of it is a Beta variable."""
    theta = np.random.default_rng((seed, 6)).gamma(DRAWN_ALPHA, size=(DRAWS, DRAWN_WORDS))
    first = theta[:, 0] / theta.sum(axis=1)
    law = stats.beta(DRAWN_ALPHA, DRAWN_ALPHA * (DRAWN_WORDS - 1))
    distance, p_value = stats.kstest(first, law.cdf)
    error = law.std() / math.sqrt(DRAWS)
    return Claim(
        "expanded-mean",
        "In the expanded mean a topic has the Dirichlet prior of the original model.",
        "figure 3 (upper left)",
        verdict([Answer("the first entry of a topic", yes_if(bool(p_value > REJECTED)))]),
        f"Of {DRAWS:,} draws of theta_k with {DRAWN_WORDS} words and alpha = {DRAWN_ALPHA:g} the first entry of beta_k "
        f"has the mean {plus_minus(float(first.mean()), float(error))} (Dirichlet: {law.mean():.4g}) and its law the "
        f"Kolmogorov-Smirnov distance {distance:.2g}, p = {p_value:.2g}.",
        {
            "mean": float(first.mean()), "standard error": float(error), "mean of the Dirichlet law": float(law.mean()),
            "Kolmogorov-Smirnov distance": float(distance), "p-value": float(p_value),
        },
        rule=f"A Kolmogorov-Smirnov test of {DRAWS:,} draws against the Beta law of an entry of Dir(alpha) has p > "
        f"{REJECTED:g}, where a distance of {_seen():.2g} would be seen.",
    )  # fmt: skip


def _seen() -> float:
    """The distance above which the test rejects."""
    return float(stats.kstwo.isf(REJECTED, DRAWS))


def comparisons_of(runs: Runs) -> dict[str, list[Comparison]]:
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


def _riemannian(runs: Runs) -> Claim:
    statement = "On LDA the Riemannian samplers reach a lower perplexity than the others."
    return _decided(runs, "lda-riemannian", statement, MAIN_TEXT, "perplexity", _every(runs))


def _momentum(runs: Runs) -> Claim:
    statement = "Momentum helps: SGHMC is better than SGLD, and SGRHMC better than SGRLD."
    return _decided(runs, "lda-momentum", statement, MAIN_TEXT, "perplexity", _every(runs))


def _schedule(runs: Runs) -> Claim:
    tried = f"constant step of {len(runs.plan.steps)}, or more where the best is at an end,"
    rule = f"{_chosen(runs, tried)} {RULE}"
    statement = "A constant step is worse than the schedule for SGRLD."
    return _decided(runs, "lda-schedule", statement, SUPPLEMENT, "steps", rule)


def _priors(runs: Runs) -> Claim:
    own = PRESETS["paper"]["sgld"]
    statement = f"gamma = {own.gamma:g}, alpha = {own.alpha:g} is best for SGLD and SGHMC."
    rule = f"{_chosen(runs, f'of {len(other_priors(runs.plan, CONSTANT_METRIC[0]))} other priors')} {AS_GOOD}"
    return _decided(runs, "lda-priors", statement, SUPPLEMENT, "priors", rule)


def _resampling(runs: Runs) -> Claim:
    statement = "Resampling the momentum now and then helps (an option in the paper, which claims nothing)."
    return _decided(
        runs, "lda-resampling", statement, "algorithm 1, an option", "resampling", _every(runs), kind="ours"
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
    runs: Runs, name: str, statement: str, source: str, picture: str, rule: str, kind: Kind = "paper"
) -> Claim:  # fmt: skip
    comparisons = comparisons_of(runs)[name]
    found, conditions = verdict_of(comparisons, runs.pool.is_demo)
    return Claim(
        name, statement, source, found, told(comparisons), _figures(comparisons), conditions, picture, kind, rule
    )  # fmt: skip


def _figures(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    return {
        c.words: {
            "lower by (%)": c.percent, "standard error (%)": c.percent_error, "corrected p-value": c.p_value,
            "holds": c.outcome,
        }
        for c in comparisons
    }  # fmt: skip
