"""NumPyro models as targets: potentials are NumPyro's, batches add up to them, draws are named by site; what cannot be
sampled is refused in one line."""

import functools
import importlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from numpyro import handlers
from numpyro.infer.util import potential_energy

import ergodica as eg
from ergodica.compiling import quick_filter_jit
from ergodica.interop import numpyro as bridge
from ergodica.interop import numpyro_sites
from tests.numpyro_models import MODELS, N, X, Y, schools_model

ROWS = [name for name, case in MODELS.items() if case.rows]


@functools.cache
def made(name: str):
    case = MODELS[name]
    return bridge.target(case.model, rows=case.rows, **case.arguments)


def position(target, seed=3):
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape)), target.init)


@quick_filter_jit
def potential(target, u):
    return target.potential(u)


def compared(target, case) -> list[np.ndarray]:
    """Our potential, NumPyro's, and the average over two halves of the rows, at three positions."""

    @quick_filter_jit
    def values(target, u):
        ours = target.potential(u)
        theirs = potential_energy(case.plain or case.model, (), case.arguments, u)
        if not case.rows:
            return ours, theirs, ours
        halves = jax.tree.map(lambda leaf: jnp.asarray(leaf).reshape(2, -1, *leaf.shape[1:]), target.data)
        return ours, theirs, jnp.mean(jax.vmap(target.potential, (None, 0))(u, halves))

    found = [values(target, position(target, seed)) for seed in range(3)]
    return [np.asarray(each) for each in zip(*found, strict=True)]


def test_there_are_twenty():
    assert len(MODELS) == 20


@pytest.mark.filterwarnings("ignore:subsample_size does not match")  # NumPyro's words on its own substitution
@pytest.mark.parametrize("name", MODELS)
def test_the_potential_is_numpyros_and_batches_average_to_it(name):
    ours, theirs, halves = compared(made(name), MODELS[name])
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)
    np.testing.assert_allclose(halves, ours, rtol=1e-10)


def test_a_jacobian_left_out_is_seen(monkeypatch):
    monkeypatch.setattr(bridge.SiteCoordinates, "has_jacobian", property(lambda self: True))
    monkeypatch.setattr(bridge.SiteCoordinates, "log_jacobian", lambda self, u: jnp.zeros(()))
    case = MODELS["linear"]
    ours, theirs, _ = compared(bridge.target(case.model, rows=case.rows, **case.arguments), case)
    assert not np.allclose(ours, theirs, rtol=1e-4)


def test_a_plate_that_scales_twice_is_seen(monkeypatch):
    def left(self, msg):
        return msg["type"] != "sample" and kept(self, msg)

    kept = numpyro_sites.WholePlates.process_message
    monkeypatch.setattr(numpyro_sites.WholePlates, "process_message", left)
    ours, theirs, halves = compared(made("logistic"), MODELS["logistic"])
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)  # all rows: nothing to scale
    assert not np.allclose(halves, ours, rtol=1e-2)


@pytest.mark.parametrize("name", ["linear", "schools", "correlated", "nested_supports", "grades"])
def test_there_and_back(name):
    coordinates = made(name).coordinates
    u = position(made(name))
    back = quick_filter_jit(lambda c, u: c.undrawn(c.drawn(u)))(coordinates, u)
    jax.tree.map(lambda got, expected: np.testing.assert_allclose(got, expected, atol=1e-9), back, u)


def test_the_jacobian_is_that_of_the_map():
    coordinates = made("nested_supports").coordinates
    u = {"high": jnp.asarray(0.3), "low": jnp.asarray(-0.7)}
    jacobian, matrix = quick_filter_jit(lambda c, u: (c.log_jacobian(u), jax.jacfwd(c.constrained)(u)))(coordinates, u)
    found = np.array([[matrix[row][column] for column in u] for row in u])
    np.testing.assert_allclose(jacobian, np.log(np.abs(np.linalg.det(found))), rtol=1e-12)


def test_at_another_temperature_the_law_is_that_of_the_constrained_values():
    """U - T log|J|."""
    target = made("linear")
    u = position(target)
    jacobian = u["noise"]  # of exp
    expected = potential(target, u) + 0.5 * jacobian
    np.testing.assert_allclose(potential(target.tempered(0.5), u), expected, rtol=1e-12)


def test_a_scaled_site_keeps_its_whole_jacobian():
    """p(x)^s |J|; NumPyro's potential_energy scales the Jacobian as well, so that its law depends on the bijection."""

    def model():
        with handlers.scale(scale=0.5):
            numpyro.sample("x", dist.Gamma(3.0, 1.0))

    u = {"x": jnp.asarray(0.4)}
    expected = -0.5 * dist.Gamma(3.0, 1.0).log_prob(jnp.exp(u["x"])) - u["x"]
    np.testing.assert_allclose(potential(bridge.target(model), u), expected, rtol=1e-12)


def test_draws_are_constrained_and_named_by_site():
    run = eg.sample(made("two_outcomes"), eg.sghmc(), steps=40, step_size=0.02, batch_size=30, chains=1, progress=False)
    assert {name: leaf.shape for name, leaf in run.posterior.items()} == {
        "noise": (1, 40),
        "precision": (1, 40),
        "slope": (1, 40),
    }
    assert (run.posterior["noise"] > 0).all()
    np.testing.assert_allclose(run.posterior["precision"], run.posterior["noise"] ** -2, rtol=1e-9)


def test_all_data_keep_every_deterministic_site():
    case = MODELS["two_outcomes"]
    target = bridge.target(case.model, *case.arguments.values())
    assert isinstance(target, eg.Density)
    assert set(target.coordinates.split.computed) == {"precision", "line"}
    u = position(target)
    np.testing.assert_allclose(potential(target, u), potential(made("two_outcomes"), u), rtol=1e-12)


def test_the_start_depends_on_the_seed_and_a_start_may_be_given():
    case = MODELS["linear"]
    one, same, other = (bridge.target(case.model, rows=case.rows, seed=s, **case.arguments).init for s in (1, 1, 2))
    assert one["noise"] == same["noise"] != other["noise"]
    coordinates = made("linear").coordinates
    u = coordinates.sampled({"noise": np.array(2.0), "weights": np.zeros(3)})
    np.testing.assert_allclose(u["noise"], np.log(2.0), rtol=1e-12)
    with pytest.raises(eg.InputError, match=r"^noise = -1.0 is outside the support of its site: start inside it$"):
        coordinates.sampled({"noise": np.array(-1.0), "weights": np.zeros(3)})
    with pytest.raises(eg.InputError, match="expected a dictionary with the sites"):
        coordinates.sampled({"noise": np.array(1.0)})


def test_memory_mapped_rows(tmp_path):
    np.save(tmp_path / "x.npy", X)
    target = bridge.target(MODELS["linear"].model, np.load(tmp_path / "x.npy", "r"), Y, rows=("x", "y"))
    assert target.source is not None
    u = position(target)
    np.testing.assert_allclose(target.potential(u), potential(made("linear"), u), rtol=1e-12)


def test_weights_of_a_random_network():
    linen = pytest.importorskip("flax.linen")
    from numpyro.contrib.module import random_flax_module

    def model(x, y):
        line = random_flax_module("line", linen.Dense(1), dist.Normal(0.0, 1.0), input_shape=(1, 3))
        numpyro.sample("y", dist.Normal(line(x)[:, 0], 1.0), obs=y)

    target = bridge.target(model, rows=("x", "y"), x=X, y=Y)
    assert target.init["line/kernel"].shape == (3, 1)


def test_what_depends_on_what_is_followed_through_calls_and_scans():
    def function(first, second):
        def step(carry, x):
            a, b, c = carry
            return (b, c + x, c), a

        (a, _, c), seen = jax.lax.scan(step, (second, second, first), jnp.arange(3.0))
        called = jax.jit(lambda p, q: (p + 1.0, q * 2.0))(first, second)
        return {"a": a, "c": c, "seen": seen, "called": called, "shape": jnp.zeros_like(first), "own": second}

    found = numpyro_sites.dependent(function, jnp.asarray(1.0), jnp.asarray(2.0))
    assert found == {"a": True, "c": True, "seen": True, "called": (True, False), "shape": False, "own": False}
    swapped = numpyro_sites.dependent(lambda second, first: function(first, second), jnp.asarray(1.0), jnp.asarray(2.0))
    assert not swapped["c"]
    assert swapped["a"]
    assert swapped["called"] == (False, True)


# -- what is refused --------------------------------------------------------------------------------


def mean(y):
    return numpyro.sample("mean", dist.Normal(0.0, 1.0))


def summed(x, y):
    numpyro.factor("likelihood", -jnp.sum((y - mean(y) * x[:, 0]) ** 2))


def vector(x, y):
    numpyro.sample("y", dist.Normal(mean(y) * x[:, 0], 1.0).to_event(1), obs=y)


def no_rows(x, y):
    numpyro.sample("y", dist.Normal(mean(y), 1.0), obs=jnp.asarray(1.0))


def centred(x, y):
    line = mean(y) * (x[:, 0] - x[:, 0].mean())
    with numpyro.plate("rows", N):
        numpyro.sample("y", dist.Normal(line, 1.0), obs=y)


def by_number(x, y):
    numpyro.sample("y", dist.Normal(mean(y), 1.0), obs=y)
    numpyro.factor("penalty", -y.shape[0] * mean_square(y))


def mean_square(y):
    return numpyro.sample("square", dist.Normal(0.0, 1.0)) ** 2


def steps(x, y):
    numpyro.sample("y", dist.Normal(mean(y) * y[:-1], 1.0), obs=y[1:])


def pairs(x, y):
    numpyro.factor("pairs", -mean(y) * (y[:, None] - y) ** 2)


def odd_plate(x, y):
    with numpyro.plate("rows", 13):
        numpyro.sample("y", dist.Normal(mean(y), 1.0), obs=y)


def labels(x, y):
    label = numpyro.sample("label", dist.Bernoulli(0.5))
    numpyro.sample("y", dist.Normal(mean(y) + label, 1.0), obs=y)


def optimised(x, y):
    numpyro.sample("y", dist.Normal(mean(y), numpyro.param("noise", 1.0)), obs=y)


def bounded_by_rows(x, y):
    high = numpyro.sample("high", dist.Uniform(0.0, jnp.max(x) + 9.0))
    numpyro.sample("y", dist.Normal(high, 1.0), obs=y)


def imputed_and_used(x, y):
    seen = numpyro.sample("x", dist.Normal(0.0, 1.0), obs=x[:, 0], obs_mask=x[:, 0] > 0)
    numpyro.sample("y", dist.Normal(mean(y) * seen, 1.0), obs=y)


def jittered(x, y):
    numpyro.sample("y", dist.Normal(mean(y) + jax.random.normal(numpyro.prng_key()), 1.0), obs=y)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (summed, "site 'likelihood' depends on the rows, but its log density has shape () for 5 rows"),
        (vector, "site 'y' depends on the rows, but its log density has shape () for 5 rows"),
        (steps, "site 'y' depends on the rows, but its log density has shape (4,) for 5 rows"),
        (pairs, "site 'pairs' depends on the rows, but its log density has shape (5, 5) for 5 rows"),
        (no_rows, "no site of the model has a term for each row of x, y"),
        (centred, "the model's log density of a row changes with the other rows of a batch"),
        (by_number, "the model's log density without rows changes with the other rows of a batch or with their number"),
        (odd_plate, f"plate 'rows' has size 13; the plate of the {N} rows has their number"),
        (labels, "site 'label' is discrete"),
        (jittered, "site 'y' depends on random numbers that are no latent site"),
        (optimised, "site 'noise' is a numpyro.param"),
        (bounded_by_rows, "the support of site 'high' depends on the rows"),
        (imputed_and_used, "site 'x_unobserved' is a latent variable of each row (shape (5,) on a batch of them)"),
    ],
)
def test_a_model_that_has_no_rows_of_its_own_is_refused_by_name(model, words):
    with pytest.raises(eg.InputError) as refused:
        bridge.target(model, rows=("x", "y"), x=X, y=Y)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_rows_are_checked():
    model, arguments = MODELS["linear"].model, MODELS["linear"].arguments
    with pytest.raises(eg.InputError, match=r"^rows names 'z', which is no argument of the model: it was given x, y$"):
        bridge.target(model, rows=("z",), **arguments)
    with pytest.raises(
        eg.InputError, match=r"must have the same number of rows .*rows\['x'\] has 3, rows\['y'\] has 120"
    ):
        bridge.target(model, rows=("x", "y"), x=X[:3], y=Y)
    with pytest.raises(eg.InputError, match="site 'effect' is a latent variable of each row"):
        bridge.target(schools_model, rows=("errors", "y"), **MODELS["schools"].arguments)
    with pytest.raises(eg.InputError, match="the model cannot be called with these arguments: missing"):
        bridge.target(model, X, rows="x")


def test_what_nothing_depends_on_is_integrated_out_and_the_rest_is_not():
    assert set(made("missing").init) == {"noise", "slope"}
    assert set(bridge.target(imputed_and_used, X, Y).init) == {"mean", "x_unobserved"}


def test_without_numpyro_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpyro", None)
    monkeypatch.delitem(sys.modules, "ergodica.interop.numpyro")
    with pytest.raises(eg.InputError, match=r"needs numpyro, .* not installed: pip install 'ergodica\[numpyro\]'$"):
        importlib.import_module("ergodica.interop.numpyro")
