"""Under `posterior` a band is a posterior interval: it covers the truth as often as it says."""

import numpy as np
from scipy.optimize import linear_sum_assignment

from ergodica.lda import LDA, demo

WORDS, TOPICS = 90, 3


def covered(preset: str, passes: int) -> tuple[float, LDA]:
    """The share of 270 probabilities that lie in their 90 % bands: three topics of the demo corpus, 200 documents."""
    phi = demo.truth()[:WORDS, :TOPICS] / demo.truth()[:WORDS, :TOPICS].sum(0)
    words = demo.vocabulary().words[:WORDS]
    model = LDA(TOPICS, "sgrhmc", preset, 1, vocabulary=words, passes=passes, batch_size=100, progress=False)
    model.fit(demo.documents(200, 1, phi, 40))
    order, matched = linear_sum_assignment(-model.components_ @ phi)
    low, high = (band[order].T for band in model.bands())
    return float(np.mean((low <= phi[:, matched]) & (phi[:, matched] <= high))), model


def test_posterior_intervals_cover_the_truth():
    share, model = covered("posterior", 300)
    assert model.band == "posterior interval"
    assert 0.85 <= share <= 0.95


def test_the_spread_of_the_tuned_preset_does_not():
    share, model = covered("tuned", 60)
    assert model.band == "sampler spread"
    assert not 0.85 <= share <= 0.95
