"""theta_.k is Gamma(V alpha, 1) under the posterior: right samplers pass, wrong ones fail."""

import numpy as np
import pytest
from scipy import stats

from ergodica.errors import InputError
from ergodica.lda import LDA, demo, samplers, scir
from ergodica.lda.expanded_mean import ExpandedMean
from ergodica.lda.samplers import PAPER_SAMPLERS, Learner
from ergodica.lda.scale_check import ScaleCheck, at_posterior_scale, check_scales, effective_draws
from ergodica.lda.scir import ScirLearner
from ergodica.lda.steps import TopicChain, langevin_step
from ergodica.lda.stream import DocumentBatch

TOPICS, WORDS, DOCUMENTS, FRICTION = 10, 40, 40, 30.0


def truth() -> np.ndarray:
    """The demo's ten topics, by four words of each."""
    chosen = (30 * np.arange(10)[:, None] + np.arange(4)).ravel()
    phi = demo.truth()[chosen]
    return phi / phi.sum(0)


def run(sampler: str, step_size: float, alpha: float = 1.0, floor: float = 1e-10, time: float = 12.0) -> ScaleCheck:
    """The check of a chain that begins at its law and goes on for a time; `step_size` is the sampler's own."""
    model = ExpandedMean(WORDS, TOPICS, DOCUMENTS, alpha, 0.1, sweeps=2, burn_in=1, start="phi", floor=floor)
    friction = FRICTION if sampler == "sgrhmc" else None
    chain: TopicChain = (
        ScirLearner(model, step_size, seed=4)
        if sampler == "scir"
        else Learner(model, PAPER_SAMPLERS[sampler](friction), step_size, seed=4)
    )
    chain.start_at(at_posterior_scale(truth(), alpha, seed=5))
    documents = demo.documents(DOCUMENTS, 1, truth(), 20)
    halves = [documents.take(range(20)), documents.take(range(20, 40))]
    covered = langevin_step(step_size, friction)
    steps = round(time / covered)
    scales, times = [], []
    for step in range(steps):
        chain.step(DocumentBatch(halves[step % 2], 20 * step, DOCUMENTS))
        if step % max(1, steps // 300) == 0:
            scales.append(chain.theta.sum(0, dtype=np.float64))
            times.append(step * covered)
    return check_scales(np.array(scales), WORDS * alpha, np.array(times))


@pytest.mark.parametrize(
    ("sampler", "step_size", "alpha", "floor"),
    [
        ("scir", 0.02, 1.0, 1e-10),
        ("scir", 0.02, 0.1, 1e-10),
        ("sgrld", 0.01, 1.0, 1e-10),
        ("sgrhmc", 0.12, 1.0, 4e-3),
    ],
)
def test_right_samplers_pass(sampler, step_size, alpha, floor):
    found = run(sampler, step_size, alpha, floor)
    assert found.passed, found.text


@pytest.mark.parametrize(
    ("sampler", "step_size", "alpha", "floor"),
    [("sgrld", 0.05, 0.1, 1e-10), ("sgrld", 0.01, 1.0, 0.3), ("sgrhmc", 0.2, 0.1, 0.05)],
)
def test_long_steps_near_0_and_a_high_floor_fail(sampler, step_size, alpha, floor):
    found = run(sampler, step_size, alpha, floor)
    assert found.passed is False, found.text


def test_the_drift_without_phi_N_fails(monkeypatch):
    right = scir.transition
    monkeypatch.setattr(scir, "transition", lambda t, w, c, b, **more: right(t, w, c, np.ones_like(b), **more))
    found = run("scir", 0.02, time=2.0)
    assert found.passed is False, found.text


@pytest.mark.parametrize(("sampler", "step_size", "floor"), [("sgrld", 0.01, 1e-10), ("sgrhmc", 0.12, 4e-3)])
def test_noise_without_the_2_fails(sampler, step_size, floor, monkeypatch):
    right = samplers.draws_of

    def weaker(*given):
        return {slot: np.float32(np.sqrt(0.5)) * numbers for slot, numbers in right(*given).items()}

    monkeypatch.setattr(samplers, "draws_of", weaker)
    found = run(sampler, step_size, 1.0, floor)
    assert found.passed is False, found.text


def walk(shape: float, topics: int, times: np.ndarray, seed: int) -> np.ndarray:
    """theta_.k itself, by exact transitions of its own equation."""
    rng = np.random.default_rng(seed)
    rows = [rng.gamma(shape, size=topics)]
    for passed in np.diff(times):
        kept = np.exp(-passed)
        number = rng.poisson(rows[-1] * kept / (1 - kept))
        rows.append((1 - kept) * rng.gamma(shape + number))
    return np.array(rows)


def test_false_alarms_are_as_rare_as_stated_and_errors_as_large():
    times = np.linspace(0, 3, 30)
    checks = [check_scales(walk(40.0, 8, times, seed), 40.0, times) for seed in range(400)]
    assert sum(not check.passed for check in checks) <= 3
    assert np.std([c.figure for c in checks]) == pytest.approx(checks[0].standard_error, rel=0.15)
    assert np.std([c.spread for c in checks]) == pytest.approx(checks[0].spread_error, rel=0.2)


def test_the_words_and_what_was_not_looked_at():
    scales = np.random.default_rng(0).gamma(400.0, size=(50, 20))
    assert "expected 400 +- 4.5" in check_scales(scales, 400.0).text
    assert check_scales(scales, 400.0).text.endswith(": agrees")
    assert check_scales(scales + 50, 400.0).text.endswith("does not agree, the bands are not a posterior's")
    few = check_scales(scales[:3], 400.0)
    assert few.passed is None
    assert "not checked" in few.text
    assert check_scales(np.full((50, 20), 1e6), 400.0).passed is False
    with pytest.raises(InputError, match="2 times for 50 draws"):
        check_scales(scales, 400.0, np.arange(2))


def test_a_start_at_the_posterior_scale_keeps_phi():
    phi = truth()
    theta = at_posterior_scale(phi, 0.5, seed=1)
    np.testing.assert_allclose(theta / theta.sum(0), phi, rtol=1e-5)
    many = np.array([at_posterior_scale(phi, 0.5, seed).sum(0) for seed in range(100)]).ravel()
    assert stats.kstest(many, stats.gamma(WORDS * 0.5).cdf).pvalue > 1e-6


def test_effective_draws_know_of_correlation():
    rng = np.random.default_rng(0)
    independent = rng.normal(size=(500, 30, 2)) * 0.01 + np.linspace(1, 2, 30)[:, None]
    kept, slow = 0.9, np.empty_like(independent)
    slow[0] = independent[0] - np.linspace(1, 2, 30)[:, None]
    for t in range(1, 500):
        slow[t] = kept * slow[t - 1] + np.sqrt(1 - kept**2) * (independent[t] - np.linspace(1, 2, 30)[:, None])
    fast, late = effective_draws(independent), effective_draws(slow + np.linspace(1, 2, 30)[:, None])
    assert fast.median == pytest.approx(500, rel=0.2)
    assert late.median == pytest.approx(500 * (1 - kept) / (1 + kept), rel=0.5)
    mixed = independent.copy()
    mixed[:, :, 1] = slow[:, :, 1] + np.linspace(1, 2, 30)  # one topic of two
    assert effective_draws(mixed).least == pytest.approx(late.least, rel=0.5)
    assert effective_draws(mixed).median > 2 * late.median
    assert np.isnan(effective_draws(independent[:4]).median)


def test_words_that_were_not_seen_show_steps_that_are_too_long(monkeypatch):
    """SCIR is exact given the topics; Euler's step of the same rate reflects at 0."""
    given = {"vocabulary": demo.vocabulary(), "bands": True, "alpha": 0.1, "gamma": 0.1, "progress": False, "draws": 60}
    passed = LDA(10, "scir", **given).fit(demo.documents(150)).figures_["unseen_check"]
    assert passed["passed"] is True
    monkeypatch.setattr("ergodica.lda.learning.MOST_BAND_PASSES", 200)
    failed = LDA(10, "sgrld", **given).fit(demo.documents(150)).figures_
    assert failed["unseen_check"]["passed"] is False
    assert failed["band"] == "not a posterior"
