"""What is kept of a run: its documents on disk, and in bounded memory draws of the chain and a sample of the documents.

The documents of a corpus are kept as numbers after the first pass: text is read and tokenised once. Beside the tokens
of a document are kept the topics where its last visit ended, so that the next one begins there and one sweep is enough,
and how much of the averaged counts is its own, so that it does not confirm itself.
"""

import tempfile
from collections.abc import Sequence
from io import BufferedRandom
from pathlib import Path
from typing import Any

import numpy as np

from ergodica.errors import InputError
from ergodica.host.atomic_files import could_not
from ergodica.lda.corpus.documents import DocumentLabel, Documents

MEMORY_TOKENS = 1 << 21  # up to which documents are in memory as well: 8 MB
TOPIC_BYTES = 256 << 20  # of the topics kept in memory, one or two a token; of a larger corpus none are kept
_BYTE_TOPICS = 256  # up to which a byte is enough
_FIRST_ROOM = 1 << 16
_TOKEN_BYTES = 4
DRAW_BYTES = 200 << 20  # of all draws held at a time
SAMPLE_DOCUMENTS = 2_000  # whose shares are reported at the end


class DocumentStore:
    """Documents by number, in the order they came; their tokens in a file without a name, which ends with the process.

    Args:
        folder: where the file is; None: where temporary files are.
        topics: how many the tokens may be in.

    >>> store = DocumentStore()
    >>> store.append(Documents.of([[5, 6], [7]]))
    >>> store.take([1, 0]).words.tolist(), store.tokens, len(store)
    ([7, 5, 6], 3, 2)
    """

    def __init__(self, folder: Path | None = None, topics: int = 1 << 16):
        self._file: BufferedRandom | None = None
        self._folder = folder
        self._starts, self._count = np.zeros(_FIRST_ROOM, np.int64), 0
        self._words: np.ndarray | None = np.zeros(_FIRST_ROOM, np.int32)
        # all at once: what is never written to takes no memory, and nothing is copied as the corpus grows
        kind = np.uint8 if topics <= _BYTE_TOPICS else np.uint16
        self._topics = np.zeros(TOPIC_BYTES // np.dtype(kind).itemsize, kind)
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
        if self.tokens > len(self._topics):
            self.keeps_topics, self._topics = False, np.zeros(0, self._topics.dtype)

    def take(self, places: Sequence[int] | np.ndarray) -> Documents:
        """The documents with these numbers, in this order."""
        places = np.asarray(places, np.int64)
        first, last = self._starts[places], self._starts[places + 1]
        starts = np.concatenate([[0], np.cumsum(last - first)])
        if self._words is not None:
            return Documents(starts, self._words[self._tokens_of(places)])
        if self._file is None:
            raise InputError("the documents of this run are given back already: fit again")
        words = np.empty(starts[-1], np.int32)
        room = words.data.cast("B")
        for begin, end, at in zip(first.tolist(), last.tolist(), starts.tolist(), strict=False):
            self._file.seek(begin * _TOKEN_BYTES)
            self._file.readinto(room[at * _TOKEN_BYTES : (at + end - begin) * _TOKEN_BYTES])
        return Documents(starts, words)

    def topics(self, places: np.ndarray) -> np.ndarray:
        """Where the last visits to these documents ended, by token."""
        return self._topics[self._tokens_of(places)].astype(np.uint16)

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


class Reservoir:
    """Some of the documents of a stream, each with the same chance, whatever the length of the stream.

    By algorithm R (Vitter, 1985), with random numbers that depend on the seed and the numbers of the documents alone.
    """

    def __init__(self, seed: int, room: int = SAMPLE_DOCUMENTS):
        self.seed, self.room = seed, room
        self.seen = 0
        self.documents = Documents.of([])

    def add(self, documents: Documents) -> None:
        chosen: dict[int, int] = {}  # by place in the sample: which of these documents
        first = self.seen
        self.seen += len(documents)
        numbers = np.arange(first, self.seen)
        drawn = np.random.default_rng((self.seed, first)).integers(0, numbers + 1)
        for number, place in enumerate(np.where(numbers < self.room, numbers, drawn).tolist()):
            if place < self.room:
                chosen[place] = number
        if not chosen:
            return
        held = min(first, self.room)
        both = Documents.concatenate([self.documents, documents])
        length = min(self.seen, self.room)
        self.documents = both.take([held + chosen[place] if place in chosen else place for place in range(length)])

    def saved(self) -> tuple[dict[str, np.ndarray], Any]:
        """Arrays, and what JSON holds."""
        documents = self.documents
        arrays = {
            "sample_starts": documents.starts,
            "sample_words": documents.words,
            "sample_seen": np.array(self.seen),
        }
        return arrays, None if documents.labels is None else [list(label) for label in documents.labels]

    def restore(self, arrays: dict[str, np.ndarray], labels: Any) -> None:
        self.seen = int(arrays["sample_seen"])
        known = None if labels is None else [DocumentLabel(*label) for label in labels]
        self.documents = Documents(arrays["sample_starts"], arrays["sample_words"], known)


class KeptDraws:
    """The topics after some of the steps: spread evenly over the second half of the run, however long it gets.

    After step t those of the multiples of `every` in [t/2, t] are held. When there are more than twice the number
    wanted, `every` is doubled: which are held depends on t alone. The memory of all that will be held is taken at the
    start: a run that fits then fits to its end.

    >>> draws = KeptDraws(2, (1, 1))
    >>> for step in range(1, 101):
    ...     if draws.is_due(step):
    ...         draws.add(step, np.zeros((1, 1), np.float32))
    >>> sorted(draws.held), draws.every
    ([48, 64, 80, 96], 16)
    """

    def __init__(self, wanted: int, shape: tuple[int, int]):
        self.wanted = max(min(1, wanted), min(wanted, DRAW_BYTES // (2 * 4 * shape[0] * shape[1])))
        self.every = 1
        self.held: dict[int, np.ndarray] = {}
        self._shape = shape
        self._spare: list[np.ndarray] = []
        self._make_spare()

    def is_due(self, step: int) -> bool:
        return step % self.every == 0

    def add(self, step: int, phi: np.ndarray) -> None:
        self.held[step] = self._spare.pop()
        np.copyto(self.held[step], phi)
        self._forget(step)
        while len(self.held) > 2 * self.wanted:
            self.every *= 2
            self._forget(step)
        self._make_spare()

    def restore(self, every: int, held: dict[int, np.ndarray]) -> None:
        self.every, self.held = every, dict(held)
        self._spare.clear()
        self._make_spare()

    def _make_spare(self) -> None:
        # New ones, as a checkpoint may be writing those that were forgotten; ones, as zeros would take no memory yet.
        while self.wanted and len(self._spare) + len(self.held) < 2 * self.wanted + 1:
            self._spare.append(np.ones(self._shape, np.float32))

    def _forget(self, step: int) -> None:
        self.held = {at: phi for at, phi in self.held.items() if 2 * at >= step and at % self.every == 0}

    def chosen(self, step: int) -> dict[int, np.ndarray]:
        """As many as were wanted, or fewer, of the second half of a run of `step` steps."""
        steps = [at for at in self.held if 2 * at >= step]
        places = np.unique(np.linspace(0, len(steps) - 1, min(self.wanted, len(steps))).round().astype(int))
        return {steps[place]: self.held[steps[place]] for place in places}
