"""Fields: blocks of D and Q as functions of the phase. A field gives its operator at a point and owns its divergence.

For a block F between a row slot r and a column slot c, Theorem 1 needs (div F)_i = sum_j dF_ij/dc_j for the row slot
and, for the derived block -F^T of Q, the same of the transpose. Each kind knows a cheap exact way:

    Constant     nothing, at trace time         Diagonal   one JVP an entry up to EXACT_LIMIT entries, then a probe
    Scaled       one gradient                   Dense      one JVP a column
    Elementwise  one JVP with ones              Coupling   one JVP; its transpose like Elementwise or Diagonal
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.errors import InputError
from ergodica.operators import (
    ColumnOperator,
    DenseOperator,
    DiagonalOperator,
    Operator,
    ScalarOperator,
    act,
    psd_root,
)
from ergodica.phase import Point, View
from ergodica.tree import Combination, Layout

EXACT_LIMIT = 1_000  # entries up to which the diagonal of a Jacobian is taken exactly, one JVP each

FieldFn = Callable[[View], Any]


class Field(eqx.Module):
    """A block of D or Q as a function of the phase."""

    @abstractmethod
    def value(self, z: View, rows: Layout, cols: Layout) -> Any:
        """The entries that the operator holds, at this view of the phase."""

    @abstractmethod
    def operator(self, value: Any, rows: Layout, cols: Layout) -> Operator:
        """The linear map with these entries."""

    @abstractmethod
    def explicit_divergence(
        self, f: Callable[[PyTree], Any], x: PyTree, out: Layout, transpose: bool, key: Array | None
    ) -> PyTree:
        """sum_j dF_ij/dx_j of the entries f(x), x the column slot (transpose: of F^T, x the row slot), shaped `out`."""

    @property
    def is_probed(self) -> bool:
        """Whether the divergence takes a random probe above EXACT_LIMIT entries."""
        return False

    def at(self, point: Point, row: str, col: str) -> Operator:
        rows, cols = Layout.of(point.slot(row)), Layout.of(point.slot(col))
        return self.operator(self.value(point.view(), rows, cols), rows, cols)

    def reads(self, point: Point, row: str, col: str) -> set[str]:
        """The slots (and `potential`) that the entries depend on, noted while tracing without values."""
        noted: set[str] = set()
        rows, cols = Layout.of(point.slot(row)), Layout.of(point.slot(col))
        scalar = jnp.zeros((), rows.dtype) if point.potential is None else point.potential

        def trace(phase, potential):
            asked = Point(phase, potential, None, point.temperature)
            return self.value(asked.view(noted), rows, cols)

        jax.eval_shape(trace, point.phase, scalar)
        return noted

    def divergence(self, point: Point, row: str, col: str, transpose: bool, key: Array | None) -> Combination | None:
        """The share of this block in Gamma of the row slot (transpose: of F^T in the column slot), or None if zero."""
        noted = self.reads(point, row, col)
        wrt = row if transpose else col
        rows, cols = Layout.of(point.slot(row)), Layout.of(point.slot(col))
        total = None
        if wrt in noted:
            out = cols if transpose else rows
            total = Combination.of(
                self.explicit_divergence(
                    lambda x: self.value(point.view(**{wrt: x}), rows, cols), point.slot(wrt), out, transpose, key
                )
            )
        if wrt == "position" and "potential" in noted:
            # chain rule: sum_j dF_ij/du du/dq_j, one scalar derivative times the gradient of that potential
            u = point.potential
            _, slope = jax.jvp(lambda u: self.value(point.view(potential=u), rows, cols), (u,), (jnp.ones_like(u),))
            change = self.operator(slope, rows, cols)
            share = act(change.transpose() if transpose else change, Combination.of(point.potential_gradient))
            total = share if total is None else total + share
        return total


class Constant(Field):
    """A block that does not depend on the phase: a number (times the identity), a vector like the slot, or a matrix.

    Args:
        entries: a scalar, an array or pytree shaped like the slot (a diagonal), or a matrix (n_row, n_col).
    """

    entries: PyTree
    root_entries: Array | None  # symmetric root of a square matrix: derived once, not in every step

    def __init__(self, entries: Any):
        self.entries = jax.tree.map(as_number, entries)
        leaves = jax.tree.leaves(self.entries)
        if not leaves:
            raise InputError(f"eg.Constant: expected a number, a vector or a matrix, got {entries!r}")
        square = len(leaves) == 1 and leaves[0].ndim == 2 and leaves[0].shape[0] == leaves[0].shape[1]
        self.root_entries = psd_root(jnp.asarray(leaves[0])) if square else None

    def value(self, z, rows, cols):
        return self.entries

    def operator(self, value, rows, cols):
        leaves = jax.tree.leaves(value)
        if len(leaves) == 1 and leaves[0].ndim == 0 and rows == cols:
            return ScalarOperator(jnp.asarray(leaves[0], rows.dtype), rows)
        if rows == cols and _fits(value, rows):
            cast = [jnp.asarray(leaf, dtype) for leaf, dtype in zip(leaves, rows.dtypes, strict=True)]
            return DiagonalOperator(jax.tree.unflatten(rows.treedef, cast), rows)
        if len(leaves) == 1 and leaves[0].shape == (rows.size, cols.size):
            root = None if self.root_entries is None else jnp.asarray(self.root_entries, rows.dtype)
            return DenseOperator(jnp.asarray(leaves[0], rows.dtype), rows, cols, root)
        got = ", ".join(str(leaf.shape) for leaf in leaves)
        raise InputError(
            f"eg.Constant has entries of shape {got}, but the block is between slots of {rows.size} and {cols.size} "
            f"numbers: give a scalar (equal slots), a vector like the slot, or a {rows.size} x {cols.size} matrix"
        )

    def reads(self, point, row, col):
        return set()

    def explicit_divergence(self, f, x, out, transpose, key):
        raise AssertionError("a constant block reads nothing, so its divergence is never asked for")


class Scaled(Field):
    """fn(z) times the identity; fn returns a scalar."""

    fn: FieldFn

    def value(self, z, rows, cols):
        return _expect_scalar(self.fn(z), rows)

    def operator(self, value, rows, cols):
        _expect_equal("eg.Scaled", rows, cols)
        return ScalarOperator(value, rows)

    def explicit_divergence(self, f, x, out, transpose, key):
        return jax.grad(f)(x)


class Elementwise(Field):
    """A diagonal whose entry i is a function of coordinate i alone (of any slots, and of scalars)."""

    fn: FieldFn

    def value(self, z, rows, cols):
        return _expect_like("eg.Elementwise", self.fn(z), rows)

    def operator(self, value, rows, cols):
        _expect_equal("eg.Elementwise", rows, cols)
        return DiagonalOperator(value, rows)

    def explicit_divergence(self, f, x, out, transpose, key):
        return jax.jvp(f, (x,), (tree.ones_like(x),))[1]


class Diagonal(Field):
    """Any diagonal. Its divergence is exact up to EXACT_LIMIT entries; above that an unbiased random probe."""

    fn: FieldFn

    def value(self, z, rows, cols):
        return _expect_like("eg.Diagonal", self.fn(z), rows)

    def operator(self, value, rows, cols):
        _expect_equal("eg.Diagonal", rows, cols)
        return DiagonalOperator(value, rows)

    @property
    def is_probed(self):
        return True

    def explicit_divergence(self, f, x, out, transpose, key):
        return jacobian_diagonal(f, x, key)


class Dense(Field):
    """A matrix (n_row, n_col) in ravel_pytree order: the theorem's general form."""

    fn: FieldFn

    def value(self, z, rows, cols):
        matrix = jnp.asarray(self.fn(z))
        if matrix.shape != (rows.size, cols.size):
            raise InputError(
                f"eg.Dense: fn returned shape {matrix.shape}, expected ({rows.size}, {cols.size}): "
                "one row for each number of the row slot, one column for each of the column slot"
            )
        return matrix.astype(rows.dtype)

    def operator(self, value, rows, cols):
        return DenseOperator(value, rows, cols)

    def explicit_divergence(self, f, x, out, transpose, key):
        layout = Layout.of(x)
        flat = layout.ravel(x)
        basis = jnp.eye(layout.size, dtype=flat.dtype)

        def share(e):
            change = jax.jvp(lambda v: f(layout.unravel(v)), (flat,), (e,))[1]
            return (change.T if transpose else change) @ e

        return out.unravel(jnp.sum(jax.vmap(share)(basis), axis=0))


class Coupling(Field):
    """A column between a slot and a scalar slot; fn returns a pytree like the row slot: the thermostat's r/d.

    Args:
        fn: the column.
        elementwise: entry i depends on coordinate i of the row slot alone. Then the divergence of the transpose is
            one JVP at any size; checked in `recipe.init`, as for `eg.Elementwise`.
        shared: the column is fn(z) / d, d the number of its entries.
    """

    fn: FieldFn
    elementwise: bool = eqx.field(static=True, default=False)
    shared: bool = eqx.field(static=True, default=False)

    def value(self, z, rows, cols):
        return _expect_like("eg.Coupling", self.fn(z), rows)

    def operator(self, value, rows, cols):
        if not cols.is_scalar:
            raise InputError(
                f"eg.Coupling is a column between a slot and a scalar slot, but the column slot has shapes "
                f"{cols.shapes}: use eg.Elementwise, eg.Diagonal or eg.Dense between larger slots"
            )
        return ColumnOperator(value, rows, cols, self._factor(rows.size))

    def _factor(self, entries: int) -> float:
        return 1 / entries if self.shared else 1.0

    @property
    def is_probed(self):
        return not self.elementwise

    def explicit_divergence(self, f, x, out, transpose, key):
        if not transpose:
            return tree.scale(self._factor(out.size), jax.jvp(f, (x,), (tree.ones_like(x),))[1])
        diagonal = jax.jvp(f, (x,), (tree.ones_like(x),))[1] if self.elementwise else jacobian_diagonal(f, x, key)
        return out.unravel(self._factor(tree.size(x)) * tree.total(diagonal)[None])


class Root(Field):
    """The symmetric square root of a PSD field, of the same kind: derived, so that G^-1 and G^-1/2 always agree."""

    inner: Field

    def value(self, z, rows, cols):
        operator = self.inner.operator(self.inner.value(z, rows, cols), rows, cols)
        if isinstance(operator, DenseOperator):
            return psd_root(operator.matrix) if operator.root is None else operator.root
        return jax.tree.map(jnp.sqrt, operator.value)  # pyright: ignore[reportAttributeAccessIssue]

    def operator(self, value, rows, cols):
        operator = self.inner.operator(value, rows, cols)
        # a matrix that the inner field knows the root of is not the one held here
        return DenseOperator(value, rows, cols) if isinstance(operator, DenseOperator) else operator

    @property
    def is_probed(self):
        return self.inner.is_probed

    def explicit_divergence(self, f, x, out, transpose, key):
        return self.inner.explicit_divergence(f, x, out, transpose, key)

    def reads(self, point, row, col):
        return self.inner.reads(point, row, col)

    @property
    def flow(self) -> Callable[[PyTree, PyTree, Array], tuple[PyTree, PyTree]] | None:
        """The exact solution of dq/dt = G^-1/2(q) v, where the metric knows it (`eg.expanded_mean`)."""
        return getattr(getattr(self.inner, "fn", None), "root_flow", None)


class Times(Field):
    """A field times a constant factor; made by `times`."""

    inner: Field
    factor: float = eqx.field(static=True)

    def value(self, z, rows, cols):
        return tree.scale(self.factor, self.inner.value(z, rows, cols))

    def operator(self, value, rows, cols):
        return self.inner.operator(value, rows, cols)

    @property
    def is_probed(self):
        return self.inner.is_probed

    def explicit_divergence(self, f, x, out, transpose, key):
        return self.inner.explicit_divergence(f, x, out, transpose, key)

    def reads(self, point, row, col):
        return self.inner.reads(point, row, col)


def times(factor: float, field: Field) -> Field:
    """The field with all its entries multiplied."""
    if isinstance(field, Constant):  # it knows the root of its own entries
        return Constant(jax.tree.map(lambda leaf: factor * leaf, field.entries))
    return Times(field, factor)


def jacobian_diagonal(f: Callable[[PyTree], PyTree], x: PyTree, key: Array | None) -> PyTree:
    """(df_i/dx_i)_i: exact up to EXACT_LIMIT entries, above that Hutchinson's v * (J v) with random signs v.

    The probe is unbiased, and exact where entry i depends on coordinate i alone. Without a key it takes a fixed one.
    """
    layout = Layout.of(x)
    flat = layout.ravel(x)

    def directional(v):
        return layout.ravel(jax.jvp(lambda y: f(layout.unravel(y)), (flat,), (v,))[1])

    if layout.size <= EXACT_LIMIT:
        basis = jnp.eye(layout.size, dtype=flat.dtype)
        return layout.unravel(jax.vmap(lambda e: jnp.sum(directional(e) * e))(basis))
    signs = jax.random.rademacher(jax.random.key(0) if key is None else key, flat.shape, flat.dtype)
    return layout.unravel(signs * directional(signs))


def as_number(value: Any) -> Any:
    """A floating array: traced by jit, so that another number in a recipe does not compile a step again."""
    if isinstance(value, jax.Array):
        return value
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise InputError(f"expected numbers, got {value!r} of type {type(value).__name__}")
    return array.astype(np.float64) if array.dtype.kind != "f" else array


def _fits(value: PyTree, layout: Layout) -> bool:
    leaves, treedef = jax.tree.flatten(value)
    return treedef == layout.treedef and tuple(tuple(leaf.shape) for leaf in leaves) == layout.shapes


def _expect_scalar(value: Any, rows: Layout) -> Array:
    scalar = jnp.asarray(value)
    if scalar.shape != ():
        raise InputError(
            f"eg.Scaled: fn returned shape {scalar.shape}, expected a scalar (for a diagonal: eg.Diagonal)"
        )
    return scalar.astype(rows.dtype)


def _expect_like(kind: str, value: Any, rows: Layout) -> PyTree:
    value = jax.tree.map(jnp.asarray, value)
    if not _fits(value, rows):
        got = jax.tree.map(lambda leaf: leaf.shape, value)
        want = jax.tree.unflatten(rows.treedef, rows.shapes)
        raise InputError(f"{kind}: fn returned shapes {got}, expected those of the row slot, {want}")
    return jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), value, rows.like())


def _expect_equal(kind: str, rows: Layout, cols: Layout) -> None:
    if rows != cols:
        raise InputError(
            f"{kind} needs two slots of the same shapes, got {rows.shapes} and {cols.shapes}: "
            "use eg.Dense, or eg.Coupling where one slot is a scalar"
        )
