"""Formats of text: JSON lines, WikiExtractor's output, a plain text file, strings that are there already.

A reader gives raw documents first and their text when asked, so that documents can be passed over at little cost.
"""

import codecs
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from ergodica.lda.corpus.tally import Tally
from ergodica.lda.corpus.unpack import Chunk

LIMIT = 4 << 20  # bytes or characters of a document; MediaWiki's own limit is half of that


class Reader(ABC):
    """The documents of one source.

    Args:
        name: for notes.
        chunks: the bytes, after decompression.
        tally: where documents that are left out are counted.
        limit: a longer document is left out; memory is bounded by a few times this.
        is_packed: compressed; reading can then begin anew only where a compressed stream begins.
        is_continued: the bytes begin between two documents in the middle of the file.

    `byte` and `since` say where reading is: `since` raw documents after the last byte where it could begin anew.
    """

    def __init__(
        self,
        name: str,
        chunks: Iterator[Chunk],
        tally: Tally,
        limit: int = LIMIT,
        is_packed: bool = False,
        is_continued: bool = False,
    ):
        self.name, self.chunks, self.tally, self.limit = name, chunks, tally, limit
        self.is_packed, self.is_continued = is_packed, is_continued
        self.byte = self.since = 0

    @abstractmethod
    def items(self) -> Iterator[Any]:
        """Raw documents, in order; each adds 1 to `since` before it is given."""

    @abstractmethod
    def text(self, item: Any) -> str | None:
        """The text of a raw document; None where there is none, counted."""

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

    def text(self, item: bytes) -> str:
        return self._decoded(item)

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

    def text(self, item: bytes) -> str:
        return self._decoded(item)


class Strings(Reader):
    """Texts from any iterable."""

    def __init__(self, strings: Iterable[str], tally: Tally, limit: int = LIMIT):
        super().__init__("the texts", iter(()), tally, limit)
        self._strings = strings

    def items(self) -> Iterator[str]:
        for text in self._strings:
            self.since += 1
            yield text

    def text(self, item: Any) -> str | None:
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

    def mend(self, data: bytes) -> bytes:
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
