"""Topic models for the reproduction: documents read once and held in memory as numbers, and runs that learn from them.

Runs of the same seed see the same documents in the same order, whatever the sampler: they are compared in pairs.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ergodica.driver.loop import now
from ergodica.errors import InputError, NonFiniteError
from ergodica.lda import LDA, demo
from ergodica.lda.chains import Training, begin
from ergodica.lda.corpus import Corpus, Documents, Vocabulary
from ergodica.lda.perplexity import HistoryRow, unigram_law
from ergodica.lda.samplers import Learner
from ergodica.lda.settings import TopicSettings, settings_of
from ergodica.lda.stream import DocumentBatch
from ergodica_paper.result import Ask, PaperItem, Result

SHOWN_PRESETS = ("paper", "tuned")
TOPICS = 50  # of a corpus, as in the paper
RUNS = 3  # of each method that are drawn, as in the paper
HELD_OUT = 1_000  # documents at the stream's beginning, as in Patterson and Teh (2013); fewer of a small corpus
FEWEST = 100  # documents of a corpus
SOME, MOST = 2_000, 100_000  # documents that are read of a corpus in quick and full runs, and held in memory
_SHUFFLED = 500  # documents at a time; it divides HELD_OUT, so that the first ones of the stream are held out


@dataclass(frozen=True)
class DocumentPool:
    """Documents in memory.

    Attributes:
        size: documents of the whole corpus, S where a preset does not say.
        source, vocabulary_source: where documents and vocabulary are from, in words.
        given: what the documents are read from.
        reading: seconds that reading and tokenising a hundred documents took, with nothing else going on.
        notes: what was left out in reading.
    """

    vocabulary: Vocabulary
    held_out: Documents
    documents: Documents
    size: int
    given: Any
    is_demo: bool
    source: str
    vocabulary_source: str
    reading: float
    notes: tuple[str, ...] = ()

    @cached_property
    def unigram(self) -> float:
        """Perplexity of the words' frequencies alone."""
        counts = np.bincount(self.documents.words, minlength=len(self.vocabulary))
        _, test = self.held_out.split_tenth()
        return float(np.exp(-np.log(unigram_law(counts)[test.words]).mean()))

    def order(self, count: int, seed: int) -> np.ndarray:
        """The numbers of `count` documents at random: none twice before each was once."""
        rng, size = np.random.default_rng(seed), len(self.documents)
        laps = [rng.permutation(size) for _ in range(-(-count // size))]
        return np.concatenate(laps)[:count]

    def told(self) -> dict[str, Any]:
        """For the settings of a result."""
        return {
            "documents are": self.source, "vocabulary": self.vocabulary_source, "vocabulary size": len(self.vocabulary),
            "held out": len(self.held_out), "left out in reading": "; ".join(self.notes) or "nothing",
        }  # fmt: skip


def pool_of(ask: Ask, documents: int) -> DocumentPool:
    """The documents of the corpus, or so many that are made up for the demo, and those held out.

    What is read of a corpus is the same for all items, so that it is read once.
    """
    ask.report(0.0, "reading the corpus" if ask.corpus else "making the demo corpus")
    return _read(ask.corpus, MOST if ask.full else SOME) if ask.corpus else _demo(documents)


@lru_cache(maxsize=1)
def _read(corpus: tuple[str, ...], wanted: int) -> DocumentPool:
    words, told = _vocabulary_beside(corpus)
    return _pool(list(corpus), words, wanted, ", ".join(map(os.path.basename, corpus)), told, is_demo=False)


@lru_cache(maxsize=1)
def _demo(wanted: int) -> DocumentPool:
    vocabulary = demo.vocabulary()
    # Through the same reader as a corpus.
    drawn = demo.documents(wanted + wanted // 10)
    texts = [" ".join(vocabulary.words[word] for word in document) for document in drawn]
    told = f"the {len(vocabulary)} words of the demo corpus"
    source = "the demo corpus: documents drawn from ten made-up topics"
    return _pool(texts, vocabulary, len(texts), source, told, is_demo=True)


def _pool(given: Any, vocabulary: Any, wanted: int, source: str, told: str, is_demo: bool) -> DocumentPool:
    started, parts, count = now(), [], 0
    # the paper's words are those of Hoffman, Blei and Bach's code
    with Corpus(given, vocabulary, batch_size=_SHUFFLED, shuffle_buffer=_SHUFFLED, tokenizer="hoffman") as corpus:
        for part in corpus:
            parts.append(part)
            count += len(part)
            if count >= wanted + HELD_OUT:
                break
        seconds, size, notes, words = now() - started, corpus.expected_size or count, corpus.notes(), corpus.vocabulary
    if count < FEWEST:
        raise InputError(f"the corpus has only {count} documents with two words of the vocabulary: expected {FEWEST}")
    every, held_out = Documents.concatenate(parts), min(HELD_OUT, count // 11)
    return DocumentPool(
        words, every.take(range(held_out)), every.take(range(held_out, count)), max(size, count) - held_out, given,
        is_demo, source, told or f"{len(words)} words built from the first documents", 100 * seconds / count,
        tuple(notes),
    )  # fmt: skip


def _vocabulary_beside(corpus: tuple[str, ...]) -> tuple[Vocabulary | None, str]:
    """The one file vocab*.txt in the folder of the corpus; None where there is none, or more than one."""
    folders = {Path(place).resolve().parent for place in corpus if os.path.isfile(place)}
    found = sorted(path for folder in folders for path in folder.glob("vocab*.txt"))
    if len(found) != 1:
        return None, ""
    return Vocabulary.read(found[0], "hoffman"), f"{found[0].name}, which lies beside the corpus"


@dataclass(frozen=True)
class Setup:
    """A sampler with its settings.

    Args:
        changes: parameters of `LDA` instead of the preset's.
        resample_every: steps after which the momentum is redrawn from its law; None: never.
    """

    sampler: str
    preset: str
    changes: tuple[tuple[str, Any], ...] = ()
    resample_every: int | None = None

    def settings(self) -> TopicSettings:
        return settings_of(self.parameters(topics=1, seed=0))

    def told(self) -> str:
        """Its settings in one line."""
        s = self.settings()
        step = "{:g} (1 + t/{:g})^-{:g}".format(*s.step_size) if isinstance(s.step_size, tuple) else f"{s.step_size:g}"
        friction = "" if s.friction is None else f", friction {s.friction:g}"
        return (
            f"step {step}, alpha {s.alpha:g}, gamma {s.gamma:g}, batch {s.batch_size}, {s.sweeps} sweeps of which "
            f"{s.burn_in} burn-in, {s.estimator} estimator, S {'of the corpus' if s.size is None else f'{s.size:g}'}, "
            f"floor {s.floor:g}, evenness {s.evenness:g}{friction}"
        )

    def parameters(self, topics: int, seed: int) -> dict[str, Any]:
        return LDA(
            topics=topics, sampler=self.sampler, preset=self.preset, seed=seed, **dict(self.changes)
        ).get_params()


@dataclass(frozen=True)
class LdaRun:
    """A run: perplexity at every evaluation. `stopped`: why it became non-finite, else ""."""

    setup: Setup
    seed: int
    history: tuple[HistoryRow, ...]
    stopped: str

    def final(self, metric: str) -> float:
        """ "single" or "averaged" at the end; infinite for a run that did not get there."""
        return float("inf") if self.stopped else float(getattr(self.history[-1], metric))


@dataclass(frozen=True)
class Length:
    """How long runs are, and how often the documents held out are looked at, evenly spaced."""

    documents: int
    topics: int
    evaluations: int


def seeds_of(seed: int, count: int) -> list[int]:
    """One for each run; the first ones are the same, whatever their number."""
    return [int(np.random.SeedSequence([seed, run]).generate_state(1)[0]) for run in range(count)]


def run(
    pool: DocumentPool, setup: Setup, length: Length, seed: int, tell: Callable[[float], None] = lambda done: None
) -> LdaRun:
    """Args:
    tell: told how far the run has come.
    """
    training, stopped = learn(pool, setup, length, seed, tell)
    return LdaRun(setup, seed, tuple(training.history), stopped)


def learn(
    pool: DocumentPool, setup: Setup, length: Length, seed: int, tell: Callable[[float], None] = lambda done: None
) -> tuple[Training, str]:
    """What a run has learnt, and why it became non-finite, else ""."""
    training = begin_training(pool, setup, length.topics, seed)
    wanted = [round(length.documents * (place + 1) / length.evaluations) for place in range(length.evaluations)]
    for batch in batches(pool, training.settings, length.documents, seed):
        try:
            training.step(batch)
        except NonFiniteError as error:
            return training, str(error)
        resample(training, setup.resample_every)
        if training.documents >= wanted[0]:
            training.evaluate()
            wanted = [documents for documents in wanted if documents > training.documents]
            tell(training.documents / length.documents)
    return training, ""


def begin_training(pool: DocumentPool, setup: Setup, topics: int, seed: int) -> Training:
    """A model that has seen nothing, with the documents held out."""
    parameters = setup.parameters(topics, seed)
    training = begin(settings_of(parameters), parameters, pool.vocabulary)
    training.hold_out(pool.held_out)
    return training


def batches(pool: DocumentPool, settings: TopicSettings, documents: int, seed: int) -> Iterator[DocumentBatch]:
    """The batches of a run, in its own order."""
    order = pool.order(documents, seed)
    for first in range(0, documents, settings.batch_size):
        chosen = pool.documents.take(order[first : first + settings.batch_size])
        yield DocumentBatch(chosen, first, settings.size or pool.size)


def resample(training: Training, every: int | None) -> None:
    """Redraw the momentum where its turn has come (the algorithm box: "periodically resample momentum")."""
    learner = training.learner
    if every is None or learner.steps % every or not isinstance(learner, Learner):
        return
    recipe, _ = training.settings.method(training.settings.sampler)
    key = jax.random.fold_in(jax.random.key(learner.seed), learner.steps)
    phase = recipe.draw_auxiliaries(learner.state.phase.position, key, 1.0)
    learner.state = learner.state._replace(phase=phase)


def lda_item(
    name: str, title: str, source: str, run: Callable[[Ask], Result], code: Sequence[str], seconds: tuple[float, float]
) -> PaperItem:
    """An item that reads the corpus."""
    return PaperItem(name, title, source, run, (*code, "ergodica_paper/lda_runs.py"), seconds, reads_corpus=True)
