"""SCIR: the law of its transitions against scipy, what they leave invariant, and that wrong ones are found out."""

import numba
import numpy as np
import pytest
from scipy import stats

from ergodica.errors import NonFiniteError
from ergodica.lda import scir
from ergodica.lda.corpus import Documents
from ergodica.lda.expanded_mean import ExpandedMean, phi_of
from ergodica.lda.samplers import LDA_PRESETS, learner_of
from ergodica.lda.scir import ScirLearner, transition
from ergodica.lda.stream import DocumentBatch

ROWS, COLUMNS = 2_000, 25
UNLIKELY = 1e-6


def moved(theta, shape: float, rate: float, step_size: float, seed: int = 1, step: int = 0) -> np.ndarray:
    """theta' of 50,000 entries, all with the same a and b."""
    start = np.ascontiguousarray(np.broadcast_to(np.float32(theta), (ROWS, COLUMNS)))
    none = np.zeros(0, int), np.zeros((0, COLUMNS), np.float32)
    return transition(
        start, *none, np.full(COLUMNS, rate), alpha=shape, scale=1, step_size=step_size, seed=seed, step=step
    )


def mixture(q: np.ndarray, theta: float, shape: float, rate: float, step_size: float) -> np.ndarray:
    """The distribution function as the docstring has it: scipy's ncx2 loses its digits for tiny shapes."""
    c = -np.expm1(-rate * step_size) / (2 * rate)
    mean = theta * np.exp(-rate * step_size) / (2 * c)
    numbers = np.arange(max(0, int(mean - 12 * np.sqrt(mean))), int(mean + 12 * np.sqrt(mean) + 40))
    weights = stats.poisson.pmf(numbers, mean)
    return sum(p * stats.gamma.cdf(q / (2 * c), shape + n) for n, p in zip(numbers, weights, strict=True))


def p_value(found: np.ndarray, *law: float) -> float:
    """Of Kolmogorov and Smirnov, for what float32 can hold, and of how much it cannot."""
    least = np.float64(1e-30)
    lost = float(mixture(least, *law))
    seen = np.sort(found[found > least]).astype(np.float64)
    spots = np.linspace(0, len(seen) - 1, min(len(seen), 500)).astype(int)  # a grid: the mixture is slow to evaluate
    law_at = (mixture(seen[spots], *law) - lost) / (1 - lost)
    distance = np.max(np.abs(law_at - (spots + 0.5) / len(seen)))
    too_small = stats.binomtest(int(np.sum(found <= least)), found.size, lost).pvalue if lost > 1e-12 else 1.0
    return min(float(stats.kstwobign.sf(distance * np.sqrt(len(seen)))), float(too_small))


LAWS = [
    (0.0, 0.05, 3.0, 0.1), (1e-3, 0.05, 3.0, 0.1), (0.5, 0.05, 40.0, 0.01), (0.1, 1e-4, 2.0, 0.3),
    (0.02, 0.3, 1.0, 0.01), (30.0, 2.5, 1.0, 0.5), (200.0, 0.3, 1.0, 0.01), (7.0, 90.0, 60.0, 1.0),
]  # fmt: skip


@pytest.mark.parametrize("law", LAWS)
def test_the_transition_has_the_law_of_the_process(law):
    theta, shape, rate, step_size = law
    found = moved(*law).astype(np.float64).ravel()
    assert p_value(found, *law) > UNLIKELY
    kept = np.exp(-rate * step_size)
    mean = theta * kept + shape / rate * (1 - kept)
    variance = 2 * theta / rate * kept * (1 - kept) + shape / rate**2 * (1 - kept) ** 2
    assert abs(found.mean() - mean) < 5 * np.sqrt(variance / found.size)


def test_the_mixture_is_scipys_noncentral_chi_squared():
    theta, shape, rate, step_size = 3.0, 0.7, 2.0, 0.4
    c = -np.expm1(-rate * step_size) / (2 * rate)
    law = stats.ncx2(2 * shape, theta * np.exp(-rate * step_size) / c, scale=c)
    q = np.linspace(0.01, 8, 50)
    np.testing.assert_allclose(mixture(q, theta, shape, rate, step_size), law.cdf(q), atol=1e-9)


@pytest.mark.parametrize("step_size", [1e-3, 0.05, 2.0, 100.0])
def test_any_step_leaves_the_gamma_law_invariant(step_size):
    shape, rate = 0.2, 5.0
    theta = np.random.default_rng(0).gamma(shape, 1 / rate, (ROWS, COLUMNS)).astype(np.float32)
    for step in range(30):
        theta = moved(theta, shape, rate, step_size, step=step)
    assert stats.kstest(theta.ravel().astype(float), stats.gamma(shape, scale=1 / rate).cdf).pvalue > UNLIKELY


@pytest.mark.parametrize("wrong", ["c without 1/b", "Poisson mean without exp(-bh)", "no Poisson number", "a + 1/2"])
def test_wrong_transitions_are_found_out(wrong):
    theta, shape, rate, step_size = 0.5, 0.3, 4.0, 0.1
    given = {"theta": theta, "shape": shape, "rate": rate, "step_size": step_size}
    law = (theta, shape, rate, step_size)
    if wrong == "c without 1/b":
        found = moved(**given | {"theta": theta / rate}) * np.float32(rate)
    elif wrong == "Poisson mean without exp(-bh)":
        found = moved(**given | {"theta": theta * np.exp(rate * step_size)})
    elif wrong == "no Poisson number":
        found = moved(**given | {"theta": 0.0})
    else:
        found = moved(**given | {"shape": shape + 0.5})
    assert p_value(found.ravel(), *law) < UNLIKELY


def test_numbers_depend_on_seed_step_and_row_alone():
    first = moved(0.3, 0.2, 4.0, 0.1)
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        np.testing.assert_array_equal(first, moved(0.3, 0.2, 4.0, 0.1))
    finally:
        numba.set_num_threads(threads)
    assert np.all(first[0] != first[1])
    assert np.mean(first == moved(0.3, 0.2, 4.0, 0.1, step=1)) < 1e-3
    assert np.mean(first == moved(0.3, 0.2, 4.0, 0.1, seed=2)) < 1e-3


def model(**more) -> ExpandedMean:
    return ExpandedMean(
        **{"words": 5, "topics": 2, "size": 6, "alpha": 0.3, "gamma": 0.4, "sweeps": 4, "burn_in": 1} | more
    )


BATCH = DocumentBatch(Documents.of([[0, 1], [2, 2, 3]]), 0, 6.0)


def test_a_step_takes_a_and_b_from_the_batch(monkeypatch):
    chain, taken = ScirLearner(model(), 0.05, seed=3), {}

    def noted(theta, words, counts, rates, **more):
        taken.update(more, theta=theta.copy(), words=words, counts=counts, rates=rates)
        return transition(theta, words, counts, rates, **more)

    monkeypatch.setattr(scir, "transition", noted)
    chain.step(BATCH)
    assert chain.steps == 1
    assert taken["scale"] == 3.0
    assert taken["step_size"] == 0.05
    assert taken["counts"].sum() == pytest.approx(5)
    assert taken["words"].tolist() == [0, 1, 2, 3]
    expected = 1 + 3 * taken["counts"].sum(0) / taken["theta"].sum(0)
    np.testing.assert_allclose(taken["rates"], expected, rtol=1e-5)


def test_underflow_is_no_floor_and_no_error():
    # Gamma(1e-4): nearly all of theta is 0 in float32, and words that occur still have a row
    chain = ScirLearner(model(words=400, alpha=1e-4), 10.0, seed=3)
    for visit in range(3):
        chain.step(BATCH._replace(visit=2 * visit))
    assert np.mean(chain.theta == 0) > 0.9
    assert np.all(phi_of(chain.theta) > 0)


def test_a_chain_that_is_saved_and_restored_goes_on_the_same():
    settings = LDA_PRESETS["tuned"]["scir"]
    one, other = (learner_of(model(), "scir", settings, 5) for _ in range(2))
    one.step(BATCH)
    other.restore(one.saved())
    assert other.step_size(1) == one.step_size(1)
    for chain in (one, other):
        chain.step(BATCH)
    np.testing.assert_array_equal(one.theta, other.theta)
    assert other.steps == 2


def test_a_theta_that_is_not_finite_is_refused_and_the_state_kept():
    chain = ScirLearner(model(), 0.05, seed=3)
    chain.start_at(np.full((5, 2), np.inf))
    with pytest.raises(NonFiniteError, match="after step 0"):
        chain.step(BATCH)
    assert chain.steps == 0
