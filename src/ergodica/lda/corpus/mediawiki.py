"""MediaWiki's export XML, as dumps of Wikipedia have it, read page by page in bounded memory.

Straight on expat: ElementTree would hold the whole text of an element before anybody can look at its length.
"""

from collections.abc import Iterator
from xml.parsers import expat

from ergodica.errors import InputError
from ergodica.lda.corpus.tally import Tally
from ergodica.lda.corpus.texts import Reader, Utf8
from ergodica.lda.corpus.wikitext import plain_text

DEEPEST = 50  # elements inside each other; an export has 5
LONGEST_TAG = 1 << 20  # bytes; expat keeps a tag or comment until its end and begins anew with every chunk
ROOT = b"<mediawiki>"


class MediaWiki(Reader):
    """The articles of a dump: pages of namespace 0 that are no redirects; of several revisions the last.

    A dump that is cut off, or whose XML breaks, gives the pages before that and is counted.
    """

    def items(self) -> Iterator[str]:
        pages = _Pages(self.name, self.limit)
        utf8 = Utf8(self.name, self.tally)
        if self.is_continued:
            pages.feed(ROOT)
        try:
            for data, restart in self.chunks:
                if restart is not None and pages.is_between and self.is_packed:
                    self.byte, self.since = restart, 0
                yield from self._articles(pages.feed(utf8.mend(data)))
            pages.feed(b"", is_last=True)
        except expat.ExpatError as error:
            yield from self._articles(pages.found)
            self.tally.add("cut_off", f"{self.name}, line {error.lineno:,} of its XML: {expat.ErrorString(error.code)}")

    def text(self, item: str) -> str:
        return plain_text(item)

    def _articles(self, found: list[str | None]) -> Iterator[str]:
        for page, reason in found:
            if reason is None:
                self.since += 1
                yield page
            else:
                self.tally.add(reason, page)
