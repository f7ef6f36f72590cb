"""Drift, correction, D and Q of random recipes against the oracle, which shares nothing with the library."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.random_recipes import (
    RecipePlan,
    build,
    dense_curl,
    dense_diffusion,
    dense_hamiltonian,
    draw_numbers,
    plans,
    ravel,
)
from tests.oracle import correction, drift, fokker_planck, weak_form
from tests.oracle.stationarity import QUICK

TEMPERATURES = (1.0, 2.0)
DENSE = RecipePlan(2, 0, False, (("position", "dense"),), ((("position", "position"), "dense"),))
# D on every slot; Q on the position, between slots of 3, 2 and 1 numbers, and to a scalar slot: 6 numbers in all
WHOLE = RecipePlan(
    0,
    2,
    True,
    (("momentum", "dense"), ("position", "dense"), ("thermostat", "scaled")),
    (
        (("position", "position"), "dense"),
        (("momentum", "position"), "dense"),
        (("momentum", "thermostat"), "coupling"),
        (("position", "thermostat"), "coupling"),
    ),
)
PLANAR = {
    "on the position": DENSE,
    "between slots": RecipePlan(
        1,
        0,
        True,
        (("position", "dense"), ("thermostat", "scaled")),
        ((("position", "thermostat"), "coupling"),),
    ),
}


@partial(jax.jit, static_argnums=0, compiler_options=QUICK)
def library(plan, numbers, z, temperature):
    """What the library derives, on flat vectors."""
    recipe, target = build(plan, numbers)
    phase = plan.phase(z)
    return {
        "drift": ravel(recipe.drift(target, phase, temperature=temperature)),
        "correction": ravel(recipe.correction(target, phase, temperature=temperature)),
        "matrices": recipe.matrices(target, phase, temperature),
        "hamiltonian": recipe.hamiltonian(target, phase, temperature=temperature),
    }


def assert_close(got, expected, tolerance):
    """To a tolerance relative to the largest number: entries that vanish have no relative error of their own."""
    scale = max(np.max(np.abs(expected)), 1e-3)
    np.testing.assert_allclose(np.asarray(got) / scale, np.asarray(expected) / scale, rtol=0, atol=tolerance)


def assert_agreement(plan, numbers, z, temperature):
    h, d, q = (partial(f, plan, numbers) for f in (dense_hamiltonian, dense_diffusion, dense_curl))
    got = library(plan, numbers, z, temperature)
    assert_close(got["drift"], drift(h, d, q, z, temperature), 1e-7)
    assert_close(got["correction"], temperature * correction(lambda x: d(x) + q(x), z), 1e-7)
    got_d, got_q = (np.asarray(matrix) for matrix in got["matrices"])
    assert_close(got_d, d(z), 1e-13)
    assert_close(got_q, q(z), 1e-13)
    assert_close(got["hamiltonian"], h(z), 1e-12)
    np.testing.assert_array_equal(got_q, -got_q.T)
    assert np.linalg.eigvalsh(got_d)[0] > -1e-12


@settings(max_examples=11)
@given(plan=plans(), seed=st.integers(0, 10**6), temperature=st.sampled_from(TEMPERATURES))
def test_the_drift_of_a_random_recipe_is_the_theorem(plan, seed, temperature):
    z = np.random.default_rng(seed).normal(size=plan.dim)
    assert_agreement(plan, draw_numbers(plan, seed), z, temperature)


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), temperature=st.sampled_from(TEMPERATURES))
def test_the_drift_with_every_kind_of_block_is_the_theorem(seed, temperature):
    z = np.random.default_rng(seed).normal(size=WHOLE.dim)
    assert_agreement(WHOLE, draw_numbers(WHOLE, seed), z, temperature)


def test_a_random_recipe_on_a_tree_starts_and_keeps_its_shapes():
    plan = WHOLE._replace(momentum=0, diffusion=WHOLE.diffusion[1:], curl=(WHOLE.curl[0], WHOLE.curl[3]))
    recipe, target = build(plan, draw_numbers(plan, 5))
    position = {"matrix": jnp.array([[0.3, -0.2]]), "vector": jnp.array([0.7])}
    phase = recipe.init(target, position, jax.random.key(1))
    drifted = jax.eval_shape(partial(recipe.drift, target), phase)
    assert jax.tree.map(jnp.shape, drifted) == jax.tree.map(jnp.shape, phase)
    assert drifted.position["matrix"].shape == (1, 2)


# -- stationarity, and the slips that it must find ----------------------------------------------------


def sde(plan, seed, temperature, mutation="none"):
    """(f, D, H) of the library as functions of a vector; a mutation changes what Gamma is."""
    recipe, target = build(plan, draw_numbers(plan, seed))

    def both(z):
        d, q = recipe.matrices(target, plan.phase(z), temperature)
        return d + q

    def f(z):
        right = ravel(recipe.drift(target, plan.phase(z), temperature=temperature))
        gamma = ravel(recipe.correction(target, plan.phase(z), temperature=temperature))
        if mutation == "dropped":
            return right - gamma
        if mutation == "sign":
            return right - 2 * gamma
        if mutation == "index":
            return right - gamma + temperature * jnp.einsum("jij->i", jax.jacfwd(both)(z))
        return right

    return (
        f,
        lambda z: recipe.matrices(target, plan.phase(z), temperature)[0],
        lambda z: recipe.hamiltonian(target, plan.phase(z), temperature=temperature),
    )


def worst_residual(plan, mutation, temperature=1.0):
    points = np.random.default_rng(8).normal(size=(10, plan.dim))
    residual, scale = fokker_planck(*sde(plan, 8, temperature, mutation), points, temperature)
    return np.max(np.abs(residual) / scale)


@pytest.mark.parametrize("plan", [DENSE, WHOLE], ids=["dense", "every kind of block"])
def test_the_fokker_planck_residual_is_rounding(plan):
    assert worst_residual(plan, "none", temperature=2.0) < 1e-12


@pytest.mark.parametrize("mutation", ["dropped", "sign", "index"])
def test_a_wrong_gamma_fails_the_fokker_planck_test(mutation):
    assert worst_residual(DENSE, mutation) > 1e-2


@pytest.mark.parametrize("temperature", TEMPERATURES)
@pytest.mark.parametrize("plan", PLANAR.values(), ids=PLANAR)
def test_the_weak_form_vanishes_for_five_test_functions(plan, temperature):
    box = [(-12.5, 12.5)] * 2
    ratios = weak_form(*sde(plan, 1, temperature), box, temperature=temperature, nodes=140)
    assert len(ratios) == 5
    assert np.max(np.abs(ratios)) < 1e-9


@pytest.mark.parametrize("mutation", ["dropped", "sign", "index"])
def test_a_wrong_gamma_fails_the_weak_form(mutation):
    ratios = weak_form(*sde(DENSE, 1, 1.0, mutation), [(-12.5, 12.5)] * 2, nodes=140)
    assert np.max(np.abs(ratios)) > 1e-3
