"""A step's numbers: of any floating kind, closed over or traced, differentiated through, and compiled once."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from tests.builders import BUILDERS
from tests.oracle import gradient
from tests.oracle.stationarity import QUICK

KEY = jax.random.key(0)
NUMBERS = {
    "Python": float,
    "NumPy 64": np.float64,
    "NumPy 32": np.float32,
    "JAX 64": partial(jnp.asarray, dtype=jnp.float64),
    "JAX 32": partial(jnp.asarray, dtype=jnp.float32),
}
MET = [("JAX 32", "JAX 64"), ("JAX 64", "JAX 32"), ("NumPy 32", "NumPy 64"), ("Python", "JAX 32"), ("JAX 64", "Python")]
VARIED = {
    "sgld/dense": eg.Euler(),
    "sghmc/tree": eg.Splitting(),
    "sghmc/dense": eg.Euler(),
    "relativistic_sghmc/scalar": eg.Splitting(),
    "sgnht/scalar": eg.Splitting(),
    "gsgrhmc/bent": eg.Splitting(),
    "hmc/dense": eg.Leapfrog(),
}


def cast(tree, dtype):
    return jax.tree.map(lambda leaf: leaf.astype(dtype), tree)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("name", VARIED)
def test_step_size_and_temperature_of_any_kind_keep_the_dtype_of_the_position(name, dtype):
    """By tracing alone, under strict promotion: where dtypes meet that must not, it raises."""
    builder, integrator = BUILDERS[name], VARIED[name]
    noise = None if name == "hmc/dense" else 2.0
    kernel = eg.Kernel(builder.target, builder.recipe, integrator, gradient_noise=noise)

    def one(step_size, temperature, position):
        state, info = kernel.step(kernel.init(position, KEY, temperature), KEY, step_size, None, temperature)
        return state.phase, info.potential, info.largest_step

    for first, second in MET:
        new = jax.eval_shape(one, NUMBERS[first](0.1), NUMBERS[second](1.5), cast(builder.position, dtype))
        assert {leaf.dtype for leaf in jax.tree.leaves(new)} == {jnp.dtype(dtype)}


def test_a_position_that_mixes_dtypes_keeps_each():
    start = {"single": jnp.ones(2, jnp.float32), "double": jnp.ones(3, jnp.float64)}
    target = eg.Density(lambda q: jnp.sum(q["single"] ** 2).astype(jnp.float64) + jnp.sum(q["double"] ** 4))
    dtypes = jax.tree.map(lambda leaf: leaf.dtype, start)
    metric = eg.Elementwise(lambda z: jax.tree.map(lambda q: 1 + q**2, z.position))
    recipes = (eg.sgld(), eg.sgld(np.eye(5)), eg.sghmc(mass=np.eye(5)), eg.sgnht(), eg.sgrhmc(metric))
    for recipe in recipes:
        kernel = eg.Kernel(target, recipe, gradient_noise=1.0)
        new = jax.eval_shape(lambda q, kernel=kernel: kernel.step(kernel.init(q, KEY), KEY, 0.1)[0].phase, start)
        assert jax.tree.map(lambda leaf: leaf.dtype, new.position) == dtypes


CLOSED = {
    "sgld": lambda: eg.sgld(jnp.asarray(0.7)),
    "sgld, dense": lambda: eg.sgld(jnp.eye(2)),
    "sghmc": lambda: eg.sghmc(jnp.asarray(0.7), jnp.array([1.0, 2.0])),
    "sgrld": lambda: eg.sgrld(eg.Elementwise(lambda z: 1 + z.position**2)),
    "irreversible": lambda: eg.irreversible_langevin(jnp.array([[0.0, 1.0], [-1.0, 0.0]])),
    "gsgrhmc": lambda: eg.gsgrhmc(jnp.asarray(1.5), jnp.asarray(1.5)),
}


@pytest.mark.parametrize("name", CLOSED)
def test_what_jit_closes_over_is_not_looked_at(name):
    """Inside jit nothing has a value, not even what is made from numbers at hand: the checks must stand back."""
    target, start = eg.gallery.gaussian(2), jnp.array([0.3, -0.2])
    made = CLOSED[name]()

    def step(recipe, step_size):
        kernel = eg.Kernel(target, recipe, gradient_noise=jnp.full(2, 1e-3))
        return kernel.step(kernel.init(start, KEY), KEY, step_size)[0].phase

    outside = jax.jit(lambda step_size: step(made, step_size), compiler_options=QUICK)(0.1)
    inside = jax.jit(lambda step_size: step(CLOSED[name](), step_size), compiler_options=QUICK)(0.1)
    for one, other in zip(jax.tree.leaves(outside), jax.tree.leaves(inside), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("recipe", [eg.sgld(), eg.sgnht(), eg.gsgrhmc(offset=3.0)], ids=["sgld", "sgnht", "gsgrhmc"])
def test_a_step_compiles_once(recipe):
    """A start of weak type, other step sizes, temperatures and numbers in the recipe: one trace."""
    traces = 0

    def potential(q):
        nonlocal traces
        traces += 1
        return q["a"] ** 2 + jnp.sum(q["b"] ** 2)

    target = eg.Density(potential)
    step = eqx.filter_jit(lambda kernel, *args: kernel.step(*args))
    kernel = eg.Kernel(target, recipe)
    state = kernel.init({"a": jnp.asarray(0.3), "b": jnp.zeros(2)}, KEY)
    traces = 0
    for number, step_size in enumerate((0.1, 0.05, 0.02)):
        state, _ = step(kernel, state, jax.random.key(number), jnp.asarray(step_size), None, jnp.asarray(1.0))
    once = traces
    other = jax.tree.map(lambda leaf: 1.1 * leaf if eqx.is_array(leaf) else leaf, recipe)
    step(eg.Kernel(target, other), state, KEY, jnp.asarray(0.1), None, jnp.asarray(2.0))
    assert traces == once
    assert once <= 2  # an evaluation, which may trace its function twice


# -- grad through a step ------------------------------------------------------------------------------

DIFFERENTIATED = {
    "sgrhmc/fisher": eg.Splitting(),
    "sgrhmc/expanded_mean": eg.Splitting(),
    "sgnht/scalar": eg.Splitting(),
    "gsgrhmc/bent": eg.Euler(),
}


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_grad_with_respect_to_position_step_size_and_temperature(name):
    """With the draws fixed, against Richardson's differences."""
    builder = BUILDERS[name]
    kernel = eg.Kernel(builder.target, builder.recipe, DIFFERENTIATED[name])
    phase = jax.tree.map(lambda leaf: jnp.asarray(leaf[0]), builder.phases(seed=6, n=1))
    state = kernel.init(builder.position, KEY)._replace(phase=phase)
    draws = kernel.integrator.draw(builder.recipe, phase, jax.random.key(4), None)

    def after(numbers):
        moved = state._replace(phase=phase._replace(position=numbers[2:]))
        new, _ = kernel.step_with(moved, draws, numbers[0], None, numbers[1])
        return sum(jnp.sum(jnp.sin(leaf)) for leaf in jax.tree.leaves(new.phase))

    numbers = np.concatenate([[0.05, 1.3], phase.position])
    value = jax.jit(after, compiler_options=QUICK)
    slope = jax.jit(jax.grad(after), compiler_options=QUICK)(numbers)
    assert np.all(np.isfinite(slope))
    np.testing.assert_allclose(slope, gradient(value, numbers, step=0.02), rtol=1e-6, atol=1e-8)
