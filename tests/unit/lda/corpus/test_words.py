"""Text to words: any language, tokenisers by name or by function, stop words, phrases, words that can never match."""

import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.lda.corpus import Corpus, Reading, Vocabulary, words
from ergodica.lda.corpus.tokenizing import (
    STOP_LANGUAGES,
    TOKENIZERS,
    hoffman,
    is_unspaced,
    stop_words,
    tokenizer_called,
    tokenizer_of,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("and/or e-mail.address", "and or e mail address"),
        ("Käse ÄPFEL straße", "käse äpfel straße"),
        ("cafe\u0301 Cafe\u0301", "café café"),  # NFC
        ("don't don\u2019t 'quoted'", "dont dont quoted"),
        ("covid19 2nd b2b", "covid nd b b"),
        ("ПРИВЕТ, мир\u2014ёж", "привет мир ёж"),
        ("हिन्दी में", "हिन्दी में"),  # marks are part of a word
        ("مرحبا بالعالم", "مرحبا بالعالم"),
        ("안녕하세요 세계", "안녕하세요 세계"),
        ("co\u00adoperate \u2764\ufe0f x\u00a0y", "cooperate x y"),
        ("new_york \ud800 z", "new york z"),
        ("ΟΔΟΣ", "οδος"),
        ("İstanbul", "istanbul"),
    ],
)
def test_words_of_any_language(text, expected):
    assert " ".join(words(text)) == expected


def test_ascii_and_other_text_are_split_by_the_same_rules():
    text = "It's a well-known fact/rumour (1984): x_y; e.g. A+B"
    assert words(text + " é")[:-1] == words(text)


def test_a_long_run_without_spaces_is_one_word():
    assert words("é" * 1000 + "!") == ["é" * 1000]


def test_hoffman_is_as_it_was():
    text = "The and/or Poincaré don't\u2014Stop 2nd\nwell-known"
    assert b" ".join(hoffman(text)) == b"the andor poincar dontstop nd well known"
    assert Vocabulary(["andor"], tokenizer="hoffman").ids("and/or").tolist() == [0]
    assert Vocabulary(["andor", "and"]).ids("and/or").tolist() == [1]


def stems(text):
    return [word[:4] for word in text.split()]


def test_a_tokenizer_of_ones_own():
    vocabulary = Vocabulary(["ship", "Brea"], tokenizer=stems)
    assert vocabulary.ids("shipping Bread").tolist() == [0, 1]
    assert vocabulary.tokenizer.name == f"{stems.__module__}.stems"
    assert Vocabulary(["Ship!"], tokenizer="whitespace").ids("ship Ship! ").tolist() == [0]
    digests = {Vocabulary(["ship"], tokenizer=given).digest() for given in (None, "hoffman", "whitespace", stems)}
    assert len(digests) == 4
    assert Vocabulary(["ship"]).digest() == Vocabulary(["ship"], tokenizer="words").digest()


def test_the_vocabulary_built_with_it_has_no_limits_of_length():
    texts = ["ab cd", "ab ef", "gh cd", "ij kl", "mn op"]
    assert Corpus(texts, tokenizer=str.split, stopwords=()).vocabulary.words == ("ab", "cd")
    # punctuation and white space that it gives are no words
    assert Corpus(["a, \n", "a, \n", "b", "c"], tokenizer=list, stopwords=()).vocabulary.words == ("a",)
    assert Corpus(["서울 도시", "서울 한강", "도시 공원", "공원 나무"]).vocabulary.words == ("공원", "도시", "서울")


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        ("spacy", "tokenizer is 'spacy': expected one of words, hoffman, whitespace, or a function"),
        (5, "tokenizer is 5"),
        (lambda text: [1], "gave a int among the words of 'some text'"),
        (lambda text: 1 / 0, "failed on the text 'some text' with ZeroDivisionError: division by zero"),
    ],
)
def test_tokenizers_that_do_not_work(tokenizer, message):
    with pytest.raises(InputError, match=message) as caught:
        Vocabulary(["text"], tokenizer=tokenizer).ids("some text")
    assert "\n" not in str(caught.value)


def test_a_saved_tokenizer_that_was_a_function_is_asked_for_again():
    assert tokenizer_called("hoffman") is TOKENIZERS["hoffman"] is tokenizer_of("hoffman")
    with pytest.raises(InputError, match=r"tokenizer jieba\.lcut, which is not saved"):
        Vocabulary(["x"], tokenizer=tokenizer_called("jieba.lcut")).ids("x")


CHINESE = ["北京是中华人民共和国的首都和直辖市。", "上海是中国最大的城市之一，位于长江口。", "我们喜欢机器学习和统计。"]


@pytest.mark.parametrize(
    "text",
    [
        *CHINESE,
        "東京は日本の首都です。",
        "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย",
        "ភ្នំពេញគឺជារាជធានី",
        "ရန်ကုန်မြို့သည်",
        "ນະຄອນຫຼວງວຽງຈັນ",
    ],
)
def test_scripts_without_spaces_are_known(text):
    assert is_unspaced(text)
    assert not is_unspaced(text[:3] + " und viele andere Worte")


def test_they_need_a_tokenizer():
    with pytest.raises(InputError, match=r"without spaces between words .*tokenizer=jieba\.lcut"):
        Corpus(CHINESE)
    with pytest.raises(InputError, match="as its script has no spaces between words: give a tokenizer"):
        next(Corpus(CHINESE, ["首都", "中国"]))
    with pytest.raises(InputError, match=r"the first 20 documents: most letters"):
        next(Corpus(CHINESE * 10, ["首都", "中国"]))
    spaced = Corpus(["首都 中国 北京", "北京 首都", "中国 学习", "学习 统计"], ["首都", "中国", "北京", "学习"])
    assert sum(map(len, spaced)) == 3
    assert len(Corpus(CHINESE * 2, tokenizer=list, stopwords=()).vocabulary) > 3


def test_stop_words_by_language():
    assert " ".join(STOP_LANGUAGES.values()) == "en de fr es it pt nl sv da no fi pl ru tr"
    for name, code in STOP_LANGUAGES.items():
        found = stop_words(name)
        assert found == stop_words(code)
        assert 100 < len(found) < 400
        for word in found:  # each is a word as the tokeniser gives it
            assert words(word) == [word]
    texts = ["der Käse und das Brot", "der Käse und der Wein", "Brot und Wein", "das Bier", "ein Bier"]
    assert Corpus(texts, stopwords="german").vocabulary.words == ("bier", "brot", "käse", "wein")
    assert "und" not in Corpus(texts, stopwords="de", passes=2).vocabulary.words
    assert "das" in Corpus(texts, stopwords=["und", "der"]).vocabulary.words
    assert "das" in Corpus(texts, stopwords=()).vocabulary.words
    with pytest.raises(InputError, match=r"stopwords is 'klingon': expected one of english \(en\)"):
        Corpus(texts, stopwords="klingon")
    with pytest.raises(InputError, match="stopwords has 5"):
        Reading(stopwords=[5])


PLACES = [
    f"we went to New York for {food} and {other}" for food in ("ham", "tea", "jam") for other in ("eggs", "york")
] * 2
OTHERS = ["new eggs and ham", "ham tea jam", "tea for jam and eggs", "jam eggs", "new tea", "ham eggs"] * 5


def test_phrases_by_npmi(tmp_path):
    corpus = Corpus(PLACES + OTHERS, phrases=True)
    assert "new_york" in corpus.vocabulary.words
    assert [word for word in corpus.vocabulary.words if "_" in word] == ["new_york"]
    assert "new_york" not in Corpus(PLACES + OTHERS).vocabulary.words
    path = tmp_path / "vocabulary.txt"
    corpus.vocabulary.write(path)
    again = Vocabulary.read(path)
    ids = again.ids("New York, new ham; york")
    assert [again.words[number] for number in ids][:2] == ["new_york", "new"]
    np.testing.assert_array_equal(ids, corpus.vocabulary.ids("New York, new ham; york"))
    assert again.notes() == []


def test_phrases_of_more_words_and_of_lists_of_words():
    vocabulary = Vocabulary(["new_york", "new_york_city", "york"])
    assert vocabulary.ids("New York City, new york york").tolist() == [1, 0, 2]
    assert vocabulary.ids(["new", "york", "city", "new_york"]).tolist() == [1, 0]
    tokens = [text.lower().split() for text in PLACES + OTHERS]
    assert "new_york" in Corpus(tokens, phrases=True).vocabulary.words


def test_words_that_can_never_match_are_named():
    corpus = Corpus(["ship bread ship"], ["ship", "bread", "New York", "Bread", "b2b", "and/or", "new_york"])
    (note, *_) = corpus.notes()
    assert note == (
        "words of the vocabulary that can never match, as the tokenizer 'words' gives words of letters alone, in lower "
        "case: 4; first: 'New York', 'Bread', 'b2b', 'and/or'"
    )
    with pytest.raises(InputError, match=r"no word that a text can have, the first is 'New York'"):
        Corpus(["ship bread"], ["New York", "SHIP"])
    assert Corpus(["New York ship"], ["New", "York"], tokenizer="whitespace").vocabulary.unmatched() == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"field": 3}, "field is 3"), ({"lines": 1}, "lines is 1"), ({"phrases": "yes"}, "phrases is 'yes'")],
)
def test_options_that_make_no_sense(settings, message):
    with pytest.raises(InputError, match=message):
        Corpus(["ship bread"], ["ship"], **settings)
