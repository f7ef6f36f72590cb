"""The two-dimensional item: its density, its figures, the search for a best step, verdicts that follow from them."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate

import ergodica as eg
from ergodica.paper import two_dimensional
from ergodica.paper.result import Ask
from ergodica.paper.two_dimensional import chains, density, measured, trials
from ergodica.paper.two_dimensional.contest import Way, claims
from ergodica.paper.two_dimensional.trials import BOUND, CHAINS

STEPS = trials.grid(12)


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


def test_stein_discrepancy_sees_a_shift():
    rng = np.random.default_rng(2)
    draws = density.draw((measured.STEIN_DRAWS,), rng)
    assert measured.stein_discrepancy(draws + [0.0, 0.3]) > 2 * measured.stein_floor(rng)


def test_a_chain_that_leaves_the_finite_numbers_is_counted():
    draws = density.draw((4, 50), np.random.default_rng(3))
    draws[1, 20:] = np.nan
    trial = trials.judge(draws, 0.1, 1.0)
    assert trial.non_finite == 1
    assert not trial.is_admitted


# -- the search -------------------------------------------------------------------------------------


def made_up(largest: float, speed: float = 1.0):
    """A sampler of exact draws, each held for 2 largest / (speed * step) steps, and biased beyond the largest step."""

    def sample(step_size: Any, friction: Any, starts: np.ndarray, seed: int) -> np.ndarray:
        rng, length = np.random.default_rng(seed), 160
        sizes = np.broadcast_to(step_size, len(starts))
        held = np.maximum(1, 2 * largest / (speed * sizes)).astype(int)
        index = np.arange(length) // held[:, None]
        draws = np.take_along_axis(density.draw((len(starts), length), rng), index[..., None], axis=1)
        return draws + np.where(sizes > largest, 0.5, 0.0)[:, None, None] * np.array([0.0, 1.0])

    return sample


@pytest.mark.parametrize("largest", [0.00041, 0.021, 0.31])
def test_the_best_step_is_the_largest_within_the_bound_wherever_the_grid_began(largest):
    found = trials.search(made_up(largest), STEPS, 1.0, itertools.count(5))
    winner = trials.best(found)
    assert winner is not None
    assert largest / 2 < winner.step_size <= largest
    assert found == sorted(found)
    assert found[0].step_size < winner.step_size < found[-1].step_size


def test_no_step_is_best_where_all_are_biased():
    assert trials.best(trials.search(made_up(0.0), STEPS, 1.0, itertools.count(6))) is None


def test_fresh_chains_reject_what_is_biased(monkeypatch):
    monkeypatch.setattr(measured, "STEIN_DRAWS", 40)
    trial = trials.Trial(0.02, 1.0, 0.0, 0.0, 5.0, 0.1, 0)
    assert measured.measure(made_up(0.01), trial, itertools.count(7)) == 0
    found = measured.measure(made_up(0.03), trial, itertools.count(7))
    assert isinstance(found, measured.Measured)
    assert abs(found.bias) < BOUND


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


def figures_with(time: float) -> measured.Measured:
    rng = np.random.default_rng(10)
    times, stein = (time * np.exp(0.1 * rng.normal(size=shape)) for shape in (24, (24, 6)))
    looks = 2 ** np.arange(6)
    return measured.Measured(0.01, 1.0, times, "U", time, 0.0, 0.0, looks, stein, np.zeros((600, 2)))


@pytest.mark.parametrize(
    ("times", "verdict"),
    [((1.0, 1.0), "reproduced"), ((9.0, 9.0), "not reproduced"), ((1.0, 9.0), "reproduced under conditions")],
)
def test_verdicts_follow_from_the_figures(times, verdict):
    rivals = {name: figures_with(3.0) for name in ("sgld", "sgrld", "sghmc")}
    ways = [Way(f"way {k}", {**rivals, "gsgrhmc": figures_with(t)}, 0.1) for k, t in enumerate(times)]
    for claim in claims(ways):
        assert claim.verdict == verdict
        assert ("way 0" in claim.conditions) == (verdict == "reproduced under conditions")


def test_a_difference_within_the_grid_counts_for_nobody():
    ways = [
        Way(
            "way",
            {name: figures_with(1.3 if name != "gsgrhmc" else 1.0) for name in ("sgld", "sgrld", "sghmc", "gsgrhmc")},
            0.1,
        )
    ]
    assert {c.verdict for c in claims(ways)} == {"not reproduced"}


def test_a_run_has_pictures_tables_and_no_number_that_json_refuses(monkeypatch):
    speeds = {"sgld": 0.3, "sgrld": 0.4, "sghmc": 0.4, "gsgrhmc": 3.0}
    monkeypatch.setattr(measured, "STEIN_DRAWS", 40)
    monkeypatch.setattr(two_dimensional, "compiled", lambda arm, length: made_up(0.01, speeds[arm.sampler]))
    said = []
    result = two_dimensional.run(Ask(seed=3, report=lambda done, words: said.append(done)))
    assert said == sorted(said)
    assert len(said) > 10
    assert {c.verdict for c in result.claims} <= {"reproduced", "reproduced under conditions"}
    tables = {t.name: t for t in result.tables}
    assert all(p.table in tables for p in result.pictures)
    assert tables["times"].shown
    assert all(len(row) == len(t.columns) for t in result.tables for row in t.rows)
    assert {c.picture for c in result.claims} <= {p.name for p in result.pictures}
    assert result.non_finite == {arm.label: 0 for arm in chains.arms()}
    assert CHAINS % len(STEPS) == 0
    assert CHAINS % measured.SEEDS == 0
