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
from ergodica.lda.corpus.documents import TEST_EVERY, Documents
from ergodica.lda.corpus.formats import DOCUMENT_LIMIT
from ergodica.lda.corpus.opening import is_address
from ergodica.lda.corpus.sources import Numbers, marks_of, sources_of
from ergodica.lda.corpus.tally import Tally
from ergodica.lda.corpus.tokenizing import Reading, StopWordsLike, TokenizerLike, is_unspaced, needs_tokenizer
from ergodica.lda.corpus.vocabulary import Content, Vocabulary, VocabularyLike

VOCABULARY_DOCUMENTS = 10_000  # of the stream's beginning, of which a vocabulary is built
SCRIPT_DOCUMENTS = 200  # of these, whose script is looked at
VOCABULARY_CHARACTERS = 64 << 20  # or as many of them as have this many characters: they are held in memory
MOST_HELD_OUT, HELD_OUT_EVERY = 1_000, 10  # documents held out by default: one of ten, and not more than this
COUNTED_BYTES = 16 << 20  # of what is read only once or comes from afar: so much is held while documents are counted


class Corpus:
    """Batches of documents, in bounded memory whatever the length of the stream.

    `LDA` makes one of whatever it is given. Make it yourself to hold documents out, to shuffle otherwise, or to read
    batches for a model of your own; a thread reads ahead.

    Args:
        sources: a path, "-" for standard input, an http(s) address, a folder, a list of these; an iterable of texts, or
            of documents as lists of words; a DataFrame, a Series, or an Arrow table; a CSR matrix of counts; gensim's
            lists of (number, count); `Documents`. Files are recognised by their first bytes, tables by their names.
        vocabulary: a `Vocabulary`, the path of a file with one word a line, a list of words, a scikit-learn vectorizer
            or a gensim `Dictionary`; None: built from the first 10,000 documents.
        held_out: how many documents at the stream's beginning are kept for tests, in no batch; None: 1,000, or a tenth
            of a smaller corpus, and none where all are too short to predict a word of.
        batch_size: documents of a batch. Batches run on from one pass to the next; only the very last may be smaller.
        shuffle_buffer: documents that are shuffled at a time; 1 leaves them in order.
        seed: of the order.
        passes: how often the sources are read; None: again and again.
        limit: characters or bytes above which a document is cut; of a MediaWiki dump it is left out.
        field: of JSON lines and tables, the one with the text; None: "text", or a table's only column of text.
        lines: a line of a text file is a document; else the file is.
        tokenizer: text to words: None (that of the vocabulary, or "words"), "words", "hoffman", "whitespace", or a
            function from a text to a list of str.
        stopwords: left out where a vocabulary is built: None (English), a language ("german", "de"), a list, () for
            none.
        phrases: where a vocabulary is built, pairs of words that belong together become words: "new_york".

    >>> corpus = Corpus(["the cat sat on a mat", "a cat and a dog"], ["cat", "mat", "dog"], batch_size=2)
    >>> [sorted(document.tolist()) for document in sorted(next(corpus), key=len)]
    [[0, 1], [0, 2]]

    To resume, make it again with the same arguments and `seek(cursor)`: the same batches follow. Files before the
    current one are not opened; that one is read again from its start (a plain file of lines from the line, a compressed
    one of many streams, as Wikipedia's multistream dumps, from the stream), without tokenising.
    """

    def __init__(
        self, sources: Any, vocabulary: VocabularyLike | None = None, *, held_out: int | None = 0, batch_size: int = 50,
        shuffle_buffer: int = 4096, seed: int = 0, passes: int | None = 1, limit: int = DOCUMENT_LIMIT,
        field: str | None = None, lines: bool = False, tokenizer: TokenizerLike = None, stopwords: StopWordsLike = None,
        phrases: bool = False,
    ):  # fmt: skip
        whole("held_out", 0 if held_out is None else held_out)
        whole("seed", seed)
        whole("passes", 1 if passes is None else passes, 1)
        for name, count in (("batch_size", batch_size), ("shuffle_buffer", shuffle_buffer), ("limit", limit)):
            whole(name, count, 1)
        self.batch_size, self._passes = batch_size, passes
        self.reading = Reading(field, lines, tokenizer, stopwords, phrases)
        self._sources = sources_of(sources, self.reading)
        once = [source.name for source in self._sources if not source.can_repeat]
        if once and passes != 1:
            raise InputError(f"passes is {passes}, but {once[0]} can be read only once: save it to a file first")
        self._is_once = bool(once)
        self.vocabulary, items = self._beginning(vocabulary, limit)
        self._vocabulary_notes = [] if self._numbers is not None else self.vocabulary.notes()
        self._is_default = held_out is None
        if held_out is None:
            held_out, items = self._tenth(items, limit)
        self.held_out, begin, items, copies = self._hold_out(held_out, items)
        copies.begin()
        self._items: Iterator[reading.ReadItem] | None = items  # of the first pass, until they are used
        self._grouping = reading.Grouping(
            self._sources, self.vocabulary, begin, shuffle_buffer, seed, passes, limit, copies
        )
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
        if self._numbers is not None:
            return int(np.sum(self._numbers.documents.lengths >= reading.SHORTEST_DOCUMENT)) - len(self.held_out)
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
        one = ["the corpus is a single document, of which no topics can be learnt"] if self.size == 1 else []
        return [*self._held_out_notes(), *self._vocabulary_notes, *self._reached().tally.notes(), *one]

    def _held_out_notes(self) -> list[str]:
        count = len(self.held_out)
        if not self._is_default or count == MOST_HELD_OUT:
            return []
        few = "no documents were held out: they are too few, or too short to predict a word of"
        return [f"documents held out, a tenth of the corpus: {count:,}" if count else few]

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
        chosen = self.reading.tokenizer
        if self._numbers is not None:
            columns = self._numbers.columns
            found = Vocabulary.numbered(columns) if vocabulary is None else Vocabulary.given(vocabulary, chosen)
            if len(found) < columns:
                raise InputError(f"the vocabulary has {len(found)} words: expected {columns}, one for each column")
            return found, items
        if vocabulary is not None:
            found = Vocabulary.given(vocabulary, chosen)
            found.check_words()
            return found, items
        held: deque[reading.ReadItem] = deque()
        contents = _first_contents(items, held)
        if not contents:
            tally = Tally()
            for item in held:
                tally.merge(item.tally)
            raise InputError(reading.nothing_to_read(self._sources, tally))
        self._check_script(contents)
        stopwords, phrases = self.reading.stopwords, self.reading.phrases
        built = Vocabulary.build(contents, tokenizer=chosen, stopwords=stopwords, phrases=phrases)
        return built, chain(_emptied(held), items)

    def _check_script(self, contents: list[Content]) -> None:
        """InputError where most documents are of a script without spaces and nobody gave a tokeniser."""
        unspaced = [text for text in contents[:SCRIPT_DOCUMENTS] if isinstance(text, str) and is_unspaced(text)]
        if self.reading.tokenizer is None and 2 * len(unspaced) > min(len(contents), SCRIPT_DOCUMENTS):
            raise needs_tokenizer(self._sources[0].name, unspaced[0])

    @property
    def _numbers(self) -> Numbers | None:
        """The source, where that is documents of numbers."""
        first = self._sources[0]
        return first if len(self._sources) == 1 and isinstance(first, Numbers) else None

    def _tenth(self, items: Iterator[reading.ReadItem], limit: int) -> tuple[int, Iterator[reading.ReadItem]]:
        """How many documents are held out by default, and the items: what can be read again is, to count it."""
        is_near = not self._is_once and not any(is_address(source.name) for source in self._sources)
        counted = reading.read(self._sources, reading.THE_BEGINNING, limit) if is_near else items
        documents, ahead = 0, deque[reading.ReadItem]()
        for item in counted:
            documents += item.is_document
            if not is_near:
                ahead.append(item)
            if documents == MOST_HELD_OUT * HELD_OUT_EVERY or (ahead and item.position > COUNTED_BYTES):
                break
        return documents // HELD_OUT_EVERY, chain(_emptied(ahead), items)

    def _hold_out(
        self, count: int, items: Iterator[reading.ReadItem]
    ) -> tuple[Documents, reading.Start, Iterator[reading.ReadItem], reading.Copies]:
        tally, rows, place, position = Tally(), reading.Rows(), reading.THE_BEGINNING, 0
        copies, read = reading.Copies(), deque[reading.ReadItem]()
        while len(rows) < count:
            item = next(items, None)
            if item is None:
                if not len(rows):
                    raise InputError(reading.nothing_to_read(self._sources, tally))
                if self._is_default:  # others were left out, so that there are fewer than were counted
                    return self._hold_out(len(rows) // HELD_OUT_EVERY, _emptied(read))
                raise InputError(f"held_out is {count}, but there are only {len(rows)} documents: hold out fewer")
            if self._is_default:
                read.append(item)
            ids = reading.taken(item, self.vocabulary, tally, copies)
            if ids is not None:
                rows.add(ids, item)
            place, position = item.place, reading.position_of(self._sources, item)
        documents = rows.documents()
        if self._is_default and count and documents.lengths.max() < TEST_EVERY:
            return self._hold_out(0, chain(_emptied(read), items))
        return documents, reading.Start(0, 0, place, position, tally), items, copies

    def _current(self) -> reading.Group | None:
        if self._is_closed:
            raise InputError("this corpus was closed: make a new one and seek its cursor")
        if self._group is not None:
            return self._group
        if self._ahead is None or self._ahead.process != os.getpid():
            self._grouping.copies.forget()
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
        told = (
            labels, self.vocabulary.digest(), len(self.held_out), grouping.buffer, grouping.seed, grouping.limit,
            self.reading.field, self.reading.lines,
        )  # fmt: skip
        return hashlib.sha256(repr(told).encode()).hexdigest()[:16]


def _first_contents(items: Iterator[reading.ReadItem], held: deque[reading.ReadItem]) -> list[Content]:
    """The documents of which a vocabulary is built; their items go to `held`, to be given out again."""
    found, characters = [], 0
    for item in items:
        held.append(item)
        content = item.parsed().content
        if isinstance(content, np.ndarray):
            raise InputError("these documents are numbers of words: give their words as vocabulary=, or all in a list")
        if content is not None:
            found.append(content)
            characters += len(content) if isinstance(content, str) else sum(map(len, content))
        if len(found) == VOCABULARY_DOCUMENTS or characters >= VOCABULARY_CHARACTERS:
            break
    return found


def _emptied(held: deque[reading.ReadItem]) -> Iterator[reading.ReadItem]:
    while held:
        yield held.popleft()
