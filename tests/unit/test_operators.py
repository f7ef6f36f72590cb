"""Every operator, and what is done with them, against its dense matrix."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodica.operators import (
    ColumnOperator,
    DenseOperator,
    DiagonalOperator,
    RowOperator,
    ScalarOperator,
    apply_scaled,
    is_entrywise,
    plus,
    product,
    psd_root,
    root,
    row_layout,
    scaled,
)
from ergodica.tree import Layout

RNG = np.random.default_rng(5)
TREE = {"matrix": jnp.asarray(RNG.normal(size=(1, 2))), "vector": jnp.asarray(RNG.normal(size=1))}
MIXED = {"matrix": TREE["matrix"].astype(jnp.float32), "vector": TREE["vector"]}
SLOTS = {
    "vector": jnp.asarray(RNG.normal(size=3)),
    "single": jnp.asarray(RNG.normal(size=3), jnp.float32),
    "tree": TREE,
    "mixed": MIXED,
}
SCALAR = Layout.of(jnp.zeros(()))
WIDE = Layout.of(jnp.zeros((2, 2)))


def positive(layout):
    return jax.tree.map(lambda leaf: leaf**2 + 0.5, layout.unravel(jnp.asarray(RNG.normal(size=layout.size))))


def psd(layout):
    factor = RNG.normal(size=(layout.size, layout.size))
    return jnp.asarray(factor @ factor.T, layout.dtype)


# the square ones are positive definite, so that they have a root
SQUARE = {
    "scalar": lambda layout: ScalarOperator(jnp.asarray(1.7, layout.dtype), layout),
    "diagonal": lambda layout: DiagonalOperator(positive(layout), layout),
    "dense": lambda layout: DenseOperator(psd(layout), layout, layout),
}
OTHER = {
    "rectangular": lambda layout: DenseOperator(
        jnp.asarray(RNG.normal(size=(layout.size, 4)), layout.dtype), layout, WIDE
    ),
    "column": lambda layout: ColumnOperator(positive(layout), layout, scalar_like(layout)),
    "row": lambda layout: RowOperator(positive(layout), layout, scalar_like(layout)),
}
MAKERS = {**SQUARE, **OTHER}


def scalar_like(layout):
    return Layout.of(jnp.zeros((), layout.dtype))


def columns(operator):
    return row_layout(operator.transpose())


def drawn(layout):
    return layout.unravel(jnp.asarray(RNG.normal(size=layout.size)))


def assert_same(operator, matrix, rtol=1e-12):
    """Its dense form, and its action on a vector, are those of the matrix; so are the transpose's."""
    for op, dense in ((operator, np.asarray(matrix)), (operator.transpose(), np.asarray(matrix).T)):
        x = drawn(columns(op))
        got = op.apply(x)
        rows = row_layout(op)
        tolerance = max(rtol, 100 * float(max(jnp.finfo(d).eps for d in (*rows.dtypes, *columns(op).dtypes))))
        np.testing.assert_allclose(op.to_dense(), dense, rtol=tolerance, atol=tolerance)
        assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), got) == jax.tree.map(
            lambda leaf: (leaf.shape, leaf.dtype), rows.like()
        )
        image = dense @ np.asarray(columns(op).ravel(x))
        np.testing.assert_allclose(rows.ravel(got), image, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("slot", SLOTS)
@pytest.mark.parametrize("kind", MAKERS)
def test_applies_and_transposes_as_its_matrix(kind, slot):
    operator = MAKERS[kind](Layout.of(SLOTS[slot]))
    assert operator.to_dense().shape == (row_layout(operator).size, columns(operator).size)
    assert_same(operator, operator.to_dense())


@pytest.mark.parametrize("kind", MAKERS)
def test_scaled_is_the_scaled_matrix(kind):
    operator = MAKERS[kind](Layout.of(TREE))
    assert_same(scaled(-2.5, operator), -2.5 * np.asarray(operator.to_dense()))
    x = drawn(columns(operator))
    rows = row_layout(operator)
    np.testing.assert_allclose(
        rows.ravel(apply_scaled(operator, 0.3, x)), 0.3 * rows.ravel(operator.apply(x)), rtol=1e-11
    )


@pytest.mark.parametrize("right", SQUARE)
@pytest.mark.parametrize("left", SQUARE)
def test_products_and_sums_are_those_of_the_matrices(left, right):
    layout = Layout.of(TREE)
    a, b = SQUARE[left](layout), SQUARE[right](layout)
    assert_same(product(a, b), a.to_dense() @ b.to_dense())
    assert_same(plus(a, b), a.to_dense() + b.to_dense())
    assert is_entrywise(product(a, b)) == is_entrywise(plus(a, b)) == ("dense" not in (left, right))


@pytest.mark.parametrize("left", SQUARE)
@pytest.mark.parametrize("other", OTHER)
def test_products_between_slots_of_different_sizes(left, other):
    layout = Layout.of(TREE)
    square, operator = SQUARE[left](layout), OTHER[other](layout)
    if other == "row":
        assert_same(product(operator, square), operator.to_dense() @ square.to_dense())
    else:
        assert_same(product(square, operator), square.to_dense() @ operator.to_dense())
    assert_same(product(operator, operator.transpose()), operator.to_dense() @ operator.to_dense().T)


def test_a_sum_with_an_absent_block_is_the_other_one():
    operator = SQUARE["diagonal"](Layout.of(TREE))
    assert plus(None, operator) is plus(operator, None) is operator
    assert plus(None, None) is None


@pytest.mark.parametrize("slot", SLOTS)
@pytest.mark.parametrize("kind", SQUARE)
def test_a_root_times_its_transpose_is_the_matrix(kind, slot):
    operator = SQUARE[kind](Layout.of(SLOTS[slot]))
    factor = np.asarray(root(operator).to_dense())
    tolerance = 1e-12 if slot in ("vector", "tree") else 1e-5
    np.testing.assert_allclose(factor @ factor.T, operator.to_dense(), rtol=tolerance, atol=tolerance)
    assert is_entrywise(root(operator)) == is_entrywise(operator)


def test_a_known_root_is_used_and_does_not_outlive_a_change():
    layout = Layout.of(SLOTS["vector"])
    factor = jnp.asarray(np.tril(RNG.normal(size=(3, 3))))
    operator = DenseOperator(factor @ factor.T, layout, layout, factor)
    np.testing.assert_array_equal(root(operator).to_dense(), factor)
    quarter = np.asarray(root(scaled(0.25, operator)).to_dense())
    np.testing.assert_allclose(quarter @ quarter.T, 0.25 * factor @ factor.T, rtol=1e-12)
    assert operator.transpose().root is None


def test_the_symmetric_root_of_singular_and_of_indefinite_matrices():
    singular = jnp.array([[1.0, 1.0], [1.0, 1.0]])
    np.testing.assert_allclose(psd_root(singular) @ psd_root(singular), singular, atol=1e-12)
    np.testing.assert_array_equal(psd_root(jnp.zeros((2, 2))), np.zeros((2, 2)))
    assert np.all(np.isnan(psd_root(jnp.array([[1.0, 2.0], [2.0, 1.0]]))))
    negative = DiagonalOperator(jnp.array([1.0, -1.0, 4.0]), Layout.of(SLOTS["vector"]))
    np.testing.assert_array_equal(np.isnan(jnp.diagonal(root(negative).to_dense())), [False, True, False])


@pytest.mark.parametrize("middle", [0.4, 1.0], ids=["distinct eigenvalues", "equal eigenvalues"])
def test_the_derivative_of_the_root_solves_its_equation(middle):
    """S S = A, so S dS + dS S = dA."""
    matrix = jnp.array([[1.0, 0.0, 0.0], [0.0, middle, 0.0], [0.0, 0.0, 1.0]])
    change = jnp.asarray(psd(Layout.of(jnp.zeros(3))))
    value, slope = jax.jit(lambda a, b: jax.jvp(psd_root, (a,), (b,)))(matrix, change)
    np.testing.assert_allclose(value @ slope + slope @ value, change, rtol=1e-12)
    # again, as in a gradient through a step: a second derivative along the same line
    again = jax.jit(jax.jacfwd(jax.jacfwd(lambda t: psd_root(matrix + t * change))))(0.0)
    np.testing.assert_allclose(value @ again + again @ value, -2 * slope @ slope, rtol=1e-10, atol=1e-12)
    # in reverse mode
    pull = jax.jit(jax.grad(lambda a: jnp.sum(psd_root(a) * change)))(matrix)
    np.testing.assert_allclose(jnp.sum(pull * change), jnp.sum(slope * change), rtol=1e-12)
