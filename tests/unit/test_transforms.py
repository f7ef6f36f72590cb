"""Transforms: their Jacobians against the dense oracle, both ways, far out, and the law of x at a temperature."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica import transforms
from ergodica.compiling import quick_filter_jit
from ergodica.targets.coordinates import Coordinates

SIMPLE = {
    "log": (transforms.log, 3),
    "softplus": (transforms.softplus, 3),
    "interval": (transforms.interval(-1.0, np.array([2.0, 3.0, 4.0])), 3),
    "ordered": (transforms.ordered, 4),
    "simplex": (transforms.simplex, 3),
    "cholesky_correlation": (transforms.cholesky_correlation, 6),
}


def free(name, x):
    """The numbers of x whose density it is."""
    if name == "simplex":
        return x[..., :-1]
    return x[np.tril_indices(x.shape[-1], -1)] if name == "cholesky_correlation" else x


def points(size, dtype=float):
    return jnp.asarray(np.random.default_rng(size).normal(0.0, 2.0, (3, size)), dtype)


class Looked(NamedTuple):
    """All that is looked at, compiled at once."""

    x: Any
    back: Any
    log_jacobian: Any
    slope: Any
    dense: Any


@quick_filter_jit
def looked_at(transform, name, points):
    def one(u):
        x = transform.forward(u)
        value, slope = jax.value_and_grad(transform.log_jacobian)(u)
        return Looked(x, transform.inverse(x), value, slope, jax.jacfwd(lambda u: free(name, transform.forward(u)))(u))

    return jax.vmap(one)(points), transform.forward(points), transform.log_jacobian(points)


@pytest.mark.parametrize("name", SIMPLE)
def test_the_jacobian_is_that_of_the_dense_matrix_and_the_inverse_leads_back(name):
    transform, size = SIMPLE[name]
    u = points(size)
    each, x, log_jacobian = looked_at(transform, name, u)
    assert x.dtype == u.dtype
    np.testing.assert_allclose(each.log_jacobian, np.linalg.slogdet(each.dense)[1], rtol=1e-10)
    np.testing.assert_allclose(each.back, u, rtol=1e-9, atol=1e-9)
    # leading axes are apart
    np.testing.assert_allclose(x, each.x, rtol=1e-14)
    np.testing.assert_allclose(log_jacobian, each.log_jacobian.sum(), rtol=1e-12)
    assert transform.outside(np.asarray(x)) is None


@pytest.mark.parametrize("name", SIMPLE)
def test_far_out_in_float32_everything_is_finite(name):
    transform, size = SIMPLE[name]
    u = jnp.asarray([[-50.0] * size, [50.0] * size], jnp.float32)
    each, x, _ = looked_at(transform, name, u)
    exact, *_ = looked_at(transform, name, u.astype(float))
    assert x.dtype == each.log_jacobian.dtype == jnp.float32
    np.testing.assert_allclose(each.log_jacobian, exact.log_jacobian, rtol=1e-5)
    np.testing.assert_allclose(each.slope, exact.slope, rtol=1e-5)
    assert np.isfinite(x).all()
    assert np.isfinite(each.dense).all()
    # the way back, where the value is not its own limit: all numbers of log and softplus, the first ones of a stick
    if name in ("log", "softplus"):
        np.testing.assert_allclose(each.back, u, rtol=1e-5)
    if name in ("simplex", "cholesky_correlation"):
        np.testing.assert_allclose(each.back[:, 0], u[:, 0], rtol=1e-5)


def test_simplices_and_correlations_are_what_they_are_called():
    x = looked_at(transforms.simplex, "simplex", points(3))[1]
    np.testing.assert_allclose(x.sum(axis=-1), 1.0, rtol=1e-14)
    factor = np.asarray(looked_at(transforms.cholesky_correlation, "cholesky_correlation", points(6))[1])
    correlation = factor @ np.swapaxes(factor, -1, -2)
    np.testing.assert_allclose(np.diagonal(correlation, axis1=-2, axis2=-1), 1.0, rtol=1e-14)
    np.testing.assert_allclose(np.linalg.cholesky(correlation), factor, atol=1e-12)
    assert (np.diff(looked_at(transforms.ordered, "ordered", points(4))[1]) > 0).all()


BAD = {
    "log": (transforms.log, [1.0, -1.0], r"position\['x'\]\[1\] = -1.0 is not positive"),
    "interval": (transforms.interval(0, 1), [0.5, 1.5], r"position\['x'\]\[1\] = 1.5 is not between 0.0 and 1.0"),
    "ordered": (transforms.ordered, [1.0, 3.0, 2.0], r"\[2\] = 2.0 is not above the number before"),
    "sum": (transforms.simplex, [0.5, 0.4], r"position\['x'\] = \[0.5 0.4\] sums to 0.9, not to 1"),
    "sign": (transforms.simplex, [1.5, -0.5], r"\[1\] = -0.5 is not positive"),
    "length": (transforms.cholesky_correlation, [[1.0, 0.0], [0.5, 0.5]], r"\[1\] = .* is a row of length 0.707"),
    "upper": (transforms.cholesky_correlation, [[0.8, 0.6], [0.0, 1.0]], r"\[0, 1\] = 0.6 is above the diagonal"),
    "diagonal": (transforms.cholesky_correlation, [[-1.0, 0.0], [0.0, 1.0]], r"\[0, 0\] = -1.0 is on the diagonal"),
    "not square": (transforms.cholesky_correlation, [0.5, 0.5], r"has shape \(2,\): expected a square matrix"),
    "one number": (transforms.ordered, 1.0, "is one number: expected an axis"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_start_outside_is_refused_by_name(name):
    transform, x, words = BAD[name]
    with pytest.raises(eg.InputError, match=words) as raised:
        eg.Density(lambda q: jnp.sum(q["x"]), init={"x": np.asarray(x)}, transform={"x": transform})
    assert "\n" not in str(raised.value)


def test_what_is_no_transform_is_refused():
    for wrong in (jnp.log, "log", {"x": 1.0}):
        with pytest.raises(eg.InputError, match=r"expected one of eg\.transforms"):
            eg.Density(lambda q: jnp.sum(q["x"]), init={"x": np.ones(2)}, transform=wrong)
    with pytest.raises(eg.InputError, match="transform has 'y', which the position has not"):
        eg.Density(lambda q: jnp.sum(q["x"]), init={"x": np.ones(2)}, transform={"y": transforms.log})
    for low, high in ((1, 1), (0, np.inf)):
        with pytest.raises(eg.InputError, match="expected finite numbers, low < high"):
            transforms.interval(low, high)


# -- the law of x -------------------------------------------------------------------------------------

ONE_NUMBER = {
    "log": (transforms.log, np.linspace(0.05, 6.0, 40)),
    "softplus": (transforms.softplus, np.linspace(0.05, 6.0, 40)),
    "interval": (transforms.interval(-1.0, 3.0), np.linspace(-0.95, 2.95, 40)),
}


def potential(x):
    return (x - 0.7) ** 2 + 0.3 * x


@quick_filter_jit
def densities_of_x(target, transform, x, temperature):
    """By quadrature: of exp(-V(u)/T) |du/dx|, V the potential in u; with the Jacobian at T, and at 1."""
    u = jnp.linspace(-60.0, 60.0, 6_001)
    at = transform.inverse(x)

    def normalised(target):
        def in_u(u):
            return jnp.exp(-jax.vmap(target.potential)(u) / temperature)

        # the sum of a smooth function that vanishes at both ends: its error is beyond all powers of the distance
        return in_u(at) / jax.vmap(jax.grad(transform.forward))(at) / (jnp.sum(in_u(u)) * (u[1] - u[0]))

    return normalised(target.tempered(temperature)), normalised(target)


@pytest.mark.parametrize("name", ONE_NUMBER)
def test_x_has_the_law_of_its_potential_at_every_temperature(name):
    transform, x = ONE_NUMBER[name]
    target = eg.Density(potential, init=np.asarray(1.0), transform=transform)
    fine = np.linspace(*((-1.0, 3.0) if name == "interval" else (0.0, 40.0)), 400_001)
    for temperature in (1.0, 0.5):
        expected = np.exp(-potential(x) / temperature)
        expected /= np.trapezoid(np.exp(-potential(fine) / temperature), fine)
        found, without = densities_of_x(target, transform, jnp.asarray(x), jnp.asarray(temperature))
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    # the Jacobian of temperature 1 at T = 0.5 is another law: the check would see it
    assert np.max(np.abs(without / expected - 1)) > 0.1


def test_every_caller_tempers_the_jacobian_by_itself():
    target = eg.Density(potential, init=jnp.asarray(1.0), transform=transforms.log)
    u = jnp.asarray(0.3)
    value, slope = jax.value_and_grad(lambda u: potential(jnp.exp(u)) - 0.5 * u)(u)
    recipe = eg.sgld()
    phase = recipe.init(target, u, jax.random.key(0), temperature=0.5)
    assert recipe.hamiltonian(target, phase, temperature=0.5) == pytest.approx(float(value), rel=1e-12)
    assert recipe.drift(target, phase, temperature=0.5).position == pytest.approx(-float(slope), rel=1e-12)
    kernel = eg.Kernel(target, recipe)
    _, info = kernel.step(kernel.init(u, jax.random.key(0), 0.5), jax.random.key(1), 0.1, temperature=0.5)
    assert info.potential == pytest.approx(float(value), rel=1e-12)


def test_a_prefix_holds_for_all_leaves_below_and_keys_may_be_left_out():
    coordinates = Coordinates(transform={"scales": transforms.log})
    u = {"mean": jnp.zeros(2), "scales": {"a": jnp.zeros(2), "b": jnp.ones(())}}
    x = coordinates.constrained(u)
    np.testing.assert_array_equal(x["mean"], u["mean"])
    assert x["scales"]["b"] == pytest.approx(np.e)
    assert coordinates.log_jacobian(u) == 1.0
