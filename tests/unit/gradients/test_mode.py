"""find_mode against modes that are known, on hard shapes, at edges, and where there is none."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.errors import InputError
from ergodica.gradients import find_mode, mode
from ergodica.targets.density import Density
from ergodica.targets.domain import Box, positive
from ergodica.targets.posterior import Posterior


def badly_scaled(rows, features, dtype=np.float32):
    """Logistic regression whose features have covariance eigenvalues spread over 1e4."""
    rng = np.random.default_rng(1)
    turned = np.linalg.qr(rng.normal(size=(features, features)))[0]
    x = (rng.normal(size=(rows, features)) * np.logspace(0, -2, features)) @ turned.T
    y = rng.logistic(size=rows) < x @ rng.normal(size=features)
    return eg.gallery.logistic_regression(x=x.astype(dtype), y=y.astype(dtype))


def newton(target):
    """The mode in float64, by plain Newton steps."""
    x, y, w = np.asarray(target.data["x"], float), np.asarray(target.data["y"], float), np.zeros(target.init.shape)
    for _ in range(30):
        p = 1 / (1 + np.exp(-x @ w))
        hessian = (x * (p * (1 - p))[:, None]).T @ x + np.eye(len(w))
        w = w - np.linalg.solve(hessian, x.T @ (p - y) + w)
    return w, np.linalg.inv(hessian)


@pytest.mark.parametrize(("dtype", "start"), [(np.float32, 0.0), (np.float64, 3.0)])
def test_ill_conditioned_logistic_regression(dtype, start, monkeypatch):
    monkeypatch.setattr(mode, "FIRST_ROWS", 800)  # so that the search has its two stages
    target = badly_scaled(4000, 12, dtype)
    found = find_mode(target, jnp.full(12, start, dtype))
    best, covariance = newton(target)
    assert found.is_converged
    assert found.position.dtype == dtype
    assert np.abs((np.asarray(found.position) - best) / np.sqrt(np.diag(covariance))).max() < 0.05
    np.testing.assert_allclose(found.covariance(target), covariance, rtol=2e-2 if dtype == np.float32 else 1e-2)


def test_rosenbrock_and_trees():
    target = Density(lambda q: (1 - q["a"]) ** 2 + 100 * jnp.sum((q["b"] - q["a"] ** 2) ** 2))
    found = find_mode(target, {"a": jnp.asarray(-1.2), "b": jnp.array([1.0, 2.0])}, tolerance=1e-5)
    np.testing.assert_allclose(found.position["a"], 1.0, atol=1e-4)
    np.testing.assert_allclose(found.position["b"], 1.0, atol=1e-4)
    assert found.gradient_norm < 1e-3
    assert found.covariance(target).shape == (3, 3)


def test_more_numbers_than_a_matrix_is_held_for(monkeypatch):
    monkeypatch.setattr(mode, "LARGEST_DENSE", 5)
    scales = jnp.logspace(0, 2, 40)
    target = Density(lambda q: jnp.sum(scales * (q - 1) ** 2))
    found = find_mode(target, jnp.zeros(40))
    np.testing.assert_allclose(found.position, 1.0, atol=0.05)
    with pytest.raises(InputError, match="40 numbers: a covariance is held for at most 5"):
        found.covariance(target)
    data = Posterior(lambda q: -jnp.sum(q**2), lambda q, b: -((b @ q - 1) ** 2), np.eye(8))
    assert find_mode(data, jnp.ones(8)).is_converged


def test_its_representation_is_one_line():
    words = repr(eg.find_mode(eg.gallery.gaussian(300)))
    assert words.startswith("Mode(300 numbers, potential ")
    assert "sd from the mode" in words
    assert "\n" not in words
    assert len(words) < 110


def test_a_saddle_is_left():
    target = Density(lambda q: jnp.sum(q[:2] ** 2) + (q[2] ** 2 - 1) ** 2)
    found = find_mode(target, jnp.zeros(3))
    np.testing.assert_allclose(np.abs(found.position), [0, 0, 1], atol=0.01)


def test_inside_a_domain():
    gamma = Density(lambda q: jnp.sum(q - 2 * jnp.log(q)), domain=positive)
    found = find_mode(gamma, jnp.array([0.01, 30.0]))
    np.testing.assert_allclose(found.position, 2.0, rtol=0.02)


@pytest.mark.parametrize(
    "target",
    [
        Density(lambda q: q + q**2, domain=Box(0.0, 5.0)),  # the least is at the edge
        Density(lambda q: -jnp.log1p(q**2), domain=None),  # falls for ever
    ],
)
def test_where_there_is_no_mode_it_says_so(target):
    with pytest.warns(UserWarning, match="find_mode did not converge after .* evaluations"):
        found = find_mode(target, jnp.asarray(1.0), evaluations=60)
    assert not found.is_converged


def test_no_strict_minimum_has_no_covariance():
    target = Density(lambda q: (q[0] + q[1]) ** 2)
    found = find_mode(target, jnp.array([1.0, 2.0]))
    with pytest.raises(InputError, match=r"smallest curvature .* needs a prior"):
        found.covariance(target)


def test_what_is_refused():
    with pytest.raises(InputError, match="no start"):
        find_mode(Density(lambda q: q**2))
    with pytest.raises(InputError, match="gradients only"):
        find_mode(eg.External(lambda q, b, s: q, [1], init=jnp.ones(2)))
    with pytest.raises(InputError, match="batch_size is 0"):
        find_mode(eg.gallery.logistic_regression(20, 2), batch_size=0)


def test_same_seed_same_bytes():
    target = badly_scaled(300, 3)
    first, second = (find_mode(target, batch_size=50, seed=3).position for _ in range(2))
    assert np.asarray(first).tobytes() == np.asarray(second).tobytes()
    assert jax.tree.structure(first) == jax.tree.structure(target.init)
