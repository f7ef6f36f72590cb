"""Pictures and tables of the runs."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ergodica.lda.samplers import PAPER_SAMPLERS
from ergodica_paper.lda_perplexity.claims import Comparisons, first_entries
from ergodica_paper.lda_perplexity.comparison import METRICS
from ergodica_paper.lda_perplexity.plan import (
    CONSTANT_METRIC,
    WITH_MOMENTUM,
    Runs,
    constant,
    constants_tried,
    named,
    other_priors,
    resampled,
)
from ergodica_paper.lda_runs import RUNS, SHOWN_PRESETS, LdaRun, Setup
from ergodica_paper.result import Picture, Table
from ergodica_paper.style import COLOURS, LABELS, MARKERS, new_figure

ORIGINAL, EXPANDED = "original LDA", "expanded mean"
METRIC_WORDS = {"single": "single draw", "averaged": "averaged over draws"}
CROWDED = 5  # places on an axis, above which their names are turned
Bars = Sequence[tuple[str, str, str, list[LdaRun]]]  # (panel, place on its axis, sampler, runs)


def tables_of(runs: Runs, comparisons: Comparisons) -> list[Table]:
    return [_expanded_mean(), _ends(runs), _curves(runs), *_studies(runs), _comparisons(comparisons)]


def pictures_of(runs: Runs) -> list[Picture]:
    beside, plan = _beside(runs), runs.plan
    some = f"mean and range of the first {plan.choosing} runs" if plan.choosing > 1 else "the first run"
    return [
        Picture(
            "perplexity",
            f"Perplexity of held-out documents against documents seen: mean and range of {RUNS} runs. {beside}",
            _drawn_curves(runs), "curves",
        ),
        Picture(
            "priors", f"SGLD and SGHMC at other priors than the paper's: {some}. {beside}",
            _drawn_bars(prior_bars(runs), "prior of topics in a document (gamma), of words in a topic (alpha)"),
            "priors",
        ),
        Picture(
            "steps", f"SGRLD with constant steps and with the schedule: {some}. {beside}",
            _drawn_bars(step_bars(runs), "step size"), "steps",
        ),
        Picture(
            "resampling",
            f"The momentum redrawn now and then, and never: mean and range of {plan.runs} runs. {beside}",
            _drawn_bars(resampling_bars(runs), "steps between two resamplings"), "resampling",
        ),
    ]  # fmt: skip


def dirichlet(seed: int) -> tuple[Picture, Table]:
    """The distribution of an entry of a topic, drawn and in closed form."""
    first, law = first_entries(seed)
    at = np.geomspace(1e-6, 1.0, 121)
    seen, right = np.mean(first[:, None] <= at, axis=0), law.cdf(at)
    figure, ((axis,),) = new_figure(squeeze=False, size=(6.0, 3.2))
    axis.plot(at, right, color="#000000", linewidth=3, alpha=0.35, label="Dirichlet")
    axis.plot(at, seen, color="#000000", linewidth=1, linestyle="--", label="expanded mean")
    axis.set(xscale="log", xlabel="first entry of a topic", ylabel="distribution function")
    axis.legend()
    caption = f"An entry of a topic in the prior: {len(first):,} draws in the expanded mean, and the Dirichlet law."
    rows = list(zip(at.tolist(), seen.tolist(), right.tolist(), strict=True))
    table = Table("dirichlet", caption, ("entry", "share of draws up to it", "Dirichlet"), rows)
    return Picture("dirichlet", caption, figure, "dirichlet"), table


def prior_bars(runs: Runs) -> Bars:
    rows = []
    for sampler in CONSTANT_METRIC:
        for setup in [Setup(sampler, "paper"), *other_priors(runs.plan, sampler)]:
            settings = setup.settings()
            rows.append((settings.gamma, settings.alpha, sampler, runs.choosing(setup)))
    rows.sort(key=lambda row: row[:2])
    return [("paper", f"{gamma:g}\n{alpha:g}", sampler, found) for gamma, alpha, sampler, found in rows]


def step_bars(runs: Runs) -> Bars:
    rows = []
    for preset in runs.plan.presets:
        tried = [(f"{step:g}", constant(preset, step)) for step in constants_tried(runs, preset)]
        tried.append(("schedule", Setup("sgrld", preset)))
        rows += [(preset, words, "sgrld", runs.choosing(setup)) for words, setup in tried]
    return rows


def resampling_bars(runs: Runs) -> Bars:
    rows = []
    for preset in runs.plan.presets:
        for sampler in WITH_MOMENTUM.values():
            rows.append((preset, "never", sampler, runs.every(Setup(sampler, preset))))
            for setup in resampled(runs.plan, sampler, preset):
                rows.append((preset, str(setup.resample_every), sampler, runs.every(setup)))
    return rows


def _beside(runs: Runs) -> str:
    corpus, words = "Demo corpus (made up)" if runs.pool.is_demo else "Corpus", len(runs.pool.vocabulary)
    return f"{corpus}, {words:,} words; their frequencies alone have perplexity {runs.pool.unigram:,.0f}."


def _drawn_curves(runs: Runs) -> Any:
    figure, axes = new_figure(2, 2, size=(7.0, 6.4), sharex=True, sharey=True)
    unigram = runs.pool.unigram
    for column, preset in enumerate(SHOWN_PRESETS):
        for row, metric in enumerate(METRICS):
            axis = axes[row, column]
            for sampler in PAPER_SAMPLERS:
                _curve(axis, runs.shown(Setup(sampler, preset)), metric, sampler)
            axis.axhline(unigram, color=COLOURS["target"], linestyle="--", linewidth=1, label="word frequencies")
            axis.set_yscale("log")
            axis.yaxis.set_major_formatter("{x:,.0f}")
            axis.yaxis.set_minor_formatter("{x:,.0f}")
            axis.tick_params(axis="y", which="minor", labelsize=8)
        axes[0, column].set_title(f"{preset} preset", fontsize=10)
        axes[1, column].set_xlabel("documents seen")
        axes[1, column].xaxis.set_major_formatter("{x:,.0f}")
    for row, metric in enumerate(METRICS):
        axes[row, 0].set_ylabel(f"perplexity, {METRIC_WORDS[metric]}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=5)
    return figure


def _curve(axis: Any, runs: Sequence[LdaRun], metric: str, sampler: str) -> None:
    """Up to where all runs came."""
    length = min(len(run.history) for run in runs)
    documents = [row.documents for row in runs[0].history[:length]]
    values = np.array([[getattr(row, metric) for row in run.history[:length]] for run in runs])
    colour = COLOURS[sampler]
    axis.plot(
        documents, values.mean(axis=0), color=colour, marker=MARKERS[sampler], markersize=4, label=LABELS[sampler]
    )
    axis.fill_between(documents, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.2, linewidth=0)


def _drawn_bars(bars: Bars, words: str) -> Any:
    """Means with ranges, a column for each panel; runs that became non-finite are not in them."""
    panels = list(dict.fromkeys(panel for panel, *_ in bars))
    figure, axes = new_figure(2, len(panels), size=(7.0, 5.4), sharex="col", squeeze=False)
    for column, panel in enumerate(panels):
        mine = [bar[1:] for bar in bars if bar[0] == panel]
        places = list(dict.fromkeys(place for place, *_ in mine))
        for axis, metric in zip(axes[:, column], METRICS, strict=True):
            _points(axis, mine, places, metric)
            axis.yaxis.set_major_formatter("{x:,.0f}")
        is_turned = len(panels) > 1 and len(places) > CROWDED
        axes[1, column].set_xticks(range(len(places)), places, rotation=60 if is_turned else 0)
        axes[1, column].set_xlabel(f"{words},\n{panel} preset")
    for axis, metric in zip(axes[:, 0], METRICS, strict=True):
        axis.set_ylabel(f"perplexity,\n{METRIC_WORDS[metric]}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    if len(labels) > 1:
        figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def _points(axis: Any, bars: Sequence[tuple[str, str, list[LdaRun]]], places: Sequence[str], metric: str) -> None:
    """The samplers side by side at every place."""
    samplers = list(dict.fromkeys(sampler for _, sampler, _ in bars))
    for number, sampler in enumerate(samplers):
        shift = 0.24 * (number - (len(samplers) - 1) / 2)
        mine = [(places.index(place) + shift, _ends_of(runs, metric)) for place, s, runs in bars if s == sampler]
        shown = [(x, ends.mean(), ends.min(), ends.max()) for x, ends in mine if ends.size]
        x, means, low, high = np.array(shown).reshape(-1, 4).T
        look = {"fmt": MARKERS[sampler], "color": COLOURS[sampler], "label": LABELS[sampler], "capsize": 3}
        axis.errorbar(x, means, [means - low, high - means], **look)


def _ends_of(runs: Sequence[LdaRun], metric: str) -> np.ndarray:
    ends = np.array([run.final(metric) for run in runs])
    return ends[np.isfinite(ends)]


def _expanded_mean() -> Table:
    rows = [
        ["parameter theta", "beta_kw = theta_kw", "beta_kw = theta_kw / sum_w theta_kw"],
        ["prior p(theta)", "p(theta_k) = Dir(alpha)", "p(theta_kw) = Gamma(alpha, 1)"],
    ]
    caption = "The expanded-mean parameterisation of LDA (the paper: figure 3, upper left)."
    return Table("expanded-mean", caption, ["", ORIGINAL, EXPANDED], rows, shown=True, quoted=(ORIGINAL, EXPANDED))


def _ends(runs: Runs) -> Table:
    rows = []
    for preset in SHOWN_PRESETS:
        for sampler in PAPER_SAMPLERS:
            made = runs.shown(Setup(sampler, preset))
            figures = [_mean_and_range(made, metric) for metric in METRICS]
            stopped = sum(bool(run.stopped) for run in made)
            rows.append(
                [preset, LABELS[sampler], *figures, stopped, len(runs.pool.vocabulary), _rounded(runs.pool.unigram)]
            )
    columns = ["preset", "sampler", "single draw", "averaged", "non-finite runs", "vocabulary", "unigram"]
    caption = f"Perplexity after {runs.plan.length.documents:,} documents: mean (range) of {RUNS} runs."
    return Table("ends", caption, columns, rows, shown=True)


def _mean_and_range(runs: Sequence[LdaRun], metric: str) -> str:
    ends = _ends_of(runs, metric)
    return f"{ends.mean():,.0f} ({ends.min():,.0f} to {ends.max():,.0f})" if ends.size else "none finite"


def _curves(runs: Runs) -> Table:
    beside = [len(runs.pool.vocabulary), _rounded(runs.pool.unigram)]
    rows = [
        [preset, sampler, run.seed, row.documents, row.single, row.averaged, *beside]
        for preset in SHOWN_PRESETS for sampler in PAPER_SAMPLERS
        for run in runs.shown(Setup(sampler, preset)) for row in run.history
    ]  # fmt: skip
    columns = ["preset", "sampler", "seed", "documents", "single", "averaged", "vocabulary", "unigram"]
    return Table("curves", "Perplexity at every evaluation.", columns, rows)


def _studies(runs: Runs) -> list[Table]:
    named_bars = {"priors": prior_bars(runs), "steps": step_bars(runs), "resampling": resampling_bars(runs)}
    columns = ["preset", "sampler", "changed", "seed", "single", "averaged", "stopped"]
    found = []
    for name, bars in named_bars.items():
        rows = [
            [run.setup.preset, sampler, named(run.setup), run.seed]
            + [*(_blank(run.final(metric)) for metric in METRICS), run.stopped]
            for _, _, sampler, made in bars for run in runs.made(made[0].setup)
        ]  # fmt: skip
        found.append(Table(name, f"Perplexity after {runs.plan.length.documents:,} documents.", columns, rows))
    return found


def _comparisons(comparisons: Comparisons) -> Table:
    rows = []
    for claim, found in comparisons.items():
        for c in found:
            asked = c.question
            figures = [_rounded(value) for value in (c.percent, c.percent_error, c.p_value)]
            rows.append([claim, asked.what, asked.where, asked.metric, len(asked.first), *figures, c.outcome])
    columns = [
        "claim", "first against second", "where", "metric", "pairs of runs", "lower by (%)", "standard error (%)",
        "corrected p-value", "holds",
    ]  # fmt: skip
    return Table("comparisons", "Paired comparisons over the runs, from which the verdicts follow.", columns, rows)


def _rounded(value: float) -> float | str:
    return float(f"{value:.4g}") if math.isfinite(value) else ""


def _blank(value: float) -> float | str:
    return value if math.isfinite(value) else ""
