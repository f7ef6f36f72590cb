"""Warm-up by an optimiser, the scale that it learns, and cycles."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ergodica as eg
from ergodica.driver.draws import KeptSteps
from ergodica.errors import InputError
from ergodica.samplers.preconditioned import scale_of, scaled_recipe
from tests.unit.driver.runs import ROWS, assert_same_bytes, run

FAR = {"mean": np.full(2, 30.0)}
WARMUP = eg.Optimise(optax.adam(0.3), steps=300, settle=5)


def test_chains_begin_where_the_optimiser_ends():
    found = run(init=eg.same(FAR), warmup=WARMUP, steps=20)
    centre = ROWS.sum(0) / (len(ROWS) + 1)
    assert np.abs(found.posterior["mean"][:, 0] - centre).max() < 1.0
    assert found.settings["warmup"] == 5
    assert np.abs(run(init=eg.same(FAR), steps=20).posterior["mean"][:, 0] - centre).min() > 20


def test_each_chain_has_its_own_way():
    found = run(init=eg.same(FAR), warmup=eg.Optimise(optax.sgd(0.1), steps=5), steps=4, step_size=1e-9)
    assert not np.allclose(found.posterior["mean"][0], found.posterior["mean"][1])


def test_a_run_that_is_resumed_is_the_same(tmp_path):
    recipe = eg.preconditioned(eg.sghmc())
    plain = run(recipe, init=FAR, warmup=WARMUP)
    written = run(recipe, init=FAR, warmup=WARMUP, out=tmp_path / "run.nc")
    assert_same_bytes(plain, written)
    again = run(recipe, init=FAR, warmup=WARMUP, out=tmp_path / "run.nc", resume=True)
    np.testing.assert_array_equal(again.posterior["mean"], plain.posterior["mean"])


def test_an_optimiser_that_diverges_is_named():
    with pytest.raises(InputError, match="optimiser of the warm-up lost chain 0"):
        run(init=eg.same(FAR), warmup=eg.Optimise(optax.sgd(1e4), steps=400))


@pytest.mark.parametrize(
    "changes", [{"recipe": optax.adam(1e-3)}, {"step_size": optax.sgd(1e-3)}, {"warmup": optax.adam(1e-3)}]
)
def test_optimisers_are_for_the_warm_up(changes):
    with pytest.raises(InputError, match="an optimiser is no sampler"):
        run(**changes)


def test_a_scale_is_not_learned_where_gradients_vanish():
    with pytest.raises(InputError, match="vanish where an optimiser arrives"):
        run(eg.preconditioned(eg.sghmc()), warmup=WARMUP, batch_size=None)


@pytest.mark.parametrize("arguments", [(3.0, 10), (optax.sgd(0.1), 0), (optax.sgd(0.1), 1.5)])
def test_what_is_no_optimiser_is_refused(arguments):
    with pytest.raises(InputError, match=r"eg\.Optimise"):
        eg.Optimise(*arguments)


def test_a_scale_is_a_change_of_variable():
    """In q / s the recipe is what it was: the exact law of the chain on a Gaussian says so."""
    scale = jnp.array([0.1, 3.0])
    for recipe in (eg.sgld(), eg.sghmc(friction=2.0), eg.sghmc(friction=jnp.array([1.0, 2.0]), mass=0.5)):
        wide = eg.Density(lambda q: 0.5 * jnp.sum((q / scale) ** 2), init=scale)
        plain = eg.exact_law(recipe, eg.gallery.gaussian(2), step_size=0.2).covariance
        found = eg.exact_law(scaled_recipe(recipe, scale), wide, step_size=0.2).covariance
        np.testing.assert_allclose(found, plain * np.outer(scale, scale), rtol=1e-9)
    assert eg.certify(scaled_recipe(eg.sgnht(), scale), wide, scale).passed


def test_the_scale_has_geometric_mean_one_and_bounds():
    scale = scale_of({"a": jnp.array([1.0, 16.0]), "b": jnp.zeros(1)})
    values = np.concatenate([np.asarray(leaf).reshape(-1) for leaf in scale.values()])
    assert np.log(values).sum() == pytest.approx(0.0, abs=1e-12)
    assert values[0] / values[1] == pytest.approx(2.0)
    assert np.isfinite(values).all()


def test_preconditioning_finds_the_scales_of_a_target():
    target = eg.Density(lambda q: 0.5 * (q[0] / 0.01) ** 2 + 0.5 * q[1] ** 2, init=np.array([0.01, 1.0]))
    found = eg.sample(target, eg.preconditioned(eg.sghmc()), steps=20, step_size=0.02, chains=2)
    assert "0.31622777" in found.settings["recipe"]["curl"]["momentum position"]
    assert eg.psgld().learns_scale


@pytest.mark.parametrize(
    "recipe", [eg.sgrld(eg.expanded_mean()), eg.irreversible_langevin(np.array([[0.0, 1.0], [-1.0, 0.0]]))]
)
def test_a_recipe_with_a_metric_of_its_own_is_refused(recipe):
    with pytest.raises(InputError, match=r"eg\.preconditioned"):
        eg.preconditioned(recipe)


@pytest.mark.parametrize("warmup", [0, 5, 20])
@pytest.mark.parametrize("thin", [1, 3])
def test_steps_kept_of_cycles(warmup, thin):
    kept = KeptSteps(warmup, thin, 137, 20, 7)
    numbers = list(kept.between(0, 137))
    assert len(numbers) == kept.draws
    assert all(kept.before(step) == sum(number < step for number in numbers) for step in range(138))
    assert all(number % 20 >= 13 and number >= warmup for number in numbers)
    assert [n for first in range(0, 137, 10) for n in kept.between(first, min(137, first + 10))] == numbers


def test_cycles_keep_short_steps_and_leave_weights_undecided():
    found = run(step_size=eg.cyclical(0.1, period=20), steps=200)
    assert found.posterior["mean"].shape[1] == 100
    assert found.stats["step_size"].max() < 0.06
    report = found.diagnose()
    (check,) = [check for check in report.checks if check.name == "weights of cycles"]
    assert check.is_undecided
    assert not report.passed
    with pytest.raises(InputError, match="no draw at the end of a cycle"):
        run(step_size=eg.cyclical(0.1, period=500, keep=0.1), steps=100)


@pytest.mark.long
def test_networks_of_an_ensemble_start_apart():
    init = lambda key: eqx.nn.MLP(2, 1, 3, 1, key=key)  # noqa: E731
    rows = (ROWS, ROWS[:, 0])

    def log_likelihood(network, batch):
        import jax

        return -((jax.vmap(network)(batch[0])[:, 0] - batch[1]) ** 2)

    target = eg.Posterior(lambda net: -sum(jnp.sum(x**2) for x in _arrays(net)), log_likelihood, rows)
    found = eg.sample(
        target, eg.sghmc(), init, steps=8, step_size=1e-4, batch_size=10, chains=2,
        warmup=eg.Optimise(optax.adam(1e-2), steps=20),
    )  # fmt: skip
    assert isinstance(found.draw(1, -1), eqx.nn.MLP)


def _arrays(network):
    import jax

    return jax.tree.leaves(eqx.filter(network, eqx.is_inexact_array))
