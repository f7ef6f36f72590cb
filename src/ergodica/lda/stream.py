"""What a model learns from: batches of a corpus, the size S of the corpus as far as it is known, and where to end."""

import math
from typing import Any, NamedTuple

import numpy as np

from ergodica.errors import InputError
from ergodica.lda.corpus import Corpus, Documents, Vocabulary
from ergodica.lda.corpus.sources import sources_of
from ergodica.lda.corpus.vocabulary import VocabularyLike

# Documents: a smaller corpus is read as often as it takes to see that many.
ENOUGH_DOCUMENTS = 50_000
ENOUGH_IN_SMALL_STEPS = 1_000_000


class DocumentBatch(NamedTuple):
    """Documents, the number in the stream of the first of them, and the size S that they stand for.

    tokens: about how many the corpus has. places: the numbers of the documents in the store, if there is one.
    is_known: they were visited before.
    """

    documents: Documents
    visit: int
    size: float
    tokens: float = 0.0
    places: np.ndarray | None = None
    is_known: bool = False


class DocumentStream:
    """The batches of a run.

    Args:
        given: a `Corpus`, taken as it is, or whatever one is made from.
        size: S; None: the number of documents of the corpus. While that is not known, an estimate from the share of the
            bytes read; where there is nothing to go by, the number of documents so far, so that at every step the
            target is the posterior of what has been seen.
        passes: None: as often as it takes to see `enough` documents.
        visit, before: how many documents were seen before this stream, with repeats and without.

    All it says depends on the cursor of the corpus alone, so that a run that is resumed sees the same.
    """

    def __init__(
        self, given: Any, vocabulary: VocabularyLike | None, *, held_out: int, batch_size: int, passes: int | None,
        size: float | None, seed: int, visit: int = 0, before: float = 0, enough: int = ENOUGH_DOCUMENTS,
    ):  # fmt: skip
        self._size, self._enough, self._passes = size, enough, passes
        self._visit, self._before = visit, before
        self._is_ours = not isinstance(given, Corpus)
        self.corpus = given
        if not isinstance(given, Corpus):
            if passes is None:
                can_repeat = all(source.can_repeat for source in sources_of(given))
                self._passes = None if can_repeat else 1
            self.corpus = Corpus(
                given, vocabulary, held_out=held_out, batch_size=batch_size, seed=seed, passes=self._passes
            )
        elif vocabulary is not None and Vocabulary.given(vocabulary).words != given.vocabulary.words:
            raise InputError("the corpus has another vocabulary than the model: leave one of them out")

    def next(self) -> DocumentBatch | None:
        """The next batch; None after the last."""
        visit = self.corpus.given
        stop = self._stop()
        if stop is not None and visit >= stop:
            return None
        try:
            documents = self.corpus.next()
        except StopIteration:
            return None
        stop = self._stop()
        if stop is not None and visit + len(documents) > stop:
            documents = documents.take(range(stop - visit))
        here = self.corpus.expected_size or self.corpus.given
        return DocumentBatch(documents, self._visit + visit, self._size or self._before + here)

    def _stop(self) -> int | None:
        """The number of documents after which to end, where the corpus itself would not and its size is known."""
        size = self.corpus.size
        if not self._is_ours or self._passes is not None or size is None:
            return None
        return size * max(1, math.ceil(self._enough / size))

    def expected_total(self) -> int | None:
        """The documents of all passes, as far as it is known."""
        if not self._is_ours:
            share = self.corpus.progress
            return round(self.corpus.given / share) if share else None
        size = self.corpus.expected_size
        if size is None:
            return None
        return size * (self._passes or max(1, math.ceil(self._enough / size)))
