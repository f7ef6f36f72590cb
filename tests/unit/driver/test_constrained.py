"""Runs of targets with transforms: constrained draws of the right law, in files, resumed, tuned and diagnosed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.compiling import quick_filter_jit
from ergodica.diagnostics.stein import target_checks
from ergodica.driver.constrained import as_begun, kept_function
from ergodica.driver.request import PerChain, Request
from ergodica.driver.starts import Dispersal, Starts
from ergodica.output import blocks

# x ~ Gamma(3, 2) beside a simplex ~ Dirichlet(2, 3, 4), whose shape changes, and a free number behind a wall
TEMPERATURE = 0.5
SHAPES = np.array([2.0, 3.0, 4.0])


def log_density(q):
    gamma = 2 * jnp.log(q["scale"]) - 2 * q["scale"]
    return gamma + jnp.sum(jnp.asarray(SHAPES - 1) * jnp.log(q["parts"])) - q["far"]


def target_with(**changes):
    init = {"far": np.asarray(1.0), "parts": np.array([0.2, 0.3, 0.5]), "scale": np.asarray(1.5)}
    settings = {
        "init": init,
        "transform": {"scale": eg.transforms.log, "parts": eg.transforms.simplex},
        "domain": {"far": eg.positive, "parts": None, "scale": None},
    }
    return eg.Density(lambda q: -log_density(q), **settings | changes)


TARGET = target_with()
SETTINGS = {"steps": 600, "step_size": 0.3, "chains": 2, "temperature": TEMPERATURE, "progress": False}


def run(**changes):
    return eg.sample(TARGET, eg.hmc(), **SETTINGS | changes)


@pytest.fixture(scope="module")
def whole():
    return run()


def test_draws_are_constrained_and_have_the_law_at_their_temperature(whole):
    """p^(1/T) is Gamma(5, 4) and Dirichlet(3, 5, 7), and far an exponential of mean T."""
    drawn = whole.posterior
    assert drawn["parts"].shape == (2, 600, 3)
    np.testing.assert_allclose(drawn["parts"].sum(axis=-1), 1.0, rtol=1e-12)
    powers = (SHAPES - 1) / TEMPERATURE + 1
    truth = {"scale": 5 / 4, "parts": powers / powers.sum(), "far": TEMPERATURE}
    table = whole.summary()
    expected = np.array([truth["far"], *truth["parts"], truth["scale"]])
    assert table.names == ["far", "parts[0]", "parts[1]", "parts[2]", "scale"]
    np.testing.assert_array_less(np.abs(table["mean"] - expected) / table["mean error"], 5.0)
    # with the Jacobian of temperature 1 the scale would be Gamma(4, 4): the check would see that
    assert abs(4 / 4 - 5 / 4) / table["mean error"][-1] > 8
    draw = whole.draw(1, -1)
    assert draw["scale"] == drawn["scale"][1, -1]
    assert draw["parts"].shape == (3,)


def test_files_hold_constrained_draws_and_resumed_runs_have_the_same_bytes(whole, busy, tmp_path, monkeypatch):
    out = tmp_path / "run.nc"
    original, calls = blocks._write_all, iter(range(10**9))

    class Killed(BaseException):
        pass

    def write(file, content):
        if next(calls) == 60:
            raise Killed
        original(file, content)

    monkeypatch.setattr(blocks, "_write_all", write)
    with pytest.raises(Killed):
        run(out=out, steps=20)
    monkeypatch.setattr(blocks, "_write_all", original)
    resumed, read = (run(out=out, steps=20, resume=True) for _ in range(2))
    loaded = eg.load(out, like=whole.draw(0, 0))
    for name, draws in whole.posterior.items():
        for other in (resumed, read, loaded):
            np.testing.assert_array_equal(other.posterior[name], draws[:, :20])
    assert read.draw(0, 5).keys() == loaded.draw(0, 5).keys()
    with pytest.raises(eg.InputError, match=r"parts has shape \(3,\) in .*, but \(2,\)"):
        eg.load(out, like=TARGET.init)


def test_another_transform_is_another_run(whole, tmp_path):
    out = tmp_path / "run.nc"
    run(out=out, steps=4)
    other = target_with(transform={"scale": eg.transforms.softplus, "parts": eg.transforms.simplex})
    with pytest.raises(eg.InputError, match="model"):
        eg.sample(other, eg.hmc(), out=out, resume=True, **SETTINGS | {"steps": 4})


def test_functions_that_are_kept_see_constrained_values():
    kept = kept_function(Request(TARGET, keep=lambda q: q["parts"] * q["scale"]))
    np.testing.assert_allclose(kept(TARGET.init), 1.5 * np.array([0.2, 0.3, 0.5]), rtol=1e-12)


def test_moments_are_those_of_constrained_values(whole):
    found = run(keep="moments")
    for name, values in whole.posterior.items():
        np.testing.assert_allclose(found.moments.mean[name], values.mean(1), rtol=1e-9)


def test_starts_are_given_and_told_as_the_user_sees_them(whole):
    start = {"far": np.asarray(2.0), "parts": np.array([0.1, 0.1, 0.8]), "scale": np.asarray(3.0)}
    begun = run(init=eg.same(start), steps=2, step_size=1e-9)
    for name, value in start.items():
        np.testing.assert_allclose(begun.posterior[name][:, 0], np.stack([value] * 2), rtol=1e-6)
    # to first order: a width of w in log x is one of x w
    starts = Starts(eg.Kernel(TARGET, eg.hmc()), Request(TARGET, eg.hmc(), steps=1, step_size=0.1))
    starts.dispersal = Dispersal("", lambda rng, d: rng.normal(size=d), lambda u: u, np.full((), 0.1))
    assert starts._asked()["scale"] == pytest.approx(0.15)
    assert starts._asked()["far"] == pytest.approx(0.1)
    assert set(whole.settings["start_widths"]) == {"far", "parts", "scale"}
    with pytest.raises(eg.InputError, match=r"position\['scale'\] = -1.0 is not positive"):
        run(init=start | {"scale": np.asarray(-1.0)})


def test_a_leaf_has_walls_or_a_transform():
    with pytest.raises(eg.InputError, match=r"position\['scale'\] has a domain and a transform"):
        target_with(domain={"far": None, "parts": None, "scale": eg.positive})
    late = target_with(domain=eg.positive, init=None)  # of which nothing is known yet
    with pytest.raises(eg.InputError, match="has a domain and a transform"):
        late.check(TARGET.init)
    with pytest.raises(eg.InputError, match="leave truth out"):
        target_with(truth=eg.gallery.gaussian(2).truth)


def test_plans_and_modes_are_of_what_is_sampled():
    target = eg.Density(lambda x: 2 * x - 2 * jnp.log(x), transform=eg.transforms.log)
    settings = eg.tune(target, jnp.asarray(1.0), temperature=TEMPERATURE)
    init = settings.arguments["init"]
    assert isinstance(init, PerChain)
    # at T the potential of u = log x is 2x - 2u - u/2: least at x = 1.25
    assert settings.mode == pytest.approx(np.log(1.25), abs=1e-2)
    begun = as_begun(Request(target, init=init, temperature=TEMPERATURE))  # starts need no way back
    assert begun.target.coordinates.constrained(init.positions[0]) > 0
    assert begun.target.temperature == TEMPERATURE
    mode = eg.find_mode(begun.target, jnp.asarray(1.0))
    assert mode.position == pytest.approx(1.25, rel=1e-2)
    assert mode.unconstrained == pytest.approx(np.log(1.25), abs=1e-2)


@pytest.mark.parametrize(("shape", "is_right"), [(5.0, True), (4.0, False)])
def test_stein_looks_at_gradients_of_what_is_sampled(shape, is_right):
    """At T = 0.5 x is Gamma(5, 4), and would be Gamma(4, 4) with the Jacobian of temperature 1."""
    target = eg.Density(lambda x: 2 * x - 2 * jnp.log(x), init=jnp.asarray(1.0), transform=eg.transforms.log)
    draws = np.random.default_rng(3).gamma(shape, 1 / 4, (2, 500))
    settings = {"temperature": TEMPERATURE, "keep": "draws"}
    checks, notes = target_checks({"position": draws}, target, settings, np.ones(2, bool))
    assert not notes
    assert {check.name: check.passed for check in checks}["Stein discrepancy"] == is_right


def test_control_variates_temper_their_reference():
    rows = np.random.default_rng(4).normal(1.0, 2.0, 50)

    def log_likelihood(sigma, batch):
        return -((batch / sigma) ** 2) / 2 - jnp.log(sigma)

    target = eg.Posterior(lambda sigma: -sigma, log_likelihood, rows, transform=eg.transforms.log)
    tempered, u = target.tempered(TEMPERATURE), jnp.asarray(0.4)
    found = eg.ControlVariates(np.exp(np.asarray(0.3))).prepare(tempered, u)
    assert float(found.centre) == pytest.approx(0.3)
    assert eg.Svrg().prepare(tempered, jnp.asarray(0.3)).gradient == pytest.approx(float(found.gradient), rel=1e-12)

    @quick_filter_jit
    def gradients(found, u):
        exact = jax.grad(lambda u: jnp.exp(u) - jnp.sum(log_likelihood(jnp.exp(u), rows)) - TEMPERATURE * u)(u)
        return jax.vmap(lambda batch: found.evaluate(u, batch)[1])(jnp.asarray(rows.reshape(10, 5))), exact

    parts, exact = gradients(found, u)
    assert np.mean(parts) == pytest.approx(float(exact), rel=1e-10)
