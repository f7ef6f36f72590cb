"""How many topics: perplexity, coherence, diversity and time for several numbers, on one reading of the corpus."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ergodica.errors import InputError
from ergodica.host.atomic_files import could_not
from ergodica.host.extras import require
from ergodica.host.validate import whole
from ergodica.lda.corpus import Corpus, Documents, Vocabulary
from ergodica.lda.corpus.corpus import HELD_OUT_EVERY, MOST_HELD_OUT
from ergodica.lda.corpus.reading import AT_A_TIME
from ergodica.lda.corpus.tokenizing import StopWordsLike, TokenizerLike
from ergodica.lda.corpus.vocabulary import VocabularyLike
from ergodica.lda.model import LDA
from ergodica.lda.outcome import WORSE
from ergodica.lda.sklearn_methods import as_counts, column_names, require_pandas
from ergodica.lda.topics import coherence, top_words

TOPIC_NUMBERS = (10, 20, 50, 100, 200)
COHERENCE_WORDS, DIVERSITY_WORDS = 10, 25  # top words of a topic
SMALL_GAIN = 0.01  # of perplexity
PICTURE_KINDS = (".png", ".svg", ".pdf")


class TopicNumberRow(NamedTuple):
    """Figures of a fit with so many topics, as `TopicChoice` has them.

    perplexity: of the held-out documents; smaller is better. npmi: the mean over topics on the held-out documents, of
    the ten top words. diversity: the share of distinct words among the 25 top words of all topics. seconds: of finding.
    """

    topics: int
    perplexity: float
    npmi: float
    diversity: float
    seconds: float


@dataclass(frozen=True)
class TopicChoice:
    """What `choose` found: a row for each number of topics; `print` shows a table.

    Attributes:
        unigram: perplexity by word frequencies alone.
        documents, held_out, words: documents learnt from, documents held out, words of the vocabulary.
        notes: what was left out of the corpus and why; warnings of the fits.
    """

    rows: list[TopicNumberRow]
    unigram: float
    documents: int
    held_out: int
    words: int
    notes: list[str]

    @property
    def verdict(self) -> str:
        """One line: where perplexity is lowest, from where on it hardly falls, where NPMI is highest."""
        best = min(self.rows, key=lambda row: row.perplexity)
        near = next(row for row in self.rows if row.perplexity <= best.perplexity * (1 + SMALL_GAIN))
        told = [f"perplexity is lowest at K = {best.topics:,}"]
        if near.topics < best.topics:
            told.append(f"it falls by less than 1 % from {near.topics:,} on")
        coherent = max(self.rows, key=lambda row: -math.inf if math.isnan(row.npmi) else row.npmi)
        if not math.isnan(coherent.npmi):
            told.append(f"NPMI is highest at {coherent.topics:,}")
        return "; ".join(told)

    def __str__(self) -> str:
        lines = [f"{'topics':>8} {'perplexity':>12} {'NPMI':>8} {'diversity':>10} {'seconds':>9}"]
        lines += [
            f"{row.topics:8,} {row.perplexity:12,.1f} {row.npmi:8.3f} {row.diversity:10.3f} {row.seconds:9.1f}"
            for row in self.rows
        ]
        lines.append(
            f"perplexity and NPMI on {self.held_out:,} held-out documents, learnt from {self.documents:,}; "
            f"{self.unigram:,.1f} by word frequencies alone (vocabulary of {self.words:,})"
        )
        return "\n".join([*lines, self.verdict])

    def to_pandas(self) -> Any:
        """A DataFrame of pandas, a row for each number of topics."""
        return require_pandas("to_pandas").DataFrame(self.rows, columns=list(TopicNumberRow._fields))

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        told = {"unigram_perplexity": self.unigram, "documents": self.documents, "held_out": self.held_out}
        rows = [row._asdict() for row in self.rows]
        return told | {"vocabulary": self.words, "rows": rows, "verdict": self.verdict, "notes": self.notes}

    def picture(self, path: str | Path) -> None:
        """Two panels against the number of topics, as PNG, SVG or PDF by the name: perplexity; NPMI and diversity."""
        path = check_picture(path)
        from matplotlib.figure import Figure  # not pyplot: a notebook keeps its own backend

        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2)
        numbers = [row.topics for row in self.rows]
        left.plot(numbers, [row.perplexity for row in self.rows], "o-", color="C0")
        left.set_ylabel(f"perplexity of {self.held_out:,} held-out documents")
        right.plot(numbers, [row.npmi for row in self.rows], "o-", color="C1", label="NPMI of the 10 top words")
        right.plot(
            numbers, [row.diversity for row in self.rows], "s--", color="C2", label="diversity of the 25 top words"
        )
        right.legend(frameon=False)
        for axes in (left, right):
            _number_axis(axes, numbers)
        try:
            figure.savefig(path, dpi=150)
        except OSError as error:
            raise could_not("write", path, error) from error


def _number_axis(axes: Any, numbers: list[int]) -> None:
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    axes.set_xticks(numbers, [f"{number:,}" for number in numbers])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("topics")
    axes.grid(alpha=0.3)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def check_picture(path: str | Path) -> Path:
    """The path of a picture that can be written; InputError otherwise, before hours of work."""
    path = Path(path)
    if path.suffix.lower() not in PICTURE_KINDS:
        raise InputError(f"the picture {str(path)!r} must end in {', '.join(PICTURE_KINDS)}")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {str(path.parent)!r} for the picture: make it first")
    require("matplotlib", extra="plot", by="a picture of the choice of topics")
    return path


def choose(
    corpus: Any, topics: Sequence[int] = TOPIC_NUMBERS, *, held_out: int | None = None,
    vocabulary: VocabularyLike | None = None, passes: int | None = None, seed: int = 0, field: str | None = None,
    lines: bool = False, tokenizer: TokenizerLike = None, stopwords: StopWordsLike = None, phrases: bool = False,
    progress: bool = True,
) -> TopicChoice:  # fmt: skip
    """Fit several numbers of topics to the same documents and compare them.

    The corpus is read once and held in memory, 4 bytes for each of its words. Held-out documents are the first ones:
    nothing is learnt from them, though when to stop is judged by their perplexity.

    Args:
        corpus: whatever a `Corpus` is made from.
        topics: the numbers to try.
        held_out: documents for perplexity and NPMI; None: 1,000, or a tenth of a smaller corpus.
        vocabulary, passes, seed, field, lines, tokenizer, stopwords, phrases, progress: see `LDA`.

    Example:
        >>> import ergodica as eg
        >>> found = eg.lda.choose(eg.lda.demo.documents(300), (2, 5), vocabulary=eg.lda.demo.vocabulary())
        >>> [row.topics for row in found.rows]
        [2, 5]
    """
    numbers = _checked_numbers(topics)
    reading = {"field": field, "lines": lines, "tokenizer": tokenizer, "stopwords": stopwords, "phrases": phrases}
    documents, words, notes = _read_once(corpus, vocabulary, seed, reading)
    count = _held_out_count(held_out, len(documents))
    held = documents.take(range(count))
    rows, unigram = [], math.nan
    for number in numbers:
        model = LDA(number, vocabulary=words, held_out=count, passes=passes, seed=seed, progress=progress)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", WORSE)  # it is among the notes, with the number
            figures = model.fit(documents).figures_
        unigram = figures["held_out"]["unigram_perplexity"]
        notes += [f"{number:,} topics: {warning}" for warning in figures["warnings"]]
        rows.append(_row(number, model.components_.T, figures, held))
    return TopicChoice(rows, unigram, len(documents) - count, count, len(words), notes)


def _checked_numbers(topics: Sequence[int]) -> list[int]:
    """Rising, each once."""
    if isinstance(topics, int | str) or len(list(topics)) == 0:
        raise InputError(f"topics is {topics!r}: expected numbers to try, such as (10, 20, 50)")
    return sorted({whole("topics", number, 1) for number in topics})


def _read_once(
    corpus: Any, vocabulary: VocabularyLike | None, seed: int, reading: dict[str, Any]
) -> tuple[Documents, Vocabulary, list[str]]:
    """All documents in their order, the vocabulary, and what was left out."""
    words = column_names(corpus) if vocabulary is None else vocabulary
    with Corpus(as_counts(corpus), words, batch_size=AT_A_TIME, shuffle_buffer=1, seed=seed, **reading) as batches:
        parts = [Documents(part.starts, part.words) for part in batches]  # labels take more than the words
        return Documents.concatenate(parts), batches.vocabulary, batches.notes()


def _held_out_count(given: int | None, documents: int) -> int:
    a_tenth = math.ceil(documents / HELD_OUT_EVERY)
    count = min(MOST_HELD_OUT, a_tenth) if given is None else whole("held_out", given, 1)
    if count >= documents:
        raise InputError(
            f"held_out is {count:,} and there are {documents:,} documents: some must be left to learn from, hold out "
            "fewer"
        )
    return count


def _row(number: int, phi: np.ndarray, figures: dict[str, Any], held: Documents) -> TopicNumberRow:
    npmi = math.nan
    if len(phi) > 1:
        parts = (held.take(range(at, min(at + AT_A_TIME, len(held)))) for at in range(0, len(held), AT_A_TIME))
        npmi = float(coherence(top_words(phi, COHERENCE_WORDS), parts, len(phi)).npmi.mean())
    top = top_words(phi, DIVERSITY_WORDS)
    seconds = figures["seconds"]["learning"]
    return TopicNumberRow(
        number, figures["held_out"]["found_perplexity"], npmi, len(np.unique(top)) / top.size, seconds
    )
