"""What a model learns from: batches of a corpus, the size S of the corpus as far as it is known, and where to end."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ergodica.errors import InputError
from ergodica.lda.corpus import Corpus, Documents, Vocabulary
from ergodica.lda.corpus.sources import sources_of
from ergodica.lda.corpus.tokenizing import Reading
from ergodica.lda.corpus.vocabulary import VocabularyLike
from ergodica.lda.store import DocumentStore

# Documents: a smaller corpus is read as often as it takes to see that many, by a chain that finds topics itself.
ENOUGH_DOCUMENTS = 50_000
SMALLEST_BATCH, LARGEST_BATCH = 50, 200  # documents, between which a batch is a twentieth of the corpus
BATCH_SHARE = 0.05
# documents that are shuffled at a time while text is read: fewer where later passes are in any order
WHOLE_BUFFER, STORED_BUFFER = 4_096, 1_024


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
        batch_size: None: a twentieth of the corpus, as far as it is known, between 50 and 200.
        passes: None: for ever if documents are stored, else as often as it takes to see 50,000 of them.
        visit, before: how many documents were seen before this stream, with repeats and without.
        stored: text is read and tokenised once, and later passes, each in an order of its own, are over the store.
        folder: for the store.
        reading: how text is read, as `Corpus` takes it.
        topics: how many the tokens may be in.

    All it says depends on the cursor alone, so that a run that is resumed sees the same.
    """

    def __init__(
        self, given: Any, vocabulary: VocabularyLike | None, *, held_out: int | None, batch_size: int | None,
        passes: int | None, size: float | None, seed: int, visit: int = 0, before: float = 0, stored: bool = False,
        folder: Path | None = None, reading: dict[str, Any] | None = None, topics: int = 1 << 16,
    ):  # fmt: skip
        self._size, self._passes, self._batch_size, self._seed = size, passes, batch_size, seed
        self._visit, self._before = visit, before
        self._is_ours = not isinstance(given, Corpus)
        self.corpus = given
        reads = passes
        if not isinstance(given, Corpus):
            if passes is None and not stored:
                can_repeat = all(source.can_repeat for source in sources_of(given, Reading(**(reading or {}))))
                reads = self._passes = None if can_repeat else 1
            self.corpus = Corpus(
                given, vocabulary, held_out=held_out, batch_size=batch_size or LARGEST_BATCH, seed=seed,
                passes=1 if stored else reads, shuffle_buffer=STORED_BUFFER if stored else WHOLE_BUFFER,
                **(reading or {}),
            )  # fmt: skip
        elif vocabulary is not None and Vocabulary.given(vocabulary).words != given.vocabulary.words:
            raise InputError("the corpus has another vocabulary than the model: leave one of them out")
        self.store = DocumentStore(folder, topics) if stored and self._is_ours else None
        self._lap, self._row = 0, 0  # of the store: the pass, and the documents of it given out
        self._order = np.zeros(0, np.int64)

    @property
    def lap(self) -> int:
        """How many passes are over; of a corpus that is not stored 0."""
        return self._lap

    @property
    def is_read(self) -> bool:
        """Whether the first pass is over, and all documents are in the store."""
        size = self.corpus.size
        return self.store is not None and (self._lap > 0 or (size is not None and self.corpus.given >= size))

    @property
    def documents(self) -> int:
        """How many were given out, with repeats."""
        return self.corpus.given if self._lap == 0 else self._lap * self.stored_count + self._row

    @property
    def stored_count(self) -> int:
        """Documents in the store."""
        return 0 if self.store is None else len(self.store)

    def next(self) -> DocumentBatch | None:
        """The next batch; None after the last."""
        if self._lap == 0:
            batch = self._read()
            if batch is not None or self.store is None or len(self.store) == 0:
                return batch
            self._lap, self._row = 1, 0
        if self._passes is not None and self._lap >= self._passes:
            return None
        return self._again(self.store)

    def _read(self) -> DocumentBatch | None:
        """A batch of the first pass, or of all, where they are not stored."""
        visit, stop = self.corpus.given, self._stop()
        if stop is not None and visit >= stop:
            return None
        if self._is_ours:
            self.corpus.batch_size = self.batch_size
        try:
            documents = self.corpus.next()
        except StopIteration:
            return None
        stop = self._stop()
        if stop is not None and visit + len(documents) > stop:
            documents = documents.take(range(stop - visit))
        places = None
        if self.store is not None:
            places = np.arange(len(self.store), len(self.store) + len(documents))
            self.store.append(documents)
        size = self._expected()
        tokens = size * (self.store.tokens / len(self.store) if self.store else documents.tokens / len(documents))
        is_known = self.corpus.size is not None and visit >= self.corpus.size
        return DocumentBatch(documents, self._visit + visit, size, tokens, places, is_known)

    def _again(self, store: DocumentStore | None) -> DocumentBatch:
        """A batch of a later pass."""
        assert store is not None
        if self._row == len(store):
            self._lap, self._row = self._lap + 1, 0
        if self._row == 0 or len(self._order) != len(store):
            self._order = np.random.default_rng((self._seed, self._lap)).permutation(len(store))
        places = self._order[self._row : self._row + self.batch_size]
        visit = self._visit + self._lap * len(store) + self._row
        self._row += len(places)
        size = self._expected()
        return DocumentBatch(store.take(places), visit, size, size * store.tokens / len(store), places, True)

    def _expected(self) -> float:
        here = self.corpus.expected_size or self.corpus.given
        return self._size or self._before + here

    @property
    def batch_size(self) -> int:
        """Of the next batch."""
        if self._batch_size is not None:
            return self._batch_size
        known = self.stored_count if self._lap else (self.corpus.expected_size or self.corpus.given)
        return int(np.clip(BATCH_SHARE * known, SMALLEST_BATCH, LARGEST_BATCH))

    def close(self) -> None:
        """Stop reading ahead, and give the store's file back."""
        self.corpus.close()
        if self.store is not None:
            self.store.close()

    @property
    def cursor(self) -> dict[str, Any]:
        """Where the stream is, for a checkpoint."""
        return {"corpus": self.corpus.cursor, "lap": self._lap, "row": self._row, "stored": self.stored_count}

    def seek(self, cursor: dict[str, Any]) -> None:
        """Go to where a stream of the same corpus was; what was stored is read again, as the documents are not kept."""
        if self.store is not None:
            while len(self.store) < int(cursor["stored"]):
                if self._read() is None:
                    raise InputError("the corpus has fewer documents than when the run was stopped: start over")
            if int(cursor["lap"]) > 0 and self.corpus.size is None:
                self._read()  # its end, which tells the size
        else:
            self.corpus.seek(cursor["corpus"])
        self._lap, self._row = int(cursor["lap"]), int(cursor["row"])

    def _stop(self) -> int | None:
        """The number of documents after which to end, where the corpus itself would not and its size is known."""
        size = self.corpus.size
        if not self._is_ours or self._passes is not None or size is None or self.store is not None:
            return None
        return size * max(1, math.ceil(ENOUGH_DOCUMENTS / size))

    def expected_total(self) -> int | None:
        """The documents of all passes, as far as it is known."""
        if not self._is_ours:
            share = self.corpus.progress
            return round(self.corpus.given / share) if share else None
        size = self.corpus.expected_size
        if size is None or (self._passes is None and self.store is not None):
            return None
        return size * (self._passes or max(1, math.ceil(ENOUGH_DOCUMENTS / size)))
