"""Control variates and SVRG: unbiased over any partition, the variance that is claimed, and what is refused."""

from itertools import combinations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.compiling import quick_filter_jit
from ergodica.errors import InputError
from ergodica.gradients import ControlVariates, Svrg, find_mode
from ergodica.gradients.noise import batch_variance
from ergodica.targets.density import Density
from ergodica.targets.posterior import Posterior
from ergodica.tree import Layout

N = 14
RNG = np.random.default_rng(5)
DATA = {"x": RNG.normal(size=(N, 3)), "y": RNG.integers(0, 2, N).astype(float)}
CENTRE = {"w": jnp.array([0.3, -0.2, 0.9]), "scale": jnp.asarray(0.4, float)}
POSITION = {"w": jnp.array([0.5, 0.1, 0.7]), "scale": jnp.asarray(0.6, float)}
LAYOUT = Layout.of(POSITION)


def log_prior(q):
    return -jnp.sum(q["w"] ** 4) - q["scale"] ** 2


def log_likelihood(q, batch):
    logits = jnp.exp(q["scale"]) * (batch["x"] @ q["w"])
    return batch["y"] * logits - jax.nn.softplus(logits)


TARGET = Posterior(log_prior, log_likelihood, DATA, init=CENTRE)
ESTIMATORS = {"control variates": ControlVariates(CENTRE), "svrg": Svrg(10)}
REFERENCED = ControlVariates(CENTRE).prepare(TARGET, POSITION)


@quick_filter_jit
def evaluate(target, batch, position=POSITION):
    return target.evaluate(position, batch)


FULL_VALUE, FULL_GRADIENT = evaluate(TARGET, None)


def partition_average(parts, estimate):
    values, gradients = zip(*(estimate(TARGET.rows(part)) for part in parts), strict=True)
    weights = [len(part) / N for part in parts]
    value = sum(w * v for w, v in zip(weights, values, strict=True))
    return value, sum(w * LAYOUT.ravel(g) for w, g in zip(weights, gradients, strict=True))


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("sizes", [(7, 7), (3, 4, 7), (1, 3, 3, 7), (14,)])
def test_unbiased_over_a_partition_with_unequal_parts(name, sizes):
    prepared = ESTIMATORS[name].prepare(TARGET, CENTRE)
    for seed in range(5):
        parts = np.split(np.random.default_rng(seed).permutation(N), np.cumsum(sizes)[:-1])
        value, gradient = partition_average(parts, lambda batch: evaluate(prepared.without_data(), batch))
        np.testing.assert_allclose(value, FULL_VALUE, rtol=0, atol=1e-10)
        np.testing.assert_allclose(gradient, LAYOUT.ravel(FULL_GRADIENT), rtol=0, atol=1e-10)


def test_a_reference_gradient_of_another_place_is_seen_by_that_check():
    wrong = eqx.tree_at(lambda r: r.gradient, REFERENCED, FULL_GRADIENT)
    parts = np.split(np.arange(N), [3, 7])
    _, gradient = partition_average(parts, lambda batch: evaluate(wrong.without_data(), batch))
    assert np.abs(gradient - LAYOUT.ravel(FULL_GRADIENT)).max() > 1e-2


def test_the_gradient_is_that_of_the_value():
    batch = TARGET.rows(slice(2, 7))
    value, gradient = evaluate(REFERENCED, batch)
    same, slope = quick_filter_jit(lambda q: jax.value_and_grad(REFERENCED.potential)(q, batch))(POSITION)
    np.testing.assert_allclose(LAYOUT.ravel(gradient), LAYOUT.ravel(slope), rtol=1e-12)
    np.testing.assert_allclose(value, same, rtol=1e-12)


def test_no_noise_at_the_centre_and_exact_without_a_batch():
    value, gradient = evaluate(REFERENCED, TARGET.rows(slice(0, 2)), CENTRE)
    full_value, full_gradient = evaluate(TARGET, None, CENTRE)
    np.testing.assert_allclose(value, full_value, rtol=1e-12)
    np.testing.assert_allclose(LAYOUT.ravel(gradient), LAYOUT.ravel(full_gradient), atol=1e-12)
    np.testing.assert_allclose(evaluate(REFERENCED, None)[0], FULL_VALUE, rtol=1e-12)
    np.testing.assert_allclose(REFERENCED.potential(POSITION), FULL_VALUE, rtol=1e-12)


def test_gradient_noise_is_that_of_the_estimator():
    # V averaged over all batches of 3 is the variance of the estimate over all of them, exactly
    batches = [TARGET.rows(np.array(index)) for index in combinations(range(N), 3)]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *batches)
    bare = REFERENCED.without_data()

    @quick_filter_jit
    def each(batch):
        estimate = bare.evaluate(POSITION, batch)[1]
        variances = batch_variance(bare, POSITION, batch), batch_variance(TARGET.without_data(), POSITION, batch)
        return LAYOUT.ravel(estimate), *map(LAYOUT.ravel, variances)

    estimates, claimed, plain = jax.vmap(each)(stacked)
    np.testing.assert_allclose(claimed.mean(axis=0), estimates.var(axis=0), rtol=1e-10)
    assert (claimed.mean(axis=0) < plain.mean(axis=0)).all()
    matrix = eg.gradient_noise(REFERENCED, POSITION, 3, dense=True)
    np.testing.assert_allclose(np.diag(matrix), estimates.var(axis=0), rtol=1e-10)


def test_chains_that_share_a_batch_share_what_it_says_at_the_centre():
    def products(chains):
        stacked = jax.tree.map(lambda leaf: jnp.stack([leaf] * chains), POSITION)
        bare, batch = REFERENCED.without_data(), TARGET.rows(slice(0, 5))
        jaxpr = jax.make_jaxpr(jax.vmap(lambda q: bare.evaluate(q, batch)[1]))(stacked)
        return [eqn.outvars[0].aval.shape for eqn in jaxpr.jaxpr.eqns if eqn.primitive.name == "dot_general"]

    assert (5,) in products(3)  # x @ centre, not once for each chain


def test_a_new_reference_does_not_compile_again():
    traces = []

    @eqx.filter_jit
    def step(target, batch):
        traces.append(1)
        return target.evaluate(POSITION, batch)[0]

    for centre in (CENTRE, jax.tree.map(lambda leaf: leaf + 1.0, POSITION)):
        step(Svrg(5).prepare(TARGET, centre).without_data(), TARGET.rows(slice(0, 4)))
    assert len(traces) == 1


def test_without_a_centre_it_is_the_mode():
    prepared = ControlVariates().prepare(TARGET, POSITION)
    mode = find_mode(TARGET, POSITION)
    np.testing.assert_allclose(prepared.centre["w"], mode.position["w"], atol=1e-8)
    assert ControlVariates(mode).prepare(TARGET, POSITION).centre is not None
    assert np.abs(LAYOUT.ravel(prepared.gradient)).max() < 0.05


def test_the_rest_is_that_of_the_target():
    assert REFERENCED.size == N
    assert REFERENCED.init is TARGET.init
    assert REFERENCED.data is TARGET.data
    assert REFERENCED.domain is None
    assert REFERENCED.truth is None
    assert REFERENCED.source is None
    assert REFERENCED.loaded().data["x"] is DATA["x"]
    assert REFERENCED.without_data().data is None
    np.testing.assert_array_equal(REFERENCED.rows(slice(0, 2))["x"], DATA["x"][:2])
    REFERENCED.check(POSITION)
    with pytest.raises(InputError, match="batch_size is 99"):
        REFERENCED.check_batch_size(99)
    # a reference of a reference is a new reference of the target
    assert Svrg(3).prepare(REFERENCED, POSITION).target is TARGET


def test_dtype_of_the_position_is_kept():
    single = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), POSITION)
    rows = jax.tree.map(lambda leaf: leaf.astype(np.float32), DATA)
    prepared = ControlVariates(single).prepare(Posterior(log_prior, log_likelihood, rows), single)
    value, gradient = evaluate(prepared, prepared.rows(slice(0, 5)), single)
    assert {value.dtype, *(leaf.dtype for leaf in jax.tree.leaves(gradient))} == {jnp.dtype(jnp.float32)}


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Svrg(0), "refresh is 0: expected a whole number of steps"),
        (lambda: Svrg(2.5), r"refresh is 2\.5"),
        (lambda: Svrg(3).prepare(Density(lambda q: q**2), jnp.asarray(1.0)), "this target has none"),
        (lambda: ControlVariates({"w": jnp.ones(2)}).prepare(TARGET, POSITION), "structure"),
        (lambda: Svrg(3).prepare(TARGET, {**POSITION, "scale": jnp.asarray(jnp.nan)}), "finite"),
        (lambda: Svrg(3).prepare(TARGET, {**POSITION, "scale": jnp.asarray(800.0)}), "not finite at the reference"),
    ],
)
def test_what_is_refused(make, match):
    with pytest.raises(InputError, match=match):
        make()
