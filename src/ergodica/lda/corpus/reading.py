"""All documents of some sources in their order, and in groups: as many as the shuffle buffer holds, tokenised.

A group is the unit that is shuffled, read ahead, and read again after a resume: to continue in its middle it is read
from its start, which is a place in the files. Its order depends on the seed alone. `numbered` has no groups: it gives
one document for every input in its order, for topic shares, a row for each.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ergodica.errors import InputError
from ergodica.lda.corpus.documents import DocumentLabel, Documents, is_csr
from ergodica.lda.corpus.formats import DOCUMENT_LIMIT, NO_DOCUMENT, Parsed, Reader
from ergodica.lda.corpus.sources import DocumentSource, sources_of
from ergodica.lda.corpus.tally import Tally
from ergodica.lda.corpus.tokenizing import PLAIN_READING, Reading, is_unspaced, needs_tokenizer
from ergodica.lda.corpus.vocabulary import Vocabulary

FIRST_GROUP = 500  # documents; doubled from one group to the next: the first batch does not wait for a full one
MOST_TOKENS = 1 << 24  # a group ends here at the latest: 64 MB
SHORTEST_DOCUMENT = 2  # words of the vocabulary; one word says nothing about which words come together
MOST_UNSPACED = 20  # documents that come to nothing for want of spaces between words, before the corpus is refused
MOST_HASHES = 1 << 18  # of documents, to count copies: 4 MB
AT_A_TIME = 500  # documents
NO_WORDS = np.zeros(0, np.int32)


def texts(
    source: Any, tally: Tally | None = None, limit: int = DOCUMENT_LIMIT, reading: Reading = PLAIN_READING
) -> Iterator[str]:
    """The documents of anything a corpus is made from, as text.

    Args:
        source: a path, "-" (standard input), an http(s) address, a folder, a list of these; an iterable of texts; a
            table.
        tally: where what is left out or cut is counted.
        limit: bytes or characters above which a document is cut.
        reading: which field, and whether lines of a file are documents.
    """
    for item in read(sources_of(source, reading), THE_BEGINNING, limit):
        content = item.parsed().content
        if tally is not None:
            tally.merge(item.tally)
        if isinstance(content, np.ndarray):
            raise InputError("these documents are numbers of words: they have no text")
        if content is not None:
            yield content if isinstance(content, str) else " ".join(content)


class ReadingPlace(NamedTuple):
    """Where reading is: `since` raw documents after the byte of a source from which reading can start again."""

    source: int
    byte: int
    since: int


THE_BEGINNING = ReadingPlace(0, 0, 0)


class ReadItem:
    """A raw document, or the end of a source (reader None), and what was left out since the item before it."""

    __slots__ = ("_parsed", "_raw", "_reader", "place", "position", "tally")

    def __init__(self, reader: Reader | None, raw: Any, place: ReadingPlace, position: int, tally: Tally):
        self._reader, self._raw, self.place, self.position, self.tally = reader, raw, place, position, tally
        self._parsed: Parsed | None = NO_DOCUMENT if reader is None else None

    @property
    def is_document(self) -> bool:
        """Whether it is one, be it empty; else it is the end of a source."""
        return self._reader is not None

    def parsed(self) -> Parsed:
        """What is in it. Kept, instead of the raw document: it is asked for more than once."""
        if self._parsed is None and self._reader is not None:
            self._reader.tally, outer = self.tally, self._reader.tally
            self._parsed, self._raw = self._reader.parsed(self._raw), None
            self._reader.tally = outer
        return self._parsed or NO_DOCUMENT

    def ids(self, vocabulary: Vocabulary) -> np.ndarray | None:
        """The word numbers; None where there is no text."""
        content = self.parsed().content
        if not isinstance(content, np.ndarray):
            return None if content is None else vocabulary.ids(content)
        if len(content) and not 0 <= content.min() <= content.max() < len(vocabulary):
            raise InputError(
                f"a document has the word number {content.max()}: expected numbers of the {len(vocabulary)} words of "
                "the vocabulary, from 0 on"
            )
        return content


def read(sources: Sequence[DocumentSource], place: ReadingPlace, limit: int = DOCUMENT_LIMIT) -> Iterator[ReadItem]:
    """Documents from `place` on. What lies between the byte of `place` and `place` is read, but not looked into."""
    for number in range(place.source, len(sources)):
        source, tally = sources[number], Tally()
        byte, skipped = (place.byte, place.since) if number == place.source else (0, 0)
        reader = None
        try:
            reader = source.open(tally, limit, byte)
            reader.byte = byte
            for raw in reader.items():
                if skipped:
                    skipped -= 1
                    tally.taken()
                    continue
                after = ReadingPlace(number, reader.byte, reader.since)
                yield ReadItem(reader, raw, after, reader.position(), tally.taken())
        except InputError:
            if source.is_named:
                raise
            tally.add("unreadable", source.name)
        finally:
            if reader is not None:
                reader.close()
        if skipped:
            raise InputError(f"{source.name} has {skipped} documents less than when the cursor was made: start over")
        yield ReadItem(None, None, ReadingPlace(number + 1, 0, 0), 0, tally.taken())


def at_once(items: Iterator[ReadItem], here: ReadingPlace, place: ReadingPlace) -> Iterator[ReadItem]:
    """The items after `place` of a reading that cannot start again and is at `here`."""
    if place != here:
        for item in items:
            if item.place == place:
                break
        else:
            raise InputError("the texts end before the place where the cursor was made: give the same ones")
    return items


@dataclass(frozen=True)
class Start:
    """Where a group begins: the pass, its number in the pass, the place, and what was counted up to there.

    Attributes:
        size: documents of a pass, 0 while not known.
    """

    lap: int
    number: int
    place: ReadingPlace
    position: int
    tally: Tally
    size: int = 0


@dataclass(frozen=True)
class Group:
    """Some documents, the order in which they are given out, and where the next group begins."""

    documents: Documents
    order: np.ndarray
    end: Start


@dataclass(frozen=True)
class Grouping:
    """How documents become groups.

    Attributes:
        begin: where every pass begins, after the documents held out.
        laps: passes, None for no end.
    """

    sources: Sequence[DocumentSource]
    vocabulary: Vocabulary
    begin: Start
    buffer: int
    seed: int
    laps: int | None
    limit: int
    copies: "Copies"

    def groups(self, start: Start, items: Iterator[ReadItem] | None = None) -> Iterator[Group]:
        """The groups from `start` on; a pass may end in an empty one. `items`: of a pass that is being read already."""
        while self.laps is None or start.lap < self.laps:
            if items is None:
                items = read(self.sources, start.place, self.limit)
            for group in self._lap(start, items):
                yield group
                start = group.end
            items = None

    def _lap(self, start: Start, items: Iterator[ReadItem]) -> Iterator[Group]:
        tally, rows, tokens = start.tally.copy(), Rows(), 0
        for item in items:
            ids = taken(item, self.vocabulary, tally if start.lap == 0 else Tally(), self.copies)
            if ids is not None:
                rows.add(ids, item)
                tokens += len(ids)
            if len(rows) == self._size(start) or tokens >= MOST_TOKENS:
                position = position_of(self.sources, item)
                end = Start(start.lap, start.number + 1, item.place, position, tally, start.size)
                yield self._group(start, rows, end)
                start, tally, rows, tokens = end, tally.copy(), Rows(), 0
        yield self._group(start, rows, self._next_lap(start, tally))

    def _next_lap(self, start: Start, tally: Tally) -> Start:
        size = start.size or tally.counts["kept"] - self.begin.tally.counts["kept"]
        if size == 0:
            raise InputError(nothing_to_read(self.sources, tally))
        return Start(start.lap + 1, 0, self.begin.place, self.begin.position, tally, size)

    def _group(self, start: Start, rows: "Rows", end: Start) -> Group:
        order = np.random.default_rng((self.seed, start.lap, start.number)).permutation(len(rows))
        return Group(rows.documents(), order, end)

    def _size(self, start: Start) -> int:
        return self.buffer if start.lap or start.number > 30 else min(self.buffer, FIRST_GROUP << start.number)


def position_of(sources: Sequence[DocumentSource], item: ReadItem) -> int:
    """How much of all sources was read, in their units."""
    return sum(source.total or 0 for source in sources[: item.place.source]) + item.position


class Rows:
    """Documents on their way into a group, with their labels."""

    def __init__(self) -> None:
        self._ids: list[np.ndarray] = []
        self._labels: list[DocumentLabel] = []

    def add(self, ids: np.ndarray, item: ReadItem) -> None:
        self._ids.append(ids)
        self._labels.append(item.parsed().label)

    def documents(self) -> Documents:
        return Documents.of(self._ids, self._labels)

    def __len__(self) -> int:
        return len(self._ids)


class Copies:
    """Which of the first 262,144 documents are copies of others; a run that is resumed begins with none.

    A table of hashes of one size, so that memory does not grow: open addressing, at most half full.
    """

    def __init__(self) -> None:
        self._table, self._count = np.zeros(2 * MOST_HASHES, np.int64), 0
        self._held_out: list[int] = []

    def begin(self) -> None:
        """What was seen until now was held out, and is in no pass."""
        self._held_out = self._table[self._table != 0].tolist()

    def forget(self) -> None:
        """Reading starts again."""
        self._table[:], self._count = 0, 0
        for number in self._held_out:
            self._add(number)

    def has(self, content: Any) -> bool:
        """Whether the same text was here before; of documents of numbers, which are often equal, never."""
        if isinstance(content, np.ndarray) or self._count >= MOST_HASHES:
            return False
        return not self._add(hash(content if isinstance(content, str) else tuple(content)) or 1)

    def _add(self, number: int) -> bool:
        """Whether it is new."""
        place = number % len(self._table)
        while self._table[place] not in (0, number):
            place = (place + 1) % len(self._table)
        is_new = self._table[place] == 0
        self._table[place] = number
        self._count += bool(is_new)
        return bool(is_new)


def taken(item: ReadItem, vocabulary: Vocabulary, tally: Tally, copies: Copies) -> np.ndarray | None:
    """The word numbers of a document that is used; None for one that is left out, counted."""
    ids = item.ids(vocabulary)
    tally.merge(item.tally)
    if ids is None:
        return None
    content = item.parsed().content
    if len(ids) >= SHORTEST_DOCUMENT:
        tally.add("kept")
        if copies.has(content):
            tally.add("copies")
        return ids
    if isinstance(content, str) and vocabulary.tokenizer.is_named and is_unspaced(content):
        tally.add("unspaced")
        if not tally.counts["kept"] and tally.counts["unspaced"] >= MOST_UNSPACED:
            raise needs_tokenizer(f"the first {MOST_UNSPACED} documents", content)
    else:
        tally.add("short")
    return None


def nothing_to_read(sources: Sequence[DocumentSource], tally: Tally) -> str:
    """Why not one document came out."""
    names = ", ".join(source.name for source in sources[:3]) + (", ..." if len(sources) > 3 else "")
    if tally.counts["kept"]:
        return f"all {tally.counts['kept']} documents of {names} are held out: none is left to learn from"
    if tally.counts["unspaced"]:
        return (
            f"none of the {tally.counts['unspaced'] + tally.counts['short']:,} documents of {names} has two words of "
            "the vocabulary, as its script has no spaces between words: give a tokenizer"
        )
    if tally.counts["short"]:
        return (
            f"none of the {tally.counts['short']:,} documents of {names} has two words of the vocabulary: "
            "is it of the same language, and in lower case?"
        )
    return f"there are no documents in {names}" + "".join(f"; {note}" for note in tally.notes())


def numbered(
    given: Any, vocabulary: Vocabulary, reading: Reading = PLAIN_READING, tally: Tally | None = None,
    limit: int = DOCUMENT_LIMIT,
) -> Iterator[Documents]:  # fmt: skip
    """Documents of whatever a corpus is made from, some at a time, with their labels; one for every input.

    Unlike `Corpus`, which leaves short documents out: a row of shares is wanted for each. What is missing (None, NaN),
    empty, not a text or a line that cannot be parsed is a document without words; of one longer than the limit the
    beginning is taken. Redirects and other pages of a dump that are no articles are no inputs.

    Args:
        given: files, texts, a table, a matrix of counts: see `Corpus`.
        vocabulary: whose words have the numbers; its tokeniser is used, unless `reading` has one.
        tally: where what was empty or cut is counted; `tally.notes()` says it in words.

    >>> (documents,) = numbered(["a river", None, ""], Vocabulary(["river"]))
    >>> [document.tolist() for document in documents], documents.labels[1].id
    ([[0], [], []], '1')
    """
    from ergodica.lda.corpus.corpus import Corpus  # which reads by this file

    if isinstance(given, Corpus):
        raise InputError(
            "got a Corpus, which shuffles its documents and leaves short ones out: give the files or texts themselves"
        )
    vocabulary = Vocabulary.given(vocabulary, reading.tokenizer)
    if is_csr(given) or isinstance(given, Documents):
        yield from _in_parts(_checked(given, len(vocabulary)))
        return
    rows = Rows()
    for item in read(sources_of(given, reading), THE_BEGINNING, limit):
        if item.is_document:
            ids = item.ids(vocabulary)
            rows.add(NO_WORDS if ids is None else ids, item)
        if tally is not None:
            tally.merge(item.tally)
        if len(rows) == AT_A_TIME:
            yield rows.documents()
            rows = Rows()
    if len(rows):
        yield rows.documents()


def _in_parts(whole: Documents) -> Iterator[Documents]:
    for first in range(0, len(whole), AT_A_TIME):
        yield whole.take(range(first, min(first + AT_A_TIME, len(whole))))


def _checked(given: Any, size: int) -> Documents:
    if is_csr(given):
        if given.shape[1] != size:
            raise InputError(
                f"the matrix has {given.shape[1]} columns: expected {size}, one for each word of the model"
            )
        return Documents.from_csr(given)
    if given.tokens and not 0 <= given.words.min() <= given.words.max() < size:
        raise InputError(
            f"the documents have the word number {given.words.max()}: the model knows {size} words, from 0 on"
        )
    return given
