"""What is kept: draws, a function of them, or moments; and what is noted beside them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.compiling import quick_filter_jit
from ergodica.driver import draws as store
from ergodica.driver import load
from ergodica.driver.chunk import kinetic_temperature
from ergodica.driver.draws import add_draw, merged_moments, no_moments, no_moments_yet
from ergodica.driver.request import words as words_of
from ergodica.host import memory
from tests.unit.driver.runs import ROWS, TARGET, run


@pytest.fixture(scope="module")
def draws():
    return run(steps=90, warmup=7)


def test_a_function_of_the_position_is_kept_in_its_place(draws):
    kept = run(steps=90, warmup=7, keep=lambda q: {"norm": jnp.sum(q["mean"] ** 2), "q": q["mean"][:1]})
    np.testing.assert_allclose(kept.posterior["norm"], np.sum(draws.posterior["mean"] ** 2, -1), rtol=1e-12)
    np.testing.assert_array_equal(kept.posterior["q"], draws.posterior["mean"][..., :1])


def test_moments_are_those_of_the_draws(draws):
    moments = run(steps=90, warmup=7, keep="moments")
    assert moments.posterior is None
    np.testing.assert_array_equal(moments.moments.count, [90, 90])
    x = draws.posterior["mean"]
    np.testing.assert_allclose(moments.moments.mean["mean"], x.mean(1), rtol=1e-12)
    np.testing.assert_allclose(moments.moments.variance["mean"], x.var(1, ddof=1), rtol=1e-12)
    assert moments.stats["potential"].tobytes() == draws.stats["potential"].tobytes()


def test_moments_of_many_float32_draws_do_not_stand_still():
    values = np.random.default_rng(0).normal(3.0, 0.01, (40, 500)).astype(np.float32)
    total, part = no_moments_yet(values[0, 0]), no_moments(jnp.asarray(values[0, 0]))
    for block in values:
        for value in block[:10]:
            part = add_draw(part, jnp.asarray(value), jnp.asarray(True))
        part = add_draw(part, jnp.asarray(np.float32(1e9)), jnp.asarray(False))
        total, part = merged_moments(total, part), no_moments(jnp.asarray(values[0, 0]))
    some = values[:, :10].astype(np.float64)
    assert int(total.number) == some.size
    np.testing.assert_allclose(total.mean, some.mean(), rtol=1e-7)
    np.testing.assert_allclose(total.spread / (some.size - 1), some.var(ddof=1), rtol=1e-5)


def test_the_statistics_are_what_they_say(draws):
    stats = draws.stats
    assert set(stats) == set(store.STATISTICS)
    assert all(values.shape == (2, 90) for values in stats.values())
    assert not stats["diverging"].any()
    assert stats["accepted"].all()
    assert (stats["kinetic_temperature"] > 0).all()
    whole = run(eg.sgld(), batch_size=None, steps=5, step_size=1e-3)
    assert np.isnan(whole.stats["kinetic_temperature"]).all()
    # Euler evaluates where the step before ended
    before = whole.posterior["mean"][:, :-1]
    slope = before * 61 - ROWS.sum(0)
    np.testing.assert_allclose(whole.stats["gradient_norm"][:, 1:], np.linalg.norm(slope, axis=-1), rtol=1e-10)
    values = (before**2).sum(-1) / 2 + ((ROWS - before[..., None, :]) ** 2).sum((-1, -2)) / 2
    np.testing.assert_allclose(whole.stats["potential"][:, 1:], values, rtol=1e-10)


def test_kinetic_temperature_is_weighed_with_the_mass():
    kernel = eg.Kernel(TARGET, eg.sghmc(mass=np.array([[2.0, 1.0], [1.0, 3.0]])))
    momentum = np.array([0.7, -1.2])
    phase = kernel.init(TARGET.init, jax.random.key(0)).phase._replace(momentum={"mean": jnp.asarray(momentum)})
    expected = momentum @ np.linalg.solve([[2.0, 1.0], [1.0, 3.0]], momentum) / 2
    np.testing.assert_allclose(kinetic_temperature(kernel, phase), expected, rtol=1e-12)


def test_leapfrog_notes_the_gradient_where_it_ends():
    kernel = eg.Kernel(TARGET, eg.hmc(), eg.Leapfrog(steps=1))
    step = quick_filter_jit(kernel.step)
    state, info = step(kernel.init(TARGET.init, jax.random.key(0)), jax.random.key(1), 0.05)
    slope = state.phase.position["mean"] * 61 - ROWS.sum(0)
    np.testing.assert_allclose(info.gradient_norm, np.linalg.norm(slope), rtol=1e-10)


def test_draws_that_do_not_fit_say_how_much_they_need(monkeypatch, tmp_path):
    monkeypatch.setattr(store, "available_memory", lambda: 20_000)
    assert run(steps=121).posterior["mean"].shape == (2, 121, 2)  # so few that nobody asks
    monkeypatch.setattr(store, "FEW_BYTES", 0)
    with pytest.raises(eg.InputError, match=r"need 12\.1 kB .* 20 kB .*thin=.*keep=function.*'moments'.*out="):
        run(steps=121)
    assert run(steps=120).posterior["mean"].shape == (2, 120, 2)
    assert run(steps=121, out=tmp_path / "run.nc").posterior["mean"].shape == (2, 121, 2)


def test_settings_say_how_the_run_was_made(draws):
    settings = draws.settings
    assert settings["recipe"]["energy"]["momentum"].startswith("Gaussian")
    assert settings["integrator"] == "Splitting()"
    assert (settings["seed"], settings["thin"], settings["warmup"], settings["batches"]) == (0, 1, 7, "gathers")
    assert {"jax", "numpy", "ergodica", "python"} <= set(settings["versions"])
    assert settings["frozen"] == []


def test_halve_runs_as_long_with_half_the_step(draws, tmp_path):
    both = draws.halve()
    assert both.halved.posterior["mean"].shape == draws.posterior["mean"].shape
    assert both.halved.settings["step_size"] == draws.settings["step_size"] / 2
    assert both.halved.settings["seed"] == 1
    both.save(tmp_path / "run.nc")
    read = load(tmp_path / "run.nc")
    np.testing.assert_array_equal(read.halved.posterior["mean"], both.halved.posterior["mean"])
    with pytest.raises(eg.InputError, match="not at hand"):
        read.halve()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"keep": "everything"}, "keep is 'everything'"),
        ({"keep": lambda q: None}, "returned no arrays"),
        ({"batches": "random"}, "batches is 'random': expected 'windows', 'epochs', 'independent'"),
        ({"seed": -1}, "seed is -1: expected a whole number of at least 0"),
        ({"seed": 2**63}, r"at most 2\*\*63 - 1"),
        ({"batches": "epochs", "batch_size": None}, "batches='epochs' is for minibatches"),
        ({"steps": 5, "thin": 10}, "thin=10 keeps none of 5 steps"),
        ({"gradient_noise": 1.0, "batch_size": None}, "leave gradient_noise out"),
        ({"recipe": eg.sghmc}, r"recipe is function sghmc: expected what a builder returns, as eg\.sghmc\(\)$"),
        ({"recipe": TARGET}, "recipe is of type Posterior"),
        ({"target": None}, "target is None: expected an eg.Density"),
        ({"estimator": eg.ControlVariates}, r"ControlVariates: expected eg\.ControlVariates\(\)"),
        ({"resample_every": "abc"}, "resample_every is 'abc': expected a whole number of at least 1"),
        ({"step_size": lambda t: jnp.full((1,), 0.1)}, r"shape \(1,\) at a step"),
        ({"gradient_noise": eg.PerExample(replacement=True)}, "draws without replacement: .*replacement=False"),
        ({"batches": "epochs", "gradient_noise": 1.0}, "not independent"),
        ({"batches": "independent", "gradient_noise": eg.PerExample()}, "replacement=True"),
    ],
)
def test_bad_input(change, words):
    with pytest.raises(eg.InputError, match=words) as raised:
        run(**change)
    assert len(str(raised.value).splitlines()) == 1


class Scaled:
    def __call__(self, q):
        return q["mean"] * 2


def test_words_for_a_file_hold_no_addresses():
    assert words_of(Scaled()) == words_of(Scaled())


@pytest.mark.parametrize("version", [1, 2])
def test_memory_is_what_a_container_leaves(tmp_path, monkeypatch, version):
    inner = tmp_path / ("memory/jobs/mine" if version == 1 else "jobs/mine")
    inner.mkdir(parents=True)
    names = ("limit_in_bytes", "usage_in_bytes") if version == 1 else ("max", "current")
    for folder, values in ((inner, ("max", "70")), (inner.parent, ("1000", "300"))):
        for name, value in zip(names, values, strict=True):
            (folder / f"memory.{name}").write_text(value)
        (folder / "memory.stat").write_text("anon 5\ninactive_file 100\n")
    (tmp_path / "own").write_text("4:memory:/jobs/mine\n5:cpu:/\n" if version == 1 else "0::/jobs/mine\n")
    monkeypatch.setattr(memory, "GROUPS", tmp_path)
    assert memory._of_groups(tmp_path / "own") == [800]
    assert memory.available_memory() > 0
