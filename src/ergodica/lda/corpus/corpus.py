"""A corpus: batches of documents from a stream, with a cursor, read ahead by a thread."""

import hashlib
import os
from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from ergodica.data.buffers import ReadAhead
from ergodica.errors import InputError
from ergodica.host.validate import whole
from ergodica.lda.corpus import reading
from ergodica.lda.corpus.documents import Documents
from ergodica.lda.corpus.formats import DOCUMENT_LIMIT
from ergodica.lda.corpus.sources import Numbers, marks_of, sources_of
from ergodica.lda.corpus.tally import Tally
from ergodica.lda.corpus.vocabulary import Vocabulary, VocabularyLike

VOCABULARY_DOCUMENTS = 10_000  # of the stream's beginning, of which a vocabulary is built
VOCABULARY_CHARACTERS = 64 << 20  # or as many of them as have this many characters: they are held in memory


class Corpus:
    """Batches of documents, in bounded memory whatever the length of the stream.

    `LDA` makes one of whatever it is given. Make it yourself to hold documents out, to shuffle otherwise, or to read
    batches for a model of your own; a thread reads ahead.

    Args:
        sources: a path, "-" for standard input, an http(s) address, a folder, a list of these; an iterable of texts; a
            CSR matrix of counts; `Documents`. Files are recognised by their first bytes.
        vocabulary: a `Vocabulary`, the path of a file with one word a line, a list of words; None: built from the first
            10,000 documents.
        held_out: how many documents at the stream's beginning are kept for tests, in no batch.
        batch_size: documents of a batch. Batches run on from one pass to the next; only the very last may be smaller.
        shuffle_buffer: documents that are shuffled at a time; 1 leaves them in order.
        seed: of the order.
        passes: how often the sources are read; None: again and again.
        limit: characters or bytes above which a document is left out.

    >>> corpus = Corpus(["the cat sat on a mat", "a cat and a dog"], ["cat", "mat", "dog"], batch_size=2)
    >>> [sorted(document.tolist()) for document in sorted(next(corpus), key=len)]
    [[0, 1], [0, 2]]

    To resume, make it again with the same arguments and `seek(cursor)`: the same batches follow. Files before the
    current one are not opened; that one is read again from its start (a plain file of lines from the line, a compressed
    one of many streams, as Wikipedia's multistream dumps, from the stream), without tokenising.
    """

    def __init__(
        self, sources: Any, vocabulary: VocabularyLike | None = None, *, held_out: int = 0, batch_size: int = 50,
        shuffle_buffer: int = 4096, seed: int = 0, passes: int | None = 1, limit: int = DOCUMENT_LIMIT,
    ):  # fmt: skip
        whole("held_out", held_out)
        whole("seed", seed)
        whole("passes", 1 if passes is None else passes, 1)
        for name, count in (("batch_size", batch_size), ("shuffle_buffer", shuffle_buffer), ("limit", limit)):
            whole(name, count, 1)
        self.batch_size, self._passes = batch_size, passes
        self._sources = sources_of(sources)
        once = [source.name for source in self._sources if not source.can_repeat]
        if once and passes != 1:
            raise InputError(f"passes is {passes}, but {once[0]} can be read only once: save it to a file first")
        self._is_once = bool(once)
        self.vocabulary, items = self._beginning(vocabulary, limit)
        self.held_out, begin = self._hold_out(held_out, items)
        self._items: Iterator[reading.ReadItem] | None = items  # of the first pass, until they are used
        self._grouping = reading.Grouping(self._sources, self.vocabulary, begin, shuffle_buffer, seed, passes, limit)
        self._start, self._row, self.given = begin, 0, 0
        self._group: reading.Group | None = None
        self._ahead: ReadAhead | None = None
        self._is_closed = False
        self._marks: list[str] | None = None

    def next(self) -> Documents:
        """The next batch; StopIteration after the last."""
        parts, missing = [], self.batch_size
        while missing:
            group = self._current()
            if group is None:
                break
            chosen = group.order[self._row : self._row + missing]
            parts.append(group.documents.take(chosen))
            missing -= len(chosen)
            self._row += len(chosen)
            if self._row == len(group.order):
                self._start, self._row, self._group = group.end, 0, None
        if not parts:
            raise StopIteration
        self.given += self.batch_size - missing
        return parts[0] if len(parts) == 1 else Documents.concatenate(parts)

    @property
    def cursor(self) -> dict[str, int | str]:
        """Where the stream is after the batches given out: numbers and strings, for JSON."""
        start = self._start
        place = {"lap": start.lap, "group": start.number, **start.place._asdict(), "row": self._row}
        numbers = {"given": self.given, "size": start.size, "position": start.position}
        return {"corpus": self._digest(), **place, **numbers, **start.tally.save()}

    def seek(self, cursor: dict[str, int | str]) -> None:
        """Go to where a corpus of the same sources, vocabulary and seed was: the same batches follow."""
        fields = reading.ReadingPlace._fields
        missing = {"corpus", "lap", "group", "row", "given", "size", "position", *fields} - set(cursor)
        if missing:
            raise InputError(f"the cursor has no {', '.join(sorted(missing))}: expected one of a corpus")
        if cursor["corpus"] != self._digest():
            raise InputError(
                "the cursor is of another corpus: files, vocabulary, held_out, shuffle_buffer and seed must be the same"
            )
        place = reading.ReadingPlace(*(int(cursor[field]) for field in fields))
        is_begun = self._ahead is not None
        self._drop()
        if self._is_once and is_begun:
            raise InputError("the texts can be read only once and reading has begun: make the corpus again, then seek")
        if self._is_once and self._items is not None:
            self._items = reading.at_once(self._items, self._start.place, place)
        elif place != self._start.place or is_begun:
            self._items = None
        lap, group, position, size = (int(cursor[name]) for name in ("lap", "group", "position", "size"))
        self._start = reading.Start(lap, group, place, position, Tally.load(cursor), size)
        self._row, self.given = int(cursor["row"]), int(cursor["given"])

    @property
    def size(self) -> int | None:
        """The documents of a pass, without those held out and those left out; None until the first pass has ended."""
        if len(self._sources) == 1 and isinstance(self._sources[0], Numbers):
            return int(np.sum(self._sources[0].documents.lengths >= reading.SHORTEST_DOCUMENT)) - len(self.held_out)
        return self._start.size or None

    @property
    def expected_size(self) -> int | None:
        """`size`, or an estimate from the share of the bytes read so far; None where there is nothing to go by."""
        begin, reached, total = self._grouping.begin, self._reached(), self._total()
        size = self.size or reached.size
        if size or total is None or reached.position <= begin.position:
            return size or None
        kept = reached.tally.counts["kept"] - begin.tally.counts["kept"]
        return round(kept * (total - begin.position) / (reached.position - begin.position))

    @property
    def progress(self) -> float | None:
        """The share of what is to be read that was given out; None where there is no end or it is not known."""
        total = self._total()
        if not total or self._passes is None:
            return None
        position = self._start.position
        if self._group is not None:
            end = total if self._group.end.lap > self._start.lap else self._group.end.position
            position += (end - position) * self._row / len(self._group.order)
        return min(1.0, (self._start.lap + position / total) / self._passes)

    def notes(self) -> list[str]:
        """What was left out up to here and why, one line each; of the first pass, as the others are the same."""
        return self._reached().tally.notes()

    def close(self) -> None:
        """Stop reading ahead; the corpus cannot be used after that."""
        self._drop()
        self._items, self._is_closed = None, True

    def __iter__(self) -> "Corpus":
        return self

    def __next__(self) -> Documents:
        return self.next()

    def __enter__(self) -> "Corpus":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def _beginning(
        self, vocabulary: VocabularyLike | None, limit: int
    ) -> tuple[Vocabulary, Iterator[reading.ReadItem]]:
        """The vocabulary, and all items of the first pass."""
        items = reading.read(self._sources, reading.THE_BEGINNING, limit)
        if len(self._sources) == 1 and isinstance(self._sources[0], Numbers):
            columns = self._sources[0].columns
            found = Vocabulary.numbered(columns) if vocabulary is None else Vocabulary.given(vocabulary)
            if len(found) < columns:
                raise InputError(f"the vocabulary has {len(found)} words: expected {columns}, one for each column")
            return found, items
        if vocabulary is not None:
            return Vocabulary.given(vocabulary), items
        held: deque[reading.ReadItem] = deque()
        found_texts = _first_texts(items, held)
        if not found_texts:
            tally = Tally()
            for item in held:
                tally.merge(item.tally)
            raise InputError(reading.nothing_to_read(self._sources, tally))
        return Vocabulary.build(found_texts), chain(_emptied(held), items)

    def _hold_out(self, count: int, items: Iterator[reading.ReadItem]) -> tuple[Documents, reading.Start]:
        tally, rows, place, position = Tally(), [], reading.THE_BEGINNING, 0
        while len(rows) < count:
            item = next(items, None)
            if item is None:
                if not rows:
                    raise InputError(reading.nothing_to_read(self._sources, tally))
                raise InputError(f"held_out is {count}, but there are only {len(rows)} documents: hold out fewer")
            ids = reading.taken(item, self.vocabulary, tally)
            if ids is not None:
                rows.append(ids)
            place, position = item.place, reading.position_of(self._sources, item)
        return Documents.of(rows), reading.Start(0, 0, place, position, tally)

    def _current(self) -> reading.Group | None:
        if self._is_closed:
            raise InputError("this corpus was closed: make a new one and seek its cursor")
        if self._group is not None:
            return self._group
        if self._ahead is None or self._ahead.process != os.getpid():
            self._ahead = ReadAhead(partial(self._grouping.groups, self._start, self._items))
            self._items = None
        try:
            group = self._ahead.next()
            while len(group.order) == 0:
                self._start = group.end
                group = self._ahead.next()
        except StopIteration:
            return None
        if self._row >= len(group.order):
            raise InputError(f"the cursor is at document {self._row} of a group of {len(group.order)}: files changed")
        self._group = group
        return group

    def _reached(self) -> reading.Start:
        """Up to where documents were read for the batches given out."""
        return self._start if self._group is None else self._group.end

    def _drop(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
        self._ahead = self._group = None

    def _total(self) -> int | None:
        totals = [source.total for source in self._sources]
        return None if None in totals else sum(total or 0 for total in totals)

    def _digest(self) -> str:
        """Names the documents and their order."""
        if self._marks is None:
            self._marks = marks_of(self._sources)
        labels = [(source.label, mark) for source, mark in zip(self._sources, self._marks, strict=True)]
        grouping = self._grouping
        told = (labels, self.vocabulary.digest(), len(self.held_out), grouping.buffer, grouping.seed, grouping.limit)
        return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def _first_texts(items: Iterator[reading.ReadItem], held: deque[reading.ReadItem]) -> list[str]:
    """The texts of which a vocabulary is built; their items go to `held`, to be given out again."""
    found, characters = [], 0
    for item in items:
        held.append(item)
        text = item.text()
        if text is not None:
            found.append(text)
            characters += len(text)
        if len(found) == VOCABULARY_DOCUMENTS or characters >= VOCABULARY_CHARACTERS:
            break
    return found


def _emptied(held: deque[reading.ReadItem]) -> Iterator[reading.ReadItem]:
    while held:
        yield held.popleft()
