"""The d-and-q item: the law of two peaks, what a chain's path counts as, the search, and the verdicts."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

import ergodica as eg
from ergodica_paper import d_and_q
from ergodica_paper.best_step import BOUND, BestStep
from ergodica_paper.d_and_q import chains, peaks, trials
from ergodica_paper.d_and_q.chains import Choice, Counts
from ergodica_paper.d_and_q.claims import Judge, near_mode
from ergodica_paper.d_and_q.trials import Figures, Time
from ergodica_paper.result import Ask

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


def test_draws_have_the_law_of_their_height():
    heights = np.repeat([1.0, 4.0], 40_000)
    t = peaks.draw(heights, np.random.default_rng(0))
    for height in (1.0, 4.0):
        here, truth = t[heights == height], peaks.truth(height)
        values = np.stack([here**2, peaks.potential(here, height), np.abs(here) < peaks.EDGE])
        assert np.all(np.abs(values.mean(axis=1) - truth.mean) < 5 * truth.sd / 200)  # false alarm: 2e-6 in all
        assert abs(np.sign(here).mean()) < 5 / 200


# -- what a path counts as --------------------------------------------------------------------------


def watched(start: float, path: list[float]) -> Counts:
    job = {"height": jnp.asarray(1.0), "middle": jnp.asarray(peaks.truth(1.0).middle)}

    @jax.jit
    def run(start, path):
        begun = chains._begin(start)
        return jax.lax.scan(lambda watch, t: (chains._look(watch, t, job, jnp.asarray(True)), None), begun, path)[0]

    return run(jnp.asarray(start), jnp.asarray(path)).counts


def test_passages_and_crossings_of_a_path():
    # into the barrier and back; over it in two steps inside; not quite to the bottom, then there; over it in one jump
    counts = watched(-1.0, [-0.4, 0.1, -0.7, -0.3, 0.3, 0.8, 1.1, 0.9, -1.2])
    assert int(counts.passages) == 2
    assert [int(x) for x in counts.crossings] == [2, (2 + 1) + (0 + 1)]
    assert int(counts.steps) == 9
    assert float(counts.sums[2]) == 4
    assert int(counts.near_mode[0]) == sum(
        peaks.potential(t, 1.0) < peaks.truth(1.0).middle for t in (-0.7, 0.8, 1.1, 0.9, -1.2)
    )


@pytest.mark.parametrize(
    ("start", "path", "passages", "crossings"),
    [
        (1.1, [0.3, -1.2], 1, 1),
        (0.8, [-0.2, -1.2, 1.0], 1, 2),  # from between bottom and barrier: a crossing, and no passage from anywhere
        (0.3, [-0.9, -1.1], 0, 0),  # from within the barrier: nobody knows where it came from
        (-0.3, [0.3, 0.8, -1.3, 1.1], 1, 2),
    ],
)
def test_nothing_counts_that_began_before_the_start(start, path, passages, crossings):
    counts = watched(start, path)
    assert (int(counts.passages), int(counts.crossings[0])) == (passages, crossings)


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
        assert found.crossing.value.value > 1


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


def test_the_search_ends_at_the_largest_step_within_the_bound_in_units_of_each_choice():
    choices = [Choice(h, 1.0, False, False, has_momentum=q) for h in (1.0, 4.0) for q in (False, True)]
    found = trials.search(made_up(0.5), choices, STEPS, itertools.count(1))
    for choice in choices:
        best = found[choice].best
        assert best is not None
        assert 0.5 / 1.15 < best.step_size / trials.unit(choice) <= 0.5


@pytest.mark.parametrize("mean", [2.0, 20.0])
def test_a_time_is_that_of_all_seeds_however_few_events_each_has(mean):
    """Over repetitions: the mean rate is right within 5 standard errors, and its own error is that of the spread."""
    events = np.random.default_rng(6).poisson(mean, size=(2000, 24))
    times = [Time(np.full(24, 1000.0), x) for x in events]
    rates = 1 / np.array([t.value.value for t in times])
    assert abs(rates.mean() - mean / 1000) < 5 * rates.std() / np.sqrt(2000)  # false alarm: 6e-7
    logs = [t.logarithm for t in times]
    assert np.mean([x.error for x in logs]) == pytest.approx(np.std([x.value for x in logs]), rel=0.1)
    own = np.mean(1000 / np.maximum(events, 0.5))  # what a mean of the seeds' times would give
    assert own > (1.02 if mean > 2 else 1.4) * 1000 / mean


def test_a_time_without_any_event_is_infinite_and_unknown():
    none = Time(np.full(24, 1000.0), np.zeros(24))
    assert none.value == (np.inf, np.inf)
    one = Time(np.full(24, 1000.0), np.eye(24)[0])
    assert one.value == pytest.approx((24_000.0, 24_000.0))


# -- claims -----------------------------------------------------------------------------------------


def found_with(rate: float, expected: float = 1.0) -> BestStep[Figures]:
    """At its best step, with so many escapes and crossings of a gradient evaluation."""
    spent = np.full(24, 10_000.0)
    time = Time(spent, spent * rate * np.exp(0.02 * np.random.default_rng(7).normal(size=24)))
    return BestStep(Figures(0.1, 0.0, 0.01, time, time, np.zeros(24), 0, 192), expected, [], [], 0.02)


def without_step(bias: float) -> BestStep[Figures]:
    """One step was tried and refused, with this bias."""
    nothing = Time(np.ones(24), np.zeros(24))
    return BestStep(None, np.nan, [Figures(0.1, bias, 0.02, nothing, nothing, np.zeros(24), 0, 24)], [], 0.02)


@pytest.mark.parametrize(
    ("least", "outcome"),
    [
        (found_with(0.01), "yes"),
        (found_with(0.5), "no"),
        (found_with(0.1), "unclear"),
        (without_step(0.3), "yes"),
        (without_step(0.12), "unclear"),
    ],
)
def test_more_diffusion_is_asked_of_fixed_sizes(least, outcome):
    """0.125 against 1, whatever it is that is fastest, and without a step by the rule for that."""
    others = {0.25: found_with(0.9, 0.1), 1.0: found_with(0.1), 8.0: found_with(0.01)}
    kinds = [(h, grows) for h in (1.0, 4.0) for grows in (False, True)]
    found = {Choice(h, s, g, g): f for h, g in kinds for s, f in ({0.125: least} | others).items()}
    claim = Judge(found).diffusion_escapes((1.0, 4.0), d_and_q.RAISED)
    assert len(claim.figures) == 8
    for words, figures in claim.figures.items():
        assert figures["holds"] == (outcome if "from 0.125 to 1" in words else "no")
    assert claim.verdict == ("reproduced under conditions" if outcome == "yes" else "not reproduced")
    assert "at barriers 1, 4: 0.25, 0.25 with constant D and Q; 0.25, 0.25 with D" in claim.explanation
    assert len(claim.explanation.split()) <= 60


def test_accuracy_near_the_modes_is_asked_where_both_have_a_step():
    def biased(bias):
        figures = found_with(1.0).best
        assert figures is not None
        return figures._replace(near_mode=bias + 0.01 * np.random.default_rng(8).normal(size=24))

    pairs = {("no Q", "barrier 1"): (biased(-0.1), biased(0.02)), ("no Q", "barrier 4"): None}
    claim = near_mode(pairs)
    assert (claim.verdict, claim.conditions) == ("reproduced under conditions", "no Q (barrier 1)")
    assert claim.figures["no Q, barrier 4"] == {"holds": "unclear"}
    turned = near_mode({words: both and both[::-1] for words, both in pairs.items()})
    assert turned.figures["no Q, barrier 1"]["holds"] == "no"


def test_a_run_in_which_no_step_is_admitted_ends_with_nothing_reproduced(monkeypatch):
    monkeypatch.setattr(d_and_q, "compiled", lambda has_momentum, length, tell: made_up(0.0))
    result = d_and_q.run(Ask(seed=1))
    assert {c.verdict for c in result.claims} == {"not reproduced"}


@pytest.mark.parametrize(
    ("growth", "verdict"), [(4.0, "reproduced"), pytest.param(0.25, "not reproduced", marks=pytest.mark.long)]
)
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
        assert all(c.rule and len(c.explanation.split()) <= 60 for c in result.claims)
        assert not any(t.shown and len(t.rows) > 20 for t in result.tables)
