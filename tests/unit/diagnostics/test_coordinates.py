"""A thermometer for each coordinate: exact at every step size, and it sees one number among forty."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.diagnostics import diagnose
from ergodica.diagnostics.temperatures import BY_COORDINATE, POSITIONS_BY_COORDINATE, by_coordinate, weak_friction
from ergodica.driver.draws import Bath, temperatures_of
from ergodica.output.labelled import Temperatures
from tests.unit.diagnostics.chains import SETTINGS, autoregressive, statistics

CURVATURE = np.array([0.1, 0.6, 1.0, 1.9])
BOWL = eg.Density(lambda q: jnp.sum(CURVATURE * q**2) / 2, init=np.zeros(4))
DENSE = np.array([[1.0, 0.3, 0.0, 0.1], [0.3, 2.0, 0.2, 0.0], [0.0, 0.2, 0.5, 0.1], [0.1, 0.0, 0.1, 1.5]])
KINDS = {
    "one number": (1.5, 1.0),
    "one for each": (np.array([0.3, 1.0, 2.0, 4.0]), np.array([0.5, 1.0, 2.0, 1.0])),
    "matrices": (1.7 * DENSE, DENSE),
    "matrices of their own": (DENSE @ DENSE, np.diag([1.0, 2.0, 1.0, 0.5])),
}
QUIET = {"progress": False, "chains": 4, "warmup": 500}


def mean_of(run) -> np.ndarray:
    return np.average(run.temperatures.values, axis=1, weights=run.temperatures.steps).mean(axis=0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("step", [0.1, 0.7])
def test_what_a_step_moves_without_noise_is_known(kind, step):
    """E (q' - q)(q' - q)^T = h^2 M^-1 E[p p^T] M^-1, p the mean momentum: from the linearised step of the library."""
    friction, mass = KINDS[kind]
    law = eg.exact_law(eg.sghmc(friction, mass), BOWL, step)
    sigma, lagged = law.phase_covariance, (law.transition @ law.phase_covariance)[:4, :4]
    moved = 2 * sigma[:4, :4] - lagged - lagged.T
    matrix = mass if np.ndim(mass) == 2 else np.diag(np.broadcast_to(mass, 4))
    bath = Bath(np.asarray(mass), np.asarray(friction), "numbers")
    np.testing.assert_allclose(
        np.diag(matrix @ moved @ matrix) / step**2, np.broadcast_to(bath.squares(step), 4), rtol=1e-9
    )


def test_noise_shows_in_full_whatever_the_friction():
    noise, step = np.array([3.0, 0.4, 1.0, 0.02]), 0.7
    for friction in (0.1, 1.5, 8.0):
        law = eg.exact_law(eg.sghmc(friction), BOWL, step, gradient_noise=noise, compensate=False)
        lagged = (law.transition @ law.phase_covariance)[:4, :4]
        moved = np.diag(2 * law.phase_covariance[:4, :4] - lagged - lagged.T)
        squares = Bath(np.asarray(1.0), np.asarray(friction), "numbers").squares(step)
        np.testing.assert_allclose(moved / step**2 / squares - 1, law.bias[:4], rtol=1e-9)


@pytest.mark.parametrize("kind", ["one number", "matrices of their own"])
def test_a_right_run_at_a_large_step_reads_its_temperature(kind):
    """At h = 0.7 the momentum at the end of a step is up to 30 % hot, and 14 % at curvature 1."""
    friction, mass = KINDS[kind]
    settings = QUIET | {"steps": 20_000, "step_size": 0.7, "temperature": 2.0, "thin": 7}
    run = eg.sample(BOWL, eg.sghmc(friction, mass), **settings)
    law = eg.exact_law(eg.sghmc(), BOWL, 0.7)
    assert law.phase_covariance[6, 6] == pytest.approx(1.1396, abs=1e-4)
    check = run.diagnose()[BY_COORDINATE]
    assert check.passed
    assert not check.is_undecided, check.explanation
    np.testing.assert_allclose(mean_of(run), 2.0, rtol=0.03)


def one_noisy_number(size: int = 40, place: int = 7, rows: int = 1_000) -> eg.Posterior:
    """A standard normal; the rows add up to nothing, and a batch pulls one number."""
    pull = 0.104 * np.random.default_rng(1).normal(size=rows)
    pull -= pull.mean()
    return eg.Posterior(lambda q: -jnp.sum(q**2) / 2, lambda q, x: x * q[place], pull, init=np.zeros(size))


def test_one_number_of_forty_is_seen_and_named(tmp_path):
    """Its sd is 73 % too wide, and the mean of forty 5 %: that was ok."""
    target, recipe, step, batch = one_noisy_number(), eg.sghmc(4.0), 0.5, 300
    settings = QUIET | {"steps": 8_000, "step_size": step, "batch_size": batch}
    law = eg.exact_law(recipe, target, step, batch_size=batch)
    wide = np.sqrt(1 + law.bias[7]) - 1
    assert 0.6 < wide < 0.9
    with pytest.warns(UserWarning, match=r"position\[7\] has temperature"):
        run = eg.sample(target, recipe, out=tmp_path / "run.nc", **settings)
    diagnosis = run.diagnose()
    check = diagnosis[BY_COORDINATE]
    assert diagnosis["kinetic temperature"].passed
    assert not check.passed
    assert check.figure == pytest.approx(wide, rel=0.1)
    assert "position[7]" in check.explanation
    assert "1 of 40 numbers is off" in check.explanation
    loaded = eg.load(tmp_path / "run.nc")
    assert loaded.diagnose()[BY_COORDINATE] == check
    right = eg.sample(target, recipe, **settings | {"batch_size": 1_000}).diagnose()
    assert right[BY_COORDINATE].passed
    assert not right["width of the law"].is_undecided


def test_rare_features_are_seen_in_whitened_coordinates():
    """As on a9a: features in few of the rows, with control variates; the mean over coordinates is near 1."""
    rng, rows, common, rare = np.random.default_rng(2), 4_000, 30, 3
    chances = np.concatenate([np.full(common, 0.5), np.full(rare, 0.005)])
    features = (rng.random((rows, common + rare)) < chances).astype(float)
    answers = features @ rng.normal(size=common + rare) + rng.normal(size=rows)
    data = np.column_stack([answers, features])
    target = eg.Posterior(
        lambda q: -jnp.sum(q**2) / 2, lambda q, x: -((x[:, 0] - x[:, 1:] @ q) ** 2) / 2, data, init=np.zeros(33)
    )
    covariance = np.linalg.inv(np.eye(33) + features.T @ features)
    recipe = eg.sghmc(1.5, scale=np.linalg.cholesky(covariance))
    settings = QUIET | {"steps": 10_000, "step_size": 0.35, "estimator": eg.ControlVariates()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = eg.sample(target, recipe, batch_size=100, **settings)
    widths = run.posterior.reshape(-1, 33).std(axis=0) / np.sqrt(np.diag(covariance))
    check = run.diagnose()[BY_COORDINATE]
    assert widths[common:].max() > 1.1
    assert not check.passed, check.explanation
    assert "of R^-1 q" in check.explanation
    assert any(f"coordinate {place} " in check.explanation for place in range(common, common + rare))
    fine = eg.sample(target, recipe, batch_size=4_000, **settings | {"steps": 2_500})
    assert fine.diagnose()[BY_COORDINATE].passed


# -- how it is kept -------------------------------------------------------------------------------------


def test_it_does_not_depend_on_thinning_or_on_what_is_kept():
    settings = QUIET | {"steps": 3_000, "step_size": 0.3}
    every = eg.sample(BOWL, eg.sghmc(), **settings)
    for changes in ({"thin": 10}, {"keep": "moments"}, {"keep": lambda q: q[0]}):
        other = eg.sample(BOWL, eg.sghmc(), **settings | changes)
        np.testing.assert_array_equal(other.temperatures.values, every.temperatures.values)
    assert every.temperatures.steps.sum() == 3_000
    assert every.temperatures.values.min() > 0


def test_the_warm_up_is_not_counted():
    far = eg.same(np.full(4, 1e4))
    run = eg.sample(BOWL, eg.sghmc(), far, steps=5_000, step_size=0.7, **QUIET)
    assert run.diagnose()[BY_COORDINATE].passed


def test_rows_are_put_together_as_a_run_grows():
    run = eg.sample(BOWL, eg.sghmc(), steps=30_001, step_size=0.3, chains=1, progress=False)
    found = run.temperatures
    assert found.values.shape == (1, len(found.steps), 4)
    assert 30 <= len(found.steps) <= 64
    assert found.steps.sum() == 30_001
    np.testing.assert_allclose(mean_of(run), 1, rtol=0.1)


def test_a_large_position_is_measured_in_part():
    target = eg.Density(
        lambda q: sum(jnp.sum(x**2) for x in q.values()) / 2, init={"a": np.zeros(25_000), "b": np.zeros((3,))}
    )
    run = eg.sample(target, eg.sghmc(), steps=64, step_size=0.3, chains=2, progress=False, keep="moments")
    found = run.temperatures
    assert found.values.shape[2] <= 10_001
    np.testing.assert_array_equal(found.places[[0, 1, -1]], [0, 3, 25_000])
    assert abs(np.mean(found.values) - 1) < 0.1


@pytest.mark.parametrize(
    "changes",
    [
        {"recipe": eg.sgld()},
        {"recipe": eg.sgnht()},
        {"integrator": eg.Euler()},
        {"resample_every": 3},
        {"step_size": eg.polynomial(0.1, 10, 0.5)},
    ],
)
def test_where_it_would_not_be_exact_there_is_none(changes):
    settings = {"recipe": eg.sghmc(), "steps": 20, "step_size": 0.1, "chains": 2, "progress": False} | changes
    run = eg.sample(BOWL, **settings)
    assert run.temperatures is None
    assert run.settings["thermometer"] is None


# -- the verdict ----------------------------------------------------------------------------------------


def readings(temperatures, stretches=32, spread=0.02) -> Temperatures:
    noise = np.random.default_rng(3).normal(size=(4, stretches, len(temperatures)))
    values = np.asarray(temperatures) * (1 + spread * noise)
    return Temperatures(values, np.full(stretches, 100), np.arange(len(temperatures)))


@pytest.mark.parametrize(
    ("hot", "spread", "passed", "is_undecided"),
    [
        (1.0, 0.02, True, False),
        (1.05, 0.02, True, False),  # 2.5 % of the sd
        (1.21, 0.02, False, False),  # 10 %
        (0.8, 0.02, False, False),
        (1.0, 0.8, True, True),
        (3.0, 0.8, False, False),
    ],
)
def test_what_is_wrong_and_what_is_unsure(hot, spread, passed, is_undecided):
    check = by_coordinate(readings([1.0] * 20 + [hot], spread=spread), SETTINGS, np.ones(4, bool))
    assert (check.passed, check.is_undecided) == (passed, is_undecided), check.explanation


def test_right_readings_raise_few_alarms():
    """At a bias of the sd that is allowed, with errors of a sixth of it: none of 200 runs of 100 coordinates."""
    rng = np.random.default_rng(4)
    for _ in range(200):
        values = 1.05 * (1 + 0.1 * rng.normal(size=(4, 32, 100)))
        found = Temperatures(values, np.full(32, 100), np.arange(100))
        assert by_coordinate(found, SETTINGS, np.ones(4, bool)).passed


def test_the_width_rests_on_it():
    draws, stats = {"w": autoregressive()}, statistics()
    strong = SETTINGS | {"friction": 20.0}  # of which the mean after friction sees nothing
    assert diagnose(draws, stats, strong).undecided
    assert diagnose(draws, stats, strong, measured=readings([1.0, 1.0, 1.0])).passed
    assert diagnose(draws, stats, strong, measured=readings([1.0, 1.0, 1.0], spread=0.8)).undecided
    hot = diagnose(draws, stats, strong, measured=readings([1.0, 1.5, 1.0]))
    assert [check.name for check in hot.checks if not check.passed] == [BY_COORDINATE]


def test_positions_without_momentum_are_measured_by_the_target():
    """One number of ten too wide by 40 %, which the mean of all hides."""
    sds = np.ones(10)
    sds[3] = 1.4
    target = eg.Density(lambda q: jnp.sum(q["w"] ** 2) / 2, init={"w": np.zeros(10)})
    stats = statistics() | {"kinetic_temperature": np.full((4, 2000), np.nan)}
    settings = SETTINGS | {"friction": None, "integrator": "Euler()"}
    wrong = diagnose({"w": sds * autoregressive(size=10)}, stats, settings, target=target)[POSITIONS_BY_COORDINATE]
    assert not wrong.passed
    assert "w[3] has temperature" in wrong.explanation
    right = diagnose({"w": autoregressive(size=10)}, stats, settings, target=target)
    assert right[POSITIONS_BY_COORDINATE].passed


def test_friction_that_is_too_small_is_named():
    """friction 1 with the inverse covariance of a narrow posterior as mass."""
    settings = {"least_friction": 1e-6, "steps": 5_000, "temperature": 1.0}
    stats = {"step_size": np.full((4, 100), 0.3), "kinetic_temperature": np.full((4, 100), 697.0)}
    words = weak_friction(stats, settings)
    assert "units of mass" in words
    assert "give about 1 times the mass" in words
    assert "scale=R" in words
    assert weak_friction(stats, settings | {"least_friction": 1.0}) is None
    assert weak_friction(stats, {}) is None
    cool = stats | {"kinetic_temperature": np.ones((4, 100))}
    assert weak_friction(cool, settings) is not None  # never refreshed
    assert weak_friction(cool, settings | {"least_friction": 1e-3, "steps": 100_000}) is None


def test_a_run_with_too_little_friction_in_one_direction_says_so():
    precision = np.array([[1e8, 1.0], [1.0, 1.0]])
    narrow = eg.Density(lambda q: q @ precision @ q / 2, init=np.zeros(2))
    with pytest.warns(UserWarning, match="units of mass over time"):
        run = eg.sample(narrow, eg.sghmc(1.0, precision), steps=500, step_size=0.3, chains=2, progress=False)
    assert run.settings["least_friction"] == pytest.approx(1e-8, rel=1e-6)
    assert run.settings["friction"] == pytest.approx(0.5, rel=1e-6)
    assert any("units of mass over time" in note for note in run.diagnose().notes)


def test_sums_of_a_frozen_chain_are_left_out():
    sums = [np.full((16, 2), 16.0), np.full((16, 2), np.nan)]
    found = temperatures_of(sums, 256, 16, np.ones(()), np.zeros(2))
    assert by_coordinate(found, SETTINGS, np.array([True, False])) is not None
    assert by_coordinate(found, SETTINGS, np.array([True, True])) is None


def test_gradients_from_outside_and_shared_batches_are_measured_too():
    rng = np.random.default_rng(5)
    noise = rng.normal(size=1_600)
    outside = eg.External(lambda q, batch, seed: q + np.array([batch, 0.0]), list(noise), init=np.zeros(2))
    run = eg.sample(outside, eg.sghmc(), steps=400, step_size=0.5, **QUIET | {"warmup": 0})
    bias = eg.exact_law(
        eg.sghmc(), eg.gallery.gaussian(2), 0.5, gradient_noise=np.array([1.0, 0.0]), compensate=False
    ).bias
    np.testing.assert_allclose(mean_of(run), 1 + bias[:2], rtol=0.2)
    assert bias[0] > 0.2
    target = one_noisy_number(size=3, place=1)
    settings = QUIET | {"steps": 4_000, "step_size": 0.5, "batch_size": 100, "share_batches": True}
    with pytest.warns(UserWarning, match=r"position\[1\]"):
        shared = eg.sample(target, eg.sghmc(4.0), **settings)
    assert mean_of(shared)[1] > 3 * mean_of(shared)[0]
