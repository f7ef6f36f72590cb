"""JSON lines, WikiExtractor's output, folders, texts: recognised by what they are."""

import json

import pytest

from ergodica.errors import InputError
from ergodica.lda.corpus import texts
from ergodica.lda.corpus.tally import Tally
from tests.unit.lda.corpus.dumps import document, dump, lines, page, write

DOCUMENTS = [document(k) for k in range(10)]
EXTRACTED = "".join(
    f'<doc id="{k}" url="u" title="t">\n{text}\n\n</doc>\n' for k, text in enumerate(DOCUMENTS)
).encode()


def read(source, **settings):
    tally = Tally()
    return list(texts(source, tally, **settings)), tally


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.bz2", "x.json.gz", "x"])
def test_json_lines(tmp_path, name):
    got, tally = read(write(tmp_path, name, lines(DOCUMENTS)))
    assert got == DOCUMENTS
    assert tally.notes() == []


def test_lines_that_are_not_json_are_counted(tmp_path):
    bad = [b"not json", b"[1, 2]", b'{"title": "x"}', b'{"text": 5}', b"[" * 100_000, b'{"n": ' + b"9" * 5000 + b"}"]
    content = b'\xef\xbb\xbf{"text": "first"}\n\n' + b"\n".join(bad) + b'\r\n{"text": "last"}'
    got, tally = read(write(tmp_path, "x.jsonl", content))
    assert got == ["first", "last"]
    assert tally.notes() == [
        f"lines left out, not a JSON object with the field of the text: 6; first: {tmp_path}/x.jsonl: b'not json'"
    ]


def test_json_that_is_not_utf8_is_replaced_and_counted(tmp_path):
    got, tally = read(write(tmp_path, "x.jsonl", b'{"text": "caf\xe9 \xff\xfe"}\n{"text": "\xc3\xa9 \\ud800"}\n'))
    assert got == ["caf\ufffd \ufffd\ufffd", "é \ud800"]
    assert tally.counts == {"not_utf8": 3}


def test_a_long_document_is_cut_and_a_line_without_end_left_out(tmp_path):
    content = lines(["first"]) + b'{"text": "' + b"x" * 900_000 + b'"}\n' + lines(["last"])
    path = write(tmp_path, "x.jsonl", content)
    got, tally = read(path, limit=1000)  # a line may have eight times the limit
    assert got == ["first", "last"]
    assert tally.counts == {"too_long": 1}
    got, tally = read(path, limit=500_000)
    assert got == ["first", "x" * 500_000, "last"]
    assert tally.notes() == [
        "documents longer than the limit, of which only the beginning is read: 1; "
        f"first: {path}, to the first 500,000 characters"
    ]


@pytest.mark.parametrize("name", ["wiki_00", "wiki_00.bz2", "wiki.txt"])
def test_extracted_by_wikiextractor(tmp_path, name):
    got, tally = read(write(tmp_path, name, EXTRACTED))
    assert [text.strip() for text in got] == DOCUMENTS
    got, tally = read(write(tmp_path, name, EXTRACTED[:-10]), limit=100)
    assert len(got) == 9
    assert tally.counts == {"cut_off": 1}
    for gap in (b" ", b"\n"):
        long = EXTRACTED.replace(b"apple", (b"apple" + gap) * 100, 1)
        got, tally = read(write(tmp_path, name, long), limit=100)
        assert got[0] == ((b"apple" + gap) * 100)[:100].decode()
        assert len(got) == 10
        assert tally.counts == {"cut": 1}


def test_a_folder_with_everything_in_it(tmp_path):
    (tmp_path / "AA").mkdir()
    (tmp_path / ".git").mkdir()
    write(tmp_path, "b.txt", b"plain text caf\xe9")
    write(tmp_path, ".git/hidden", b"no")
    write(tmp_path, "AA/wiki_00", EXTRACTED)
    write(tmp_path, "AA/wiki_01", lines(["as json"]))
    write(tmp_path, "c.xml.bz2", dump([page("a page")]))
    write(tmp_path, "d.png", b"\x89PNG\0\0\0")
    write(tmp_path, "e.txt", b"")
    got, tally = read(tmp_path)
    assert [text.strip() for text in got] == [*DOCUMENTS, "as json", "plain text caf\ufffd", "a page", ""]
    assert tally.counts == {"unreadable": 1, "not_utf8": 1}
    assert "d.png" in tally.notes()[0]


def test_texts_from_any_iterable():
    assert read(["two words", "", "caf\udce9 x"])[0] == ["two words", "", "caf\udce9 x"]
    assert read(iter(["one"]))[0] == ["one"]
    got, tally = read(iter(["one", None, 3, b"four", "long" * 10]), limit=20)
    assert got == ["one", "four", "long" * 5]
    assert tally.counts == {"bad_text": 1, "no_text": 1, "cut": 1}


def test_a_list_of_places_and_a_list_of_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "my corpus.txt", b"from a file")
    assert read(["my corpus.txt"])[0] == ["from a file"]
    assert read(["my corpus.txt", "a text of words"])[0] == ["my corpus.txt", "a text of words"]
    with pytest.raises(InputError, match=r"there is no file or folder 'typo.jsonl'"):
        read(["my corpus.txt", "typo.jsonl"])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.zip", b"PK\x03\x04rest", "is a zip archive .*: unpack it, or save it as text"),
        ("x.png", b"\x89PNG\r\n\x1a\n\0", "is not text"),
        ("x.pdf", b"%PDF-1.4", "is not text"),
        ("x.xml", b"<!DOCTYPE html><html>", "is a web page"),
        ("x.json", json.dumps([{"text": "x"}]).encode(), "is one JSON array"),
        ("x.txt", "words".encode("utf-16"), "is UTF-16: save it as UTF-8"),
    ],
)
def test_what_cannot_be_read_is_one_clear_line(tmp_path, name, content, message):
    with pytest.raises(InputError, match=message) as caught:
        read(write(tmp_path, name, content))
    assert "\n" not in str(caught.value)


def test_things_that_are_no_corpus(tmp_path):
    for nothing in (5, None, b"bytes"):
        with pytest.raises(InputError, match="for a corpus: expected"):
            read(nothing)
    with pytest.raises(InputError, match="has no files"):
        read(tmp_path)
