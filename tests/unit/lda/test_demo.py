"""The demo corpus: drawn from what it says, and learnt back from it."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from ergodica.lda import LDA, demo


def best_cosines(found, truth):
    """Of the topics (words, topics), matched one to one so that their sum is largest."""
    cosines = (found / np.linalg.norm(found, axis=0)).T @ (truth / np.linalg.norm(truth, axis=0))
    return cosines[linear_sum_assignment(-cosines)]


def test_words_and_truth():
    words, truth = demo.vocabulary().words, demo.truth()
    assert len(words) == 300
    assert all(word.isascii() and word.isalpha() and word.islower() for word in words)
    assert truth.shape == (300, 10)
    assert truth.min() > 1e-4
    np.testing.assert_allclose(truth.sum(0), 1)


def test_documents_are_drawn_from_the_truth():
    """The mean share of a word is that of the topics; five standard errors for each of 300 words, false alarm 2e-4."""
    documents, truth = demo.documents(2_000), demo.truth()
    frequency = np.stack([np.bincount(d, minlength=300) / len(d) for d in documents])
    error = frequency.std(0) / np.sqrt(len(documents))
    assert np.all(np.abs(frequency.mean(0) - truth.mean(1)) < 5 * error)
    assert np.array_equal(demo.documents(3).words, documents.take(range(3)).words)


# One start in ten or so ends with two topics in one, as with any way of fitting LDA: the seeds are two of the others.
@pytest.mark.parametrize(("sampler", "seed"), [("sgrhmc", 0), ("sgrld", 1)])
def test_topics_are_found_again(sampler, seed):
    model = LDA(10, sampler, seed=seed, vocabulary=demo.vocabulary(), passes=5, progress=False).fit(demo.documents())
    assert best_cosines(model.components_.T, demo.truth()).mean() > 0.9
    scrambled = np.roll(model.components_.T, 15, axis=0)
    assert best_cosines(scrambled, demo.truth()).mean() < 0.9
