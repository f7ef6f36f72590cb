"""MediaWiki's export XML, as dumps of Wikipedia have it, read page by page in bounded memory.

Straight on expat: ElementTree would hold the whole text of an element before anybody can look at its length.
"""

from collections.abc import Iterator
from xml.parsers import expat

from ergodica.errors import InputError
from ergodica.lda.corpus.texts import Reader, Utf8
from ergodica.lda.corpus.wikitext import plain_text

DEEPEST = 50  # elements inside each other; an export has 5
LONGEST_TAG = 1 << 20  # bytes; expat keeps a tag or comment until its end and begins anew with every chunk


class MediaWiki(Reader):
    """The articles of a dump: pages of namespace 0 that are no redirects; of several revisions the last.

    A dump that is cut off, or whose XML breaks, gives the pages before that and is counted.
    """

    def items(self) -> Iterator[str]:
        pages = _Pages(self.name, self.limit, self.is_continued)
        utf8 = Utf8(self.name, self.tally)
        try:
            for data, restart in self.chunks:
                if restart is not None and self.is_packed and pages.is_between:
                    self._may_restart(restart)
                pages.feed(utf8.mend(data))
                yield from self._articles(pages)
            if not (self.is_continued and pages.is_between):  # a piece of a dump need not have its end
                pages.feed(b"", is_last=True)
        except expat.ExpatError as error:
            yield from self._articles(pages)
            if not self.tally.counts["cut_off"]:  # else the decompressor has just said so
                self.tally.add("cut_off", f"{self.name}, line {error.lineno:,}: {expat.ErrorString(error.code)}")

    def text(self, item: str) -> str:
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
        if self._depth > DEEPEST:
            raise InputError(f"{self.name} has elements {DEEPEST} deep: that is no MediaWiki export")
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
