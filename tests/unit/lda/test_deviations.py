"""Standard deviations of topic shares against the exact posterior, summed over all topics of all words."""

from itertools import product
from math import lgamma

import numpy as np
import pytest

from ergodica.lda.corpus import Documents
from ergodica.lda.perplexity import share_deviations

PHI = np.array([[0.7, 0.1, 0.2], [0.2, 0.3, 0.3], [0.1, 0.6, 0.5]], np.float32)
OTHER = np.array([[0.1, 0.3, 0.6], [0.2, 0.5, 0.3], [0.7, 0.2, 0.1]], np.float32)
GAMMA = np.array([0.5, 0.3, 0.9], np.float32)
COPIES = 200  # of a document: each has random numbers of its own


def moments(words, phi):
    """(E eta, E eta^2) given the words: a sum over all z of Dirichlet moments."""
    first, second, total = np.zeros(3), np.zeros(3), 0.0
    for z in product(range(3), repeat=len(words)):
        a = np.bincount(np.array(z, int), minlength=3) + GAMMA.astype(float)
        weight = np.prod([phi[w, k] for w, k in zip(words, z, strict=True)]) * np.exp(sum(map(lgamma, a)))
        mean = a / a.sum()
        first += weight * mean
        second += weight * (mean * (1 - mean) / (a.sum() + 1) + mean**2)
        total += weight
    return first / total, second / total


@pytest.mark.parametrize("words", [[0, 1, 2, 2, 0, 1], [2, 2], [1]])
@pytest.mark.parametrize("phis", [[PHI] * 8, [PHI, OTHER] * 4])
def test_against_the_exact_posterior(words, phis):
    """Of the topics as found, and over draws of them: the variance of a mixture."""
    found = share_deviations(phis, Documents.of([words] * COPIES), GAMMA, seed=3)
    first, second = np.mean([moments(words, phi) for phi in phis], axis=0)
    # a run's 12 states depend on each other, so that the estimate is low by a few hundredths
    np.testing.assert_allclose(np.sqrt((found**2).mean(axis=0)), np.sqrt(second - first**2), rtol=0.05)


def test_the_spread_of_topics_counts():
    """Without it the deviation would be too small: the same phi for all runs, instead of two that disagree."""
    documents = Documents.of([[0, 0, 0, 0, 1, 0]] * COPIES)
    one, both = (share_deviations(phis, documents, GAMMA, seed=3) for phis in ([PHI] * 8, [PHI, OTHER] * 4))
    assert (both.mean(axis=0)[[0, 2]] > 1.2 * one.mean(axis=0)[[0, 2]]).all()


def test_no_words_leave_the_prior():
    prior = GAMMA / GAMMA.sum()
    found = share_deviations([PHI] * 8, Documents.of([[]]), GAMMA, seed=3)
    np.testing.assert_allclose(found[0], np.sqrt(prior * (1 - prior) / (GAMMA.sum() + 1)), rtol=1e-6)
