"""Coherence: by hand, by brute force, and that it tells words that come together from words that do not."""

import math

import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.lda import demo
from ergodica.lda.corpus import Documents
from ergodica.lda.topics import coherence, top_words


def brute_force(top, documents):
    sets = [set(document.tolist()) for document in documents]
    count = len(sets)

    def holding(*words):
        return sum(all(word in s for word in words) for s in sets)

    npmi, u_mass = [], []
    for words in top.tolist():
        pairs = [(words[i], words[j]) for i in range(len(words)) for j in range(i + 1, len(words))]
        u_mass.append(np.mean([math.log((holding(a, b) + 1) / holding(a)) for a, b in pairs]))
        scores = []
        for a, b in pairs:
            both = holding(a, b) / count
            pmi = -1.0 if both == 0 else math.log(both / (holding(a) * holding(b) / count**2)) / -math.log(both)
            scores.append(pmi)
        npmi.append(np.mean(scores))
    return npmi, u_mass


def test_as_by_brute_force_however_the_documents_are_cut():
    rng = np.random.default_rng(5)
    documents = Documents.of([rng.integers(12, size=rng.integers(1, 9)) for _ in range(60)])
    top = np.array([[3, 1, 7, 0], [11, 10, 2, 5]])
    npmi, u_mass = brute_force(top, documents)
    for cut in (60, 7):
        batches = [documents.take(range(first, min(first + cut, 60))) for first in range(0, 60, cut)]
        found = coherence(top, batches, 12)
        np.testing.assert_allclose(found.npmi, npmi, rtol=1e-12)
        np.testing.assert_allclose(found.u_mass, u_mass, rtol=1e-12)


def test_true_topics_score_above_mixed_ones():
    documents, phi = demo.documents(300), demo.truth()
    top = top_words(phi, 8)
    mixed = top.T.reshape(top.shape)
    right, wrong = (coherence(words, [documents], len(phi)) for words in (top, mixed))
    assert right.npmi.min() > wrong.npmi.max() + 0.1
    assert right.u_mass.mean() > wrong.u_mass.mean()


def test_bad_input():
    with pytest.raises(InputError, match="no documents"):
        coherence(np.array([[0, 1]]), [], 2)
    with pytest.raises(InputError, match="at least 2"):
        coherence(np.array([[0]]), [Documents.of([[0]])], 2)
