"""What people give by mistake: one clear line, or a result with its caveat."""

import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.lda import LDA
from ergodica.lda.corpus import Documents
from tests.unit.lda.small import DOCUMENTS

WORDS = ["ship", "sail", "bread", "butter"]
TEXTS = [
    "ship sail ship sail ship sail ship sail ship sail",
    "bread butter bread butter bread butter bread butter",
] * 10


def found(corpus, **given):
    return LDA(**({"topics": 2, "passes": 3, "vocabulary": WORDS, "progress": False} | given)).fit(corpus)


def test_one_document():
    with pytest.raises(InputError, match="there is only one document"):
        found(TEXTS[:1], vocabulary=None)
    assert "a single document" in " ".join(found(TEXTS[:1]).figures_["notes"])


def test_one_word():
    model = found(["ship ship ship"] * 5, vocabulary=["ship"])
    np.testing.assert_allclose(model.transform(["ship"]).sum(), 1)
    assert any("nearly the same" in warning for warning in model.figures_["warnings"])


@pytest.mark.parametrize("corpus", [[""] * 4, [" ", "\n"], [None, float("nan")]])
def test_empty_documents(corpus):
    for vocabulary in (None, WORDS):
        with pytest.raises(InputError, match=r"no documents|no words|two words of the vocabulary") as raised:
            found(corpus, vocabulary=vocabulary)
        assert "\n" not in str(raised.value)


def test_empty_documents_among_others_keep_their_rows():
    model = found([*TEXTS, "", None])
    assert model.transform([*TEXTS, "", None]).shape == (22, 2)


def test_duplicates_are_counted():
    assert any("exact copies" in note and "18" in note for note in found(TEXTS).figures_["notes"])


def test_binary_garbage(tmp_path):
    path = tmp_path / "garbage.txt"
    path.write_bytes(np.random.default_rng(0).bytes(5_000))
    with pytest.raises(InputError, match="is not text"):
        found(path)


def test_more_topics_than_documents():
    """Topics without documents are no failure; where held-out words show it, the model says so."""
    noise = Documents.of(np.random.default_rng(0).integers(0, 100, (40, 30)))
    with pytest.warns(UserWarning, match="no better than word frequencies alone"):
        model = found(noise, topics=30, passes=20, vocabulary=None, held_out=10)
    assert model.components_.shape[0] == 30
    held = model.figures_["held_out"]
    assert held["perplexity"]["averaged"] >= held["unigram_perplexity"]
    assert "no better than word frequencies" in model.figures_["warnings"][0]
    few = found(DOCUMENTS.take(range(5)), topics=20, vocabulary=None)
    assert few.transform(Documents.of([[0]])).shape == (1, 20)


def test_topics_without_words_are_named():
    given = np.random.default_rng(0).integers(0, 30, (20, 40))
    model = found(Documents.of(given), topics=40, vocabulary=None, gamma=1e-6, passes=60)
    assert any("hardly any word belongs to: " in warning for warning in model.figures_["warnings"])


@pytest.mark.parametrize("documents", [3, 12])
def test_a_few_documents_are_judged(documents):
    """Passes over so few are short: finding does not end before the first evaluation."""
    texts = Documents.of(np.random.default_rng(0).integers(0, 30, (documents, 40)))
    assert found(texts, passes=None, vocabulary=None).history_


@pytest.mark.parametrize(
    ("held_out", "message"), [(21, "held_out is 21, but there are only 20"), (20, "all 20 documents")]
)
def test_more_held_out_than_there_are(held_out, message):
    with pytest.raises(InputError, match=message):
        found(TEXTS, held_out=held_out)


@pytest.mark.parametrize("passes", [1, 3])
def test_documents_too_short_to_judge(passes):
    """No document has ten words: finding ends by the passes given, and the model says that it was not judged."""
    model = found(["ship sail", "bread butter"] * 10, passes=passes)
    assert any("was not judged" in warning for warning in model.figures_["warnings"])
