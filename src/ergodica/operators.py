"""Linear maps at a point, between slots: c I, a diagonal, one with few directions corrected, a matrix, a column, a row.

Each holds its entries linearly, so the mean of two operators of a kind is the mean of their entries.
Absent blocks are structurally zero: they are not operators at all.
"""

from abc import abstractmethod
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.tree import Combination, Layout


class Operator(eqx.Module):
    """A linear map from the column slot to the row slot."""

    @abstractmethod
    def apply(self, x: PyTree) -> PyTree:
        """The image of `x`, shaped like the row slot."""

    @abstractmethod
    def transpose(self) -> "Operator": ...

    @abstractmethod
    def to_dense(self) -> Array:
        """The matrix, in ravel_pytree order: the oracle of every structured kind."""


class ScalarOperator(Operator):
    """c I."""

    value: Array
    layout: Layout = eqx.field(static=True)

    def apply(self, x):
        return tree.scale(self.value, x)

    def transpose(self):
        return self

    def to_dense(self):
        return jnp.asarray(self.value, self.layout.dtype) * jnp.eye(self.layout.size, dtype=self.layout.dtype)


class DiagonalOperator(Operator):
    """diag(d), d shaped like the slot."""

    value: PyTree
    layout: Layout = eqx.field(static=True)

    def apply(self, x):
        return tree.multiply(self.value, x)

    def transpose(self):
        return self

    def to_dense(self):
        return jnp.diag(self.layout.ravel(self.value))


class DenseOperator(Operator):
    """A matrix (n_row, n_col) in ravel_pytree order; `root` is a factor F, F F^T the matrix, where one is known."""

    matrix: Array
    rows: Layout = eqx.field(static=True)
    cols: Layout = eqx.field(static=True)
    root: Array | None = None

    def apply(self, x):
        return self.rows.unravel(self.matrix @ self.cols.ravel(x).astype(self.matrix.dtype))

    def transpose(self):
        return DenseOperator(self.matrix.T, self.cols, self.rows)

    def to_dense(self):
        return self.matrix


class LowRank(eqx.Module):
    """S (I + V diag(e) V^T): a diagonal S, corrected along the orthonormal columns of V; in ravel_pytree order.

    For positions whose matrix would be too large: `scale` of `eg.sghmc` and `eg.hmc` takes it.
    """

    diagonal: Array
    vectors: Array
    factors: Array
    is_transposed: bool = eqx.field(static=True, default=False)

    def transpose(self) -> "LowRank":
        return LowRank(self.diagonal, self.vectors, self.factors, not self.is_transposed)


class LowRankOperator(Operator):
    """What `LowRank` says, between slots of one layout."""

    value: LowRank
    layout: Layout = eqx.field(static=True)

    def apply(self, x):
        value, flat = self.value, self.layout.ravel(x)
        if value.is_transposed:
            return self.layout.unravel(self._corrected(flat * value.diagonal))
        return self.layout.unravel(self._corrected(flat) * value.diagonal)

    def _corrected(self, flat):
        return flat + self.value.vectors @ (self.value.factors * (flat @ self.value.vectors))

    def transpose(self):
        return LowRankOperator(self.value.transpose(), self.layout)

    def to_dense(self):
        return jax.vmap(lambda x: self.layout.ravel(self.apply(self.layout.unravel(x))), out_axes=1)(
            jnp.eye(self.layout.size, dtype=self.layout.dtype)
        )


class ColumnOperator(Operator):
    """A column between a slot and a scalar slot: the thermostat's r/d."""

    value: PyTree
    layout: Layout = eqx.field(static=True)
    scalar: Layout = eqx.field(static=True)
    factor: float = eqx.field(static=True, default=1.0)  # apart from the entries, so that it meets numbers first

    def apply(self, x):
        return tree.scale(self.factor * self.scalar.ravel(x)[0], self.value)

    def transpose(self):
        return RowOperator(self.value, self.layout, self.scalar, self.factor)

    def to_dense(self):
        return self.factor * self.layout.ravel(self.value)[:, None]


class RowOperator(Operator):
    """The transpose of a column."""

    value: PyTree
    layout: Layout = eqx.field(static=True)
    scalar: Layout = eqx.field(static=True)
    factor: float = eqx.field(static=True, default=1.0)

    def apply(self, x):
        return self.scalar.unravel(self.factor * tree.dot(self.value, x)[None])

    def transpose(self):
        return ColumnOperator(self.value, self.layout, self.scalar, self.factor)

    def to_dense(self):
        return self.factor * self.layout.ravel(self.value)[None, :]


def entrywise(function: Any, first: Any, *others: Any) -> Operator:
    """A scalar or diagonal operator whose entries are `function` of those of others (scalars spread where needed)."""
    operators = (first, *others)
    layout = first.layout
    if all(isinstance(op, ScalarOperator) for op in operators):
        return ScalarOperator(function(*(jnp.asarray(op.value, layout.dtype) for op in operators)), layout)
    entries = [
        jax.tree.map(lambda leaf, v=op.value: tree.cast(v, leaf), layout.like())
        if isinstance(op, ScalarOperator)
        else op.value
        for op in operators
    ]
    return DiagonalOperator(jax.tree.map(function, *entries), layout)


def is_entrywise(*operators: Operator | None) -> bool:
    return all(op is None or isinstance(op, ScalarOperator | DiagonalOperator) for op in operators)


def product(left: Operator, right: Operator) -> Operator:
    if is_entrywise(left, right):
        return entrywise(jnp.multiply, left, right)
    return DenseOperator(left.to_dense() @ right.to_dense(), row_layout(left), row_layout(right.transpose()))


def plus(left: Operator | None, right: Operator | None) -> Operator | None:
    """Sum, where either may be absent."""
    if left is None or right is None:
        return right if left is None else left
    if is_entrywise(left, right):
        return entrywise(jnp.add, left, right)
    return DenseOperator(left.to_dense() + right.to_dense(), row_layout(left), row_layout(left.transpose()))


def scaled(number: Any, operator: Operator) -> Operator:
    """number * operator; a root that was known is dropped."""
    if isinstance(operator, DenseOperator):
        return DenseOperator(jnp.asarray(number, operator.matrix.dtype) * operator.matrix, operator.rows, operator.cols)
    if isinstance(operator, LowRankOperator):
        return eqx.tree_at(lambda op: op.value.diagonal, operator, number * operator.value.diagonal)
    return eqx.tree_at(lambda op: op.value, operator, tree.scale(number, operator.value))  # pyright: ignore


def row_layout(operator: Operator) -> Layout:
    match operator:
        case DenseOperator():
            return operator.rows
        case RowOperator():
            return operator.scalar
        case _:
            return operator.layout  # pyright: ignore[reportAttributeAccessIssue]


def act(operator: Operator, x: Combination) -> Combination:
    """operator x, left as numbers times pytrees where the operator is a number times something."""
    match operator:
        case ScalarOperator():
            return x.scaled(operator.value)
        case ColumnOperator():
            number = operator.factor * operator.scalar.ravel(x.value())[0]
            return Combination.of(operator.value).scaled(number)
        case RowOperator():
            shares = [Combination((c, operator.apply(term))) for c, term in x.terms]
            return Combination(*(term for share in shares for term in share.terms))
        case _:
            return Combination.of(operator.apply(x.value()))


def apply_scaled(operator: Operator, number: Any, x: PyTree) -> PyTree:
    """number * (operator x)."""
    return act(operator, Combination.of(x)).scaled(number).value()


def root(operator: Operator) -> Operator:
    """A factor F with F F^T = D, for noise. A negative entry or eigenvalue gives NaN: the driver names the chain."""
    if isinstance(operator, DenseOperator):
        factor = psd_root(operator.matrix) if operator.root is None else operator.root
        return DenseOperator(factor, operator.rows, operator.cols)
    return entrywise(jnp.sqrt, operator)


@jax.custom_jvp
def psd_root(matrix: Array) -> Array:
    """The symmetric square root of a PSD matrix; NaN where an eigenvalue is negative beyond rounding."""
    values, vectors = jnp.linalg.eigh(matrix)
    rounding = 10 * matrix.shape[0] * jnp.finfo(matrix.dtype).eps * jnp.max(jnp.abs(values))
    roots = jnp.where(values < -rounding, jnp.nan, jnp.sqrt(jnp.maximum(values, 0)))
    return (vectors * roots[None, :]) @ vectors.T


@psd_root.defjvp
def _psd_root_jvp(primals, tangents):
    # S S = A gives S dS + dS S = dA
    (matrix,), (change,) = primals, tangents
    root = psd_root(matrix)
    return root, _solve_symmetric(root, change)


@jax.custom_jvp
def _solve_symmetric(root: Array, right: Array) -> Array:
    """X with S X + X S = C. In the eigenbasis of S, X_ij = C_ij / (s_i + s_j), smooth where eigenvalues meet."""
    values, vectors = jnp.linalg.eigh(root)
    sums = values[:, None] + values[None, :]
    inner = vectors.T @ right @ vectors / jnp.where(sums > 0, sums, jnp.ones_like(sums))
    return vectors @ inner @ vectors.T


@_solve_symmetric.defjvp
def _solve_symmetric_jvp(primals, tangents):
    # of the same form, so that derivatives of every order are right: a gradient through a step asks for the second
    (root, right), (root_change, right_change) = primals, tangents
    solution = _solve_symmetric(root, right)
    rest = right_change - root_change @ solution - solution @ root_change
    return solution, _solve_symmetric(root, rest)
