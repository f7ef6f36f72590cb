"""The two-dimensional item: its density, its figures, the search for a best step, verdicts that follow from them."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

import ergodica as eg
from ergodica_paper import best_step, two_dimensional
from ergodica_paper.best_step import NoStep
from ergodica_paper.result import Ask
from ergodica_paper.two_dimensional import chains, claims, density, measured, trials
from ergodica_paper.two_dimensional.claims import At, Way, both_sentences
from ergodica_paper.two_dimensional.measured import Discrepancy, MeasuredSampler

# -- the density ------------------------------------------------------------------------------------


def test_moments_agree_with_quadrature():
    def integral(k):
        def value(b, a):
            theta = np.array([a, b])
            return (1.0 if k is None else density.functions(theta)[k]) * np.exp(-density.potential(theta))

        return integrate.dblquad(value, -5, 5, lambda a: a**2 / 4 - 3, lambda a: a**2 / 4 + 0.6, epsabs=1e-4)[0]

    mass = integral(None)
    assert [integral(k) / mass for k in (1, 2, 3)] == pytest.approx(density.moments()[0][1:], abs=1e-4)


def test_gradient_is_that_of_the_potential():
    at = np.array([[1.3, -0.4], [-2.0, 0.7]])
    assert density.gradient(at) == pytest.approx(np.asarray(jax.vmap(jax.grad(density.potential))(jnp.asarray(at))))


def test_exact_draws_have_the_moments():
    draws = density.draw((40_000,), np.random.default_rng(0))
    mean, sd = density.moments()
    values = density.functions(draws)
    assert np.all(np.abs(values.mean(axis=1) - mean) < 5 * sd / 200)  # false alarm: 2e-6 in all
    assert values.std(axis=1) == pytest.approx(sd, rel=0.05)


# -- figures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("correlation", [0.8, -0.5])
def test_autocorrelation_time_counts_negative_correlations(correlation):
    """Of an AR(1) series it is (1 + c) / (1 - c), below 1 where c is negative."""
    rng, length = np.random.default_rng(1), 400
    x = rng.normal(size=(2000, length))
    for t in range(1, length):
        x[:, t] = correlation * x[:, t - 1] + np.sqrt(1 - correlation**2) * x[:, t]
    means = np.tile(x.mean(axis=1), (4, 1)) * density.moments()[1][:, None]
    expected = (1 + correlation) / (1 - correlation)
    assert trials.autocorrelation_times(means, length) == pytest.approx([expected] * 4, rel=0.15)


@pytest.mark.parametrize("count", [20, 250])
def test_exact_draws_have_no_stein_discrepancy_however_few_they_are(count):
    rng = np.random.default_rng(2)
    squares = np.array([[measured.stein_square(density.draw((count,), rng))] for _ in range(200)])
    assert abs(squares.mean()) < 5 * squares.std() / np.sqrt(200)  # false alarm: 6e-7
    assert not claims.is_shown(Discrepancy(np.array([count]), squares))


def test_stein_discrepancy_sees_a_shift():
    rng = np.random.default_rng(2)
    squares = np.array([[measured.stein_square(density.draw((250,), rng) + [0.0, 0.3])] for _ in range(24)])
    assert claims.is_shown(Discrepancy(np.array([250]), squares))


def test_a_chain_that_leaves_the_finite_numbers_is_counted():
    draws = density.draw((4, 50), np.random.default_rng(3))
    draws[1, 20:] = np.nan
    trial = trials.judge(draws, 0.1, 1.0)
    assert (trial.lost, trial.chains) == (1, 4)
    assert not best_step.is_confirmed(trial)


# -- the search -------------------------------------------------------------------------------------


def made_up(largest: float, speed: float = 1.0, loses_from: float = np.inf):
    """A sampler of exact draws, each held for about 6 largest / (speed * step) steps, biased beyond the largest step.

    From some step on one chain of thirty is lost.
    """

    def sample(step_size: Any, friction: Any, starts: np.ndarray, seed: int) -> np.ndarray:
        rng, length = np.random.default_rng(seed), 160
        sizes = np.broadcast_to(step_size, len(starts))
        held = np.maximum(1, 6 * largest / (speed * sizes))
        index = (np.arange(length) / held[:, None]).astype(int)
        draws = np.take_along_axis(density.draw((len(starts), length), rng), index[..., None], axis=1)
        draws[(sizes >= loses_from) & (rng.uniform(size=len(starts)) < 1 / 30)] = np.inf
        return draws + np.where(sizes > largest, 0.5, 0.0)[:, None, None] * np.array([0.0, 1.0])

    return sample


def test_the_samplers_search_ends_at_the_largest_step_within_the_bound():
    sample, seeds = made_up(0.021), itertools.count(5)
    found = best_step.search(
        {1.0: two_dimensional.STEPS},
        lambda jobs: trials.attempt(sample, jobs, seeds),
        lambda jobs: [measured.measure(sample, *job, 1, seeds) for job in jobs],
    )[1.0]
    assert found.best is not None
    assert 0.021 / 1.15 < found.best.step_size <= 0.021


def test_fresh_chains_tell_bias_and_loss():
    sample = made_up(0.01, loses_from=0.05)
    near, far, lost = (measured.measure(sample, 1.0, step, 2, itertools.count(7)) for step in (0.009, 0.02, 0.05))
    assert best_step.is_confirmed(near)
    assert not best_step.is_confirmed(far)
    assert best_step.is_out(far)
    assert 0 < lost.lost < lost.chains == 2 * trials.CHAINS


# -- chains of the library --------------------------------------------------------------------------


def test_a_size_of_the_diffusion_is_the_unit_of_the_step(monkeypatch):
    """D doubled at half the step size: the same chain; and the builder is looked up when the item runs."""
    arm = chains.arms()[0]
    starts = density.draw((6,), np.random.default_rng(8))
    plain = chains.compiled(arm, 20)(0.01, 1.0, starts, 9)
    sgld = eg.sgld
    monkeypatch.setattr(eg, "sgld", lambda: sgld(2.0))
    doubled = chains.compiled(arm, 20)(0.005, 1.0, starts, 9)
    assert plain.shape == (6, 20, 2)
    assert plain == pytest.approx(doubled, abs=1e-4)


def test_a_friction_of_one_is_the_papers():
    for arm in chains.arms():
        if arm.sampler == "gsgrhmc":
            metric: Any = arm.recipe(1.0).diffusion["momentum"]
            assert (float(metric.fn.scale), float(metric.fn.offset)) == (density.SCALE, density.OFFSET)


# -- verdicts and the page --------------------------------------------------------------------------


def figures_with(time: float) -> At:
    times = time * np.exp(0.1 * np.random.default_rng(10).normal(size=24))
    return At(MeasuredSampler(0.01, 1.0, 0, 100, 0.0, 0.0, times), 0.03)


def discrepancy_with(time: float) -> Discrepancy:
    noise = np.exp(0.1 * np.random.default_rng(11).normal(size=(24, 6)))
    return Discrepancy(2 ** np.arange(6), time * noise)


RIVALS = ("sgld", "sgrld", "sghmc")


@pytest.mark.parametrize(
    ("times", "verdict"),
    [((1.0, 1.0), "reproduced"), ((9.0, 9.0), "not reproduced"), ((1.0, 9.0), "reproduced under conditions")],
)
def test_verdicts_follow_from_the_figures(times, verdict):
    rivals = dict.fromkeys(RIVALS, figures_with(3.0))
    ways = [Way(f"way {k}", {**rivals, "gsgrhmc": figures_with(t)}) for k, t in enumerate(times)]
    paths = {"way 0": {**dict.fromkeys(RIVALS, discrepancy_with(3.0)), "gsgrhmc": discrepancy_with(times[0])}}
    for claim in both_sentences(ways, paths):
        assert claim.verdict == verdict
        assert len(claim.figures) == 3
        assert ("way 0" in claim.conditions) == (verdict == "reproduced under conditions")
        assert claim.kind == "paper"
        assert claim.rule
        assert len(claim.explanation.split()) <= 60


def test_a_difference_within_the_error_of_the_step_counts_for_nobody():
    def way(step_error):
        mine = {name: figures_with(1.0 if name == "gsgrhmc" else 1.3) for name in (*RIVALS, "gsgrhmc")}
        return Way("way", {name: at._replace(step_error=step_error) for name, at in mine.items()})

    assert {c.verdict for c in both_sentences([way(0.1)], {})} == {"not reproduced"}
    assert {c.verdict for c in both_sentences([way(0.02)], {})} == {"reproduced"}


def test_a_sampler_that_is_shown_to_have_no_step_has_lost():
    some, none, unknown = figures_with(1.0), NoStep(True), NoStep(False)

    def outcome(theirs, mine):
        way, paths = Way("way", {"sgld": theirs, "gsgrhmc": mine}), {"sgld": None, "gsgrhmc": None}
        found = claims.time_ratio(way, "sgld").outcome
        assert claims.stein_ratio(way, paths, "sgld").outcome == found
        return found

    assert outcome(none, some) == "yes"
    assert outcome(some, none) == "no"
    assert {outcome(none, none), outcome(unknown, some), outcome(some, unknown)} == {"unclear"}


def test_discrepancies_no_larger_than_those_of_exact_draws_say_nothing():
    """Ten times as large, but within chance of 0: no ratio is made of it."""
    noise = np.random.default_rng(12).normal(size=(24, 6))
    paths = {"sgld": Discrepancy(np.arange(6), 10 * noise), "gsgrhmc": Discrepancy(np.arange(6), noise)}
    way = Way("way", dict.fromkeys(paths, figures_with(1.0)))
    assert claims.stein_ratio(way, paths, "sgld").outcome == "unclear"
    assert claims.stein_ratio(way, paths | {"gsgrhmc": discrepancy_with(90.0)}, "sgld").outcome == "no"
    assert claims.stein_ratio(way, paths | {"sgld": discrepancy_with(9.0)}, "sgld").outcome == "yes"
    clear = {"sgld": discrepancy_with(4.0), "gsgrhmc": discrepancy_with(1.0)}
    assert claims.stein_ratio(way, clear, "sgld").value.value == pytest.approx(2.0)


def test_a_run_has_pictures_tables_and_no_number_that_json_refuses(monkeypatch):
    speeds = {"sgld": 0.3, "sgrld": 0.4, "sghmc": 0.4, "gsgrhmc": 3.0}
    monkeypatch.setattr(two_dimensional, "compiled", lambda arm, length: made_up(0.01, speeds[arm.sampler]))
    said = []
    result = two_dimensional.run(Ask(seed=3, report=lambda done, words: said.append(done)))
    assert said == sorted(said)
    assert len(said) > 8
    assert {c.verdict for c in result.claims} <= {"reproduced", "reproduced under conditions"}
    tables = {t.name: t for t in result.tables}
    assert all(p.table in tables for p in result.pictures)
    assert tables["times"].shown
    assert len(tables["times"].rows) <= 20
    assert all(len(row) == len(t.columns) for t in result.tables for row in t.rows)
    assert {c.picture for c in result.claims} <= {p.name for p in result.pictures}
    assert result.non_finite == {arm.label: 0 for arm in chains.arms()}
    assert trials.CHAINS % trials.EACH == 0
    assert trials.CHAINS % measured.SEEDS == 0


def test_a_run_in_which_no_step_is_admitted_ends_with_nothing_reproduced(monkeypatch):
    monkeypatch.setattr(two_dimensional, "compiled", lambda arm, length: made_up(0.0))
    result = two_dimensional.run(Ask(seed=3))
    assert {c.verdict for c in result.claims} == {"not reproduced"}
    assert "no step was admitted" in " ".join(result.text)
