"""Batches from a stream: every document as often as it should be, the same again after a resume, nothing in silence."""

import io
import json
import os
import sys
import threading
import types

import numpy as np
import pytest
from scipy import sparse

from ergodica.errors import InputError
from ergodica.lda.corpus import Corpus, Documents, reading
from ergodica.lda.corpus import corpus as corpora
from tests.read_ahead import no_thread_is_left  # noqa: F401
from tests.unit.lda.corpus.dumps import WORDS, document, dump, lines, multistream, page, write

N = 103
TEXTS = [document(k) for k in range(N)]


@pytest.fixture(autouse=True)
def small_groups(monkeypatch):
    monkeypatch.setattr(reading, "FIRST_GROUP", 5)


def number(words):
    """Which document it is: the inverse of `document`."""
    return int(sum(int(word) * 6**k for k, word in enumerate(words)))


def numbers(batches):
    return [number(words) for batch in batches for words in batch]


def test_every_document_once_a_pass_in_another_order_each_time():
    with Corpus(TEXTS, WORDS, batch_size=7, shuffle_buffer=20, passes=2) as corpus:
        batches = list(corpus)
    assert [len(batch) for batch in batches] == [7] * 29 + [3]
    got = numbers(batches)
    assert sorted(got[:N]) == sorted(got[N:]) == list(range(N))
    assert got[:N] != got[N:]
    assert got[:N] != list(range(N))


def test_the_order_hangs_on_the_seed_alone():
    orders = [
        numbers(Corpus(TEXTS, WORDS, batch_size=b, shuffle_buffer=20, seed=s)) for b, s in [(7, 0), (50, 0), (7, 1)]
    ]
    assert orders[0] == orders[1] != orders[2]
    assert numbers(Corpus(TEXTS, WORDS, shuffle_buffer=1)) == list(range(N))


def test_held_out_documents_are_in_no_batch():
    corpus = Corpus(TEXTS, WORDS, held_out=10, batch_size=7, shuffle_buffer=20, passes=2)
    assert numbers([corpus.held_out]) == list(range(10))
    assert sorted(numbers(corpus)) == sorted([*range(10, N)] * 2)


SOURCES = {
    "jsonl": lambda folder: write(folder, "x.jsonl", lines(TEXTS)),
    "several": lambda folder: [
        write(folder, "x.jsonl.bz2", lines(TEXTS[:50])),
        write(folder, "y.xml.gz", dump([page(text) for text in TEXTS[50:]])),
    ],
    "list": lambda folder: TEXTS,
    "documents": lambda folder: Documents.of([[WORDS.index(word) for word in text.split()] for text in TEXTS]),
}


def made(source, **settings):
    return Corpus(source, WORDS, held_out=5, batch_size=7, shuffle_buffer=20, seed=3, **settings)


def same(left, right):
    return len(left) == len(right) and all(
        a.words.tobytes() == b.words.tobytes() and a.starts.tobytes() == b.starts.tobytes()
        for a, b in zip(left, right, strict=True)
    )


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("given", [0, 1, 5, 14, 20, 28])
def test_the_same_batches_follow_a_cursor(tmp_path, kind, given):
    source = SOURCES[kind](tmp_path)
    with made(source, passes=2) as corpus:
        for _ in range(given):
            next(corpus)
        cursor = json.loads(json.dumps(corpus.cursor))
        rest = list(corpus)
        notes, size = corpus.notes(), corpus.size
    with made(source, passes=2) as other:
        other.seek(cursor)
        assert other.cursor == cursor
        assert same(list(other), rest)
        assert (other.notes(), other.size) == (notes, size)
        other.seek(cursor)  # and back again
        assert same(list(other), rest)


def test_a_cursor_in_a_dump_of_many_streams_begins_at_a_stream(tmp_path):
    path = tmp_path / "x.xml.bz2"
    path.write_bytes(multistream([page(text) for text in TEXTS]))
    corpus = made(str(path))
    for _ in range(10):
        next(corpus)
    cursor = corpus.cursor
    assert cursor["byte"] > path.stat().st_size / 3
    assert cursor["since"] < 4
    rest = list(corpus)
    other = made(str(path))
    other.seek(cursor)
    assert same(list(other), rest)


def test_a_cursor_in_a_plain_file_begins_at_a_line(tmp_path):
    many = [document(k % N) for k in range(8000)]  # 500 kB, two chunks
    path = write(tmp_path, "x.jsonl", lines(many))
    corpus = Corpus(path, WORDS, batch_size=100, shuffle_buffer=100)
    for _ in range(60):
        next(corpus)
    cursor, rest = corpus.cursor, list(corpus)
    assert cursor["byte"] > 200_000
    other = Corpus(path, WORDS, batch_size=100, shuffle_buffer=100)
    other.seek(cursor)
    assert same(list(other), rest)


def piped(monkeypatch, data):
    monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(data)))


def test_standard_input_is_read_once_and_can_be_resumed(monkeypatch):
    piped(monkeypatch, lines(TEXTS))
    with made("-") as corpus:
        for _ in range(6):
            next(corpus)
        cursor, rest = corpus.cursor, list(corpus)
        with pytest.raises(InputError, match="read only once and reading has begun"):
            corpus.seek(cursor)
    piped(monkeypatch, lines(TEXTS))
    with made("-") as other:
        other.seek(cursor)
        assert same(list(other), rest)
    piped(monkeypatch, lines(TEXTS[:20]))
    with made("-") as other, pytest.raises(InputError, match="end before the place"):
        other.seek(cursor)
    with pytest.raises(InputError, match="passes is 2, but - can be read only once"):
        made("-", passes=2)


def test_a_pipe_with_a_name_is_read_once(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(InputError, match="pipe can be read only once"):
        made(str(path), passes=2)
    writer = threading.Thread(target=path.write_bytes, args=(lines(TEXTS),))
    writer.start()
    assert sorted(numbers(made(str(path)))) == list(range(5, N))
    writer.join()


def test_a_cursor_of_another_corpus_is_refused():
    cursor = made(TEXTS).cursor
    for other in (made(TEXTS[1:]), Corpus(TEXTS, WORDS, seed=3), Corpus(TEXTS, WORDS[:-1], held_out=5)):
        with pytest.raises(InputError, match="the cursor is of another corpus"):
            other.seek(cursor)
    with pytest.raises(InputError, match="the cursor has no byte"):
        made(TEXTS).seek({name: value for name, value in cursor.items() if name != "byte"})


def test_size_and_progress(tmp_path):
    corpus = made(TEXTS, passes=2)
    assert (corpus.size, corpus.expected_size) == (None, None)
    shares = [corpus.progress]
    for _ in corpus:
        shares.append(corpus.progress)
        assert corpus.expected_size == N - 5
    assert shares == sorted(shares)
    assert shares[0] == pytest.approx(5 / N / 2)
    assert shares[-1] == 1.0
    assert corpus.size == N - 5
    assert made(SOURCES["documents"](tmp_path)).size == N - 5
    assert made(iter(TEXTS)).progress is None


@pytest.mark.parametrize("count", [5, 15, 34, 35, 36])
def test_the_size_is_known_after_a_pass_however_it_ends(count):
    corpus = Corpus(TEXTS[:count], WORDS, batch_size=5, shuffle_buffer=20)  # groups of 5, 10, 20
    assert sum(len(batch) for batch in corpus) == count == corpus.size
    assert corpus.progress == 1.0
    again = Corpus(TEXTS[:count], WORDS, batch_size=5, shuffle_buffer=20)
    again.seek(corpus.cursor)
    assert list(again) == []


def test_progress_by_bytes(tmp_path):
    many = [document(k % N) for k in range(20_000)]
    corpus = Corpus(write(tmp_path, "x.jsonl", lines(many)), WORDS, batch_size=1000, shuffle_buffer=1000)
    shares = [corpus.progress for _ in corpus]
    assert np.max(np.abs(np.array(shares) - np.linspace(0.05, 1, 20))) < 0.25  # chunks of 256 of 1,300 kB
    assert shares[-1] == 1.0


def test_short_documents_are_a_counted_skip_whatever_the_pass():
    texts = ["apple", "", "apple unknown", *TEXTS[:10], "unknown words"]
    corpus = Corpus(texts, WORDS, batch_size=5, passes=2)
    assert sorted(numbers(corpus)) == sorted([*range(10)] * 2)
    assert corpus.notes() == ["documents left out, shorter than two words of the vocabulary: 4"]
    assert corpus.size == 10


def test_bad_lines_are_counted_once_after_a_resume_too(tmp_path):
    content = b"".join(lines([text]) + b"bad\n" for text in TEXTS)
    path = write(tmp_path, "x.jsonl", content)
    corpus = made(path)
    for _ in range(9):
        next(corpus)
    other = made(path)
    other.seek(corpus.cursor)
    for each in (corpus, other):
        list(each)
        assert f"not a JSON object with the field of the text: {N}" in each.notes()[0]


@pytest.mark.parametrize("vocabulary", [WORDS, None])
@pytest.mark.parametrize("source", [[], iter([]), "empty.jsonl", "empty.xml"])
def test_an_empty_corpus_is_one_clear_line(tmp_path, source, vocabulary):
    if isinstance(source, str):
        source = write(tmp_path, source, b"" if "json" in source else dump([page("x", namespace=1)]))
    with pytest.raises(InputError, match="there are no documents in") as caught:
        next(Corpus(source, vocabulary))
    assert "\n" not in str(caught.value)


def test_no_word_in_the_vocabulary_is_one_clear_line():
    for settings in ({}, {"held_out": 2}):
        with pytest.raises(InputError, match="none of the 103 documents of the texts has two words of the vocabulary"):
            next(Corpus(TEXTS, ["nothing"], **settings))


def test_more_held_out_than_there_are():
    with pytest.raises(InputError, match="held_out is 200, but there are only 103"):
        Corpus(TEXTS, WORDS, held_out=200)
    with pytest.raises(InputError, match="all 103 documents of the texts are held out"):
        next(Corpus(TEXTS, WORDS, held_out=103))


@pytest.mark.parametrize("given", [list, iter])
def test_a_vocabulary_built_from_the_first_documents(monkeypatch, given):
    monkeypatch.setattr(corpora, "VOCABULARY_DOCUMENTS", 40)
    pairs = [f"the {WORDS[k % 6]} {WORDS[(k + 1) % 6]}" for k in range(100)]
    corpus = Corpus(given(["xy " + pairs[0], *pairs[1:], "zebra zebra"]), held_out=2)
    assert sorted(corpus.vocabulary.words) == sorted(WORDS)
    assert len(corpus.held_out) == 2
    assert sum(len(batch) for batch in corpus) == 98  # what was read for the vocabulary is given out too
    assert corpus.notes() == [
        "documents left out, shorter than two words of the vocabulary: 1",
        "documents that are exact copies of others, which are kept: 93",
    ]


def test_a_matrix_of_counts():
    matrix = sparse.random(40, 30, density=0.3, random_state=1, format="csr")
    matrix.data = np.ceil(matrix.data * 3)
    corpus = Corpus(matrix, batch_size=10, shuffle_buffer=1)
    got = Documents.concatenate(list(corpus))
    again = sparse.csr_matrix(got.to_csr(30), shape=(len(got), 30))
    np.testing.assert_array_equal(again.toarray(), matrix.toarray()[matrix.sum(axis=1).A1 >= 2])
    assert corpus.vocabulary.words[3] == "word3"
    with pytest.raises(InputError, match="the vocabulary has 6 words: expected 30"):
        Corpus(matrix, WORDS)


def test_what_goes_wrong_while_reading_ahead_arrives(tmp_path):
    good, bad = write(tmp_path, "a.jsonl", lines(TEXTS)), write(tmp_path, "b.xml", b"<!DOCTYPE x><x/>")
    corpus = Corpus([good, bad], WORDS, batch_size=5, shuffle_buffer=20)
    with pytest.raises(InputError, match="DOCTYPE"):
        list(corpus)
    corpus.close()
    with pytest.raises(InputError, match="was closed"):
        next(corpus)


@pytest.mark.parametrize(
    "settings", [{"held_out": -1}, {"batch_size": 0}, {"shuffle_buffer": 1.5}, {"passes": 0}, {"seed": True}]
)
def test_settings_that_make_no_sense(settings):
    with pytest.raises(InputError, match=f"{next(iter(settings))} is .*: expected a whole number"):
        Corpus(TEXTS, WORDS, **settings)
