"""All documents of some sources, one after another, each with the place that comes after it."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ergodica.errors import InputError
from ergodica.lda.corpus.sources import Source, sources_of
from ergodica.lda.corpus.tally import Tally
from ergodica.lda.corpus.texts import LIMIT, Reader
from ergodica.lda.corpus.vocabulary import Vocabulary


def texts(source: Any, tally: Tally | None = None, limit: int = LIMIT) -> Iterator[str]:
    """The documents of anything a corpus is made from, as text.

    Args:
        source: a path, "-" (standard input), an http(s) address, a folder, a list of these; or an iterable of texts.
        tally: where what is left out is counted.
        limit: bytes or characters above which a document is left out.
    """
    for item in read(sources_of(source), BEGINNING, limit):
        text = item.text()
        if tally is not None:
            tally.merge(item.tally)
        if text is not None:
            yield text


class Place(NamedTuple):
    """Where reading is: `since` raw documents after the byte of a source from which reading can begin anew."""

    source: int
    byte: int
    since: int


BEGINNING = Place(0, 0, 0)
_READ = object()  # in place of a raw document whose text is known


class Item:
    """A raw document, or the end of a source (reader None), and what was left out since the item before it."""

    __slots__ = ("_reader", "_text", "place", "position", "raw", "tally")

    def __init__(self, reader: Reader | None, raw: Any, place: Place, position: int, tally: Tally):
        self._reader, self.raw, self.place, self.position, self.tally = reader, raw, place, position, tally
        self._text: str | None = None

    @property
    def is_document(self) -> bool:
        return self._reader is not None

    def text(self) -> str | None:
        """The text; None where there is none. Kept, in place of the raw document: it is asked for more than once."""
        if self._reader is not None and self.raw is not _READ:
            self._reader.tally, outer = self.tally, self._reader.tally
            self._text, self.raw = self._reader.text(self.raw), _READ
            self._reader.tally = outer
        return self._text

    def ids(self, vocabulary: Vocabulary) -> np.ndarray | None:
        """The word numbers; None where there is no text."""
        if isinstance(self.raw, np.ndarray):
            return self.raw
        text = self.text()
        return None if text is None else vocabulary.ids(text)


def read(sources: Sequence[Source], place: Place, limit: int = LIMIT) -> Iterator[Item]:
    """Documents from `place` on. What lies between the byte of `place` and `place` is read, but not looked into."""
    for number in range(place.source, len(sources)):
        source, tally = sources[number], Tally()
        byte, skipped = (place.byte, place.since) if number == place.source else (0, 0)
        reading = None
        try:
            reading = source.open(tally, limit, byte)
            reader = reading.reader
            reader.byte = byte
            for raw in reader.items():
                if skipped:
                    skipped -= 1
                    tally.taken()
                    continue
                after = Place(number, reader.byte, reader.since)
                yield Item(reader, raw, after, reading.position(), tally.taken())
        except InputError:
            if source.is_named:
                raise
            tally.add("unreadable", source.name)
        finally:
            if reading is not None:
                reading.close()
        if skipped:
            raise InputError(f"{source.name} has {skipped} documents less than when the cursor was made: begin anew")
        yield Item(None, None, Place(number + 1, 0, 0), 0, tally.taken())


def at_once(items: Iterator[Item], here: Place, place: Place) -> Iterator[Item]:
    """The items after `place` of a reading that cannot be begun anew and is at `here`."""
    if place != here:
        for item in items:
            if item.place == place:
                break
        else:
            raise InputError("the texts end before the place where the cursor was made: give the same ones")
    return items
