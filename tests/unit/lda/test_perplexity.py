"""Perplexity by document completion: closed forms, and that better topics have less of it."""

import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.lda import demo
from ergodica.lda.corpus import Documents
from ergodica.lda.corpus.reading import numbered
from ergodica.lda.perplexity import HeldOut, perplexity, shares, unigram_law, word_probabilities

RNG = np.random.default_rng(11)
DOCUMENTS = Documents.of([RNG.integers(4, size=length) for length in (25, 9, 2, 40)])
NO_COUNTS = np.zeros(4, np.int64)


def one_topic(*weights):
    phi = np.array(weights, np.float32)[:, None]
    return phi / phi.sum()


def test_with_one_topic_it_is_that_of_the_words():
    first, second = one_topic(1, 2, 3, 4), one_topic(4, 3, 2, 1)
    _, test = DOCUMENTS.split_tenth()
    assert test.tokens == 2 + 0 + 0 + 4
    found = perplexity(first, [first, second], [DOCUMENTS], 0.1, np.array([7, 1, 0, 0]), 0)
    p, q = first[test.words, 0].astype(float), second[test.words, 0].astype(float)
    np.testing.assert_allclose(found.single, np.exp(-np.log(p).mean()), rtol=1e-6)
    np.testing.assert_allclose(found.averaged, np.exp(-np.log((p + q) / 2).mean()), rtol=1e-6)
    law = np.array([8, 2, 1, 1]) / 12
    np.testing.assert_allclose(found.unigram, np.exp(-np.log(law[test.words]).mean()), rtol=1e-12)
    assert (found.vocabulary, found.documents) == (4, 4)
    assert found.to_dict()["perplexity"] == {"single": found.single, "averaged": found.averaged}


def test_a_model_that_knows_nothing_has_the_size_of_the_vocabulary():
    flat = np.full((4, 3), 0.25, np.float32)
    found = perplexity(flat, [], [DOCUMENTS], 0.1, NO_COUNTS, 0)
    np.testing.assert_allclose([found.single, found.averaged, found.unigram], 4.0, rtol=1e-6)


def test_it_does_not_hang_on_how_the_documents_are_cut():
    phi = RNG.dirichlet(np.ones(4), 3).T.astype(np.float32).copy()
    parts = [DOCUMENTS.take([0]), DOCUMENTS.take([1, 2]), DOCUMENTS.take([3])]
    one, two = (perplexity(phi, [phi], batches, 0.1, NO_COUNTS, 3) for batches in ([DOCUMENTS], parts))
    np.testing.assert_allclose(one[:3], two[:3], rtol=1e-12)


def test_the_truth_beats_word_frequencies_and_mixed_topics():
    documents, truth = demo.documents(100), demo.truth().astype(np.float32)
    counts = np.bincount(demo.documents(500, seed=1).words, minlength=300)
    found = perplexity(truth, [], [documents], demo.TOPIC_PRIOR, counts, 0)
    mixed = np.roll(truth, 15, axis=0)
    worse = perplexity(mixed, [], [documents], demo.TOPIC_PRIOR, counts, 0)
    assert found.single < worse.single < found.unigram < 300
    assert found.single < 0.4 * found.unigram


def test_the_running_average_of_looks_is_that_of_their_probabilities():
    held = HeldOut(DOCUMENTS, seed=4)
    first, second = one_topic(1, 2, 3, 4), one_topic(4, 3, 2, 1)
    single, averaged = held.evaluate(first, 0.1)
    assert single == averaged
    _, averaged = held.evaluate(second, 0.1)
    whole = perplexity(first, [first, second], [DOCUMENTS], 0.1, NO_COUNTS, 0)
    np.testing.assert_allclose(averaged, whole.averaged, rtol=1e-6)


def test_shares_are_a_row_for_every_document_be_it_empty():
    phi = demo.truth().astype(np.float32)
    texts = ["ship sail harbour anchor wave tide", "", "no word of it", "butter bread flour oven"]
    (documents,) = numbered(texts, demo.vocabulary())
    found = shares(phi, documents, 0.1, seed=0)
    np.testing.assert_allclose(found.sum(1), 1)
    assert found.argmax(1)[[0, 3]].tolist() == [0, 1]
    np.testing.assert_allclose(found[1:3], 0.1)


def test_word_probabilities_in_pieces(monkeypatch):
    phi, eta = RNG.random((4, 3)), RNG.random((4, 3))
    _, test = DOCUMENTS.split_tenth()
    whole = word_probabilities(phi, eta, test)
    monkeypatch.setattr("ergodica.lda.perplexity.PRODUCTS_HELD", 4)
    np.testing.assert_array_equal(word_probabilities(phi, eta, test), whole)


def test_bad_input():
    assert unigram_law(NO_COUNTS).tolist() == [0.25] * 4
    flat = np.full((4, 3), 0.25, np.float32)
    with pytest.raises(InputError, match="no documents"):
        perplexity(flat, [], [], 0.1, NO_COUNTS, 0)
    with pytest.raises(InputError, match="none of the 2 documents has ten words"):
        perplexity(flat, [], [DOCUMENTS.take([1, 2])], 0.1, NO_COUNTS, 0)
    with pytest.raises(InputError, match="word number 9"):
        list(numbered(Documents.of([[9]]), demo.vocabulary().__class__(["a", "b"])))
