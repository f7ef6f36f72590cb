"""One step as a function: transformations, precisions, halves, resampling, trajectories."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.integrators import Setting
from ergodica.phase import Evaluation
from tests.builders import BUILDERS
from tests.oracle.stationarity import QUICK
from tests.selection import every

PAIRS = [(name, integrator) for name, builder in BUILDERS.items() for integrator in builder.integrators]


def pair_id(value):
    return value if isinstance(value, str) else type(value).__name__


def one_step(kernel, position):
    return kernel.step(kernel.init(position, jax.random.key(1)), jax.random.key(2), 0.01)


@pytest.mark.parametrize(("name", "integrator"), every(3, PAIRS), ids=pair_id)
def test_float32_stays_float32(name, integrator):
    """Float64 is what all other tests run."""
    builder = BUILDERS[name]
    kernel = eg.Kernel(builder.target, builder.recipe, integrator)
    position = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), builder.position)
    state, info = jax.jit(partial(one_step, kernel), compiler_options=QUICK)(position)
    leaves = jax.tree.leaves(state.phase)
    assert {leaf.dtype for leaf in leaves} == {info.potential.dtype} == {jnp.dtype("float32")}
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in leaves)


# one of each builder; chains of every pair run under vmap in tests/statistical
@pytest.mark.parametrize(
    ("name", "integrator"),
    [
        pytest.param(name, i, marks=() if builder in ("sgld", "sghmc", "sgnht", "sgrhmc") else pytest.mark.long)
        for builder, (name, i) in {name.split("/")[0]: (name, i) for name, i in PAIRS}.items()
    ],
    ids=pair_id,
)
def test_a_chain_under_vmap_is_the_chain_alone(name, integrator):
    builder = BUILDERS[name]
    kernel = eg.Kernel(builder.target, builder.recipe, integrator)

    def both(position):
        state, key = kernel.init(position, jax.random.key(1)), jax.random.key(2)
        chains = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), state)
        alone, _ = kernel.step(state, key, 0.01)
        beside, _ = jax.vmap(lambda s, k: kernel.step(s, k, 0.01))(chains, jnp.stack([key, jax.random.key(3)]))
        return alone.phase, beside.phase

    alone, beside = jax.jit(both, compiler_options=QUICK)(jax.tree.map(jnp.asarray, builder.position))
    for one, two in zip(jax.tree.leaves(alone), jax.tree.leaves(beside), strict=True):
        assert one.dtype == jnp.float64
        np.testing.assert_allclose(two[0], one, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("integrator", [eg.Euler(), eg.Splitting()], ids=pair_id)
def test_gradient_through_a_step_is_that_of_finite_differences(integrator):
    target = eg.gallery.correlated()

    @jax.jit
    def after(numbers):
        step_size, friction, mass, start = numbers
        kernel = eg.Kernel(target, eg.sghmc(friction, mass), integrator)
        state = kernel.init(jnp.stack([start, jnp.asarray(0.2)]), jax.random.key(0))
        for i in range(2):
            state, _ = kernel.step(state, jax.random.key(i), step_size)
        return jnp.sum(state.phase.position * jnp.array([1.0, -2.0])) + jnp.sum(state.phase.momentum**2)

    numbers = jnp.array([0.07, 1.3, 0.8, 0.4])
    slope = jax.jit(jax.grad(after))(numbers)
    h = 1e-5
    for i, e in enumerate(jnp.eye(4)):
        assert abs((after(numbers + h * e) - after(numbers - h * e)) / (2 * h) - slope[i]) < 1e-7 * (1 + abs(slope[i]))


def test_gradient_through_dense_noise_where_eigenvalues_meet():
    target = eg.gallery.gaussian(2)

    def after(c):
        kernel = eg.Kernel(target, eg.sgld(c * jnp.eye(2)), eg.Euler())
        return jnp.sum(
            kernel.step(kernel.init(jnp.ones(2), jax.random.key(0)), jax.random.key(1), 0.1)[0].phase.position
        )

    slope = jax.grad(after)(1.5)
    assert abs((after(1.5 + 1e-5) - after(1.5 - 1e-5)) / 2e-5 - slope) < 1e-7


@pytest.mark.parametrize("integrator", [eg.Euler(), eg.Splitting()], ids=pair_id)
def test_halves_with_an_outside_gradient_make_the_whole_step(integrator):
    target = eg.gallery.correlated()
    kernel = eg.Kernel(target, eg.sghmc(), integrator)
    state = kernel.init(target.init, jax.random.key(0))
    whole, _ = kernel.step(state, jax.random.key(1), 0.1)
    outside = eg.External(lambda q, batch, seed: np.asarray(target.evaluate(q)[1]), [None], init=target.init)
    kernel = eg.Kernel(outside, eg.sghmc(), integrator)
    draws = kernel.integrator.draw(kernel.recipe, state.phase, jax.random.key(1), Setting(0.1, 1.0))
    probed = kernel.probe(state, draws, 0.1)
    gradient = outside.gradient_at(probed.phase.position, None, 0)
    halves, info = kernel.finish(probed, (Evaluation(jnp.asarray(gradient)),), draws, 0.1)
    assert info.potential is None
    np.testing.assert_allclose(halves.phase.position, whole.phase.position, rtol=1e-12)
    np.testing.assert_allclose(halves.phase.momentum, whole.phase.momentum, rtol=1e-12)


@pytest.mark.parametrize("integrator", [eg.Euler(), eg.Splitting()], ids=pair_id)
def test_resampling_draws_momentum_at_the_temperature_of_the_run(integrator):
    target = eg.gallery.gaussian(2)
    kernel = eg.Kernel(target, eg.sgnht(0.5), integrator, resample_every=3)
    plain = eg.Kernel(target, eg.sgnht(0.5), integrator)
    start = kernel.init(jnp.zeros(2), jax.random.key(0), 4.0)
    moved = start._replace(phase=start.phase._replace(momentum=jnp.array([50.0, 50.0])))
    keys = jax.random.split(jax.random.key(7), 20_000)

    @jax.jit
    def momentum(number, key):
        state = moved._replace(steps=jnp.asarray(number, jnp.int32))
        return kernel.step(state, key, 1e-9, None, 4.0)[0].phase.momentum

    drawn = jax.vmap(lambda key: momentum(6, key))(keys)
    kept = momentum(7, keys[0])
    np.testing.assert_allclose(kept, 50.0, rtol=1e-3)
    # variance T = 4 from 40,000 numbers: standard error 4 sqrt(2/40000)
    assert abs(jnp.mean(drawn**2) - 4.0) < 4.5 * 4 * (2 / 40_000) ** 0.5
    # between resamplings it is the inner integrator, with a key of its own
    inner = jax.random.split(keys[0])[0]
    twin = plain.step(moved, inner, 1e-9, None, 4.0)[0].phase.momentum
    np.testing.assert_allclose(kept, twin, rtol=1e-12)


def leapfrog_chains(kernel, step_size, temperature, chains=4_000, steps=60):
    target = kernel.target

    @eqx.filter_jit
    def run(key):
        start = jax.vmap(target.truth.draw)(jax.random.split(jax.random.fold_in(key, 0), chains))
        keys = jax.random.split(jax.random.fold_in(key, 1), chains)
        scaled = start * jnp.sqrt(temperature)
        states = jax.vmap(lambda q, k: kernel.init(q, k, temperature))(scaled, keys)

        def body(states, i):
            keys = jax.random.split(jax.random.fold_in(key, i + 2), chains)
            return jax.vmap(lambda s, k: kernel.step(s, k, step_size, None, temperature))(states, keys)

        states, infos = jax.lax.scan(body, states, jnp.arange(steps))
        return states.phase.position, jnp.mean(infos.accepted)

    return run(jax.random.key(11))


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_leapfrog_is_exact_at_a_large_step(temperature):
    target = eg.gallery.gaussian(covariance=np.array([[1.0, 0.6], [0.6, 2.0]]))
    kernel = eg.Kernel(target, eg.hmc(mass=np.array([[1.0, 0.3], [0.3, 0.7]])), eg.Leapfrog(steps=4))
    draws, accepted = leapfrog_chains(kernel, 0.9, temperature)
    assert 0.3 < accepted < 0.98
    truth = temperature * np.asarray(target.truth.covariance)
    found = np.cov(np.asarray(draws).T)
    error = np.sqrt((np.outer(np.diag(truth), np.diag(truth)) + truth**2) / len(draws))
    assert np.all(np.abs(found - truth) < 4.5 * error)


def test_leapfrog_without_its_test_would_be_off(monkeypatch):
    target = eg.gallery.gaussian(covariance=np.array([[1.0, 0.6], [0.6, 2.0]]))
    monkeypatch.setattr(jax.random, "uniform", lambda key, shape=(), dtype=float, *bounds: jnp.zeros(shape, dtype))
    kernel = eg.Kernel(target, eg.hmc(), eg.Leapfrog(steps=4, jitter=0.0))
    draws, accepted = leapfrog_chains(kernel, 0.9, 1.0)
    assert accepted == 1
    found, truth = np.cov(np.asarray(draws).T), np.asarray(target.truth.covariance)
    assert np.max(np.abs(found - truth) / np.sqrt(2 * truth**2 / len(draws))) > 9


def test_default_integrators():
    from ergodica.integrators import default_integrator

    assert isinstance(default_integrator(eg.hmc()), eg.Leapfrog)
    assert isinstance(default_integrator(eg.relativistic_sghmc()), eg.Euler)
    for recipe in (eg.sgld(), eg.sgrld(eg.expanded_mean()), eg.irreversible_langevin(np.zeros((2, 2)))):
        assert isinstance(default_integrator(recipe), eg.Euler)
    for recipe in (eg.sghmc(), eg.sgnht(), eg.gsgrhmc(), eg.riemannian_sgnht(1.0), eg.coordinate_sgnht()):
        assert isinstance(default_integrator(recipe), eg.Splitting)


def test_momenta_right_after_friction_have_the_temperature_at_any_stable_step():
    """At the end of a step of 1 on a unit Gaussian theirs is 4/3; 64 chains of 500 steps, 5 standard errors."""
    kernel = eg.Kernel(eg.gallery.gaussian(4), eg.sghmc(1.0))

    def chain(key):
        def body(state, k):
            state, info = kernel.step(state, k, 1.0)
            return state, (jnp.mean(info.after_friction.momentum**2), jnp.mean(state.phase.momentum**2))

        state = kernel.init(kernel.target.init, key)
        return jax.tree.map(lambda x: x[50:].mean(), jax.lax.scan(body, state, jax.random.split(key, 550))[1])

    after_friction, at_end = jax.vmap(chain)(jax.random.split(jax.random.key(5), 64))
    for found, expected in ((after_friction, 1.0), (at_end, 4 / 3)):
        assert abs(found.mean() - expected) < 5 * found.std() / 8


def test_a_start_evaluates_the_potential_once(monkeypatch):
    target, evaluated = eg.gallery.gaussian(2), []
    kernel = eg.Kernel(target, eg.gsgrhmc())
    evaluate = type(target).evaluate
    monkeypatch.setattr(type(target), "evaluate", lambda *given: evaluated.append(1) or evaluate(*given))
    kernel.init(target.init, jax.random.key(0))  # what is compiled evaluates while it is traced
    evaluated.clear()
    kernel.init(target.init, jax.random.key(0))
    assert len(evaluated) == 1  # a pass over all data, where there are any
