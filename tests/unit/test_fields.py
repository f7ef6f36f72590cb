"""Every field's divergence against the derivative of its dense matrix, and the random probe of a large diagonal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import ergodica as eg
from ergodica import fields, operators
from ergodica.fields import Root, jacobian_diagonal
from ergodica.phase import Point, phase_type
from ergodica.tree import Layout
from tests.oracle.stationarity import QUICK

PHASE = phase_type(("position", "momentum", "thermostat"))(
    {"matrix": jnp.array([[0.4, -0.7]]), "vector": jnp.array([1.1])},
    {"matrix": jnp.array([[0.9, 0.2]]), "vector": jnp.array([-0.5])},
    jnp.asarray(0.6),
)
OWN, MIX = ("position", "position"), ("momentum", "position")
HEAT, BATH = ("momentum", "momentum"), ("momentum", "thermostat")


def flat(tree):
    return ravel_pytree(tree)[0]


def like(vector):
    return {"matrix": vector[:2].reshape(1, 2), "vector": vector[2:]}


def potential(position):
    q = flat(position)
    return jnp.sum(q**2) / 2 + 0.3 * jnp.sin(q[0] * q[2]) + 2.0


# -- functions of the phase, each with more coordinates in it than a structure could forgive -----------


def number(z):
    q, r = flat(z.position), flat(z.momentum)
    return 1.5 + jnp.sin(q[0] - 0.4 * q[1]) * jnp.cos(r[2]) + 0.2 * z.thermostat


def number_of_potential(z):
    return 0.5 + jnp.sqrt(z.potential) + 0.2 * jnp.sin(flat(z.position)[1])


def each(z):
    return jax.tree.map(lambda q, r: 1.2 + 0.5 * jnp.sin(q) + 0.3 * r**2, z.position, z.momentum)


def each_of_potential(z):
    return jax.tree.map(lambda q: 1.2 + jnp.sqrt(z.potential) * (1.1 + jnp.sin(q)), z.position)


def diagonal(z):
    q, r = flat(z.position), flat(z.momentum)
    return like(2.5 + jnp.sin(q * jnp.roll(q, 1)) + 0.5 * jnp.cos(r + jnp.roll(r, 1)))


def diagonal_of_potential(z):
    return jax.tree.map(lambda d: d * z.potential, diagonal(z))


def matrix(z):
    q, r = flat(z.position), flat(z.momentum)
    factor = jnp.sin(jnp.outer(q, r) + jnp.outer(r, q)[::-1]) + jnp.cos(q)[:, None]
    return factor @ factor.T + 0.5 * jnp.eye(3)


def matrix_of_potential(z):
    return matrix(z) * jnp.sqrt(z.potential) + jnp.diag(flat(z.position) ** 2)


def rectangle(z):
    return jnp.outer(flat(z.momentum), jnp.ones(1)) * jnp.sin(flat(z.position)[0]) * z.thermostat**2


def column(z):
    q, r = flat(z.position), flat(z.momentum)
    return like(r * jnp.roll(r, 1) + jnp.sin(q) * z.thermostat**2)


def own_column(z):
    return jax.tree.map(lambda r: jnp.sin(r) * z.thermostat**2 * z.potential, z.momentum)


CASES = {
    "scaled": (eg.Scaled(number), MIX),
    "scaled, potential": (eg.Scaled(number_of_potential), OWN),
    "elementwise": (eg.Elementwise(each), MIX),
    "elementwise, potential": (eg.Elementwise(each_of_potential), OWN),
    "diagonal": (eg.Diagonal(diagonal), MIX),
    "diagonal on the momentum": (eg.Diagonal(diagonal), HEAT),
    "diagonal, potential": (eg.Diagonal(diagonal_of_potential), OWN),
    "dense": (eg.Dense(matrix), MIX),
    "dense, potential": (eg.Dense(matrix_of_potential), MIX),
    "dense to a scalar": (eg.Dense(rectangle), BATH),
    "coupling": (eg.Coupling(column), BATH),
    "elementwise coupling": (eg.Coupling(own_column, elementwise=True), BATH),
    "root of scaled": (Root(eg.Scaled(number)), MIX),
    "root of scaled, potential": (Root(eg.potential_scaled(1.5, 0.5)), MIX),
    "root of elementwise": (Root(eg.Elementwise(each)), MIX),
    "root of elementwise, potential": (Root(eg.Elementwise(each_of_potential)), MIX),
    "root of diagonal": (Root(eg.Diagonal(diagonal)), OWN),
    "root of dense": (Root(eg.Dense(matrix)), MIX),
    "root of dense, potential": (Root(eg.Dense(matrix_of_potential)), MIX),
}


def point_at(phase):
    value, gradient = jax.value_and_grad(potential)(phase.position)
    return Point(phase, value, gradient)


def both_ways(field, pair, phase):
    """(div F, div F^T) of the library, and of the dense matrix with all that it depends on through the position."""
    row, col = pair

    def dense(wrt, x):
        return field.at(point_at(phase._replace(**{wrt: x})), row, col).to_dense()

    def derivative(wrt):
        layout = Layout.of(getattr(phase, wrt))
        vector = layout.ravel(getattr(phase, wrt))
        return jax.jacfwd(lambda v: dense(wrt, layout.unravel(v)))(vector)

    got = [field.divergence(point_at(phase), row, col, transpose, None) for transpose in (False, True)]
    expected = jnp.einsum("ijj->i", derivative(col)), jnp.einsum("iji->j", derivative(row))
    return [jnp.zeros_like(e) if g is None else flat(g.value()) for g, e in zip(got, expected, strict=True)], expected


@pytest.mark.parametrize("name", CASES)
def test_the_divergence_is_that_of_the_dense_matrix(name):
    field, pair = CASES[name]
    derived = jax.jit(lambda phase: both_ways(field, pair, phase), compiler_options=QUICK)
    (plain, turned), (expected, expected_turned) = derived(PHASE)
    np.testing.assert_allclose(plain, expected, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(turned, expected_turned, rtol=1e-11, atol=1e-12)
    assert np.max(np.abs(expected)) + np.max(np.abs(expected_turned)) > 0.05  # there was something to get wrong


@pytest.mark.parametrize("name", ["root of scaled", "root of elementwise", "root of diagonal", "root of dense"])
def test_a_root_squared_is_the_field(name):
    field, _ = CASES[name]
    point = point_at(PHASE)
    factor = np.asarray(field.at(point, "position", "position").to_dense())
    np.testing.assert_allclose(factor @ factor.T, field.inner.at(point, "position", "position").to_dense(), rtol=1e-12)
    np.testing.assert_allclose(factor, factor.T, atol=1e-14)


def test_the_root_of_a_constant_matrix_is_not_taken_twice():
    dense = np.array([[1.2, 0.5, 0.3], [0.5, 0.8, 0.1], [0.3, 0.1, 0.7]])
    operator = Root(eg.Constant(dense)).at(point_at(PHASE), "position", "position")
    np.testing.assert_allclose(operator.to_dense() @ operator.to_dense(), dense, rtol=1e-12)
    factor = operators.root(operator).to_dense()
    np.testing.assert_allclose(factor @ factor, operator.to_dense(), rtol=1e-12)


def test_what_is_not_read_costs_nothing():
    point = point_at(PHASE)
    heat = eg.Scaled(lambda z: 1.0 + z.momentum["vector"][0] ** 2)
    assert heat.divergence(point, "position", "position", False, None) is None
    assert heat.reads(point, "position", "position") == {"momentum"}
    assert eg.Constant(2.0).divergence(point, "position", "position", False, None) is None
    assert eg.potential_scaled().reads(point, "position", "position") == {"potential"}
    assert eg.potential_scaled().divergence(point, "momentum", "momentum", False, None) is None


# -- large diagonals ----------------------------------------------------------------------------------

LARGE = fields.EXACT_LIMIT + 200
WHERE = jnp.asarray(np.random.default_rng(2).normal(size=LARGE))


def mixing(q):
    """Entry i depends on i - 1, i and i + 1."""
    return jnp.sin(q * jnp.roll(q, 1)) + jnp.cos(q - 0.5 * jnp.roll(q, -1))


def own(q):
    return jnp.sin(3 * q) + q**2


def exact_diagonal(q):
    before, after = jnp.roll(q, 1), jnp.roll(q, -1)
    return before * jnp.cos(q * before) - jnp.sin(q - 0.5 * after)


def test_up_to_the_limit_the_diagonal_is_exact():
    q = WHERE[: fields.EXACT_LIMIT]
    np.testing.assert_allclose(jacobian_diagonal(mixing, q, None), exact_diagonal(q), rtol=1e-10, atol=1e-12)


def test_above_the_limit_the_probe_is_unbiased_over_keys():
    keys = jax.random.split(jax.random.key(4), 600)
    probes = np.asarray(jax.jit(jax.vmap(lambda key: jacobian_diagonal(mixing, WHERE, key)))(keys))
    error = probes.std(axis=0, ddof=1) / np.sqrt(len(keys))
    deviation = (probes.mean(axis=0) - np.asarray(exact_diagonal(WHERE))) / error
    assert np.max(np.abs(deviation)) < 5.3  # 1,200 entries at once: false alarms 1e-4
    assert abs(np.mean(deviation)) < 4.5 / np.sqrt(LARGE)
    # power: signs that are left out give the row sums of J, which are something else
    row_sums = jax.jvp(mixing, (WHERE,), (jnp.ones(LARGE),))[1]
    assert np.max(np.abs(np.asarray(row_sums - exact_diagonal(WHERE))) / error) > 20


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_above_the_limit_the_probe_is_exact_for_elementwise_functions(seed):
    key = None if seed is None else jax.random.key(seed)
    expected = 3 * jnp.cos(3 * WHERE) + 2 * WHERE
    np.testing.assert_allclose(jacobian_diagonal(own, WHERE, key), expected, rtol=1e-10, atol=1e-12)


def test_a_recipe_says_whether_it_is_probed():
    recipe = eg.Recipe(diffusion={"position": eg.Diagonal(lambda z: 1 + z.position**2)})
    phase = phase_type(("position",))
    assert recipe.is_probed(phase(WHERE))
    assert not recipe.is_probed(phase(WHERE[: fields.EXACT_LIMIT]))
    assert not eg.sgrld(eg.expanded_mean()).is_probed(phase(WHERE))
    assert Root(eg.Diagonal(own)).is_probed
    assert not eg.Coupling(own, elementwise=True).is_probed
