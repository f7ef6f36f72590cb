"""MediaWiki's export XML, the articles of a dump in bounded memory whatever is in it; and wikitext to plain text.

Of wikitext, templates, tables, references and tags go, the words of links and headings stay. One pass over the mark-up
with a stack, so that the time is linear in the length whatever is nested in what: an opening mark remembers how much
had been written; its closing mark takes away what was written since, or leaves it. A mark that is never closed takes
nothing away.
"""

import codecs
import html
import re
from collections.abc import Iterator
from xml.parsers import expat

from ergodica.errors import InputError
from ergodica.lda.corpus.documents import LONGEST_LABEL, DocumentLabel
from ergodica.lda.corpus.formats import NO_DOCUMENT, Parsed, Reader
from ergodica.lda.corpus.tally import Tally

# Linear: an attempt ends, or fails, before the next place where one of its own kind can begin. A link with no mark
# inside is one mark, as most are.
_ANY_MARK = re.compile(
    r"""(\{\{|\}\}|\{\||\|\}(?!\})|\[\[(?:[^\[\]{}<]*\]\])?|\]\]?|\[(?:https?:|ftp:|mailto:|//)[^\s\]]*|</?[a-zA-Z][^<>]*>|__[A-Z]+__)"""
)
_WEB_ADDRESS = re.compile(r"https?://[^\s<>\[\]{}|]+")
_HTML_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z][a-zA-Z0-9]{1,30});")
_LINE_MARK = re.compile(r"\n[*#:;=\-|!]+")
_TAG_NAME = re.compile(r"</?([a-zA-Z]+)")
# Links that are not read as words: pictures, categories, and the same page in other languages.
_UNREAD_LINK = re.compile(
    r"\s*(?:file|image|media|category|datei|fichier|archivo|immagine|bild|kategorie|catégorie|categoría|categoria"
    r"|[a-z]{2,3}|simple|zh-[a-z-]+|be-[a-z-]+):",
    re.IGNORECASE,
)
_UNREAD_TAGS = frozenset(
    ["ref", "references", "math", "chem", "ce", "gallery", "timeline", "score", "syntaxhighlight", "source", "hiero"]
    + ["imagemap", "graph", "templatedata", "mapframe", "maplink", "indicator", "inputbox", "style", "script"]
)
_LITERAL_TAGS = frozenset(["nowiki", "pre"])
_OPAQUE_TAGS = _UNREAD_TAGS | _LITERAL_TAGS
_BREAKING_TAGS = frozenset(
    ["br", "p", "div", "li", "ul", "ol", "dl", "dd", "dt", "tr", "td", "th", "table", "hr", "blockquote"]
)
_DEEPEST_MARK = 1000  # marks open at once; MediaWiki itself stops at 40 templates

_IN_TEMPLATE, _IN_TABLE, _IN_LINK, _IN_UNREAD, _IN_OUTER = range(5)


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


def plain_text(wikitext: str) -> str:
    """The words of a page as a reader sees them.

    >>> plain_text("'''Oslo''' is {{small|the}} [[capital city|capital]] of [[Norway]].<ref>Statistics</ref>")
    'Oslo is  capital of Norway.'
    """
    text = _without_comments(wikitext)
    text = "".join(_written(_ANY_MARK.split(text)))
    text = _WEB_ADDRESS.sub("", text)
    text = _LINE_MARK.sub("\n", text)
    for mark in ("'''", "''", "====", "===", "=="):
        text = text.replace(mark, "")
    return _HTML_ENTITY.sub(lambda match: html.unescape(match[0]), text) if "&" in text else text


def _without_comments(text: str) -> str:
    kept, at = [], 0
    while (start := text.find("<!--", at)) >= 0 and (stop := text.find("-->", start + 4)) >= 0:
        kept.append(text[at:start])
        at = stop + 3
    kept.append(text[at:])
    return "".join(kept)


def _written(pieces: list[str]) -> list[str]:
    """What stays of text (even places) and marks (odd places)."""
    page = _Page(pieces[0])
    ends = _last_ends(pieces)
    at = 1
    while at < len(pieces):
        mark, text = pieces[at], pieces[at + 1]
        first = mark[0]
        if first == "<":
            name = _tag_name(mark)
            if ends.get(name, 0) > at and mark[1] != "/" and mark[-2] != "/":
                stop = _end(pieces, at, name)
                if name in _LITERAL_TAGS:
                    page.out.extend(pieces[at + 1 : stop])
                at, text = stop, pieces[stop + 1]
            elif name in _BREAKING_TAGS:
                page.out.append("\n")
        elif first == "{":
            page.open_block(mark)
        elif first == "[":
            if mark[-1] == "]":
                page.out.append("" if _UNREAD_LINK.match(mark, 2) else mark[mark.find("|") + 1 or 2 : -2])
            else:
                text = page.open_link(mark, text)
        elif first == "]":
            if mark == "]" and not page.has_outer:
                page.out.append(mark)
            page.close_link(mark)
        elif first != "_":
            page.close_block(_IN_TEMPLATE if mark == "}}" else _IN_TABLE)
        page.out.append(text)
        at += 2
    return page.out


class _Page:
    """What was written, and the marks that are open: each with how much had been written before it."""

    def __init__(self, text: str):
        self.out = [text]
        self._stack: list[tuple[int, int]] = []
        self._open = [0] * 5  # of each kind, so that a closing mark with nothing to close costs nothing

    @property
    def has_outer(self) -> bool:
        """Whether what was opened last is a link to the world outside."""
        return bool(self._stack) and self._stack[-1][0] == _IN_OUTER

    def open_block(self, mark: str) -> None:
        if mark == "{{":
            self._push(_IN_TEMPLATE)
        else:
            before = self.out[-1].rstrip(" :")
            if not before or before[-1] == "\n":  # a table begins a line
                self._push(_IN_TABLE)

    def open_link(self, mark: str, text: str) -> str:
        """Gives what stays of the text after the mark: of [[page|words]] the words."""
        if mark != "[[":
            self._push(_IN_OUTER)
        elif _UNREAD_LINK.match(text):
            self._push(_IN_UNREAD)
        else:
            self._push(_IN_LINK)
            return text[text.find("|") + 1 :]
        return text

    def close_link(self, mark: str) -> None:
        """A bracket closes what is open last, and only that: inside a template a stray one is text."""
        if self.has_outer:
            self._pop()
        if mark == "]]" and self._stack and self._stack[-1][0] in (_IN_LINK, _IN_UNREAD):
            kind, start = self._pop()
            if kind == _IN_UNREAD:
                del self.out[start:]

    def close_block(self, kind: int) -> None:
        """The end of a template or a table closes whatever was left open in it."""
        while self._open[kind]:
            found, start = self._pop()
            if found == kind:
                del self.out[start:]
                return

    def _push(self, kind: int) -> None:
        if len(self._stack) < _DEEPEST_MARK:
            self._stack.append((kind, len(self.out)))
            self._open[kind] += 1

    def _pop(self) -> tuple[int, int]:
        kind, start = self._stack.pop()
        self._open[kind] -= 1
        return kind, start


def _tag_name(mark: str) -> str:
    match = _TAG_NAME.match(mark)
    return match[1].lower() if match else ""


def _last_ends(pieces: list[str]) -> dict[str, int]:
    """Where the last closing tag of each kind is whose inside is not wikitext."""
    ends = {}
    for at in range(1, len(pieces), 2):
        if pieces[at].startswith("</") and (name := _tag_name(pieces[at])) in _OPAQUE_TAGS:
            ends[name] = at
    return ends


def _end(pieces: list[str], at: int, name: str) -> int:
    """Where the next closing tag of this kind is; there is one."""
    while not (pieces[at].startswith("</") and _tag_name(pieces[at]) == name):
        at += 2
    return at
