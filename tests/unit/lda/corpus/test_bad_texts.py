"""Texts from which little or nothing can be learnt: one clear line, or a result with its caveat."""

import random

import pytest

from ergodica.errors import InputError
from ergodica.lda.corpus import Corpus
from tests.unit.lda.corpus.dumps import WORDS, write


def one_line(match, *given, **options):
    with pytest.raises(InputError, match=match) as caught:
        next(Corpus(*given, **options))
    assert "\n" not in str(caught.value)


def test_one_document(tmp_path):
    one_line("there is only one document, .* lines=True", write(tmp_path, "x.txt", b"apple bread\ncider\n"))
    corpus = Corpus(["apple bread"], WORDS)
    assert len(list(corpus)) == 1
    assert corpus.notes() == ["the corpus is a single document, of which no topics can be learnt"]


def test_one_word():
    one_line("no word of the first 3 documents is in at least 2 and at most 1.5", ["bread", "bread bread", "bread"])
    corpus = Corpus(["bread bread", "bread"], ["bread"])
    assert [len(batch) for batch in corpus] == [1]


def test_empty_documents():
    one_line("the first 3 documents have no words: they are empty", ["", " ", "\n"])
    one_line("none of the 2 documents of the texts has two words", ["", ""], WORDS)
    one_line("there are no documents in the texts; texts left out, missing", [None, float("nan")])


def test_letters_the_tokenizer_does_not_know():
    one_line(
        r"have no words: .* or in letters that the tokenizer 'hoffman' does not know",
        ["мир", "мир"],
        tokenizer="hoffman",
    )
    assert Corpus(["мир хлеб", "мир хлеб", "вода", "вода", "море"]).vocabulary.words == ("вода", "мир", "хлеб")


def test_ten_megabytes_are_cut_and_said(tmp_path):
    text = "apple bread " * 900_000
    for given in (
        [text, "cider dough"],
        [write(tmp_path, "x.txt", text.encode()), write(tmp_path, "y.txt", b"dough cider")],
    ):
        corpus = Corpus(given, WORDS)
        assert max(len(row) for row in next(corpus)) == (4 << 20) // 6
        (note,) = corpus.notes()
        assert note.startswith("documents longer than the limit, of which only the beginning is read: 1")
        assert note.endswith("to the first 4,194,304 characters")


TWICE = ["apple bread", "cider dough", "apple bread", "bread apple"] * 2


def test_copies_are_kept_and_counted():
    corpus = Corpus(TWICE, WORDS, passes=2, held_out=1)
    assert sum(map(len, corpus)) == 14
    assert corpus.notes() == ["documents that are exact copies of others, which are kept: 5"]
    corpus.seek(Corpus(TWICE, WORDS, passes=2, held_out=1).cursor)  # and from the beginning again
    assert sum(map(len, corpus)) == 14
    assert corpus.notes() == ["documents that are exact copies of others, which are kept: 5"]


def test_binary_garbage(tmp_path):
    garbage = random.Random(1).randbytes(100_000)
    path = write(tmp_path, "x.txt", garbage)
    one_line("x.txt is not text", path, WORDS)
    one_line("x.txt is not text", write(tmp_path, "x.txt", garbage.replace(b"\0", b"")), WORDS)
    one_line("none of the 1 documents of the texts has two words", [garbage], WORDS)
    write(tmp_path, "y.txt", b"apple bread")
    with Corpus(tmp_path, WORDS) as corpus:
        assert [len(batch) for batch in corpus] == [1]
        assert "files left out, with no text that can be read: 1" in corpus.notes()[0]
