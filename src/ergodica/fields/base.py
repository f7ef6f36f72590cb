"""What a field is: a block of D or Q as a function of the phase, which owns its divergence."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.errors import InputError
from ergodica.operators import Operator, act
from ergodica.phase import Point, View
from ergodica.tree import Combination, Layout

EXACT_LIMIT = 1_000  # entries up to which the diagonal of a Jacobian is taken exactly, one JVP each


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


def jacobian_diagonal(f: Callable[[PyTree], PyTree], x: PyTree, key: Array | None) -> PyTree:
    """(df_i/dx_i)_i: exact up to EXACT_LIMIT entries, above that Hutchinson's v * (J v) with random signs v.

    v_i (J v)_i = J_ii + sum_(j != i) v_i v_j J_ij, and E[v_i v_j] = 0: the probe is unbiased, and exact where entry i
    depends on coordinate i alone. Without a key it takes a fixed one.
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


def fits(value: PyTree, layout: Layout) -> bool:
    leaves, treedef = jax.tree.flatten(value)
    return treedef == layout.treedef and tuple(tuple(leaf.shape) for leaf in leaves) == layout.shapes


def expect_scalar(value: Any, rows: Layout) -> Array:
    scalar = jnp.asarray(value)
    if scalar.shape != ():
        raise InputError(
            f"eg.Scaled: fn returned shape {scalar.shape}, expected a scalar (for a diagonal: eg.Diagonal)"
        )
    return scalar.astype(rows.dtype)


def expect_like(kind: str, value: Any, rows: Layout) -> PyTree:
    value = jax.tree.map(jnp.asarray, value)
    if not fits(value, rows):
        got = jax.tree.map(lambda leaf: leaf.shape, value)
        want = jax.tree.unflatten(rows.treedef, rows.shapes)
        raise InputError(f"{kind}: fn returned shapes {got}, expected those of the row slot, {want}")
    return jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), value, rows.like())


def expect_equal(kind: str, rows: Layout, cols: Layout) -> None:
    if rows != cols:
        raise InputError(
            f"{kind} needs two slots of the same shapes, got {rows.shapes} and {cols.shapes}: "
            "use eg.Dense, or eg.Coupling where one slot is a scalar"
        )
