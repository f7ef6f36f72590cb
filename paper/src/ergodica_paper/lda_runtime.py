"""Seconds per hundred documents on LDA: the four samplers in turn, learning alone and with reading, and where they go.

Learning alone: all samplers learn from a batch in memory before the next one comes. With reading: each learns from the
corpus as a user's model does, documents being read by a thread meanwhile; the samplers take turns. The thread slows
down whatever else goes on, so that reading is what the whole takes beyond the gradients and updates of the same batches
from memory. Both are measured in rounds, from which standard errors come.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from itertools import product
from typing import Any, NamedTuple

import numba
import numpy as np

from ergodica.driver.loop import now
from ergodica.errors import NonFiniteError
from ergodica.lda.corpus import Corpus, Documents
from ergodica.lda.expanded_mean import ExpandedMean
from ergodica.lda.samplers import PAPER_SAMPLERS
from ergodica.lda.steps import TopicChain
from ergodica.lda.stream import DocumentBatch
from ergodica_paper.lda_runs import (
    SHOWN_PRESETS,
    TOPICS,
    DocumentPool,
    Setup,
    batches,
    begin_training,
    lda_item,
    pool_of,
    seeds_of,
)
from ergodica_paper.result import Ask, Claim, Picture, Result, Table
from ergodica_paper.style import LABELS, new_figure
from ergodica_paper.verdict import SURE, Answer, Measurement, beyond_chance, counted, judged

PAPER_SECONDS = {"sgld": 0.778, "sghmc": 0.815, "sgrld": 0.730, "sgrhmc": 0.806}  # the paper: figure 3, lower left
PAPER_RATIO = max(PAPER_SECONDS.values()) / min(PAPER_SECONDS.values())
# SGRLD does all that SGLD does and multiplies by theta as well. That it has the lower figure in the paper is chance: by
# so much, at least, do the paper's figures vary.
PAPER_NOISE = PAPER_SECONDS["sgld"] / PAPER_SECONDS["sgrld"]
SAME_TIME = PAPER_RATIO * PAPER_NOISE  # the slowest over the fastest, at most
DEMO_TOPICS = 10
WARM_UP = 3  # batches that are not counted: compilation, caches
BUFFER = 200  # documents that are shuffled at a time in reading; as many are read before the clock starts
ALONE, WITH_READING = "learning alone", "reading included"
WAYS = (ALONE, WITH_READING)
PARTS = {"gradient": "#555555", "update": "#9a9a9a", "reading": "#d9d9d9"}
SOURCE = "section 4.2, figure 3 (lower left)"
LIKENESS = (
    f"Over rounds, by Student's t as surely as {SURE:g} standard errors, the slowest sampler takes less than "
    f"{SAME_TIME:.2f} times as long as the fastest: the paper's own ratio, {PAPER_RATIO:.2f}, times {PAPER_NOISE:.2f}, "
    "by which its table has SGLD slower than SGRLD, which does all that SGLD does and more. Which is slowest and which "
    "fastest is taken from the first round, which is not counted."
)
LARGEST = (
    f"Over rounds, by Student's t as surely as {SURE:g} standard errors, the gradient takes more time than the update, "
    "and than reading, with the sampler where it is least so in the first round, which is not counted."
)


class Amount(NamedTuple):
    """How much is measured: documents from memory, and rounds; with reading, documents of a round."""

    documents: int
    rounds: int
    streamed: int


QUICK, FULL = Amount(2_000, 6, 200), Amount(20_000, 30, 800)


@dataclass(frozen=True)
class TimedModel(ExpandedMean):
    """A model that notes how long its gradients took."""

    seconds: list[float] = field(default_factory=list)

    def gradient(self, theta: np.ndarray, documents: Documents, visit: int, seed: int) -> np.ndarray:
        begin = now()
        found = super().gradient(theta, documents, visit, seed)
        self.seconds.append(now() - begin)
        return found


@dataclass(frozen=True)
class Timing:
    """Of one sampler at one preset. `parts`: (rounds, 3) seconds per hundred documents, in the order of `PARTS`."""

    sampler: str
    preset: str
    way: str
    parts: np.ndarray

    @property
    def seconds(self) -> np.ndarray:
        """Of every round."""
        return self.parts.sum(axis=1)

    @property
    def lead(self) -> np.ndarray:
        """Of every round: the gradient's share of the time, less that of the larger of the other parts."""
        return (self.parts[:, 0] - self.parts[:, 1:].max(axis=1)) / self.seconds


def run(ask: Ask) -> Result:
    amount, topics = (FULL if ask.full else QUICK), (TOPICS if ask.corpus else DEMO_TOPICS)
    pool = pool_of(ask, amount.documents)
    timings, stopped = [], {}
    for number, preset in enumerate(SHOWN_PRESETS):
        clock = _Clock(pool, preset, topics, seeds_of(ask.seed, 1)[0], stopped)
        ask.report(number / len(SHOWN_PRESETS), f"{preset} preset, {ALONE}")
        timings += clock.alone(amount)
        ask.report((number + 0.5) / len(SHOWN_PRESETS), f"{preset} preset, {WITH_READING}")
        timings += clock.with_reading(amount)
    return Result(
        text=_text(pool),
        claims=claims_of(timings, pool.is_demo),
        pictures=[_picture(timings)],
        tables=[_table(timings), _rounds(timings)],
        settings={
            **pool.told(), "topics": topics, "documents from memory": amount.documents, "rounds": amount.rounds,
            "documents of a round, reading included": amount.streamed, "threads": numba.get_num_threads(),
            "seed of the runs": str(seeds_of(ask.seed, 1)[0]),
        },
        non_finite=stopped,
        warnings=pool.notes,
    )  # fmt: skip


@dataclass(frozen=True)
class _Clock:
    """Measures all samplers at a preset; steps that became non-finite are counted in `stopped`."""

    pool: DocumentPool
    preset: str
    topics: int
    seed: int
    stopped: dict[str, int]

    def alone(self, amount: Amount) -> list[Timing]:
        """All samplers learn from a batch before the next one comes; who begins changes from batch to batch."""
        learners = {name: self._learner(name) for name in PAPER_SAMPLERS}
        rows: dict[str, list[np.ndarray]] = {name: [] for name in PAPER_SAMPLERS}
        settings = Setup("sgld", self.preset).settings()  # batches are the same for all of a preset
        for number, batch in enumerate(batches(self.pool, settings, amount.documents, self.seed)):
            for name in _turned(number):
                seconds = self._step(name, learners[name], batch)
                if number >= WARM_UP:
                    rows[name].append(100 * np.array([*seconds, 0.0]) / len(batch.documents))
        return [Timing(name, self.preset, ALONE, _medians(found, amount.rounds)) for name, found in rows.items()]

    def with_reading(self, amount: Amount) -> list[Timing]:
        """In every round each sampler learns from the stream; who begins changes from round to round."""
        learners = {name: self._learner(name) for name in PAPER_SAMPLERS}
        rounds: dict[str, list[np.ndarray]] = {name: [] for name in PAPER_SAMPLERS}
        for number in range(amount.rounds):
            for name in _turned(number):
                rounds[name].append(self._streamed(name, learners[name], amount.streamed))
        return [Timing(name, self.preset, WITH_READING, np.array(found)) for name, found in rounds.items()]

    def _streamed(self, name: str, learner: TopicChain, documents: int) -> np.ndarray:
        """The parts of a round: seconds per hundred documents."""
        settings, read, seen, begin = Setup(name, self.preset).settings(), [], 0, now()
        with Corpus(
            self.pool.given, self.pool.vocabulary, batch_size=settings.batch_size, shuffle_buffer=BUFFER, passes=None
        ) as corpus:
            while seen < BUFFER + documents:
                if not read:  # the first ones fill the shuffle's buffer
                    begin = now()
                batch = DocumentBatch(corpus.next(), seen, settings.size or self.pool.size)
                self._step(name, learner, batch)
                read += [batch] if seen >= BUFFER else []
                seen += len(batch.documents)
            whole = now() - begin
        gradient, update = np.sum([self._step(name, learner, batch) for batch in read], axis=0)
        count = sum(len(batch.documents) for batch in read)
        return 100 * np.array([gradient, update, whole - gradient - update]) / count

    def _learner(self, name: str) -> TopicChain:
        learner = begin_training(self.pool, Setup(name, self.preset), self.topics, self.seed).learner
        model = learner.model
        learner.model = TimedModel(**{f.name: getattr(model, f.name) for f in fields(model)})
        return learner

    def _step(self, name: str, learner: TopicChain, batch: DocumentBatch) -> tuple[float, float]:
        """Seconds in the gradient, and in all else: random numbers and the recipe's update."""
        seconds: list[float] = learner.model.seconds  # pyright: ignore[reportAttributeAccessIssue]
        begin, before = now(), len(seconds)
        try:
            learner.step(batch)
        except NonFiniteError:  # the step was made and thrown away: it has taken its time
            key = f"{LABELS[name]}, {self.preset} preset, steps"
            self.stopped[key] = self.stopped.get(key, 0) + 1
        whole, gradient = now() - begin, sum(seconds[before:])
        return gradient, whole - gradient


def _medians(rows: Sequence[np.ndarray], rounds: int) -> np.ndarray:
    """Of the batches of each round: another process in the way is none of the sampler's."""
    return np.array([np.median(found, axis=0) for found in np.array_split(rows, rounds)])


def _turned(number: int) -> list[str]:
    names, turn = list(PAPER_SAMPLERS), number % len(PAPER_SAMPLERS)
    return names[turn:] + names[:turn]


def claims_of(timings: Sequence[Timing], is_demo: bool) -> list[Claim]:
    ratios, leads = {}, {}
    for preset in SHOWN_PRESETS:
        for way in WAYS:
            mine = [t for t in timings if (t.preset, t.way) == (preset, way)]
            ratios[f"{preset} preset, {way}"] = _ratio(mine)
            leads[f"{preset} preset, {way}"] = _least_lead(mine)
    free = len(timings[0].parts) - 2  # of the rounds that are counted
    same_time = [
        Answer(words, beyond_chance(SAME_TIME - ratio.value, ratio.error, free)) for words, ratio in ratios.items()
    ]
    largest = [Answer(words, beyond_chance(lead.value, lead.error, free)) for words, lead in leads.items()]
    seconds = {f"{t.sampler}, {t.preset} preset, {t.way}": Measurement.of(t.seconds) for t in timings}
    return [
        judged(
            "lda-runtime", "The samplers take about the same time.", SOURCE, same_time,
            f"{counted(same_time)}. The slowest over the fastest (the paper: {PAPER_RATIO:.2f}): {_listed(ratios)}.",
            {"slowest over fastest": _told(ratios), "seconds per 100 documents": _told(seconds)},
            rule=LIKENESS, picture="runtime", is_demo=is_demo,
        ),
        judged(
            "lda-gradient", "The gradient evaluation is the main computational bottleneck.", SOURCE, largest,
            f"{counted(largest)}. Share of the gradient less that of the next largest part, where this is least (%): "
            + _listed({words: Measurement(100 * lead.value, 100 * lead.error) for words, lead in leads.items()}) + ".",
            {"share of the gradient less the next largest": _told(leads)},
            rule=LARGEST, picture="runtime", is_demo=is_demo,
        ),
    ]  # fmt: skip


def _ratio(timings: Sequence[Timing]) -> Measurement:
    """Of the slowest and the fastest of the first round, in the others."""
    first = [t.seconds[0] for t in timings]
    slowest, fastest = timings[int(np.argmax(first))], timings[int(np.argmin(first))]
    return Measurement.of(slowest.seconds[1:] / fastest.seconds[1:])


def _least_lead(timings: Sequence[Timing]) -> Measurement:
    return Measurement.of(min(timings, key=lambda t: t.lead[0]).lead[1:])


def _listed(estimates: dict[str, Measurement]) -> str:
    return "; ".join(f"{words} {estimate}" for words, estimate in estimates.items())


def _told(estimates: dict[str, Measurement]) -> dict[str, Any]:
    return {words: estimate.told() for words, estimate in estimates.items()}


def _text(pool: DocumentPool) -> list[str]:
    return [
        "The gradient is Gibbs sampling of the topics of a batch's words; the update is the recipe's step with its "
        "random numbers, over all words and topics. Learning alone, the samplers take every batch in turn, so that "
        "whatever else the machine does affects all of them equally. With reading, each learns from the files while a "
        "thread reads ahead; reading is what this takes beyond the same batches from memory. Read with nothing else "
        f"going on, 100 documents take {pool.reading:.2g} s.",
        "Seconds of another machine, and of documents of another length, cannot be compared with the paper's: how the "
        "samplers compare with each other can.",
    ]


def _table(timings: Sequence[Timing]) -> Table:
    rows = []
    for t in timings:
        parts = t.parts.mean(axis=0)
        shares = [f"{part / parts.sum():.0%}" for part in parts]
        rows.append(
            [t.preset, LABELS[t.sampler], t.way, PAPER_SECONDS[t.sampler], str(Measurement.of(t.seconds)), *shares]
        )
    columns = ["preset", "sampler", "what is timed", "the paper (s)", "ours (s)", *PARTS]
    caption = f"Seconds per 100 documents, mean and standard error of {len(timings[0].parts)} rounds, and their shares."
    return Table("runtime", caption, columns, rows, shown=True, quoted=("the paper (s)",))


def _rounds(timings: Sequence[Timing]) -> Table:
    rows = [
        [t.preset, t.sampler, t.way, number, *parts] for t in timings for number, parts in enumerate(t.parts.tolist())
    ]
    columns = ["preset", "sampler", "what is timed", "round", *PARTS]
    return Table("rounds", "Seconds per 100 documents, round by round.", columns, rows)


def _picture(timings: Sequence[Timing]) -> Picture:
    figure, axes = new_figure(len(WAYS), len(SHOWN_PRESETS), size=(7.0, 4.6), sharex="col", sharey=True)
    for (row, way), (column, preset) in product(enumerate(WAYS), enumerate(SHOWN_PRESETS)):
        axis, mine = axes[row, column], [t for t in timings if (t.preset, t.way) == (preset, way)]
        _bars(axis, mine)
        axis.set_title(f"{preset} preset, {way}", fontsize=10)
        axis.grid(axis="y", visible=False)
    axes[0, 0].invert_yaxis()  # shared by all
    for axis in axes[-1]:
        axis.set_xlabel("seconds per 100 documents")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    caption = f"Where the time goes. Lines: one standard error over {len(timings[0].parts)} rounds, samplers in turn."
    return Picture("runtime", caption, figure, "rounds")


def _bars(axis: Any, timings: Sequence[Timing]) -> None:
    names, left = [LABELS[t.sampler] for t in timings], np.zeros(len(timings))
    for number, (part, colour) in enumerate(PARTS.items()):
        values = np.array([t.parts[:, number].mean() for t in timings])
        axis.barh(names, values, left=left, color=colour, edgecolor="white", label=part)
        left = left + values
    axis.errorbar(left, names, xerr=[Measurement.of(t.seconds).error for t in timings], fmt="none", ecolor="#000000")


ITEM = lda_item(
    "lda-runtime", "Topic models: seconds per 100 documents", "figure 3 (lower left)", run,
    ("ergodica_paper/lda_runtime.py", "ergodica/lda/chains.py"), (15, 200),
)  # fmt: skip
