"""Density: the potential and its gradient as given, in the dtype of the position."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.targets import Density, Target


def quartic(position):
    return jnp.sum(position["a"] ** 4) + jnp.sum(position["b"][0] ** 2)


position = {"a": jnp.array([1.0, 2.0]), "b": [jnp.ones((2, 2))]}


def test_evaluate_is_value_and_grad_on_any_pytree():
    value, gradient = Density(quartic).evaluate(position)
    assert float(value) == 21.0
    np.testing.assert_array_equal(gradient["a"], [4.0, 32.0])
    np.testing.assert_array_equal(gradient["b"][0], 2 * np.ones((2, 2)))


def test_what_it_says_of_itself():
    target = Density(quartic)
    assert isinstance(target, Target)
    assert target.has_potential
    assert target.size is target.init is target.domain is target.truth is None
    assert target.without_data() is target


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_dtype_is_kept(dtype):
    cast = jax.tree.map(lambda leaf: leaf.astype(dtype), position)
    value, gradient = Density(quartic).evaluate(cast)
    assert value.dtype == dtype
    assert {leaf.dtype for leaf in jax.tree.leaves(gradient)} == {jnp.dtype(dtype)}


def test_potential_has_the_widest_dtype_of_a_mixed_position():
    mixed = {"a": jnp.ones(2, jnp.float32), "b": jnp.ones(2)}
    target = Density(lambda p: jnp.sum(p["a"] ** 2).astype(float) + jnp.sum(p["b"] ** 2))
    value, gradient = target.evaluate(mixed)
    assert value.dtype == jnp.float64
    assert gradient["a"].dtype == jnp.float32


def test_numpy_positions_are_converted():
    value, gradient = Density(lambda x: x.at[0].get() ** 2).evaluate(np.array([3.0]))
    assert float(value) == 9.0
    assert float(gradient[0]) == 6.0
    assert float(Density(lambda x: x.at[0].get() ** 2).potential(np.array([3.0]))) == 9.0


def test_jit_vmap_grad():
    target = Density(quartic)
    stacked = jax.tree.map(lambda leaf: jnp.stack([leaf, 2.0 * leaf]), position)
    values, gradients = jax.jit(jax.vmap(target.evaluate))(stacked)
    np.testing.assert_array_equal(values, [21.0, 17 * 16 + 16.0])
    assert gradients["a"].shape == (2, 2)
    curvature = jax.grad(lambda p: jnp.sum(target.evaluate(p)[1]["a"]))(position)["a"]
    np.testing.assert_allclose(curvature, [12.0, 48.0])


def test_a_target_is_an_argument_of_jit_and_traces_once():
    traces = []

    @eqx.filter_jit
    def evaluate(target, x):
        traces.append(1)
        return target.evaluate(x)

    for _ in range(3):
        evaluate(Density(quartic, init=position), position)
    assert len(traces) == 1


def test_a_batch_is_refused():
    with pytest.raises(InputError, match=r"Density, which has no data.*eg.Posterior"):
        Density(quartic).evaluate(position, batch=jnp.ones(3))
    with pytest.raises(InputError, match="has no data"):
        Density(quartic).potential(position, jnp.ones(3))


def test_potential_must_be_a_function():
    with pytest.raises(InputError, match="potential is 3: expected a function"):
        Density(3)


def test_a_flat_potential_may_return_a_number():
    value, gradient = Density(lambda x: 0.0).evaluate(jnp.ones(2, jnp.float32))
    assert value.dtype == jnp.float32
    np.testing.assert_array_equal(gradient, np.zeros(2))


def test_it_is_frozen():
    with pytest.raises(AttributeError):
        Density(quartic).init = position
