"""The top seven words of eleven topics, with bands: of the sampler that came out best."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ergodica.lda import demo
from ergodica.lda.chains import Training
from ergodica.lda.outcome import conclude
from ergodica.lda.run_files import Fitted
from ergodica.lda.samplers import PAPER_SAMPLERS
from ergodica.lda.topics import BAND_LEVEL, Topic, band_words, coherence, top_words, topics_of
from ergodica_paper import lda_runs
from ergodica_paper.lda_runs import DocumentPool, Length, Setup, lda_item, learn, pool_of, seeds_of
from ergodica_paper.result import Ask, Picture, Result, Table
from ergodica_paper.style import COLOURS, LABELS, new_figure

TOPICS, WORDS = 11, 7
PRESET = "tuned"
QUICK, FULL = 5_000, 10_000  # documents
PAPER_TOPICS = """ENGINES speed product introduced designs fuel quality
ROYAL britain queen sir earl died house
ARMY commander forces war general military colonel
STUDY analysis space program user research developed
PARTY act office judge justice legal vote
DESIGN size glass device memory engine cost
PUBLIC report health community industry conference congress
CHURCH prayers communion religious faith historical doctrine
COMPANY design production produced management market primary
PRESIDENT national minister trial states policy council
SCORE goals team club league clubs years"""  # the paper: supplement, table of topics


def run(ask: Ask) -> Result:
    # The demo has ten topics: with eleven all are shown.
    length = Length(FULL if ask.full else QUICK, lda_runs.TOPICS if ask.corpus else TOPICS, evaluations=4)
    pool, seed = pool_of(ask, length.documents), seeds_of(ask.seed, 1)[0]
    learnt, stopped = {}, {}
    for number, sampler in enumerate(PAPER_SAMPLERS):

        def tell(done: float, number: int = number, sampler: str = sampler) -> None:
            ask.report(0.95 * (number + done) / len(PAPER_SAMPLERS), f"{LABELS[sampler]}, {PRESET} preset")

        training, why = learn(pool, Setup(sampler, PRESET), length, seed, tell)
        if why:
            stopped[f"{LABELS[sampler]}, {PRESET} preset"] = 1
        else:
            learnt[sampler] = training
    best = min(learnt, key=lambda sampler: learnt[sampler].history[-1].single)
    ends = {sampler: training.history[-1].single for sampler, training in learnt.items()}
    fitted = _fitted(pool, Setup(best, PRESET), length.topics, seed, learnt[best])
    chosen = _chosen(fitted, ask.seed)
    scores = coherence(top_words(fitted.mean, WORDS), [pool.held_out], len(pool.vocabulary)).npmi
    band = band_words(fitted.figures["band"], fitted.figures["noise_ratio"])
    return Result(
        text=_text(pool, length, best, ends, scores, band, _found_again(fitted)),
        pictures=[_picture(chosen, best, band)],
        tables=[_table(chosen, scores, best), _long_table(chosen), _quoted()],
        settings={
            **pool.told(), "S of the corpus": pool.size, "topics": length.topics,
            "documents of a run": length.documents, "seed of the runs": str(seed),
            **{f"{LABELS[sampler]}, {PRESET} preset": Setup(sampler, PRESET).told() for sampler in PAPER_SAMPLERS},
        },
        non_finite=stopped,
        warnings=pool.notes,
    )  # fmt: skip


def _fitted(pool: DocumentPool, setup: Setup, topics: int, seed: int, training: Training) -> Fitted:
    return conclude(training, training.settings, pool.vocabulary, setup.parameters(topics, seed), {})


def _chosen(fitted: Fitted, seed: int) -> list[Topic]:
    """Eleven at random, as in the paper, the largest first."""
    found = topics_of(fitted.mean, list(fitted.draws.values()), fitted.topic_shares(), fitted.vocabulary, WORDS)
    places = np.random.default_rng((seed, TOPICS)).permutation(len(found))[:TOPICS]
    return sorted((found[place] for place in places), key=lambda topic: -topic.share)


def _text(
    pool: DocumentPool, length: Length, best: str, ends: dict[str, float], scores: np.ndarray, band: str, again: int
) -> list[str]:  # fmt: skip
    figures = ", ".join(f"{LABELS[sampler]} {end:,.0f}" for sampler, end in ends.items())
    found = [
        f"After {length.documents:,} documents {LABELS[best]} has the lowest perplexity of a single draw, {PRESET} "
        f"preset ({figures}; word frequencies alone, of {len(pool.vocabulary):,} words, {pool.unigram:,.0f}"
        f"{_warned(ends[best], pool.unigram)}), and its topics are shown: "
        f"{TOPICS} of {length.topics} at random, as the paper does, each named by its first word. In the mean over "
        f"topics the NPMI of their {WORDS} top words, over held-out documents, is {scores.mean():.2f} (1: they always "
        "come together, 0: as by chance).",
        f"Of every word: its probability in per cent, on average over the draws kept, and what holds "
        f"{BAND_LEVEL:.0%} of them; {band.partition(';')[0]}.",
    ]
    if pool.is_demo:
        found.append(
            f"The documents are drawn from {len(demo.topic_words())} made-up topics of thirty words. For {again} of "
            f"them there is a learnt topic whose {WORDS} top words are all of these. Topics of real documents "
            "come with --corpus."
        )
    return found


def _warned(best: float, unigram: float) -> str:
    return "" if best < unigram else ", which none is below yet: too few documents"


def _found_again(fitted: Fitted) -> int:
    """Of the demo's topics: those that a learnt topic has its top words from."""
    words = fitted.vocabulary.words
    tops = [{words[word] for word in top} for top in top_words(fitted.mean, WORDS)]
    return sum(any(top <= set(own) for top in tops) for own in demo.topic_words())


def _cell(word: Any) -> str:
    return f"{word.word} {100 * word.probability:.2g} ({100 * word.low:.2g} to {100 * word.high:.2g})"


def _table(topics: Sequence[Topic], scores: np.ndarray, best: str) -> Table:
    rows = [
        [topic.words[0].word.upper(), f"{topic.share:.1%}", f"{scores[topic.number]:.2f}", *map(_cell, topic.words)]
        for topic in topics
    ]
    columns = ["topic", "share of words", "NPMI", *(f"word {rank + 1} (%)" for rank in range(WORDS))]
    return Table("topics", f"Top words of topics learnt by {LABELS[best]}, with bands.", columns, rows, shown=True)


def _long_table(topics: Sequence[Topic]) -> Table:
    rows = [
        [topic.number, topic.share, rank + 1, *word] for topic in topics for rank, word in enumerate(topic.words)
    ]  # fmt: skip
    columns = ["topic", "share", "rank", "word", "probability", "low", "high"]
    return Table("words", "Probabilities of the top words, with bands.", columns, rows)


def _quoted() -> Table:
    columns = ["topic", *(f"word {rank + 2}" for rank in range(WORDS - 1))]
    rows = [line.split() for line in PAPER_TOPICS.splitlines()]
    caption = "The paper's topics, by SGRHMC from 10,000 documents (the paper: table in the supplement)."
    return Table("paper-topics", caption, columns, rows, shown=True, quoted=columns)


def _picture(topics: Sequence[Topic], best: str, band: str) -> Picture:
    figure, axes = new_figure(4, 3, size=(7.0, 8.4))
    for axis in axes.flat[len(topics) :]:
        axis.set_visible(False)
    for axis, topic in zip(axes.flat, topics, strict=False):
        names = [word.word for word in topic.words]
        values = 100 * np.array([(word.probability, word.low, word.high) for word in topic.words], float)
        spread = np.abs(values[:, 1:] - values[:, :1]).T
        axis.barh(range(len(names)), values[:, 0], color=COLOURS[best], alpha=0.45)
        axis.errorbar(
            values[:, 0], range(len(names)), xerr=spread, fmt="none", ecolor="#222222", capsize=2, linewidth=1
        )
        axis.set_yticks(range(len(names)), names, fontsize=8)
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
        axis.set_title(names[0].upper(), loc="left", weight="bold", fontsize=9)
    figure.supxlabel("probability of the word in the topic (%)", fontsize=10)
    caption = (
        f"Top {WORDS} words of {len(topics)} topics learnt by {LABELS[best]}; lines hold {BAND_LEVEL:.0%} of "
        f"the draws: {band.partition(';')[0]}."
    )
    return Picture("topics", caption, figure, "words")


ITEM = lda_item(
    "lda-topics", "Topic models: top words of eleven topics", "supplement, table of topics", run,
    ("ergodica_paper/lda_topics.py", "ergodica/lda/topics.py"), (10, 90),
)  # fmt: skip
