"""Formats of text: JSON lines, WikiExtractor's output, text files, lines of them, and what is in memory.

A reader gives raw documents first and what is in them when asked, so that documents can be skipped at little cost.
MediaWiki's XML is in mediawiki.py, tables are in tables.py.
"""

import codecs
import html
import json
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ergodica.errors import InputError
from ergodica.lda.corpus.documents import NO_LABEL, DocumentLabel, is_missing, label_of, words_of_bag
from ergodica.lda.corpus.opening import Chunk, Opened
from ergodica.lda.corpus.tally import Tally
from ergodica.lda.corpus.tokenizing import PLAIN_READING, Reading

DOCUMENT_LIMIT = 4 << 20  # bytes or characters of a document; MediaWiki's own limit is half of that
# A record may be this many times the limit: its text is cut, but to find where it ends all of it is held.
RECORD_LIMITS = 8
BAD_RECORDS = 20  # at a file's beginning: after that many it is refused


class Parsed(NamedTuple):
    """What is in a raw document: a text, its words, the numbers of its words, or nothing; and its label."""

    content: str | Sequence[str] | np.ndarray | None
    label: DocumentLabel = NO_LABEL


NO_DOCUMENT = Parsed(None)


class Reader(ABC):
    """The documents of one source.

    Args:
        name: for notes.
        chunks: the bytes, after decompression.
        tally: where documents that are left out or cut are counted.
        limit: a longer document is cut; memory is bounded by a few times this.
        is_packed: compressed; reading can then start again only where a compressed stream begins.
        is_continued: the bytes begin between two documents in the middle of the file.
        reading: which field, and what else a person chose.

    `byte` and `since` say where reading is: `since` raw documents after the last byte where it could start again.
    """

    def __init__(
        self, name: str, chunks: Iterator[Chunk], tally: Tally, limit: int = DOCUMENT_LIMIT, is_packed: bool = False,
        is_continued: bool = False, reading: Reading = PLAIN_READING,
    ):  # fmt: skip
        self.name, self.chunks, self.tally, self.limit, self.reading = name, chunks, tally, limit, reading
        self.is_packed, self.is_continued = is_packed, is_continued
        self.byte = self.since = 0
        self.opened: Opened | None = None

    def position(self) -> int:
        """How much was read, in bytes of the file; of what is in memory, in documents."""
        return self.since if self.opened is None else self.opened.position

    def close(self) -> None:
        if self.opened is not None:
            self.opened.close()

    @abstractmethod
    def items(self) -> Iterator[Any]:
        """Raw documents, in order; each adds 1 to `since` before it is given."""

    @abstractmethod
    def parsed(self, item: Any) -> Parsed:
        """What is in a raw document, cut to the limit; content None where nothing is, counted."""

    def _lines(self, most: int) -> Iterator[bytes]:
        """Lines without their end; of one that is longer than `most` bytes the first `most` + 1."""
        parts, size = [], 0  # of the line that has not ended
        for data, restart in self.chunks:
            if restart is not None and not (size and self.is_packed):
                self._may_restart(restart - size)
            first, *others = data.split(b"\n")
            if size <= most:
                parts.append(first)
            size += len(first)
            if others:
                yield (b"".join(parts) if len(parts) > 1 else parts[0])[: most + 1]
                last = others.pop()
                for line in others:
                    yield line if len(line) <= most else line[: most + 1]
                parts, size = [last], len(last)
        if size:
            yield b"".join(parts)[: most + 1]

    def _may_restart(self, byte: int) -> None:
        self.byte, self.since = byte, 0

    def _decoded(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            text = data.decode(errors="replace")
            self.tally.add("not_utf8", self.name, text.count("\ufffd") - data.count("\ufffd".encode()))
            return text

    def _cut(self, text: str) -> str:
        """The text, or as much of it as the limit allows, counted."""
        if len(text) <= self.limit:
            return text
        self._note_cut()
        return text[: self.limit]

    def _cut_bytes(self, data: bytes) -> str:
        """The same of bytes of UTF-8, of which there may be more than the limit."""
        if len(data) <= self.limit:
            return self._decoded(data)
        self._note_cut()
        _, used = codecs.utf_8_decode(data[: self.limit], "replace", False)  # no half letter at the end
        return self._decoded(data[:used])

    def _note_cut(self) -> None:
        self.tally.add("cut", f"{self.name}, to the first {self.limit:,} characters")


class JsonLines(Reader):
    """One JSON object a line, one of its fields the document; also what WikiExtractor writes with --json."""

    _bad = 0

    def items(self) -> Iterator[bytes]:
        for line in self._lines(RECORD_LIMITS * self.limit):
            if line and not line.isspace():
                self.since += 1
                yield line

    def parsed(self, item: bytes) -> Parsed:
        if len(item) > RECORD_LIMITS * self.limit:
            self.tally.add("too_long", self.name)
            return NO_DOCUMENT
        try:
            record = json.loads(self._decoded(item).removeprefix("\ufeff"))
        except (ValueError, RecursionError):
            record = None
        field = self.reading.field or "text"
        if not isinstance(record, dict):
            self.tally.add("bad_line", f"{self.name}: {item[:40]!r}")
            return NO_DOCUMENT
        text = record.get(field)
        if isinstance(text, str):
            return Parsed(self._cut(text), label_of(record))
        if field in record and text is None:  # null: a document without text
            return Parsed("", label_of(record))
        return self._left_out(record, field)

    def _left_out(self, record: dict[str, Any], field: str) -> Parsed:
        if field in record:
            has = f"{field!r} is {str(record[field])[:20]!r}, not a text"
        else:
            has = f"no field {field!r}, it has {', '.join(map(repr, list(record)[:20])) or 'none'}"
        self._bad += 1
        # nothing but such lines from the first byte on: a mistake, that it would take hours to find at the end
        if self.byte == 0 and self._bad == self.since == BAD_RECORDS:
            raise InputError(
                f"{self.name}: {has} in the first {BAD_RECORDS} lines: --field NAME (Python: field=) takes another"
            )
        self.tally.add("bad_line", f"{self.name}: {has}")
        return Parsed(None, label_of(record))


class Extracted(Reader):
    """WikiExtractor's plain output: <doc id="" url="" title=""> on a line, the text, </doc> on a line."""

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        head, body, size = b"", [], 0
        self._is_between = True
        for line in self._lines(self.limit):
            if line.startswith(b"<doc "):
                self._is_between, head, body, size = False, line, [], 0
            elif self._is_between:
                continue
            elif line.startswith(b"</doc>"):
                self._is_between = True
                self.since += 1
                yield head, b"\n".join(body)
            elif size <= self.limit:
                body.append(line)
                size += len(line) + 1
        if not self._is_between and not self.tally.counts["cut_off"]:  # else the decompressor has just said so
            self.tally.add("cut_off", f"{self.name}, inside a document")

    def parsed(self, item: tuple[bytes, bytes]) -> Parsed:
        told = dict(re.findall(r'(\w+)="([^"]*)"', item[0][:4096].decode(errors="replace")))
        return Parsed(self._cut_bytes(item[1]), label_of({name: html.unescape(text) for name, text in told.items()}))

    def _may_restart(self, byte: int) -> None:
        if self._is_between:
            super()._may_restart(byte)


class PlainText(Reader):
    """A text file, which is one document."""

    def items(self) -> Iterator[bytes]:
        parts, size = [], 0
        for data, _ in self.chunks:
            size += len(data)
            parts.append(data)
            if size > self.limit:
                break
        self.since += 1
        yield b"".join(parts)

    def parsed(self, item: bytes) -> Parsed:
        base = os.path.basename(self.name)
        return Parsed(self._cut_bytes(item).removeprefix("\ufeff"), DocumentLabel(base, base))


class TextLines(Reader):
    """A text file of which every line is a document, called by its number as grep does: notes.txt:12.

    A resumed run reads from the file's first byte, as the number of a line is known from there only.
    """

    def items(self) -> Iterator[tuple[int, bytes]]:
        for line in self._lines(self.limit):
            self.since += 1
            yield self.since, line

    def parsed(self, item: tuple[int, bytes]) -> Parsed:
        number, line = item
        label = DocumentLabel(f"{os.path.basename(self.name)}:{number}")
        return Parsed(self._cut_bytes(line).removeprefix("\ufeff").removesuffix("\r"), label)

    def _may_restart(self, byte: int) -> None:
        pass


class InMemory(Reader):
    """What is in memory: (text, words, or numbers of words, its label) in turn."""

    def __init__(self, documents: Iterable[tuple[Any, DocumentLabel]], tally: Tally, limit: int = DOCUMENT_LIMIT):
        super().__init__("the texts", iter(()), tally, limit)
        self._documents = documents

    def items(self) -> Iterator[tuple[Any, DocumentLabel]]:
        for document in self._documents:
            self.since += 1
            yield document

    def parsed(self, item: tuple[Any, DocumentLabel]) -> Parsed:
        value, label = item
        if isinstance(value, bytes):
            return Parsed(self._cut_bytes(value), label)
        if isinstance(value, str):
            return Parsed(self._cut(value), label)
        if isinstance(value, np.ndarray) and value.ndim == 1:
            value = value if value.dtype.kind in "iu" else value.tolist()
        if isinstance(value, np.ndarray):
            return Parsed(value, label)
        if isinstance(value, list | tuple):
            if all(isinstance(word, str) for word in value):
                return Parsed(value, label)
            if all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in value):
                return Parsed(words_of_bag(value), label)
        reason = "no_text" if is_missing(value) else "bad_text"
        self.tally.add(reason, f"{type(value).__name__} at place {label.id or self.since - 1}")
        return Parsed(None, label)
