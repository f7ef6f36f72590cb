"""Formats of text: MediaWiki's export XML, JSON lines, WikiExtractor's output, plain text files, strings.

A reader gives raw documents first and their text when asked, so that documents can be skipped at little cost.
"""

import codecs
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any
from xml.parsers import expat

import numpy as np

from ergodica.errors import InputError
from ergodica.lda.corpus.opening import Chunk, Opened
from ergodica.lda.corpus.tally import Tally

DOCUMENT_LIMIT = 4 << 20  # bytes or characters of a document; MediaWiki's own limit is half of that


class Reader(ABC):
    """The documents of one source.

    Args:
        name: for notes.
        chunks: the bytes, after decompression.
        tally: where documents that are left out are counted.
        limit: a longer document is left out; memory is bounded by a few times this.
        is_packed: compressed; reading can then start again only where a compressed stream begins.
        is_continued: the bytes begin between two documents in the middle of the file.

    `byte` and `since` say where reading is: `since` raw documents after the last byte where it could start again.
    """

    def __init__(
        self, name: str, chunks: Iterator[Chunk], tally: Tally, limit: int = DOCUMENT_LIMIT, is_packed: bool = False,
        is_continued: bool = False,
    ):  # fmt: skip
        self.name, self.chunks, self.tally, self.limit = name, chunks, tally, limit
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

    def text(self, item: Any) -> str | None:
        """The text of a raw document; None where there is none, counted."""
        return self._decoded(item)

    def _lines(self) -> Iterator[bytes | None]:
        """Lines without their end; None for one that is longer than the limit, of which no more than that is held."""
        pending, is_dropping = b"", False
        for data, restart in self.chunks:
            if restart is not None and not is_dropping and not (pending and self.is_packed):
                self._may_restart(restart - len(pending))
            parts = (pending + data).split(b"\n")
            pending = parts.pop()
            if is_dropping and parts:
                is_dropping = False
                del parts[0]
            for part in parts:
                yield part if len(part) <= self.limit else None
            if is_dropping:
                pending = b""
            elif len(pending) > self.limit:
                yield None
                pending, is_dropping = b"", True
        if pending:
            yield pending

    def _may_restart(self, byte: int) -> None:
        self.byte, self.since = byte, 0

    def _decoded(self, data: bytes) -> str:
        try:
            return data.decode()
        except UnicodeDecodeError:
            text = data.decode(errors="replace")
            self.tally.add("not_utf8", self.name, text.count("\ufffd") - data.count("\ufffd".encode()))
            return text


class JsonLines(Reader):
    """One JSON object a line, its field `text` the document; also what WikiExtractor writes with --json."""

    def items(self) -> Iterator[bytes]:
        for line in self._lines():
            if line is None:
                self.tally.add("too_long", self.name)
            else:
                self.since += 1
                yield line

    def text(self, item: bytes) -> str | None:
        if not item.strip():
            return None
        try:
            text = json.loads(self._decoded(item).removeprefix("\ufeff"))["text"]
        except (ValueError, KeyError, TypeError, IndexError, RecursionError):
            text = None
        if not isinstance(text, str):
            self.tally.add("bad_line", f"{self.name}: {item[:40]!r}")
            return None
        return text


class Extracted(Reader):
    """WikiExtractor's plain output: <doc id="" url="" title=""> on a line, the text, </doc> on a line."""

    def items(self) -> Iterator[bytes]:
        body: list[bytes] = []
        size = 0
        self._is_between = True
        for line in self._lines():
            if line is not None and line.startswith(b"<doc "):
                self._is_between, body, size = False, [], 0
            elif self._is_between:
                continue
            elif line is not None and line.startswith(b"</doc>"):
                self._is_between = True
                if size <= self.limit:
                    self.since += 1
                    yield b"\n".join(body)
                else:
                    self.tally.add("too_long", self.name)
            else:
                size += self.limit + 1 if line is None else len(line) + 1
                if line is not None and size <= self.limit:
                    body.append(line)
                else:
                    body.clear()
        if not self._is_between and not self.tally.counts["cut_off"]:  # else the decompressor has just said so
            self.tally.add("cut_off", f"{self.name}, inside a document")

    def _may_restart(self, byte: int) -> None:
        if self._is_between:
            super()._may_restart(byte)


class PlainText(Reader):
    """A text file, which is one document."""

    def items(self) -> Iterator[bytes]:
        parts, size = [], 0
        for data, _ in self.chunks:
            size += len(data)
            if size > self.limit:
                self.tally.add("too_long", self.name)
                return
            parts.append(data)
        self.since += 1
        yield b"".join(parts)


class InMemory(Reader):
    """Texts from any iterable, or documents that are numbers of words already."""

    def __init__(self, documents: Iterable[Any], tally: Tally, limit: int = DOCUMENT_LIMIT):
        super().__init__("the texts", iter(()), tally, limit)
        self._documents = documents

    def items(self) -> Iterator[Any]:
        for document in self._documents:
            self.since += 1
            yield document

    def text(self, item: Any) -> str | None:
        if isinstance(item, np.ndarray):
            raise InputError("these documents are numbers of words: they have no text")
        if isinstance(item, bytes):
            item = self._decoded(item)
        if not isinstance(item, str):
            self.tally.add("bad_text", f"{type(item).__name__} at place {self.since}")
            return None
        if len(item) > self.limit:
            self.tally.add("too_long", f"text {self.since}")
            return None
        return item


class Utf8:
    """Bytes with everything that is not UTF-8 replaced by U+FFFD and counted, chunk by chunk."""

    def __init__(self, name: str, tally: Tally):
        self._name, self._tally, self._rest = name, tally, b""

    def fixed(self, data: bytes) -> bytes:
        data = self._rest + data
        try:
            _, used = codecs.utf_8_decode(data, "strict", False)
            self._rest = data[used:]
            return data[:used]
        except UnicodeDecodeError:
            text, used = codecs.utf_8_decode(data, "replace", False)
            self._rest = data[used:]
            self._tally.add("not_utf8", self._name, text.count("\ufffd") - data.count("\ufffd".encode()))
            return text.encode()


DEEPEST_ELEMENT = 50  # elements inside each other; an export has 5
LONGEST_TAG = 1 << 20  # bytes; expat keeps a tag or comment until its end and starts again with every chunk


class MediaWiki(Reader):
    """The articles of a dump: pages of namespace 0 that are no redirects; of several revisions the last.

    A dump that is cut off, or whose XML breaks, gives the pages before that and is counted. Read straight by expat:
    ElementTree would hold the whole text of an element before anybody can look at its length.
    """

    def items(self) -> Iterator[str]:
        pages = _Pages(self.name, self.limit, self.is_continued)
        utf8 = Utf8(self.name, self.tally)
        try:
            for data, restart in self.chunks:
                if restart is not None and self.is_packed and pages.is_between:
                    self._may_restart(restart)
                pages.feed(utf8.fixed(data))
                yield from self._articles(pages)
            if not (self.is_continued and pages.is_between):  # a piece of a dump need not have its end
                pages.feed(b"", is_last=True)
        except expat.ExpatError as error:
            yield from self._articles(pages)
            if not self.tally.counts["cut_off"]:  # else the decompressor has just said so
                self.tally.add("cut_off", f"{self.name}, line {error.lineno:,}: {expat.ErrorString(error.code)}")

    def text(self, item: str) -> str:
        from ergodica.lda.corpus.wikitext import plain_text  # no other format needs it

        return plain_text(item)

    def _articles(self, pages: "_Pages") -> Iterator[str]:
        found, pages.found = pages.found, []
        for text, reason in found:
            if reason is None:
                self.since += 1
                yield text
            else:
                self.tally.add(reason, self.name if reason == "too_long" else "")


class _Pages:
    """Expat's handlers. `found` has the pages since it was emptied: (text, None) or ("", why it is left out)."""

    def __init__(self, name: str, limit: int, is_continued: bool):
        self.name, self.limit = name, limit
        self.found: list[tuple[str, str | None]] = []
        self._depth = self._fed = 0
        self._parts: list[str] = []
        self._size = 0
        self._begin_page()
        self._parser = expat.ParserCreate("utf-8")
        self._parser.buffer_text = True
        self._parser.buffer_size = 1 << 16
        self._parser.StartDoctypeDeclHandler = self._refuse
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        if is_continued:
            self.feed(b"<mediawiki>")

    @property
    def is_between(self) -> bool:
        """Whether no page is open."""
        return self._depth == 1

    def feed(self, data: bytes, is_last: bool = False) -> None:
        self._parser.Parse(data, is_last)
        self._fed += len(data)
        if self._fed - max(self._parser.CurrentByteIndex, 0) > LONGEST_TAG and not is_last:
            raise InputError(f"{self.name} has a tag or comment longer than 1 MB: that is no MediaWiki export")

    def _refuse(self, name: str, *rest: object) -> None:
        raise InputError(
            f"{self.name} has a DOCTYPE ({name[:40]}), which can declare entities that expand without end: "
            "a MediaWiki export has none; leave the file out"
        )

    def _begin_page(self) -> None:
        self._text, self._namespace, self._is_redirect, self._is_long = "", "0", False, False

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1 and tag != "mediawiki":
            raise InputError(f"{self.name} is XML with the root <{tag[:40]}>: expected <mediawiki>, a MediaWiki export")
        if self._depth > DEEPEST_ELEMENT:
            raise InputError(f"{self.name} has elements {DEEPEST_ELEMENT} deep: that is no MediaWiki export")
        if tag == "page":
            self._begin_page()
        elif tag == "redirect":
            self._is_redirect = True
        elif tag in ("text", "ns"):
            self._parts, self._size, self._is_long = [], 0, False
            self._parser.CharacterDataHandler = self._characters

    def _characters(self, data: str) -> None:
        self._size += len(data)
        if self._size <= self.limit:
            self._parts.append(data)
        else:
            self._parts, self._is_long = [], True

    def _end(self, tag: str) -> None:
        self._depth -= 1
        if tag == "text":
            self._text = "".join(self._parts)
            self._parser.CharacterDataHandler = None
        elif tag == "ns":
            self._namespace = "".join(self._parts).strip()
            self._parser.CharacterDataHandler = None
        elif tag == "page":
            self.found.append(self._judged())

    def _judged(self) -> tuple[str, str | None]:
        if self._namespace != "0":
            return "", "namespace"
        if self._is_redirect or self._text[:40].lstrip().lower().startswith("#redirect"):
            return "", "redirect"
        if self._is_long:
            return "", "too_long"
        return (self._text, None) if self._text.strip() else ("", "empty")
