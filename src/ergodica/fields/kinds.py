"""The kinds of fields, from the cheapest to the most general, and fields derived from others."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.errors import InputError
from ergodica.fields.base import Field, as_number, expect_equal, expect_like, expect_scalar, fits, jacobian_diagonal
from ergodica.operators import (
    ColumnOperator,
    DenseOperator,
    DiagonalOperator,
    LowRank,
    LowRankOperator,
    ScalarOperator,
    psd_root,
)
from ergodica.phase import View
from ergodica.tree import Layout

FieldFn = Callable[[View], Any]


class Constant(Field):
    """A block of D or Q that does not depend on the phase.

    Use it wherever you can: its correction is zero and costs nothing.

    Args:
        entries: a scalar (times the identity), an array or pytree shaped like the slot (a diagonal), or a matrix
            (n_row, n_col) in the order of `jax.flatten_util.ravel_pytree`.

    Example:
        >>> import ergodica as eg
        >>> sgld = eg.Recipe(diffusion={"position": eg.Constant([1.0, 0.1])})
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
        if isinstance(value, LowRank) and rows == cols and value.diagonal.shape == (rows.size,):
            return LowRankOperator(jax.tree.map(lambda leaf: jnp.asarray(leaf, rows.dtype), value), rows)
        leaves = jax.tree.leaves(value)
        if len(leaves) == 1 and leaves[0].ndim == 0 and rows == cols:
            return ScalarOperator(jnp.asarray(leaves[0], rows.dtype), rows)
        if rows == cols and fits(value, rows):
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
    """A block fn(z) I: one number, which may depend on anything, times the identity.

    Use it to speed a sampler up or slow it down as a whole, from place to place. Its correction costs one gradient of
    fn.

    Args:
        fn: a scalar function of the phase. It reads `z.position`, other slots by their names, `z.potential`.

    Example:
        >>> import jax, jax.numpy as jnp, ergodica as eg
        >>> target = eg.Density(lambda q: jnp.sum(q**2) / 2, init=jnp.array([1.0, 3.0]))
        >>> recipe = eg.Recipe(diffusion={"position": eg.Scaled(lambda z: 1.0 + jnp.sum(z.position**2))})
        >>> phase = recipe.init(target, target.init, jax.random.key(0))
        >>> recipe.correction(target, phase).position.tolist()  # the gradient of 1 + |q|^2
        [2.0, 6.0]
    """

    fn: FieldFn

    def value(self, z, rows, cols):
        return expect_scalar(self.fn(z), rows)

    def operator(self, value, rows, cols):
        expect_equal("eg.Scaled", rows, cols)
        return ScalarOperator(value, rows)

    def explicit_divergence(self, f, x, out, transpose, key):
        return jax.grad(f)(x)


class _DiagonalField(Field):
    """diag(fn(z)); the kinds differ in how they find the diagonal of its Jacobian."""

    fn: FieldFn

    def value(self, z, rows, cols):
        return expect_like(f"eg.{type(self).__name__}", self.fn(z), rows)

    def operator(self, value, rows, cols):
        expect_equal(f"eg.{type(self).__name__}", rows, cols)
        return DiagonalOperator(value, rows)


class Elementwise(_DiagonalField):
    """A diagonal block whose entry i is a function of coordinate i alone (of any slots, and of scalars).

    Use it for diagonal metrics: its correction costs one JVP at any size. If an entry depends on other coordinates too,
    `recipe.init` finds out, and you need `eg.Diagonal`.

    Args:
        fn: a function of the phase that returns a pytree shaped like the slot.

    Example:
        >>> import jax, jax.numpy as jnp, ergodica as eg
        >>> target = eg.Density(lambda q: jnp.sum(q**2) / 2, init=jnp.array([1.0, 3.0]))
        >>> recipe = eg.Recipe(diffusion={"position": eg.Elementwise(lambda z: 1.0 + z.position**2)})
        >>> phase = recipe.init(target, target.init, jax.random.key(0))
        >>> recipe.correction(target, phase).position.tolist()  # d(1 + q_i^2) / dq_i
        [2.0, 6.0]
    """

    def explicit_divergence(self, f, x, out, transpose, key):
        return jax.jvp(f, (x,), (tree.ones_like(x),))[1]


class Diagonal(_DiagonalField):
    """A diagonal block whose entries may depend on everything.

    Use it where `eg.Elementwise` does not apply. Its correction takes one JVP an entry up to 1,000 entries, and above
    that one JVP along random signs: unbiased, with noise of its own that vanishes as entry i depends less on the
    others.

    Args:
        fn: a function of the phase that returns a pytree shaped like the slot.

    Example:
        >>> import jax, jax.numpy as jnp, ergodica as eg
        >>> target = eg.Density(lambda q: jnp.sum(q**2) / 2, init=jnp.array([1.0, 3.0]))
        >>> mixed = eg.Diagonal(lambda z: 1.0 + (z.position * z.position[::-1]) ** 2)
        >>> recipe = eg.Recipe(diffusion={"position": mixed})
        >>> phase = recipe.init(target, target.init, jax.random.key(0))
        >>> recipe.correction(target, phase).position.tolist()  # 2 q_i q_j^2
        [18.0, 6.0]
    """

    @property
    def is_probed(self):
        return True

    def explicit_divergence(self, f, x, out, transpose, key):
        return jacobian_diagonal(f, x, key)


class Dense(Field):
    """A full matrix that may depend on everything: the theorem's general form.

    Use it for a few coordinates: its correction takes one JVP a column, and noise takes an eigendecomposition a step.
    On the diagonal of D it must be symmetric and positive semidefinite, on the diagonal of Q skew-symmetric.

    Args:
        fn: a function of the phase that returns a matrix (n_row, n_col) in the order of
            `jax.flatten_util.ravel_pytree`.

    Example:
        >>> import jax, jax.numpy as jnp, ergodica as eg
        >>> target = eg.Density(lambda q: jnp.sum(q**2) / 2, init=jnp.array([1.0, 3.0]))
        >>> stretched = eg.Dense(lambda z: jnp.eye(2) + jnp.outer(z.position, z.position))
        >>> recipe = eg.Recipe(diffusion={"position": stretched})
        >>> phase = recipe.init(target, target.init, jax.random.key(0))
        >>> recipe.correction(target, phase).position.tolist()  # sum_j d(q_i q_j) / dq_j = 3 q_i
        [3.0, 9.0]
    """

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
    """A column of Q between a slot and a scalar slot, such as the thermostat's r/d.

    Use it to let one number, a thermostat, act on a whole slot. It is not square, so it belongs in `curl` only.

    Args:
        fn: the column, a function of the phase that returns a pytree shaped like the row slot.
        elementwise: entry i depends on coordinate i of the row slot alone. Then the divergence of the transpose is
            one JVP at any size; checked in `recipe.init`, as for `eg.Elementwise`.
        shared: the column is fn(z) / d, d the number of its entries.

    Example:
        >>> import ergodica as eg
        >>> coupling = eg.Coupling(lambda z: z.momentum, elementwise=True, shared=True)
        >>> recipe = eg.Recipe(  # SGNHT
        ...     energy={"momentum": eg.Gaussian(), "thermostat": eg.Thermostat()},
        ...     diffusion={"momentum": eg.Constant(1.0)},
        ...     curl={("momentum", "position"): eg.Constant(1.0), ("momentum", "thermostat"): coupling},
        ... )
    """

    fn: FieldFn
    elementwise: bool = eqx.field(static=True, default=False)
    shared: bool = eqx.field(static=True, default=False)

    def value(self, z, rows, cols):
        return expect_like("eg.Coupling", self.fn(z), rows)

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


class _DerivedField(Field):
    """A field computed entry by entry from another: it reads and differentiates as that one does."""

    inner: Field

    @property
    def is_probed(self):
        return self.inner.is_probed

    def explicit_divergence(self, f, x, out, transpose, key):
        return self.inner.explicit_divergence(f, x, out, transpose, key)

    def reads(self, point, row, col):
        return self.inner.reads(point, row, col)


class Root(_DerivedField):
    """The symmetric square root of a PSD field, of the same kind: derived, so that G^-1 and G^-1/2 always agree."""

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
    def flow(self) -> Callable[[PyTree, PyTree, Array], tuple[PyTree, PyTree]] | None:
        """The exact solution of dq/dt = G^-1/2(q) v, where the metric knows it (`eg.expanded_mean`)."""
        return getattr(getattr(self.inner, "fn", None), "root_flow", None)


class Times(_DerivedField):
    """A field times a constant factor; made by `times`."""

    factor: float = eqx.field(static=True)

    def value(self, z, rows, cols):
        return tree.scale(self.factor, self.inner.value(z, rows, cols))

    def operator(self, value, rows, cols):
        return self.inner.operator(value, rows, cols)


def times(factor: float, field: Field) -> Field:
    """The field with all its entries multiplied."""
    if isinstance(field, Constant):  # it knows the root of its own entries
        return Constant(jax.tree.map(lambda leaf: factor * leaf, field.entries))
    return Times(field, factor)
