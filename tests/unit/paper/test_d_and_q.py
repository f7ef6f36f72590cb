"""The d-and-q item: the law of two peaks, what a chain's path counts as, the search, and the verdicts."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

import ergodica as eg
from ergodica.paper import d_and_q, ratios
from ergodica.paper.best_step import BOUND
from ergodica.paper.d_and_q import chains, peaks, trials
from ergodica.paper.d_and_q.chains import Choice, Counts
from ergodica.paper.ratios import Comparison
from ergodica.paper.result import Ask
from ergodica.paper.verdict import verdict

STEPS = d_and_q.STEPS


def test_truth_agrees_with_adaptive_quadrature():
    def mean(f):
        return integrate.quad(lambda t: f(t) * np.exp(-peaks.potential(t, 4.0)), -3, 3, points=[-1, 1])[0]

    truth = peaks.truth(4.0)
    offset = 4.0 + peaks.ROOM
    assert truth.mean[:2] == pytest.approx(
        [mean(lambda t: t**2) / mean(lambda t: 1.0), mean(lambda t: peaks.potential(t, 4.0)) / mean(lambda t: 1.0)]
    )
    root = mean(lambda t: (peaks.potential(t, 4.0) + offset) ** 0.5) / mean(lambda t: 1.0)
    assert truth.diffusion_size == pytest.approx(root)
    assert truth.near_mode < truth.middle < truth.mean[1]


# -- what a path counts as --------------------------------------------------------------------------


def watched(path: list[float]) -> Counts:
    job = {"height": jnp.asarray(1.0), "middle": jnp.asarray(peaks.truth(1.0).middle)}

    @jax.jit
    def run(path):
        begun = chains._begin(path[0])
        return jax.lax.scan(lambda watch, t: (chains._look(watch, t, job, jnp.asarray(True)), None), begun, path)[0]

    return run(jnp.asarray(path)).counts


def test_passages_and_crossings_of_a_path():
    # into the barrier and back; over it in two steps inside; not quite to the bottom, then there; over it in one jump
    counts = watched([-0.4, 0.1, -0.7, -0.3, 0.3, 0.8, 1.1, 0.9, -1.2])
    assert int(counts.passages) == 2
    assert [int(x) for x in counts.crossings] == [2, (2 + 1) + (0 + 1)]
    assert int(counts.steps) == 9
    assert float(counts.sums[2]) == 4
    assert int(counts.near_mode[0]) == sum(
        peaks.potential(t, 1.0) < peaks.truth(1.0).middle for t in (-0.7, 0.8, 1.1, 0.9, -1.2)
    )


def test_only_the_ratio_of_diffusion_to_curl_matters():
    """Both doubled at half the step size: the same chain."""
    target, key = eg.Density(lambda t: peaks.potential(t, 1.0)), jax.random.key(3)

    @jax.jit
    def after(factor):
        fields = (chains._Growing(0.7 * factor, jnp.asarray(1.5), p) for p in (0.5, 0.25))
        kernel = eg.Kernel(target, chains.recipe(*fields, has_momentum=True), eg.Splitting())
        state = kernel.init(jnp.asarray(-1.0), key)
        for k in range(2):
            state, _ = kernel.step(state, jax.random.key(k), 0.2 / factor)
        return state.phase.position

    assert float(after(1.0)) == pytest.approx(float(after(2.0)), abs=1e-12)


def test_chains_sample_the_law_whatever_d_and_q(monkeypatch):
    """Constant and growing D and Q, resampled or not, at a small step: no bias beyond 6 standard errors."""
    monkeypatch.setattr(chains, "BATCH", 64)
    told = []
    count = chains.compiled(True, 2000, told.append)
    kinds = [Choice(1.0, 1.0, False, False), Choice(1.0, 1.0, True, True), Choice(1.0, 0.5, True, True, every=20)]
    each = [c for c in kinds for _ in range(32)]
    counts = count(each, [0.1] * len(each), 4)
    assert told == [64, 64]
    assert not counts.lost.any()
    assert counts.steps.tolist() == [1800] * 96
    for k, choice in enumerate(kinds):
        found = trials.figures(choice, 0.1, trials._part(counts, slice(32 * k, 32 * (k + 1))), 8)
        assert abs(found.bias) < 6 * found.bias_error < 0.3
        assert 20 < found.time < 200
        assert np.all(found.crossing > 1)


# -- the search -------------------------------------------------------------------------------------


def made_up(largest: float, speed: Any = lambda choice: 1.0):
    """Counts without chains: escapes take 10 / (step * speed) steps, biased beyond the largest step."""

    def count(choices, step_sizes, seed):
        rng, n = np.random.default_rng(seed), len(choices)
        steps = np.full(n, 20_000)
        mean = np.stack([peaks.truth(c.height).mean for c in choices])
        sd = np.stack([peaks.truth(c.height).sd for c in choices])
        in_units = np.array([step / trials.unit(c) for c, step in zip(choices, step_sizes, strict=True)])
        shift = 0.02 * rng.normal(size=(n, 1)) + np.where(in_units > largest, 3 * BOUND, 0.0)[:, None]
        rate = in_units * np.array([speed(c) for c in choices]) / 50
        passages = rng.poisson(steps * rate) + 1
        near = np.array([peaks.truth(c.height).near_mode for c in choices]) + 0.01 * rng.normal(size=n)
        half = np.full(n, 10_000)
        return Counts(
            steps,
            (mean + sd * shift) * steps[:, None],
            (half, near * half),
            passages,
            (passages, 5 * passages),
            shift[:, 0] > 9,
        )

    return count


@pytest.mark.parametrize("largest", [0.013, 0.5, 3.1])
def test_the_best_step_is_the_largest_within_the_bound_wherever_the_grid_began(largest):
    choices = [Choice(h, 1.0, False, False, has_momentum=q) for h in (1.0, 4.0) for q in (False, True)]
    found = trials.search(made_up(largest), choices, STEPS, itertools.count(1))
    for choice in choices:
        best = found[choice].best
        assert best is not None
        assert largest / 1.15 < best.step_size / trials.unit(choice) <= largest


def test_no_step_is_best_where_all_are_biased():
    choice = Choice(1.0, 1.0, False, False)
    assert trials.search(made_up(0.0), [choice], STEPS, itertools.count(2))[choice].best is None


# -- verdicts and the page --------------------------------------------------------------------------


def test_ratios_count_beyond_three_standard_errors():
    rng = np.random.default_rng(5)
    fast, slow = (x * np.exp(0.1 * rng.normal(size=24)) for x in (1.0, 2.0))

    def outcome(without, with_it, step_error=0.05):
        logs = [None if x is None else ratios.log_mean(x, step_error) for x in (without, with_it)]
        return ratios.ratio(*logs).outcome

    assert outcome(slow, fast) == "yes"
    assert outcome(fast, slow) == "no"
    assert outcome(slow, fast, step_error=0.2) == "unclear"  # the step is not known well enough to tell
    assert outcome(None, fast) == "yes"
    assert outcome(fast, None) == "no"
    assert outcome(None, None) == "unclear"


def test_log_mean_has_the_error_of_the_seeds():
    """Against the spread of the same figure over many repetitions, with looks that share their noise."""
    rng = np.random.default_rng(6)
    common = rng.gamma(20, size=(2000, 24, 1)) + 0.5 * rng.gamma(20, size=(2000, 24, 3))
    found = [ratios.log_mean(x) for x in common]
    assert np.mean([f.error for f in found]) == pytest.approx(np.std([f.value for f in found]), rel=0.1)


def test_conditions_name_what_belongs_together_once():
    helps, hurts = (ratios.ratio(ratios.log_mean(np.full(24, x)), ratios.log_mean(np.ones(24))) for x in (2.0, 0.5))
    asked = [Comparison(a, b, helps) for a in "AB" for b in "xy"] + [Comparison("C", "x", hurts)]
    asked[3] = Comparison("B", "y", hurts)
    assert verdict([c.answer for c in asked]) == "reproduced under conditions"
    assert ratios.conditions([(c.what, c.where, c.ratio.outcome) for c in asked]) == "A; B (x)"
    assert "0.5 (B, y) to 2 (A, x)" in ratios.told(asked, "without over with")


def test_a_run_in_which_no_step_is_admitted_ends_with_nothing_reproduced(monkeypatch):
    monkeypatch.setattr(d_and_q, "compiled", lambda has_momentum, length, tell: made_up(0.0))
    result = d_and_q.run(Ask(seed=1))
    assert {c.verdict for c in result.claims} == {"not reproduced"}


@pytest.mark.parametrize(("growth", "verdict"), [(4.0, "reproduced"), (0.25, "not reproduced")])
def test_a_run_has_verdicts_that_follow_pictures_and_tables(monkeypatch, growth, verdict):
    def speed(choice):
        return growth ** (choice.diffusion_grows + choice.curl_grows) * growth ** (choice.every > 0)

    monkeypatch.setattr(d_and_q, "compiled", lambda has_momentum, length, tell: made_up(0.5, speed))
    if growth < 1:  # one drawn page is enough
        monkeypatch.setattr(d_and_q.pictures, "resampling", lambda *_: None)
    result = d_and_q.run(Ask(seed=1))
    found = {c.name: c for c in result.claims}
    assert found["adaptive-diffusion-escapes-faster"].verdict == verdict
    assert found["momentum-resampling"].verdict == verdict
    assert found["adaptive-curl-more-efficient"].verdict in (verdict, "reproduced under conditions")
    assert all(len(row) == len(t.columns) for t in result.tables for row in t.rows)
    assert set(result.non_finite.values()) == {0}
    if growth > 1:
        names = {t.name for t in result.tables}
        assert all(p.table in names for p in result.pictures)
        assert {c.picture for c in result.claims} <= {p.name for p in result.pictures}
        assert {c.name for c in result.claims if c.kind == "ours"} == {"momentum-resampling"}
        assert all(c.rule and len(c.explanation.split()) <= 65 for c in result.claims)
        assert not any(t.shown and len(t.rows) > 20 for t in result.tables)
