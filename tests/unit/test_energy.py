"""Energies: the gradient is that of the value, and draws have the law exp(-g/T)."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad

import ergodica as eg
from ergodica.energy import hyperbolic
from ergodica.phase import Point, phase_type
from tests.oracle.stationarity import QUICK

DRAWS = 20_000
TREE = {"matrix": jnp.array([[0.4, -0.7]]), "vector": jnp.array([1.1])}
VECTOR = jnp.array([0.9, -0.2, 0.5])
DENSE = np.array([[1.2, 0.5, 0.1], [0.5, 0.9, -0.2], [0.1, -0.2, 1.6]])
MASSES = {"matrix": np.array([[0.5, 1.5]]), "vector": np.array([2.0])}


def correlated(z):
    """An energy that reads another slot and the temperature: N(q, T exp(q_0)), its log-determinant scaled by T."""
    excess, width = z.momentum - z.position, jnp.exp(z.position[0])
    return jnp.sum(excess**2) / (2 * width) + z.temperature * 3 / 2 * jnp.log(width)


def draw_correlated(key, z):
    return z.position + jnp.sqrt(z.temperature * jnp.exp(z.position[0])) * jax.random.normal(key, z.position.shape)


# energy, a position, a value of the slot
ENERGIES = {
    "Gaussian, scalar mass": (eg.Gaussian(1.7), VECTOR, 0.4 * VECTOR),
    "Gaussian, vector mass": (eg.Gaussian(np.array([0.5, 1.5, 2.0])), VECTOR, 0.4 * VECTOR),
    "Gaussian, tree of masses": (eg.Gaussian(MASSES), TREE, TREE),
    "Gaussian, dense mass": (eg.Gaussian(DENSE), VECTOR, 0.4 * VECTOR),
    "Gaussian, dense mass on a tree": (eg.Gaussian(DENSE), TREE, TREE),
    "Gaussian, square slot": (eg.Gaussian(np.array([[0.5, 1.5], [2.0, 0.7]])), jnp.ones((2, 2)), jnp.eye(2) + 0.3),
    "Thermostat": (eg.Thermostat(0.8), TREE, jnp.asarray(0.3)),
    "Thermostat per coordinate": (eg.Thermostat(0.8, per_coordinate=True), TREE, TREE),
    "Relativistic": (eg.Relativistic(0.6, 1.4), TREE, TREE),
    "Energy": (eg.Energy(correlated, draw_correlated), VECTOR, 0.4 * VECTOR),
}


def point(position, slot, temperature=1.0):
    return Point(phase_type(("position", "momentum"))(position, slot), temperature=temperature)


@pytest.mark.parametrize("name", ENERGIES)
def test_the_gradient_is_that_of_the_value(name):
    energy, position, slot = ENERGIES[name]

    def both(phase, temperature):
        at = Point(phase, temperature=temperature)
        expected = jax.grad(lambda z: energy.value(at._replace(phase=z), "momentum"))(phase)
        return energy.gradient(at, "momentum"), expected._asdict()

    got, expected = jax.jit(both, compiler_options=QUICK)(point(position, slot).phase, 1.7)
    for name, value in expected.items():
        found = got.get(name, jax.tree.map(jnp.zeros_like, value))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14), found, value)


@cache
def drawer(name):
    """(position, T, key) -> DRAWS of the slot."""
    energy, _, _ = ENERGIES[name]

    def many(position, temperature, key):
        at = Point(phase_type(("position",))(position), temperature=temperature)
        return jax.vmap(lambda key: energy.draw(key, at, "momentum"))(jax.random.split(key, DRAWS))

    return jax.jit(many, compiler_options=QUICK)


@partial(jax.jit, static_argnums=1, compiler_options=QUICK)
def draw_hyperbolic(b, dtype):
    return hyperbolic(jax.random.key(3), b, (40_000,), dtype)


def flat_draws(name, temperature, dtype=None):
    """DRAWS of the slot as rows."""
    position = jax.tree.map(lambda leaf: leaf.astype(dtype or leaf.dtype), ENERGIES[name][1])
    drawn = drawer(name)(position, jnp.asarray(temperature, dtype), jax.random.key(12))
    assert all(leaf.dtype == (dtype or jnp.float64) for leaf in jax.tree.leaves(drawn))
    return np.concatenate([np.asarray(leaf, float).reshape(DRAWS, -1) for leaf in jax.tree.leaves(drawn)], axis=1)


def assert_mean(values, expected):
    """The mean over rows is the expected one, within 4.5 standard errors."""
    error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    assert np.max(np.abs(values.mean(axis=0) - expected) / error) < 4.5


COVARIANCES = {
    "Gaussian, scalar mass": 1.7 * np.eye(3),
    "Gaussian, tree of masses": np.diag([0.5, 1.5, 2.0]),
    "Gaussian, dense mass": DENSE,
    "Gaussian, square slot": np.diag([0.5, 1.5, 2.0, 0.7]),
    "Thermostat": np.eye(1) / 3,
    "Thermostat per coordinate": np.eye(3),
    "Energy": np.exp(0.9) * np.eye(3),
}
MEANS = {"Thermostat": 0.8, "Thermostat per coordinate": 0.8, "Energy": np.asarray(VECTOR)}


@pytest.mark.parametrize("temperature", [0.5, 2.0])
@pytest.mark.parametrize("name", COVARIANCES)
def test_draws_have_the_mean_and_covariance_of_the_law(name, temperature):
    excess = flat_draws(name, temperature) - MEANS.get(name, 0.0)
    assert_mean(excess, 0.0)
    products = np.einsum("ni,nj->nij", excess, excess).reshape(DRAWS, -1)
    assert_mean(products, temperature * COVARIANCES[name].reshape(-1))


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_relativistic_draws_against_quadrature(temperature):
    m, c = 0.6, 1.4

    def density(r):
        return np.exp(-(m * c**2 * (np.sqrt(r**2 / (m * c) ** 2 + 1) - 1)) / temperature)

    mass = quad(density, -np.inf, np.inf)[0]
    draws = flat_draws("Relativistic", temperature)
    assert_mean(draws, 0.0)
    for moment in (np.abs, np.square):
        assert_mean(moment(draws), quad(lambda r, f=moment: f(r) * density(r), -np.inf, np.inf)[0] / mass)


# -- hyperbolic draws: exp(-b sqrt(1 + x^2)) ------------------------------------------------------------


def heat_moment(b, function):
    """E function(t) of t = b (sqrt(1 + x^2) - 1) by quadrature in s = sqrt(t), where the density is smooth.

    x^2 = e (e + 2) with e = t/b, so dx is proportional to (1 + s^2/b) / sqrt(2 + s^2/b) ds at any scale of b.
    """

    def weight(s):
        return np.exp(-(s**2)) * (1 + s**2 / b) / np.sqrt(2 + s**2 / b)

    total = quad(weight, 0, 8, epsabs=0)[0]
    edges = [0, np.sqrt(0.5), 8]  # the indicator below jumps at t = 0.5
    parts = (quad(lambda s: function(s**2) * weight(s), *ends, epsabs=0)[0] for ends in (edges[:2], edges[1:]))
    return sum(parts) / total


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
@pytest.mark.parametrize("b", [1e-8, 1e-3, 0.3, 1.0, 10.0, 1e4, 1e10])
def test_hyperbolic_draws_against_quadrature(b, dtype):
    x = np.asarray(draw_hyperbolic(jnp.asarray(b, dtype), dtype), float)
    assert np.all(np.isfinite(x))
    assert_mean(np.sign(x)[:, None], 0.0)
    heat = b * x**2 / (np.sqrt(1 + x**2) + 1)  # b (sqrt(1 + x^2) - 1) without cancellation
    for function in (lambda t: t, np.sqrt, lambda t: t**2, lambda t: 1.0 * (t < 0.5)):
        assert_mean(function(heat)[:, None], heat_moment(b, function))


def test_hyperbolic_draws_at_another_b_are_noticed():
    x = np.asarray(draw_hyperbolic(jnp.asarray(1.05, jnp.float64), jnp.float64))
    with pytest.raises(AssertionError):
        assert_mean((np.sqrt(1 + x**2) - 1)[:, None], heat_moment(1.0, lambda t: t))


@pytest.mark.parametrize("name", ["Gaussian, dense mass", "Thermostat"])
def test_draws_in_float32_have_the_variance_of_the_law(name):
    excess = flat_draws(name, 2.0, jnp.float32) - MEANS.get(name, 0.0)
    assert_mean(excess**2, 2 * np.diagonal(COVARIANCES[name]))
