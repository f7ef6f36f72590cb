"""Documents in groups: as many as the shuffle buffer holds, tokenised, in an order that hangs on the seed alone.

A group is the unit that is shuffled, read ahead and begun anew after a resume: to go on in its middle it is read again
from its start, which is a place in the files.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ergodica.errors import InputError
from ergodica.lda.corpus.documents import Documents
from ergodica.lda.corpus.reading import Item, Place, read
from ergodica.lda.corpus.sources import Source
from ergodica.lda.corpus.tally import Tally
from ergodica.lda.corpus.vocabulary import Vocabulary

FIRST = 500  # documents of the first group, doubled from one to the next: the first batch does not wait for a full one
TOKENS = 1 << 24  # a group ends here at the latest: 64 MB
SHORTEST = 2  # words of the vocabulary; one word says nothing about which words come together


@dataclass(frozen=True)
class Start:
    """Where a group begins: the pass, its number in the pass, the place, and what was counted up to there.

    Attributes:
        size: documents of a pass, 0 while not known.
    """

    lap: int
    number: int
    place: Place
    position: int
    tally: Tally
    size: int = 0


@dataclass(frozen=True)
class Group:
    """Some documents, the order in which they are given out, and where the next group begins."""

    start: Start
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

    sources: Sequence[Source]
    vocabulary: Vocabulary
    begin: Start
    buffer: int
    seed: int
    laps: int | None
    limit: int

    def groups(self, start: Start, items: Iterator[Item] | None = None) -> Iterator[Group]:
        """The groups from `start` on; a pass may end in an empty one. `items`: of a pass that is being read already."""
        while self.laps is None or start.lap < self.laps:
            if items is None:
                items = read(self.sources, start.place, self.limit)
            for group in self._lap(start, items):
                yield group
                start = group.end
            items = None

    def _lap(self, start: Start, items: Iterator[Item]) -> Iterator[Group]:
        tally, rows, tokens = start.tally.copy(), [], 0
        for item in items:
            ids = taken(item, self.vocabulary, tally if start.lap == 0 else Tally())
            if ids is not None:
                rows.append(ids)
                tokens += len(ids)
            if len(rows) == self._size(start) or tokens >= TOKENS:
                position = position_of(self.sources, item)
                end = Start(start.lap, start.number + 1, item.place, position, tally, start.size)
                yield self._group(start, rows, end)
                start, tally, rows, tokens = end, tally.copy(), [], 0
        yield self._group(start, rows, self._next_lap(start, tally))

    def _next_lap(self, start: Start, tally: Tally) -> Start:
        size = start.size or tally.counts["kept"] - self.begin.tally.counts["kept"]
        if size == 0:
            raise InputError(nothing_to_read(self.sources, tally))
        return Start(start.lap + 1, 0, self.begin.place, self.begin.position, tally, size)

    def _group(self, start: Start, rows: list[np.ndarray], end: Start) -> Group:
        order = np.random.default_rng((self.seed, start.lap, start.number)).permutation(len(rows))
        return Group(start, Documents.of(rows), order, end)

    def _size(self, start: Start) -> int:
        return self.buffer if start.lap or start.number > 30 else min(self.buffer, FIRST << start.number)


def position_of(sources: Sequence[Source], item: Item) -> int:
    """How much of all sources was read, in their units."""
    return sum(source.total or 0 for source in sources[: item.place.source]) + item.position


def taken(item: Item, vocabulary: Vocabulary, tally: Tally) -> np.ndarray | None:
    """The word numbers of a document that is used; None for one that is left out, counted."""
    ids = item.ids(vocabulary)
    tally.merge(item.tally)
    if ids is None:
        return None
    tally.add("kept" if len(ids) >= SHORTEST else "short")
    return ids if len(ids) >= SHORTEST else None


def nothing_to_read(sources: Sequence[Source], tally: Tally) -> str:
    """Why not one document came out."""
    names = ", ".join(source.name for source in sources[:3]) + (", ..." if len(sources) > 3 else "")
    if tally.counts["kept"]:
        return f"all {tally.counts['kept']} documents of {names} are held out: none is left to learn from"
    if tally.counts["short"]:
        return (
            f"none of the {tally.counts['short']:,} documents of {names} has two words of the vocabulary: "
            "is it of the same language, and in lower case?"
        )
    return f"there are no documents in {names}" + "".join(f"; {note}" for note in tally.notes())
