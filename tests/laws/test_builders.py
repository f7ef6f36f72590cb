"""Every builder leaves its law invariant, by the Fokker-Planck equation at drawn points; three of them by hand."""

import inspect
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica import samplers
from ergodica.phase import phase_type
from ergodica.tree import Layout
from tests.builders import (
    BENT,
    BUILDERS,
    INTEGRATORS,
    POSITIVE,
    bent,
    coupled_gammas,
    flat_points,
    flat_sde,
    information,
)  # fmt: skip
from tests.oracle import fokker_planck

TEMPERATURES = (1.0, 2.0)


def functions_that_return_recipes():
    public = (getattr(samplers, name) for name in samplers.__all__)
    return {f.__name__: f for f in public if inspect.signature(f).return_annotation is eg.Recipe}


@cache
def drawn(name):
    return BUILDERS[name].phases(seed=3, n=6)


@cache
def sde_of(name):
    one = jax.tree.map(lambda leaf: leaf[0], drawn(name))
    return flat_sde(BUILDERS[name].recipe, BUILDERS[name].target, Layout.of(one))


@pytest.mark.parametrize("name", BUILDERS)
def test_the_fokker_planck_residual_is_rounding(name):
    for temperature in TEMPERATURES:
        residual, scale = fokker_planck(*sde_of(name), flat_points(drawn(name), temperature), temperature)
        assert np.all(scale > 0.1)  # HMC included: what cancels is counted term by term
        assert np.max(np.abs(residual) / scale) < 1e-10


@pytest.mark.parametrize("name", ["sgnht/scalar", "sgrld/fisher", "sgrhmc/fisher"])
def test_gamma_at_another_temperature_than_the_laws_fails(name):
    residual, scale = fokker_planck(*sde_of(name), flat_points(drawn(name), 1.0), 1.5)
    assert np.max(np.abs(residual) / scale) > 1e-2


def test_every_builder_is_in_the_registry():
    assert {name.split("/")[0] for name in BUILDERS} == set(functions_that_return_recipes())


@pytest.mark.parametrize("name", functions_that_return_recipes())
def test_every_builder_says_what_it_leaves_invariant(name):
    lines = [line.strip() for line in inspect.getdoc(getattr(eg, name)).splitlines()]
    (line,) = [line for line in lines if line.startswith("Leaves invariant:")]
    assert "exp(-" in line
    assert "/T)" in line


@pytest.mark.parametrize("name", BUILDERS)
def test_the_registered_integrators_serve_and_the_others_refuse(name):
    case = BUILDERS[name]
    phase = jax.tree.map(lambda leaf: leaf[0], drawn(name))
    serving = tuple(i for i in INTEGRATORS if i.refusal(case.recipe, phase) is None)
    assert serving == case.integrators
    for refusing in set(INTEGRATORS) - set(serving):
        assert "eg." in refusing.refusal(case.recipe, phase)  # a refusal says what to use


# -- the right-hand column of docs/paper/errata.md, written out --------------------------------------------------

Q, R, XI = jnp.array([0.4, 0.7]), jnp.array([1.1, 0.3]), jnp.asarray(0.6)


def assert_drift(recipe, target, right):
    """`right(T)`: the drift by slot at (Q, R, XI)."""
    slots = recipe.slots
    phase = phase_type(slots)(*(Q, R, XI)[: len(slots)])
    both = jax.jit(lambda t: (recipe.drift(target, phase, temperature=t)._asdict(), right(t)))
    for temperature in TEMPERATURES:
        drift, expected = both(temperature)
        assert drift.keys() == expected.keys()
        for slot in slots:
            np.testing.assert_allclose(drift[slot], expected[slot], rtol=1e-12, atol=1e-13)


def inverse_metric(q):
    return jnp.linalg.inv(information(q) + 0.1 * jnp.eye(2))


def closed_root(matrix):
    """The root of a PSD 2 x 2 matrix: (A + s 1) / sqrt(tr A + 2 s), s = sqrt(det A), by Cayley and Hamilton."""
    s = jnp.sqrt(matrix[0, 0] * matrix[1, 1] - matrix[0, 1] * matrix[1, 0])
    return (matrix + s * jnp.eye(2)) / jnp.sqrt(jnp.trace(matrix) + 2 * s)


def gamma(matrix):
    """sum_j d/dtheta_j M_ij."""
    return jnp.einsum("ijj->i", jax.jacfwd(matrix)(Q))


def test_sgrld_is_the_right_column():
    """theta - eps [G^-1 grad U - Gamma]."""

    def right(t):
        return {"position": -(inverse_metric(Q) @ jax.grad(bent)(Q) - t * gamma(inverse_metric))}

    assert_drift(BUILDERS["sgrld/fisher"].recipe, BENT, right)


def test_sgrld_with_the_expanded_mean_is_the_right_column():
    """G^-1 = diag(theta), so Gamma = 1."""
    assert_drift(eg.sgrld(eg.expanded_mean()), POSITIVE, lambda t: {"position": -(Q * jax.grad(coupled_gammas)(Q) - t)})


def test_sgrhmc_is_the_right_column():
    """dtheta = G^-1/2 r, dr = -[G^-1/2 grad U - grad(G^-1/2) + G^-1 r]."""

    def right(t):
        root, slope = closed_root(inverse_metric(Q)), gamma(lambda q: closed_root(inverse_metric(q)))
        push = root @ jax.grad(bent)(Q) - t * slope + inverse_metric(Q) @ R
        return {"position": root @ R, "momentum": -push}

    assert_drift(BUILDERS["sgrhmc/fisher"].recipe, BENT, right)


def test_gsgrhmc_is_the_right_column_with_its_own_metric():
    """G^-1 = 1.5 sqrt(U + 1.5), so grad(G^-1/2) = (sqrt(1.5) / 4) (U + 1.5)^(-3/4) grad U."""

    def right(t):
        inner, slope = bent(Q) + 1.5, jax.grad(bent)(Q)
        root = jnp.sqrt(1.5) * inner**0.25
        push = root * slope - t * jnp.sqrt(1.5) / 4 * inner**-0.75 * slope + root**2 * R
        return {"position": root * R, "momentum": -push}

    assert_drift(eg.gsgrhmc(1.5, 1.5), BENT, right)


@pytest.mark.parametrize("level", [0.8, 2.5])
def test_sgnht_is_the_right_column(level):
    """dtheta = r, dr = -grad U - xi r, dxi = r.r/d - T: from (d/2) (xi - A)^2, whatever A is."""

    def right(t):
        return {"position": R, "momentum": -jax.grad(bent)(Q) - XI * R, "thermostat": jnp.dot(R, R) / 2 - t}

    assert_drift(eg.sgnht(level), BENT, right)
