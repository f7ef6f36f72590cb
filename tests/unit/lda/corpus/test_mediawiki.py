"""Dumps: which pages are read, and what hostile or broken ones cost."""

import bz2
import tracemalloc

import pytest

from ergodica.errors import InputError
from ergodica.lda.corpus import texts
from ergodica.lda.corpus.mediawiki import MediaWiki
from ergodica.lda.corpus.opening import Chunk
from ergodica.lda.corpus.tally import Tally
from tests.unit.lda.corpus.dumps import document, dump, multistream, page, write

PAGES = [page(document(k)) for k in range(20)]


def read(path, **settings):
    tally = Tally()
    return list(texts(path, tally, **settings)), tally


@pytest.mark.parametrize("version", [10, 11])
@pytest.mark.parametrize("name", ["x.xml", "x.xml.bz2", "x.xml.gz", "no_suffix"])
def test_articles_alone_are_read(tmp_path, name, version):
    pages = [
        page("first [[link|words]]"),
        page("a talk", namespace=1),
        page("#REDIRECT [[x]]", redirect=True),
        page(" #redirect [[x]]"),
        page(""),
        "<page><title>t</title><ns>0</ns><revision><text bytes='0' /></revision></page>",
        "<page><title>t</title><ns>0</ns><revision><text>old</text></revision><revision><text>new</text></revision></page>",
        page("last &amp; <ref>note</ref>"),
    ]
    got, tally = read(write(tmp_path, name, dump(pages, version)))
    assert got == ["first words", "new", "last & "]
    assert tally.counts == {"namespace": 1, "redirect": 2, "empty": 2}


def test_all_streams_of_a_multistream_dump(tmp_path):
    path = tmp_path / "x.xml.bz2"
    path.write_bytes(multistream(PAGES))
    got, tally = read(str(path))
    assert got == [document(k) for k in range(20)]
    assert tally.notes() == []


def test_a_piece_of_a_multistream_dump_has_no_root(tmp_path):
    got, tally = read(write(tmp_path, "x.bz2", "".join(PAGES[:3]).encode()))
    assert got == [document(k) for k in range(3)]
    assert tally.notes() == []


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_dump_cut_off_keeps_its_pages(tmp_path, is_packed):
    data = dump(PAGES * 3)
    path = tmp_path / "x.xml"
    path.write_bytes(bz2.compress(data)[:-20] if is_packed else data[: len(data) // 2])
    got, tally = read([str(path), write(tmp_path, "whole.xml", dump(PAGES))])
    assert got[-20:] == [document(k) for k in range(20)]  # later files go on
    assert len(got) == (20 if is_packed else 20 + 29)  # one bz2 block: nothing of it can be had
    assert tally.counts["cut_off"] == 1
    assert f"first: {path}, " in tally.notes()[0]


def test_xml_that_breaks_keeps_the_pages_before(tmp_path):
    got, tally = read(write(tmp_path, "x.xml", dump([*PAGES[:2], "<page></wrong>", *PAGES])))
    assert got == [document(0), document(1)]
    assert tally.notes() == [
        f"files cut off or damaged (what came before is kept): 1; first: {tmp_path}/x.xml, line 4: mismatched tag"
    ]


BOMB = (
    '<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "ha"><!ENTITY b "'
    + "&a;" * 10
    + '"><!ENTITY c "'
    + "&b;" * 10
    + '">]>'
)


@pytest.mark.parametrize("start", [BOMB, "<!DOCTYPE mediawiki SYSTEM 'http://x.org/x.dtd'>\n"])
def test_doctype_and_entities_are_refused(tmp_path, start):
    with pytest.raises(InputError, match=r"x.xml has a DOCTYPE \(") as caught:
        read(write(tmp_path, "x.xml", start.encode() + dump([page("a &c; b")])))
    assert "\n" not in str(caught.value)


def test_an_entity_nobody_declared_breaks_the_xml(tmp_path):
    broken = "<page><ns>0</ns><revision><text>a &bomb; b</text></revision></page>"
    got, tally = read(write(tmp_path, "x.xml", dump([PAGES[0], broken])))
    assert got == [document(0)]
    assert "undefined entity" in tally.notes()[0]


def test_a_page_of_a_gigabyte_is_a_counted_skip_in_bounded_memory():
    """Its bytes are made as they are read; 64 MB stand for 1 GB, as nothing of it is kept."""
    filler = b"x" * 250_000

    def chunks():
        yield Chunk(dump([PAGES[0]])[: -len("</mediawiki>\n")] + b"<page><ns>0</ns><revision><text>", 0)
        for _ in range(256):
            yield Chunk(filler, None)
        yield Chunk(("</text></revision></page>" + PAGES[1] + "</mediawiki>").encode(), None)

    tally = Tally()
    reader = MediaWiki("x.xml", chunks(), tally, limit=1 << 20)
    tracemalloc.start()
    got = [page.content for page in reader.items()]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert got == [document(0), document(1)]
    assert tally.notes() == ["documents left out, longer than the limit: 1; first: x.xml"]
    assert peak < 6_000_000


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("<page title='" + "x" * 3_000_000, "tag or comment longer than 1 MB"),
        ("<!--" + "x" * 3_000_000, "tag or comment longer than 1 MB"),
        ("<a>" * 1000, "elements 50 deep"),
    ],
)
def test_other_ways_to_fill_memory(tmp_path, body, message):
    with pytest.raises(InputError, match=message):
        read(write(tmp_path, "x.xml", dump([body])))


def test_text_that_is_not_utf8_is_replaced_and_counted(tmp_path):
    data = dump([page("caf? " + "x" * 300_000), page("é" * 300_000)]).replace(b"caf?", b"caf\xe9")
    got, tally = read(write(tmp_path, "x.xml", data))
    assert got == ["caf\ufffd " + "x" * 300_000, "é" * 300_000]  # letters across chunks are not broken
    assert tally.notes() == [f"places that are not UTF-8, read as U+FFFD: 1; first: {tmp_path}/x.xml"]


def test_other_xml_is_refused(tmp_path):
    with pytest.raises(InputError, match="XML with the root <rss>: expected <mediawiki>"):
        read(write(tmp_path, "x.xml", b"<?xml version='1.0'?><rss></rss>"))
