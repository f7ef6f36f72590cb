"""Perplexity on LDA: four samplers, some runs each, both metrics, at the paper's settings and at the tuned preset."""

from typing import Any

from ergodica.lda.samplers import PAPER_SAMPLERS
from ergodica_paper.lda_perplexity.claims import claims_of, comparisons_of, expanded_mean
from ergodica_paper.lda_perplexity.plan import Runs, make, plan_of
from ergodica_paper.lda_perplexity.shown import dirichlet, pictures_of, tables_of
from ergodica_paper.lda_runs import RUNS, SHOWN_PRESETS, Setup, lda_item, pool_of, seeds_of
from ergodica_paper.result import Ask, Result
from ergodica_paper.style import LABELS


def run(ask: Ask) -> Result:
    plan = plan_of(ask)
    runs = make(pool_of(ask, plan.length.documents), ask, plan)
    ask.report(0.99, "drawing")
    comparisons = comparisons_of(runs)
    drawn, drawn_table = dirichlet(ask.seed)
    return Result(
        text=_text(runs),
        claims=[expanded_mean(ask.seed), *claims_of(runs, comparisons)],
        pictures=[drawn, *pictures_of(runs)],
        tables=[drawn_table, *tables_of(runs, comparisons)],
        settings=_settings(runs),
        non_finite=runs.non_finite(),
        warnings=runs.pool.notes,
    )


def _text(runs: Runs) -> list[str]:
    pool, length, plan = runs.pool, runs.plan.length, runs.plan
    found = [
        f"Four samplers of {length.topics} topics learn from {length.documents:,} documents in {plan.runs} runs each; "
        f"{RUNS} are drawn, as in the paper. Runs of the same seed see the same documents. Perplexity is that of "
        f"every tenth word of {len(pool.held_out):,} held-out documents, of a single draw of the topics and of "
        "predictions averaged over the evaluations so far.",
        f"The vocabulary has {len(pool.vocabulary):,} words, and their frequencies alone have perplexity "
        f"{pool.unigram:,.0f}: figures of other vocabularies cannot be compared with these.",
        "The schedule is a (1 + t/b)^-c and the friction of the samplers with momentum is exact; the paper prints both "
        "otherwise (see the item errata).",
    ]
    friction = Setup("sgrhmc", "tuned").settings().friction
    if friction is not None:
        found.append(
            f"At the tuned preset SGRHMC has a constant friction of {friction:g} instead of the paper's, which is "
            "the metric diag(theta); priors and steps are others than the paper's, too: see the settings."
        )
    if pool.is_demo:
        found.append(
            "The documents are made up from known topics: such a corpus can confirm any claim, so that there are no "
            "verdicts here. Give real ones with --corpus."
        )
    return found


def _settings(runs: Runs) -> dict[str, Any]:
    presets = {
        f"{LABELS[sampler]}, {preset} preset": Setup(sampler, preset).told()
        for preset in SHOWN_PRESETS for sampler in PAPER_SAMPLERS
    }  # fmt: skip
    length, plan = runs.plan.length, runs.plan
    return {
        **runs.pool.told(), "S of the corpus": runs.pool.size, "topics": length.topics,
        "documents of a run": length.documents, "evaluations": length.evaluations,
        "seeds of the runs": list(map(str, seeds_of(runs.ask.seed, plan.runs))),
        "runs for choosing priors and constant steps": plan.choosing, **presets,
    }  # fmt: skip


ITEM = lda_item(
    "lda-perplexity", "Topic models: perplexity against documents", "figure 3 (upper left, right) and supplement", run,
    [*(f"ergodica_paper/lda_perplexity/{name}.py" for name in ("__init__", "comparison", "claims", "plan")),
     "ergodica/lda/samplers.py"], (30, 960),
)  # fmt: skip
