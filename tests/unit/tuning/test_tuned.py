"""`eg.sample(target)`: reached where it should be, refused or "not reached" where it should not."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.diagnostics.accuracy import Accuracy, measured, sums

LOOSE = eg.Accuracy(mean=0.2, sd=0.15)


@pytest.fixture(scope="module")
def regression() -> eg.Posterior:
    """Linear regression with known noise: the posterior is a Gaussian in closed form."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((20_000, 3)).astype(np.float32) * np.array([1.0, 2.0, 0.2], np.float32)
    y = (x @ np.array([1.0, -1.0, 0.5], np.float32) + rng.standard_normal(20_000)).astype(np.float32)

    def log_likelihood(w, batch):
        return -((batch["y"] - batch["x"] @ w) ** 2) / 2

    return eg.Posterior(lambda w: -jnp.sum(w**2) / 2, log_likelihood, {"x": x, "y": y}, init=np.zeros(3, np.float32))


@pytest.fixture(scope="module")
def tuned(regression) -> eg.Run:
    return eg.sample(regression, accuracy=LOOSE, progress=False)


def closed_form(target) -> tuple[np.ndarray, np.ndarray]:
    x, y = (np.asarray(target.data[name], float) for name in "xy")
    covariance = np.linalg.inv(x.T @ x + np.eye(3))
    return covariance @ x.T @ y, np.sqrt(np.diag(covariance))


def test_minibatches_reach_the_accuracy(tuned, regression):
    mean, sd = closed_form(regression)
    draws = tuned.posterior.reshape(-1, 3)
    assert tuned.tuning.reached
    assert tuned.tuning.settings.method == "minibatches"
    assert np.all(np.abs(draws.mean(axis=0) - mean) < LOOSE.mean * sd)
    assert np.all(np.abs(draws.std(axis=0) / sd - 1) < LOOSE.sd)
    assert "Reached" in str(tuned)
    assert "not seen" in str(tuned)
    assert "passes over the data" in str(tuned)


def test_the_draws_of_the_last_rung_come_again_from_its_arguments(tuned, regression):
    again = eg.sample(regression, **tuned.tuning.settings.arguments, progress=False)
    np.testing.assert_array_equal(again.posterior, tuned.posterior)


def test_its_diagnosis_uses_the_witness(tuned):
    diagnosis = tuned.diagnose()
    assert diagnosis.passed, str(diagnosis)
    assert diagnosis["accuracy"].explanation.startswith("Reached: every mean within 0.2 sd")
    assert diagnosis["accuracy"].figure <= diagnosis["accuracy"].tolerance == LOOSE.sd
    assert "by a run with twice the step (order 2)" in diagnosis["bias of sds"].explanation
    assert not diagnosis["width of the law"].is_undecided
    assert not any("Step-size bias was not looked at" in note for note in diagnosis.notes)
    wider = replace(tuned.witness, posterior=1.9 * tuned.witness.posterior)
    wrong = replace(tuned, witness=wider).diagnose()
    assert "with twice the step it differs by +" in wrong["bias of sds"].explanation
    assert [check.name for check in wrong.checks if not check.passed] == ["bias of means", "bias of sds"]
    missed = replace(tuned, tuning=replace(tuned.tuning, reached=False, words="NOT reached: chains have not met."))
    assert [check.name for check in missed.diagnose().checks if not check.passed] == ["accuracy"]


def test_a_file_keeps_report_and_witness(tuned, tmp_path):
    tuned.save(tmp_path / "run.nc")
    again = eg.load(tmp_path / "run.nc")
    assert str(again.diagnose()) == str(tuned.diagnose())
    assert again.tuning.words == tuned.tuning.words
    assert again.tuning.reached
    np.testing.assert_array_equal(again.witness.posterior, tuned.witness.posterior)


def test_a_run_on_disk_is_the_same_and_is_resumed(tuned, regression, tmp_path):
    out = tmp_path / "run.nc"
    run = eg.sample(regression, accuracy=LOOSE, out=out, progress=False)
    np.testing.assert_array_equal(run.posterior, tuned.posterior)
    assert not (tmp_path / "run.nc.part").exists()
    again = eg.sample(regression, accuracy=LOOSE, out=out, resume=True, progress=False)
    np.testing.assert_array_equal(again.posterior, tuned.posterior)
    with pytest.raises(eg.InputError, match=r"holds another run: seed"):
        eg.sample(regression, accuracy=LOOSE, out=out, resume=True, seed=1, progress=False)


def test_stopped_after_the_witness_it_goes_on_with_its_plan(tuned, regression, tmp_path, monkeypatch):
    from ergodica.tuning import tuned as module

    out, real = tmp_path / "run.nc", module.execute
    monkeypatch.setattr(module, "execute", _stops_at_the_second(real))
    with pytest.raises(KeyboardInterrupt):
        eg.sample(regression, accuracy=LOOSE, out=out, progress=False)
    assert (tmp_path / "run.nc.part" / "rung-0.nc").exists()
    monkeypatch.setattr(module, "execute", real)
    monkeypatch.setattr(module, "settings_for", lambda _: pytest.fail("it was planned again"))
    run = eg.sample(regression, accuracy=LOOSE, out=out, resume=True, progress=False)
    np.testing.assert_array_equal(run.posterior, tuned.posterior)


def _stops_at_the_second(real):
    made = []

    def execute(*arguments):
        made.append(1)
        if len(made) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    return execute


def test_a_damaged_plan_is_named(regression, tmp_path, monkeypatch):
    from ergodica.tuning import tuned as module

    out, plan = tmp_path / "run.nc", tmp_path / "run.nc.part" / "plan.json"
    monkeypatch.setattr(module, "carried_out", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        eg.sample(regression, accuracy=LOOSE, out=out, progress=False)
    plan.write_text(json.dumps(json.loads(plan.read_text()) | {"trouble": "none"}))
    with pytest.raises(eg.InputError, match=r"plan.json is damaged"):
        eg.sample(regression, accuracy=LOOSE, out=out, resume=True, progress=False)


def _interrupted(*_):
    raise KeyboardInterrupt


def test_few_data_get_a_metropolis_test():
    run = eg.sample(eg.gallery.gaussian(2), accuracy=LOOSE, temperature=2.0, progress=False)
    assert run.tuning.settings.method == "Metropolis"
    assert run.tuning.reached
    assert np.all(np.abs(run.posterior.std(axis=(0, 1)) / np.sqrt(2) - 1) < LOOSE.sd)


def test_a_domain_and_names_are_served():
    def potential(q):
        return q["rate"] + jnp.sum(q["shift"] ** 2) / 2

    init = {"rate": np.float32(1.0), "shift": np.zeros(2, np.float32)}
    target = eg.Density(potential, init=init, domain={"rate": eg.positive, "shift": None})
    run = eg.sample(target, accuracy=LOOSE, progress=False)
    assert run.tuning.reached
    assert abs(run.posterior["rate"].mean() - 1) < LOOSE.mean
    assert run.posterior["rate"].min() >= 0


def test_two_modes_are_met_and_never_reached():
    def potential(q):
        logs = jnp.log(jnp.array([0.3, 0.7]))
        return -jax.nn.logsumexp(logs - jnp.array([jnp.sum((q + 5) ** 2), jnp.sum((q - 5) ** 2)]) / 2)

    target = eg.Density(potential, init=np.full(3, -5.0))
    settings = eg.tune(target, accuracy=LOOSE)
    assert settings.method == "Metropolis"
    assert "2 modes" in settings.reason
    run = eg.sample(target, accuracy=LOOSE, progress=False)
    assert not run.tuning.reached
    assert "R-hat" in run.tuning.words


@jax.custom_jvp
def _scaled_slope(q):
    return jnp.sum(q**2) / 2


@_scaled_slope.defjvp
def _(primals, tangents):
    return _scaled_slope(primals[0]), 1.3 * jnp.sum(primals[0] * tangents[0])


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (
            eg.Density(lambda q: q[0] ** 2 / 2, init=np.zeros(2, np.float32)),
            "flat, or falls .*number 1",
        ),
        (eg.Density(_scaled_slope, init=np.ones(3, np.float32)), "gradient of this target does not match"),
        (eg.External(lambda q, batch, seed: q, [np.zeros(1)], init=np.ones(2)), "gives gradients only"),
        (eg.Density(lambda q: jnp.sum(q**2)), "no start"),
    ],
)
def test_what_cannot_be_tuned_is_refused_with_the_way_to_go_on(target, words):
    with pytest.raises(eg.InputError, match=words):
        eg.sample(target, progress=False)


def test_settings_are_given_together_or_not_at_all():
    target = eg.gallery.gaussian(2)
    with pytest.raises(eg.InputError, match="step_size is missing: give recipe, steps and step_size, or none"):
        eg.sample(target, eg.sghmc(), steps=10)
    with pytest.raises(eg.InputError, match="batch_size is chosen by tuning"):
        eg.sample(target, batch_size=10)
    with pytest.raises(eg.InputError, match="accuracy is for runs that are tuned"):
        eg.sample(target, eg.sghmc(), steps=10, step_size=0.1, accuracy=eg.Accuracy())
    with pytest.raises(eg.InputError, match="mean and sd of at most 1"):
        eg.Accuracy(sd=2.0)


def test_a_plan_is_a_page_and_costs_no_chain(regression):
    settings = eg.tune(regression)
    assert "minibatches" in str(settings)
    assert "passes over the data predicted" in settings.reason
    assert set(settings.predicted) == {"minibatches", "all data", "Metropolis"}


def test_errors_of_segments_are_those_of_independent_draws():
    draws = np.random.default_rng(0).standard_normal((4, 20_000, 50)) * 3
    found = measured(draws)
    np.testing.assert_allclose(found.mean_error.mean(), 1 / np.sqrt(80_000), rtol=0.05)
    np.testing.assert_allclose(found.sd_error.mean(), 1 / np.sqrt(160_000), rtol=0.05)
    assert found.r_hat.max() < 1.001


def test_what_the_witness_shows_beyond_the_prediction_counts_as_bias():
    rng, accuracy = np.random.default_rng(1), Accuracy()
    run, wide = rng.standard_normal((4, 20_000, 2)), 1.3 * rng.standard_normal((4, 20_000, 2))
    found = sums(accuracy, measured(run), measured(wide), (0.0, 0.0))
    np.testing.assert_allclose(found.sd_bias, 0.1, atol=0.01)
    assert not found.is_within(accuracy)
    expected = sums(accuracy, measured(run), measured(wide), (0.0, 0.3))
    assert expected.is_within(accuracy)
    assert np.all(expected.sd_bias == 0)


# -- more than 2,000 numbers, more than a million rows ----------------------------------------------------------


def test_a_large_position_is_scaled_by_a_diagonal_with_few_directions_corrected():
    """Widths from 0.01 to 10 and five directions that the diagonal does not see: R makes all of them equal."""
    size, rng = 2_100, np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((size, 5)))[0]
    extra, widths = np.array([200.0, 50.0, 10.0, -0.9, -0.95]), np.geomspace(0.01, 10, size)

    def potential(q):
        y = q / widths
        return (y @ y + jnp.sum(extra * (y @ turn) ** 2)) / 2

    target = eg.Density(potential, init=np.zeros(size))
    settings = eg.tune(target)
    root = settings.root
    assert not root.is_dense
    assert 5 <= root.vectors.shape[1] <= 8
    u = rng.standard_normal((3, size))
    np.testing.assert_allclose(root.pulled(root.pushed(u)), u, atol=1e-8)
    # R^T H R: the five directions have curvature 1, and no other is far from it
    scaled = root.pushed(u) / widths
    curvature = np.sum(scaled**2, axis=1) + np.sum(extra * (scaled @ turn) ** 2, axis=1)
    assert np.all(curvature / np.sum(u**2, axis=1) < 1.05)
    assert 0.4 < settings.laplace.peak.slowest <= 1
    assert settings.arguments["recipe"].curl["momentum", "position"] is not None


def test_low_rank_scale_is_its_dense_matrix():
    from ergodica.operators import LowRank, LowRankOperator, scaled
    from ergodica.tree import Layout

    rng, layout = np.random.default_rng(3), Layout.of(jnp.zeros(6))
    vectors = jnp.asarray(np.linalg.qr(rng.standard_normal((6, 2)))[0])
    value = LowRank(jnp.arange(1.0, 7.0), vectors, jnp.array([2.0, -0.5]))
    dense = np.diag(np.arange(1.0, 7.0)) @ (np.eye(6) + vectors @ np.diag([2.0, -0.5]) @ vectors.T)
    operator = LowRankOperator(value, layout)
    np.testing.assert_allclose(operator.to_dense(), dense, rtol=1e-12)
    np.testing.assert_allclose(operator.transpose().to_dense(), dense.T, rtol=1e-12)
    np.testing.assert_allclose(scaled(3.0, operator).to_dense(), 3 * dense, rtol=1e-12)
    recipes = [eg.sghmc(1.5, scale=one) for one in (value, jnp.asarray(dense))]
    one, other = (
        eg.sample(eg.gallery.gaussian(6), recipe, steps=5, step_size=0.1, chains=1, progress=False)
        for recipe in recipes
    )
    np.testing.assert_allclose(one.posterior, other.posterior, rtol=1e-9)


def test_every_row_of_a_rare_feature_is_looked_at(monkeypatch):
    from ergodica.tuning import noise

    rng = np.random.default_rng(2)
    x = rng.standard_normal((5_000, 3)) * (rng.random((5_000, 3)) < [1.0, 0.5, 0.004])
    target = eg.Posterior(lambda w: -jnp.sum(w**2), lambda w, b: -((b["x"] @ w) ** 2), {"x": x}, init=np.zeros(3))
    monkeypatch.setattr(noise, "RARE_ROWS", 100)
    monkeypatch.setattr(noise, "MOST_ROWS", 1_000)
    np.testing.assert_array_equal(noise.rare_rows(target, 700), x[:, 2] != 0)
    blocks = list(noise._looked_at(target, 300, rng))
    rows, weights = (np.concatenate(part) for part in zip(*((b["x"], w) for b, w in blocks), strict=True))
    seen = weights > 0
    assert seen.sum() == 1_000
    assert weights.sum() == pytest.approx(5_000)
    assert np.sum(rows[seen][:, 2] != 0) == np.sum(x[:, 2] != 0)
    assert np.all(weights[seen & (rows[:, 2] != 0)] == 1)


def test_minibatches_at_another_temperature(regression):
    run = eg.sample(regression, accuracy=LOOSE, temperature=2.0, progress=False)
    _, sd = closed_form(regression)
    assert run.tuning.reached
    assert run.tuning.settings.method == "minibatches"
    assert np.all(np.abs(run.posterior.std(axis=(0, 1)) / (np.sqrt(2) * sd) - 1) < LOOSE.sd)


def test_data_on_disk_give_the_draws_of_those_in_memory(regression, tuned, tmp_path):
    for name, array in regression.data.items():
        np.save(tmp_path / f"{name}.npy", array)
    source = eg.data.npy({name: tmp_path / f"{name}.npy" for name in regression.data})
    target = eg.Posterior(regression.log_prior, regression.log_likelihood, source, init=np.zeros(3, np.float32))
    run = eg.sample(target, accuracy=LOOSE, progress=False)
    assert run.tuning.reached
    assert run.tuning.settings.method == "minibatches"


def test_chains_that_remember_longer_than_a_segment_have_larger_errors():
    """An autoregression whose time is a fifth of a chain: the scatter of segments alone says a third of the error."""
    rng, rho = np.random.default_rng(4), np.exp(-1 / 400)
    draws = np.zeros((4, 8_000, 200))
    for step in range(1, 8_000):
        draws[:, step] = rho * draws[:, step - 1] + np.sqrt(1 - rho**2) * rng.standard_normal((4, 200))
    found = measured(draws)
    true = np.sqrt(2 * 400 / 32_000)
    assert np.mean(found.mean_error * found.sd) == pytest.approx(true, rel=0.2)


BOWL = eg.Density(lambda q: jnp.sum(q**2) / 2, init=np.zeros(2))


@pytest.mark.parametrize(("keep", "says"), [(lambda q: None, "returned no arrays"), ("mu", "keep is 'mu'")])
def test_what_cannot_be_kept_is_refused_before_any_search(keep, says):
    with pytest.raises(eg.InputError, match=says):
        eg.tune(BOWL, keep=keep)


def test_a_start_of_another_shape_is_named():
    with pytest.raises(eg.InputError, match="is `init` of the right shape"):
        eg.tune(eg.Density(lambda q: jnp.sum((q - jnp.zeros(3)) ** 2), init=np.zeros(2)))
    with pytest.raises(eg.InputError, match="log_likelihood meets shapes that do not fit"):
        eg.tune(eg.Posterior(lambda w: 0.0, lambda w, rows: rows @ w, np.ones((9, 3)), init=np.zeros(2)))


def test_a_diagnosis_quotes_the_verdict_of_tuning(tuned):
    missed = replace(tuned, tuning=replace(tuned.tuning, reached=False, words="NOT reached: a line\nand another.\n  a"))
    assert missed.diagnose()["accuracy"].explanation == "NOT reached: a line and another."


def test_a_tuned_run_is_not_resumed_by_hand(tmp_path):
    part = tmp_path / "run.nc.part"
    part.mkdir()
    (part / "plan.json").write_text("{}")
    with pytest.raises(eg.InputError, match="an unfinished run that was tuned: resume it without recipe"):
        eg.sample(BOWL, eg.sghmc(), steps=10, step_size=0.1, out=tmp_path / "run.nc", resume=True)


def test_metropolis_after_a_ladder_has_a_rung_of_its_own(tuned, monkeypatch):
    """On disk the ladder's draws were taken for those with a Metropolis test: both were rung 1."""
    from ergodica.tuning import ladder
    from ergodica.tuning import tuned as module

    plan, seen = tuned.tuning.settings, []
    plan = replace(plan, ways=tuple(way._replace(cost=1.0) for way in plan.ways), rung=1)
    failed = ladder.Outcome(None, None, None, False, [], "sds differ")
    answer = ladder.LadderRung(plan, tuned, measured(tuned.posterior))
    second = ladder.Outcome(answer, None, None, True, [answer])
    monkeypatch.setattr(module, "climb", lambda *_: failed)
    monkeypatch.setattr(module, "metropolis", lambda settings, place: seen.append(settings.rung) or second)
    found = module.carried_out(plan, ladder.in_memory())
    assert seen[0] > ladder.MOST_RUNGS
    assert found.before == "minibatches: sds differ"


def test_a_run_that_nothing_was_compared_with_is_not_called_exact(tuned):
    from ergodica.tuning import ladder
    from ergodica.tuning.report import tuning_of

    plan = tuned.tuning.settings
    rung = ladder.LadderRung(plan, tuned, measured(tuned.posterior))
    words = str(tuning_of(plan, ladder.Outcome(rung, None, None, False, [rung], "chains became non-finite")))
    assert "exact" not in words
    assert "bias       not known" in words


def test_a_witness_that_loses_all_its_chains_at_once_is_none(tuned):
    """As one that loses them later: the next rung takes its place."""
    from ergodica.driver.work import NothingSampled
    from ergodica.tuning import ladder

    def made(*_):
        raise NothingSampled("no chain is finite for more than 11 steps")

    assert ladder.finite_rung(tuned.tuning.settings, ladder.Place(made), "witness", lambda *_: None) is None
