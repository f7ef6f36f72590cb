"""The paper's claims on perplexity, each decided by paired comparisons of runs."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from ergodica.lda.samplers import PRESETS
from ergodica.paper.lda_perplexity.comparison import METRICS, RULE, Comparison, compare, verdict_of
from ergodica.paper.lda_perplexity.plan import (
    CONSTANT_METRIC,
    RIEMANNIAN,
    SHOWN_PRESETS,
    WITH_MOMENTUM,
    Runs,
    constants_tried,
    mean,
    named,
    prior_setups,
    resampled,
)
from ergodica.paper.lda_runs import Setup
from ergodica.paper.result import Claim
from ergodica.paper.style import LABELS

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
    agrees = bool(p_value > REJECTED)
    return Claim(
        "expanded-mean",
        "In the expanded mean a topic has the Dirichlet prior of the original model.",
        "figure 3 (upper left)",
        "reproduced" if agrees else "not reproduced",
        f"Of {DRAWS:,} draws of theta_k with {DRAWN_WORDS} words and alpha = {DRAWN_ALPHA:g} the first entry of beta_k "
        f"has the mean {first.mean():.4f} (Dirichlet: {law.mean():.4f}, standard error {error:.4f}); a "
        f"Kolmogorov-Smirnov test of its law gives p = {p_value:.2g} (rejected below {REJECTED:g}).",
        {
            "mean": float(first.mean()), "standard error": float(error), "mean of the Dirichlet law": float(law.mean()),
            "Kolmogorov-Smirnov distance": float(distance), "p-value": float(p_value),
        },
    )  # fmt: skip


def comparisons_of(runs: Runs) -> dict[str, list[Comparison]]:
    """By claim."""
    metric_pairs = [(r, c) for r in RIEMANNIAN for c in CONSTANT_METRIC]
    momentum_pairs = [(after, before) for before, after in WITH_MOMENTUM.items()]
    return {
        "lda-riemannian": _samplers(runs, metric_pairs),
        "lda-momentum": _samplers(runs, momentum_pairs),
        "lda-schedule": _against_constants(runs),
        "lda-priors": _against_priors(runs),
        "lda-resampling": _with_resampling(runs),
    }


def _samplers(runs: Runs, pairs: Sequence[tuple[str, str]]) -> list[Comparison]:
    return [
        compare(
            runs.of(Setup(first, preset)), runs.of(Setup(second, preset)), metric,
            f"{LABELS[first]} against {LABELS[second]}", f"{preset} preset",
        )
        for first, second in pairs for preset in SHOWN_PRESETS for metric in METRICS
    ]  # fmt: skip


def _against_constants(runs: Runs) -> list[Comparison]:
    """SGRLD's schedule against the best of the constant steps, be it by chance."""
    found = []
    for preset in runs.plan.presets:
        for metric in METRICS:
            step, best = min(constants_tried(runs, preset), key=lambda entry: mean(entry[1], metric))
            scheduled = runs.of(Setup("sgrld", preset))
            where = f"{preset} preset, best constant {step:g}"
            found.append(compare(scheduled, best, metric, "schedule against constant step", where))
    return found


def _against_priors(runs: Runs) -> list[Comparison]:
    """The paper's priors against the best of the others."""
    found = []
    for sampler in CONSTANT_METRIC:
        own, *others = prior_setups(runs.plan, sampler)
        for metric in METRICS:
            best = min(others, key=lambda setup: mean(runs.of(setup), metric))
            where = f"best other {named(best)}"
            found.append(
                compare(runs.of(own), runs.of(best), metric, f"{LABELS[sampler]} at the paper's priors", where)
            )
    return found


def _with_resampling(runs: Runs) -> list[Comparison]:
    return [
        compare(
            runs.of(setup), runs.of(Setup(sampler, preset)), metric, f"{LABELS[sampler]} resampled",
            f"{preset} preset, every {setup.resample_every} steps",
        )
        for sampler in WITH_MOMENTUM.values() for preset in runs.plan.presets
        for setup in resampled(runs.plan, sampler, preset) for metric in METRICS
    ]  # fmt: skip


def _riemannian(runs: Runs) -> Claim:
    return _decided(
        runs, "lda-riemannian", "On LDA the Riemannian samplers reach a lower perplexity than the others.", MAIN_TEXT,
        _finals(runs), "perplexity",
    )  # fmt: skip


def _momentum(runs: Runs) -> Claim:
    return _decided(
        runs, "lda-momentum", "Momentum helps: SGHMC is better than SGLD, and SGRHMC better than SGRLD.", MAIN_TEXT,
        _finals(runs), "perplexity",
    )  # fmt: skip


def _schedule(runs: Runs) -> Claim:
    told = []
    for preset in runs.plan.presets:
        settings = Setup("sgrld", preset).settings()
        steps = math.ceil(runs.plan.length.documents / settings.batch_size)
        a, b, c = settings.step_size if isinstance(settings.step_size, tuple) else (settings.step_size, 1.0, 0.0)
        told.append(f"over these {steps} steps the schedule of the {preset} preset falls from {a:g} to "
                    f"{a * (1 + (steps - 1) / b) ** -c:.2g}")  # fmt: skip
    words = f"The schedule is held against the best constant step of {len(_steps(runs))}; {', '.join(told)}."
    statement = "A constant step is worse than the schedule for SGRLD."
    return _decided(runs, "lda-schedule", statement, SUPPLEMENT, words, "steps")


def _steps(runs: Runs) -> list[float]:
    return [step for step, _ in constants_tried(runs, runs.plan.presets[0])]


def _priors(runs: Runs) -> Claim:
    own = PRESETS["paper"]["sgld"]
    statement = f"gamma = {own.gamma:g}, alpha = {own.alpha:g} is best for SGLD and SGHMC."
    words = f"The paper's priors are held against the best of {len(prior_setups(runs.plan, 'sgld')) - 1} others."
    return _decided(runs, "lda-priors", statement, SUPPLEMENT, words, "priors")


def _resampling(runs: Runs) -> Claim:
    statement = "Resampling the momentum now and then helps."
    words = "The paper offers it as an option and claims nothing; drawn anew from its law every so many steps."
    return _decided(runs, "lda-resampling", statement, "algorithm 1, an option", words, "resampling")


def _finals(runs: Runs) -> str:
    """Mean perplexities at the end, in words."""
    parts = []
    for preset in SHOWN_PRESETS:
        figures = []
        for sampler in (*CONSTANT_METRIC, *RIEMANNIAN):
            single, averaged = (mean(runs.of(Setup(sampler, preset)), metric) for metric in METRICS)
            figures.append(f"{LABELS[sampler]} {single:,.0f} / {averaged:,.0f}")
        parts.append(f"{preset} preset: {', '.join(figures)}")
    return (
        f"Perplexity after {runs.plan.length.documents:,} documents, single / averaged, mean of the runs: "
        f"{'; '.join(parts)} (unigram {runs.pool.unigram():,.0f}, {len(runs.pool.vocabulary):,} words)."
    )


def _decided(runs: Runs, name: str, statement: str, source: str, words: str, picture: str) -> Claim:
    comparisons = comparisons_of(runs)[name]
    verdict, conditions = verdict_of(comparisons, runs.pool.is_demo, is_tie_enough=name == "lda-priors")
    counts = [sum(c.outcome == outcome for c in comparisons) for outcome in ("yes", "no", "no clear difference")]
    explanation = (
        f"{words} Of {len(comparisons)} comparisons it holds in {counts[0]}, it is the other way round in {counts[1]}, "
        f"and in {counts[2]} there is no clear difference. Rule: {RULE}."
    )
    return Claim(name, statement, source, verdict, explanation, _figures(comparisons), conditions, picture)


def _figures(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    return {
        f"{c.what}, {c.where}, {c.metric}": {
            "lower by (%)": _finite(c.percent), "standard error (%)": _finite(100 * c.error), "holds": c.outcome,
        }
        for c in comparisons
    }  # fmt: skip


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
