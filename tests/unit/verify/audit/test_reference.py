"""The claimed law as an audit knows it: exact where it can be, by Metropolis-corrected leapfrog elsewhere.

Statistical bounds are 5 standard errors, false alarm 6e-7 each.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.tree import Layout
from ergodica.verify.audit.features import features
from ergodica.verify.audit.law_tests import expectations
from ergodica.verify.audit.reference import Reference, reference

KEY = jax.random.key(5)
PRECISION = np.array([[2.0, 0.6], [0.6, 0.5]])


def quadratic(x):
    return 0.5 * (x - 1.0) @ jnp.asarray(PRECISION) @ (x - 1.0)


def quartic(x):
    """E[x dU/dx] = 4 E[x⁴] = T: at temperature T, x has the law of T^(1/4) times that at 1."""
    return jnp.sum(x**4)


def test_a_gaussian_is_recognised_and_drawn_at_any_temperature():
    law = reference(eg.Density(quadratic), jnp.zeros(2), 0.3, KEY, 20_000)
    truth = 0.3 * np.linalg.inv(PRECISION)
    np.testing.assert_allclose(law.mean, 1.0)
    np.testing.assert_allclose(law.deviation**2, np.diag(truth))
    x = law.draws.reshape(-1, 2)
    spread = np.einsum("ni,nj->nij", x - 1, x - 1)
    assert np.all(np.abs(spread.mean(0) - truth) < 5 * spread.std(0) / np.sqrt(len(x)))


def test_a_target_of_the_gallery_is_drawn_by_its_own_draw():
    target = eg.gallery.two_peaks()
    law = reference(target, target.init, 1.0, KEY, 8192)
    assert law.words == "exact draws of the target's own"
    assert law.deviation[0] ** 2 == pytest.approx(float(target.truth.variance[0]))
    assert np.mean(law.draws**2) == pytest.approx(float(target.truth.variance[0]), rel=0.05)


@pytest.fixture(scope="module")
def leapfrogged():
    target = eg.Density(quartic, init=jnp.array([2.0, -1.0]))
    return target, {t: reference(target, target.init, t, KEY, 0) for t in (1.0, 0.1)}


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_any_other_law_is_drawn_by_leapfrog_at_its_temperature(leapfrogged, temperature):
    law = leapfrogged[1][temperature]
    assert law.rhat < 1.01
    fourth = 4 * (law.draws**4).mean(1)  # a row for each chain
    assert np.all(np.abs(fourth.mean(0) / temperature - 1) < 5 * fourth.std(0) / temperature / np.sqrt(len(fourth)))
    assert np.all(law.variance_error < 0.02)


def test_features_have_the_means_that_are_stated(leapfrogged):
    target, laws = leapfrogged
    law = laws[1.0]
    observe = features(target, Layout.of(target.init), law, 1.0)
    observed = np.asarray(jax.vmap(jax.vmap(observe.observe))(jnp.asarray(law.draws))).mean(1)
    expected, errors = expectations(observe, law, None)
    error = np.hypot(observed.std(0) / np.sqrt(len(observed)), errors)
    known = slice(0, observe.shape.start)
    assert np.all(np.abs(observed.mean(0) - expected)[known] < 5 * error[known])
    assert (errors[observe.equipartition] == 0).all()
    by_draws, errors = expectations(observe, law, observed)
    np.testing.assert_allclose(by_draws[observe.shape], observed.mean(0)[observe.shape])
    assert (errors[observe.shape] > 0).all()


def within_walls(x):
    return 0.7 * x[0] + 0.3 * jnp.cos(3 * x[0]) + x[1] * (1 + 0.5 * x[0])


@pytest.mark.parametrize(("low", "high"), [([0, 0], [1, np.inf]), ([-np.inf, -1], [1, 2]), ([0, -np.inf], [np.inf, 0])])
def test_features_have_the_means_that_are_stated_where_the_density_does_not_vanish_at_a_wall(low, high):
    """By Gauss and Legendre's rule with 300 points a coordinate, far into the open sides."""
    target = eg.Density(lambda x: within_walls(x) + 0.1 * jnp.sum(x**4), domain=eg.Box(np.array(low), np.array(high)))
    nodes, weights = np.polynomial.legendre.leggauss(300)
    ends = np.clip(low, -5, 5), np.clip(high, -5, 5)
    x = np.stack(np.meshgrid(*(a + (b - a) * (nodes + 1) / 2 for a, b in zip(*ends, strict=True)), indexing="ij"), -1)
    x, w = x.reshape(-1, 2), np.outer(weights, weights).reshape(-1)
    w = w * np.exp(-jax.vmap(target.function)(x))
    w /= w.sum()
    mean = w @ x
    law = Reference(x[None], mean, np.sqrt(w @ (x - mean) ** 2), np.zeros(2), np.zeros(2), "by quadrature")
    observe = features(target, Layout.of(mean), law, 1.0)
    expected, _ = expectations(observe, law, None)
    known = slice(0, observe.shape.start)
    observed = w @ np.asarray(jax.vmap(observe.observe)(jnp.asarray(x)))
    np.testing.assert_allclose(observed[known], expected[known], atol=1e-9)


def test_shape_is_0_for_any_gaussian_and_unit_for_a_hermite_polynomial():
    """By Gauss and Hermite's rule with 60 points in each of two correlated coordinates."""
    target = eg.Density(quadratic, init=jnp.zeros(2))
    law = reference(target, target.init, 1.0, KEY, 512)
    observe = features(target, Layout.of(target.init), law, 1.0)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    z = np.stack(np.meshgrid(nodes, nodes, indexing="ij"), -1).reshape(-1, 2)
    w = np.outer(weights, weights).reshape(-1) / (2 * np.pi)
    x = 1.0 + z @ np.linalg.cholesky(np.linalg.inv(PRECISION)).T
    shape = np.asarray(jax.vmap(observe.observe)(jnp.asarray(x)))[:, observe.shape]
    u = (x - 1.0) / law.deviation
    np.testing.assert_allclose(w @ shape, 0, atol=1e-12)
    third, fourth = (u**3 - 3 * u) / np.sqrt(6), (u**4 - 6 * u**2 + 3) / np.sqrt(24)
    np.testing.assert_allclose((w @ (shape[:, :2] * third), w @ (shape[:, 2:4] * fourth)), 1.0, rtol=1e-9)
    lower = np.concatenate([u, u**2 - 1], axis=1)
    np.testing.assert_allclose(np.diagonal((shape[:, :2] * w[:, None]).T @ lower[:, :2]), 0, atol=1e-12)
    np.testing.assert_allclose(np.diagonal((shape[:, 2:4] * w[:, None]).T @ lower[:, 2:]), 0, atol=1e-12)


def two_modes(distance):
    return lambda x: -jnp.logaddexp(-0.5 * jnp.sum((x - distance) ** 2), -0.5 * jnp.sum((x + distance) ** 2))


def test_two_modes_far_apart_are_not_taken_for_a_gaussian():
    with pytest.raises(eg.InputError, match="modes"):
        reference(eg.Density(two_modes(15.0)), jnp.full(2, 15.0), 1.0, KEY, 0, effort=0.01)


def test_both_of_two_modes_are_found_from_one_of_them():
    law = reference(eg.Density(two_modes(1.5)), jnp.full(2, 1.5), 1.0, KEY, 0, effort=0.01)
    assert not law.is_exact
    assert 0.3 < np.mean(law.draws.sum(-1) > 0) < 0.7


def test_pairs_in_the_same_place_of_two_arrays_are_looked_at():
    tree = {"b": jnp.zeros(8), "w": jnp.zeros((2, 6))}
    target = eg.Density(lambda x: 0.5 * (jnp.sum(x["b"] ** 2) + jnp.sum(x["w"] ** 2)), init=tree)
    law = reference(target, tree, 1.0, KEY, 512)
    pairs = set(zip(*(x.tolist() for x in features(target, Layout.of(tree), law, 1.0).pairs), strict=True))
    assert {(k, 8 + k) for k in range(8)} <= pairs


def test_a_law_that_cannot_be_normalised_is_refused():
    with pytest.raises(eg.InputError, match="normalisable"):
        reference(eg.Density(lambda x: -jnp.sum(x**4)), jnp.ones(1), 1.0, KEY, 0)
