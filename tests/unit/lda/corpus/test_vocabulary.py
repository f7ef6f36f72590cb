"""Words and their numbers."""

import pytest

from ergodica.errors import InputError
from ergodica.lda.corpus import Vocabulary, words
from ergodica.lda.corpus.tokenizing import stop_words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Lower CASE", "lower case"),
        ("well-known", "well known"),
        ("a\nb\r\nc\td", "a b c d"),
        ("don't, 42nd; naïve", "dont nd naïve"),
        ("日本語 \ud800 x", "日本語 x"),
        ("", ""),
    ],
)
def test_tokeniser(text, expected):
    assert " ".join(words(text)) == expected


def test_words_that_are_not_in_it_are_dropped():
    vocabulary = Vocabulary(["river", "bank"])
    assert vocabulary.ids("The bank of a River-bank").tolist() == [1, 0, 1]
    assert vocabulary.ids("").tolist() == []


def test_from_a_file_and_back(tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes("\ufeffriver\r\n bank \n\nété\n".encode())
    vocabulary = Vocabulary.read(path)
    assert vocabulary.words == ("river", "bank", "été")
    vocabulary.write(path)
    assert Vocabulary.read(path).digest() == vocabulary.digest() != Vocabulary(["bank", "river"]).digest()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"river\nbank\nriver\n", r"words.txt has 'river' twice, as words 1 and 3"),
        (b"\n \n", "words.txt has no words"),
        (b"ok\n\xff\xfe", "words.txt is not UTF-8 at byte 3"),
        (b'{"text": "x"}\n', "no word that a text can have"),
    ],
)
def test_bad_files_are_one_clear_line(tmp_path, content, message):
    path = tmp_path / "words.txt"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        Vocabulary.read(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="could not be read: No such file"):
        Vocabulary.read(tmp_path / "none.txt")


def test_built_by_document_frequency():
    texts = ["the apple bread bread", "the apple cider", "the apple bread xy", "the dough bread zz", "the", "the"]
    assert Vocabulary.build(texts).words == ("apple", "bread")  # rare, frequent, short and stop words are left out
    assert Vocabulary.build(texts, size=1).words == ("apple",)
    assert Vocabulary.build(texts, min_documents=1).words == ("apple", "bread", "cider", "dough")
    assert Vocabulary.build(texts, min_documents=1, max_share=0.2).words == ("cider", "dough")
    assert "the" in stop_words()


def test_nothing_to_build_of():
    with pytest.raises(InputError, match="there is only one document"):
        Vocabulary.build(["one text alone"])
