"""The documents of a corpus as numbers, kept on disk after the first pass: text is read and tokenised once.

Beside the tokens of a document are kept the topics where its last visit ended, so that the next one begins there and
one sweep is enough, and how much of the averaged counts is its own, so that it does not confirm itself.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from ergodica.host.atomic_files import could_not
from ergodica.lda.corpus import Documents

MEMORY_TOKENS = 1 << 21  # up to which documents are in memory as well: 8 MB
TOPIC_BYTES = 256 << 20  # of the topics kept in memory: 128 million tokens; of a larger corpus none are kept
_FIRST_ROOM = 1 << 16
_TOKEN_BYTES = 4


class DocumentStore:
    """Documents by number, in the order they came; their tokens in a file without a name, which ends with the process.

    Args:
        folder: where the file is; None: where temporary files are.

    >>> store = DocumentStore()
    >>> store.append(Documents.of([[5, 6], [7]]))
    >>> store.take([1, 0]).words.tolist(), store.tokens, len(store)
    ([7, 5, 6], 3, 2)
    """

    def __init__(self, folder: Path | None = None):
        self._file: IO[bytes] | None = None
        self._folder = folder
        self._starts, self._count = np.zeros(_FIRST_ROOM, np.int64), 0
        self._words: np.ndarray | None = np.zeros(_FIRST_ROOM, np.int32)
        self._topics = np.zeros(_FIRST_ROOM, np.uint16)
        self.keeps_topics = True
        self.weights = np.zeros(_FIRST_ROOM, np.float32)
        """By document: how much of the averaged counts is its own (`Finder`)."""

    def __len__(self) -> int:
        return self._count

    @property
    def tokens(self) -> int:
        return int(self._starts[self._count])

    def append(self, documents: Documents) -> None:
        count = len(documents)
        self._starts = _with_room(self._starts, self._count + count + 1)
        self.weights = _with_room(self.weights, self._count + count)
        before = self.tokens
        self._starts[self._count + 1 : self._count + count + 1] = before + documents.starts[1:]
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115, it lives as long as the store
            self._file.seek(before * _TOKEN_BYTES)
            self._file.write(documents.words.tobytes())
            self._file.flush()
        except OSError as error:
            raise could_not(
                "write", Path(self._folder or tempfile.gettempdir()) / "the documents read", error
            ) from error
        self._count += count
        if self._words is not None and self.tokens <= MEMORY_TOKENS:
            self._words = _with_room(self._words, self.tokens)
            self._words[before : self.tokens] = documents.words
        else:
            self._words = None
        self.keeps_topics = self.keeps_topics and 2 * self.tokens <= TOPIC_BYTES
        self._topics = _with_room(self._topics, self.tokens) if self.keeps_topics else np.zeros(0, np.uint16)

    def take(self, places: Sequence[int] | np.ndarray) -> Documents:
        """The documents with these numbers, in this order."""
        places = np.asarray(places, np.int64)
        first, last = self._starts[places], self._starts[places + 1]
        starts = np.concatenate([[0], np.cumsum(last - first)])
        if self._words is not None:
            return Documents(starts, self._words[self._tokens_of(places)])
        words = np.empty(starts[-1], np.int32)
        room = memoryview(words).cast("B")
        if self._file is not None:
            for begin, end, at in zip(first.tolist(), last.tolist(), starts.tolist(), strict=False):
                self._file.seek(begin * _TOKEN_BYTES)
                self._file.readinto(room[at * _TOKEN_BYTES : (at + end - begin) * _TOKEN_BYTES])
        return Documents(starts, words)

    def topics(self, places: np.ndarray) -> np.ndarray:
        """Where the last visits to these documents ended, by token."""
        return self._topics[self._tokens_of(places)]

    def keep_topics(self, places: np.ndarray, topics: np.ndarray) -> None:
        if self.keeps_topics:
            self._topics[self._tokens_of(places)] = topics

    def rename_topic(self, old: int, new: int) -> None:
        """All tokens of one topic go to another."""
        topics = self._topics[: self.tokens if self.keeps_topics else 0]
        topics[topics == old] = new

    def _tokens_of(self, places: np.ndarray) -> np.ndarray:
        first, lengths = self._starts[places], self._starts[places + 1] - self._starts[places]
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return np.repeat(first, lengths) + within

    def close(self) -> None:
        """Give the file back; the topics and weights stay."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __del__(self) -> None:  # of a run that ended in an error
        self.close()

    def saved(self) -> dict[str, np.ndarray]:
        """For a checkpoint: all but the documents themselves, which the corpus gives again."""
        kept = self._topics[: self.tokens if self.keeps_topics else 0]
        return {"topics": kept.copy(), "weights": self.weights[: self._count].copy()}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Of a store that holds the same documents."""
        self.weights[: self._count] = saved["weights"]
        if self.keeps_topics:
            self._topics[: self.tokens] = saved["topics"]


def _with_room(array: np.ndarray, size: int) -> np.ndarray:
    """The array, or one twice as long."""
    if size < len(array):
        return array
    larger = np.zeros(max(2 * len(array), size + 1), array.dtype)
    larger[: len(array)] = array
    return larger
