"""What people give: lists of texts, of words, of counts; vocabularies of other libraries; lines; labels."""

import types
from pathlib import Path

import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.lda.corpus import Corpus, DocumentLabel, Documents, Reading, Vocabulary, numbered, texts
from ergodica.lda.corpus.sources import File, Numbers, Texts, sources_of
from ergodica.lda.corpus.tally import Tally
from tests.unit.lda.corpus.dumps import WORDS, document, dump, lines, page, write

VOCABULARY = Vocabulary(WORDS)


def rows(given, **options):
    return [row.tolist() for part in numbered(given, VOCABULARY, Reading(**options)) for row in part]


def test_a_list_of_words_is_never_one_of_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert rows(["bread", "ship"]) == [[1], []]
    Path("bread").write_text("apple")
    assert rows(["bread", "ship"]) == [[1], []]  # one that happens to be a file does not make it a list of files
    assert rows(["bread"]) == [[0]]
    assert rows([Path("bread")]) == [[0]]
    assert rows(np.array(["bread", "cider"])) == [[1], [2]]
    assert isinstance(sources_of(["http://x.org/a", "-"])[0], File)
    assert isinstance(sources_of(["http://x.org/a is an address", "bread"])[0], Texts)


@pytest.mark.parametrize("given", [["gone.txt"], ["a/b", "gone.txt"], [Path("gone")]])
def test_what_looks_like_a_path_and_is_not_there_is_named(given):
    with pytest.raises(InputError, match=f"there is no file or folder '{given[0]}'"):
        rows(given)


def test_one_text_is_not_a_list_of_them():
    with pytest.raises(InputError, match=r"there is no file or folder 'bread and apple'; a text is given in a list"):
        rows("bread and apple")
    with pytest.raises(InputError, match="got a set for a corpus, which has no order"):
        rows({"bread", "apple"})
    with pytest.raises(InputError, match="got dict for a corpus"):
        rows({"a": "bread"})
    with pytest.raises(InputError, match=r"got an array of shape \(2, 2\)"):
        rows(np.ones((2, 2)))
    with pytest.raises(InputError, match="a list of paths has a int"):
        rows([Path("x"), 5])


def test_lists_of_words_are_taken_as_they_are():
    given = [["bread", "Apple", "apple"], [], ("cider", "x y"), ["bread"]]
    assert rows(given) == [[1, 0], [], [2], [1]]
    assert rows(iter(given)) == rows(given)
    corpus = Corpus([["New York", "C++"], ["C++", "b2"], ["New York", "x"], ["b2"]], stopwords=())
    assert corpus.vocabulary.words == ("C++", "New York", "b2")
    assert sum(map(len, corpus)) == 2


def test_bags_of_words_as_gensim_has_them():
    bags = [[], [(0, 2), (3, 1)], [(5, 1), (1, 1.0)]]
    (source,) = sources_of(bags)
    assert isinstance(source, Numbers)
    dictionary = types.SimpleNamespace(token2id={word: number for number, word in enumerate(WORDS)}, id2token={})
    corpus = Corpus(bags, dictionary, shuffle_buffer=1)
    assert corpus.vocabulary.words == WORDS
    assert [row.tolist() for row in next(corpus)] == [[0, 0, 3], [5, 1]]
    assert rows(iter(bags)) == [[], [0, 0, 3], [5, 1]]
    with pytest.raises(InputError, match=r"expected \(number, count\), not weights"):
        Corpus([[(0, 0.25)]], WORDS)
    with pytest.raises(InputError, match="a document has the word number 9"):
        rows(iter([[(9, 1)]]))
    with pytest.raises(InputError, match="give their words as vocabulary="):
        Corpus(iter(bags[1:]))
    dictionary.token2id["apple"] = 17
    with pytest.raises(InputError, match="the vocabulary gives 'bread' the number 1: expected 0, 1, "):
        Corpus(bags, dictionary)


def test_matrices_and_vocabularies_of_scikit_learn():
    vectorizers = pytest.importorskip("sklearn.feature_extraction.text")
    vectorizer = vectorizers.CountVectorizer()
    counts = vectorizer.fit_transform(["apple bread", "bread cider cider", "x2 y"])
    names = vectorizer.get_feature_names_out()
    for vocabulary in (vectorizer, names, list(names), vectorizer.vocabulary_):
        corpus = Corpus(counts, vocabulary, shuffle_buffer=1)
        assert corpus.vocabulary.words == ("apple", "bread", "cider", "x2")
        assert all(type(word) is str for word in corpus.vocabulary.words)
        assert [len(row) for row in next(corpus)] == [2, 3]
        assert corpus.notes()[0].startswith("documents left out")  # counts need no tokeniser: x2 is no fault
    with pytest.raises(InputError, match="vocabulary is a int"):
        Corpus(counts, 5)
    with pytest.raises(InputError, match="vocabulary is a set: expected a list"):
        Corpus(["apple bread"], {"apple", "bread"})


def test_a_document_a_line(tmp_path):
    path = write(tmp_path, "x.txt", '\ufeffapple bread\r\n\ncider Brot\n{"text": 1} dough'.encode())
    assert len(rows(path)) == 1
    assert rows(path, lines=True) == [[0, 1], [], [2], [3]]
    assert rows(write(tmp_path, "x.gz", b"apple\nbread\n"), lines=True) == [[0], [1]]
    many = write(tmp_path, "y.txt", "".join(document(k % 99) + "\n" for k in range(9000)).encode())
    corpus = Corpus(many, WORDS, lines=True, batch_size=100, shuffle_buffer=100)
    for _ in range(80):
        next(corpus)
    cursor, rest = corpus.cursor, list(corpus)
    assert {label.id for part in rest for label in part.labels} == {f"y.txt:{k}" for k in range(8001, 9001)}
    again = Corpus(many, WORDS, lines=True, batch_size=100, shuffle_buffer=100)
    again.seek(cursor)
    assert [(part.words.tolist(), part.labels) for part in again] == [
        (part.words.tolist(), part.labels) for part in rest
    ]
    with pytest.raises(InputError, match="the cursor is of another corpus"):
        Corpus(many, WORDS, batch_size=100, shuffle_buffer=100).seek(cursor)


def test_another_field_of_json_lines(tmp_path):
    path = write(tmp_path, "x.jsonl", b'{"body": "apple bread", "id": 7}\n' * 3)
    assert rows(path, field="body") == [[0, 1]] * 3
    tally = Tally()
    assert list(texts(path, tally)) == []
    assert tally.notes() == [
        f"lines left out, not a JSON object with the field of the text: 3; first: {path}: no field 'text', it has "
        "'body', 'id'"
    ]
    with pytest.raises(InputError, match=r"there are no documents .* no field 'text', it has 'body', 'id'"):
        Corpus(path)
    with pytest.raises(InputError, match="no field 'text', it has 'body' in the first 20 lines: --field"):
        list(texts(write(tmp_path, "y.jsonl", b'{"body": "apple"}\n' * 30)))


def labels_of(given, **options):
    with Corpus(given, WORDS, held_out=1, batch_size=50, **options) as corpus:
        found = Documents.concatenate([corpus.held_out, *corpus])
    return sorted(found.labels)


def test_labels_are_kept(tmp_path):
    record = b'{"text": "apple bread", "id": 7, "title": "T", "url": "u", "published": "2024-05-01"}\n'
    assert labels_of(write(tmp_path, "x.jsonl", record * 2)) == [DocumentLabel("7", "T", "u", "2024-05-01")] * 2
    pages = [
        page("apple bread", title=title).replace("<id>7</id>", "<id>7</id><timestamp>2001</timestamp>")
        for title in "AB"
    ]
    assert labels_of(write(tmp_path, "x.xml", dump(pages))) == [
        DocumentLabel("1", "A", "", "2001"),
        DocumentLabel("1", "B", "", "2001"),
    ]
    extracted = b'<doc id="3" url="http://u" title="Q &amp; A">\napple bread\n</doc>\n'
    assert labels_of(write(tmp_path, "wiki", extracted * 2)) == [DocumentLabel("3", "Q & A", "http://u", "")] * 2
    (tmp_path / "folder").mkdir()
    for name in ("a.txt", "b.txt"):
        write(tmp_path, f"folder/{name}", b"apple bread")
    assert labels_of(tmp_path / "folder") == [DocumentLabel("a.txt", "a.txt"), DocumentLabel("b.txt", "b.txt")]
    assert [label.id for label in labels_of(["apple bread", "", "cider dough"])] == ["0", "2"]


def test_labels_follow_their_documents():
    labels = [DocumentLabel(str(k)) for k in range(3)]
    documents = Documents.of([[0, 1], [1], [2, 2]], labels)
    assert documents.take([2, 0]).labels == (labels[2], labels[0])
    assert documents.split_tenth()[0].labels == documents.labels
    both = Documents.concatenate([documents, Documents.of([[1]])])
    assert both.labels == (*labels, DocumentLabel())
    assert Documents.concatenate([Documents.of([[1]])]).labels is None
    (part,) = numbered(documents, VOCABULARY)
    assert part.labels == documents.labels
    assert [label.id for label in next(Corpus(documents, WORDS, shuffle_buffer=1)).labels] == ["0", "2"]
    with pytest.raises(InputError, match="there are 3 labels: expected 1"):
        Documents.of([[1]], labels)


def test_every_input_is_a_row(tmp_path):
    given = ["apple", None, float("nan"), "", b"bread \xff", 5, "cider " * 9, object(), ["dough"], "flour"]
    tally = Tally()
    (documents,) = numbered(given, VOCABULARY, tally=tally, limit=20)
    assert [row.tolist() for row in documents] == [[0], [], [], [], [1], [], [2] * 3, [], [3], [4]]
    assert [label.id for label in documents.labels] == [str(k) for k in range(10)]
    assert tally.counts == {"no_text": 2, "not_utf8": 1, "bad_text": 2, "cut": 1}
    path = write(
        tmp_path, "x.jsonl", lines(["apple"]) + b'not json\n{"text": null}\n{"body": 1}\n\n' + lines(["bread"])
    )
    assert rows(path) == [[0], [], [], [], [1]]
    assert rows([write(tmp_path, "empty.txt", b""), path])[0] == []
    many = ["apple"] * 1201
    assert [len(part) for part in numbered(many, VOCABULARY)] == [500, 500, 201]


def test_a_corpus_has_no_row_for_every_input():
    with pytest.raises(InputError, match="got a Corpus, which shuffles its documents"):
        rows(Corpus(["apple bread"], WORDS))


def test_numbered_with_another_tokenizer():
    assert rows(["Apple bread!"], tokenizer="whitespace") == [[]]
    assert rows(["x-apple"], tokenizer=lambda text: text.split("-")) == [[0]]
