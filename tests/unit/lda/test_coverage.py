"""Bands are posterior intervals: where topics are drawn from the prior, they cover the truth as often as they say."""

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from ergodica.lda import LDA, demo

WORDS, TOPICS, ALPHA = 60, 3, 0.3


def covered(sampler: str, seeds: range, **changes) -> tuple[float, LDA]:
    """The share of all probabilities that lie in their 90 % bands; topics drawn from Dirichlet(0.3)."""
    shares = []
    for seed in seeds:
        phi = np.random.default_rng(seed).dirichlet(np.full(WORDS, ALPHA), TOPICS).T
        model = LDA(
            TOPICS, sampler, bands=True, seed=seed, vocabulary=[f"w{number}" for number in range(WORDS)],
            progress=False, tokenizer="whitespace", gamma=demo.TOPIC_PRIOR, alpha=ALPHA, **changes,
        ).fit(demo.documents(200, seed, phi, 40))  # fmt: skip
        order, matched = linear_sum_assignment(-model.components_ @ phi)
        low, high = (band[order].T for band in model.bands())
        shares.append(np.mean((low <= phi[:, matched]) & (phi[:, matched] <= high)))
    return float(np.mean(shares)), model


def test_posterior_intervals_cover_the_truth():
    share, model = covered("scir", range(3))
    assert model.band == "posterior interval"
    assert model.figures_["effective_draws"] >= 200
    assert 0.85 <= share <= 0.95


@pytest.mark.long
@pytest.mark.parametrize("sampler", ["sgrld", "sgrhmc"])
def test_those_of_the_other_samplers_do(sampler):
    share, _ = covered(sampler, range(2))
    # four standard errors of 360 independent numbers; what a wrong posterior gives is outside
    assert abs(share - 0.9) < 4 * np.sqrt(0.9 * 0.1 / (2 * WORDS * TOPICS))


def test_a_wrong_posterior_does_not(monkeypatch):
    """Counts of all tokens taken twice: bands are narrower by a root of two."""
    monkeypatch.setattr("ergodica.lda.expanded_mean.COUNTED_ONCE", np.int64(2))
    share, _ = covered("scir", range(2))
    assert share < 0.82
