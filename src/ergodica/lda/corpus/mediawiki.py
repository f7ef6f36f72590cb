"""MediaWiki's export XML: the articles of a dump, in bounded memory whatever is in it."""

import codecs
from collections.abc import Iterator
from xml.parsers import expat

from ergodica.errors import InputError
from ergodica.lda.corpus.formats import NO_DOCUMENT, Parsed, Reader
from ergodica.lda.corpus.labels import LONGEST_LABEL, DocumentLabel
from ergodica.lda.corpus.tally import Tally


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
READ_ELEMENTS = frozenset(["text", "ns", "title", "id", "timestamp"])
LONGEST_TAG = 1 << 20  # bytes; expat keeps a tag or comment until its end and starts again with every chunk


class MediaWiki(Reader):
    """The articles of a dump: pages of namespace 0 that are no redirects; of several revisions the last.

    A dump that is cut off, or whose XML breaks, gives the pages before that and is counted. Read straight by expat:
    ElementTree would hold the whole text of an element before anybody can look at its length.
    """

    def items(self) -> Iterator[Parsed]:
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

    def parsed(self, item: Parsed) -> Parsed:
        from ergodica.lda.corpus.wikitext import plain_text  # no other format needs it

        return Parsed(plain_text(str(item.content)), item.label)

    def _articles(self, pages: "_Pages") -> Iterator[Parsed]:
        found, pages.found = pages.found, []
        for page, reason in found:
            if reason is None:
                self.since += 1
                yield page
            else:
                self.tally.add(reason, self.name if reason == "too_long" else "")


class _Pages:
    """Expat's handlers. `found` has the pages since it was emptied: (page, None) or (no page, why it is left out)."""

    def __init__(self, name: str, limit: int, is_continued: bool):
        self.name, self.limit = name, limit
        self.found: list[tuple[Parsed, str | None]] = []
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
        self._title = self._id = self._date = ""

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
        elif tag in READ_ELEMENTS:
            self._parts, self._size = [], 0
            self._parser.CharacterDataHandler = self._characters

    def _characters(self, data: str) -> None:
        self._size += len(data)
        if self._size <= self.limit:
            self._parts.append(data)
        else:
            self._parts = []

    def _end(self, tag: str) -> None:
        self._depth -= 1
        if tag == "page":
            self.found.append(self._judged())
        elif tag in READ_ELEMENTS:
            self._keep(tag, "".join(self._parts))
            self._parser.CharacterDataHandler = None

    def _keep(self, tag: str, text: str) -> None:
        if tag == "text":
            self._text, self._is_long = text, self._size > self.limit
        elif tag == "ns":
            self._namespace = text.strip()
        elif tag == "title":
            self._title = text[:LONGEST_LABEL]
        elif tag == "timestamp":
            self._date = text.strip()[:LONGEST_LABEL]
        elif self._depth == 2:  # of the page: revisions and their authors have ids as well
            self._id = text.strip()[:LONGEST_LABEL]

    def _judged(self) -> tuple[Parsed, str | None]:
        reason = None
        if self._namespace != "0":
            reason = "namespace"
        elif self._is_redirect or self._text[:40].lstrip().lower().startswith("#redirect"):
            reason = "redirect"
        elif self._is_long:
            reason = "too_long"
        elif not self._text.strip():
            reason = "empty"
        if reason is not None:
            return NO_DOCUMENT, reason
        return Parsed(self._text, DocumentLabel(self._id, self._title, "", self._date)), None
