"""The gradient of online LDA: against a derivative by differences, and unbiased over a partition."""

import itertools

import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.lda import expanded_mean
from ergodica.lda.corpus import Documents
from ergodica.lda.expanded_mean import THETA_FLOOR, ExpandedMean, phi_of
from ergodica.lda.gibbs import Expectations

WORDS, TOPICS, ALPHA, GAMMA = 4, 2, 0.3, 0.4
DOCUMENTS = Documents.of([[0, 1], [2, 2, 3], [1], [0, 3, 3], [2, 1], [3, 0]])


def model(size: float, **how) -> ExpandedMean:
    how = {"sweeps": 40, "burn_in": 10} | how
    return ExpandedMean(WORDS, TOPICS, size, ALPHA, GAMMA, **how)


def theta_at(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).gamma(2.0, size=(WORDS, TOPICS)).astype(np.float32)


def paths(document: np.ndarray, phi: np.ndarray) -> list[tuple[tuple[int, ...], float]]:
    """p(z, w) of every assignment of a document's topics."""
    found = []
    for z in itertools.product(range(TOPICS), repeat=len(document)):
        seen, p = np.zeros(TOPICS), 1.0
        for i, (word, k) in enumerate(zip(document, z, strict=True)):
            p *= (seen[k] + GAMMA) / (i + TOPICS * GAMMA) * phi[word, k]
            seen[k] += 1
        found.append((z, p))
    return found


def exact(phi, documents, gamma, *, want, **_) -> Expectations:
    """In the place of Gibbs sampling: enumeration."""
    counts = np.zeros(phi.shape)
    for document in documents:
        law = paths(document, phi.astype(float))
        total = sum(p for _, p in law)
        for z, p in law:
            np.add.at(counts, (document, list(z)), p / total)
    words = np.unique(documents.words)
    return Expectations(words, counts[words].astype(np.float32), np.zeros((0, TOPICS), np.float32))


def potential(theta: np.ndarray, documents: Documents) -> float:
    phi = theta / theta.sum(0)
    likelihood = sum(np.log(sum(p for _, p in paths(document, phi))) for document in documents)
    return float(np.sum((1 - ALPHA) * np.log(theta) + theta) - likelihood)


def test_the_gradient_is_the_derivative_of_minus_the_log_posterior(monkeypatch):
    monkeypatch.setattr(expanded_mean, "expectations", exact)
    theta = theta_at()
    found = model(len(DOCUMENTS)).gradient(theta, DOCUMENTS, 0, 0)
    for index in np.ndindex(theta.shape):
        up, down = theta.astype(float), theta.astype(float)
        up[index] += 1e-5
        down[index] -= 1e-5
        slope = (potential(up, DOCUMENTS) - potential(down, DOCUMENTS)) / 2e-5
        assert abs(found[index] - slope) < 2e-5 * (1 + abs(slope))


def test_over_a_partition_the_mean_of_the_stochastic_gradients_is_the_gradient(monkeypatch):
    monkeypatch.setattr(expanded_mean, "expectations", exact)
    theta, target = theta_at(1), model(len(DOCUMENTS))
    parts = [DOCUMENTS.take([2 * i, 2 * i + 1]) for i in range(3)]
    mean = np.mean([target.gradient(theta, part, 0, 0) for part in parts], axis=0, dtype=float)
    np.testing.assert_allclose(mean, target.gradient(theta, DOCUMENTS, 0, 0), rtol=1e-6, atol=1e-6)


def test_with_gibbs_sampling_the_gradient_is_right_on_average():
    # 20,000 copies of each document: the Monte Carlo error of N / copies is below 1e-2
    copies, theta = 20_000, theta_at(2)
    many = Documents.concatenate([DOCUMENTS] * copies)
    found = model(len(DOCUMENTS)).gradient(theta, many, 0, 0)
    counts = np.zeros_like(theta)
    enumerated = exact(phi_of(theta), DOCUMENTS, GAMMA, want="counts")
    counts[enumerated.words] = enumerated.counts
    expected = (1 - ALPHA) / theta + 1 - counts / theta + counts.sum(0) / theta.sum(0)
    np.testing.assert_allclose(found, expected, atol=1e-2 / theta.min())


def test_phi_sums_to_one_and_the_start_is_above_the_floor():
    theta = ExpandedMean(3_000, 20, 10, ALPHA, GAMMA, 2, 1).init(seed=3)
    assert theta.dtype == np.float32
    assert theta.min() >= THETA_FLOOR
    assert abs(theta.mean() - 1) < 0.02  # 60,000 numbers with mean and variance 1: 5 standard errors
    np.testing.assert_allclose(phi_of(theta).sum(0, dtype=float), 1, atol=1e-6)
    np.testing.assert_array_equal(theta, ExpandedMean(3_000, 20, 10, ALPHA, GAMMA, 2, 1).init(seed=3))


def test_the_target_takes_batches_with_their_visit_numbers():
    lda = model(100.0)
    target = lda.target([(DOCUMENTS, 7)])
    theta = theta_at()
    (batch,) = target.batches
    np.testing.assert_array_equal(target.gradient_at(theta, batch, 5), lda.gradient(theta, DOCUMENTS, 7, 5))
    assert target.domain.low == THETA_FLOOR
    assert np.any(target.gradient_at(theta, (DOCUMENTS, 8), 5) != target.gradient_at(theta, batch, 5))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"words": 0}, "words is 0"),
        ({"topics": 2.5}, "topics is 2.5"),
        ({"size": float("nan")}, "size is nan"),
        ({"alpha": 0}, "alpha is 0"),
        ({"gamma": -1.0}, "gamma is -1.0"),
    ],
)
def test_bad_settings_are_refused(change, says):
    given = {"words": 4, "topics": 2, "size": 10, "alpha": 0.1, "gamma": 0.1, "sweeps": 3, "burn_in": 1}
    with pytest.raises(InputError, match=says):
        ExpandedMean(**(given | change))


def test_a_wrong_shape_and_an_empty_batch_are_refused():
    with pytest.raises(InputError, match=r"theta has shape \(2, 2\)"):
        model(10).gradient(np.ones((2, 2), np.float32), DOCUMENTS, 0, 0)
    with pytest.raises(InputError, match="no documents"):
        model(10).gradient(theta_at(), Documents.of([]), 0, 0)
