"""Vector-space arithmetic on pytrees of floating arrays, each leaf in its own dtype."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PyTree

from ergodica import normals

DOT_NUMBERS = 10_000


def cast(number: Any, leaf: Array) -> Array:
    """A number in the dtype of `leaf`: mixing float32 and float64 must never widen the state in silence."""
    return jnp.asarray(number, leaf.dtype)


def scale(number: Any, x: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: cast(number, leaf) * leaf, x)


def add(x: PyTree, y: PyTree) -> PyTree:
    return jax.tree.map(jnp.add, x, y)


def subtract(x: PyTree, y: PyTree) -> PyTree:
    return jax.tree.map(jnp.subtract, x, y)


def multiply(x: PyTree, y: PyTree) -> PyTree:
    return jax.tree.map(jnp.multiply, x, y)


def add_scaled(x: PyTree, number: Any, y: PyTree) -> PyTree:
    """x + number * y."""
    return jax.tree.map(lambda a, b: a + cast(number, b) * b, x, y)


def mean(x: PyTree, y: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: cast(0.5, a) * (a + b), x, y)


def ones_like(x: PyTree) -> PyTree:
    return jax.tree.map(jnp.ones_like, x)


def total(x: PyTree) -> Array:
    """The sum of all entries, in the widest dtype among the leaves."""
    dtype = common_dtype(x)
    first, *rest = (jnp.sum(leaf).astype(dtype) for leaf in jax.tree.leaves(x))
    return sum(rest, start=first)


def dot(x: PyTree, y: PyTree) -> Array:
    """Inner product, in the widest dtype among the leaves."""
    dtype = common_dtype(x)
    pairs = zip(jax.tree.leaves(x), jax.tree.leaves(y), strict=True)
    first, *rest = (_product(a, b).astype(dtype) for a, b in pairs)
    return sum(rest, start=first)


def _product(x: Array, y: Array) -> Array:
    # Of many numbers as a product of vectors: a sum that XLA fuses with what makes its terms takes ten times as long.
    if x.size < DOT_NUMBERS:
        return jnp.sum(x * y)
    return jnp.vdot(x.reshape(-1), y.reshape(-1), precision=jax.lax.Precision.HIGHEST)


def norm(x: PyTree) -> Array:
    """Euclidean length, in the widest dtype among the leaves."""
    return jnp.sqrt(dot(x, x))


def size(x: PyTree) -> int:
    return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(x))


def common_dtype(x: PyTree) -> Any:
    return _widest(leaf.dtype for leaf in jax.tree.leaves(x))


def _widest(dtypes: Iterable[Any]) -> Any:
    # not jnp.result_type: under strict promotion it refuses a position that mixes float32 and float64
    return max(dtypes, key=lambda dtype: jnp.finfo(dtype).bits)


def normal_like(key: Array, x: PyTree) -> PyTree:
    """Independent standard normals shaped like `x`; a single leaf takes the key as it is."""
    leaves, treedef = jax.tree.flatten(x)
    if size(x) > normals.LARGE and all(leaf.dtype == np.float32 for leaf in leaves):
        return Layout.of(x).unravel(normals.large_normals(key, size(x)))
    keys = [key] if len(leaves) == 1 else jax.random.split(key, len(leaves))
    return jax.tree.unflatten(
        treedef, [jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]
    )


def is_traced(x: PyTree) -> bool:
    """Whether a leaf has no value yet, inside jit, vmap or grad: then there is nothing to check."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(x))


def is_staged() -> bool:
    """Whether we are inside jit, where an operation has no value even if all that it is given has one."""
    return isinstance(jax.lax.neg(np.float32(0)), Tracer)


def paths(x: PyTree) -> list[str]:
    """The name of each leaf, as one would write it: `position['w'][0]` gives `['w'][0]`."""
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(x)]


class Combination:
    """sum_k c_k x_k of numbers c_k and pytrees x_k, added up only when asked for its value.

    Numbers meet numbers before they meet arrays; terms of the same pytree are one, and pytrees of the same number are
    added up first: r - c r + e x + e y costs what a person would write, (1 - c) r + e (x + y). Same means the same
    object. A coefficient None is exactly 1.
    """

    def __init__(self, *terms: tuple[Any, PyTree]):
        self.terms = terms

    @classmethod
    def of(cls, x: PyTree) -> "Combination":
        return cls((None, x))

    def __add__(self, other: "Combination") -> "Combination":
        return Combination(*self.terms, *other.terms)

    def scaled(self, number: Any) -> "Combination":
        def times(coefficient: Any, x: PyTree) -> Any:
            factor = jnp.asarray(number, common_dtype(x))
            return factor if coefficient is None else coefficient * factor

        return Combination(*((times(c, x), x) for c, x in self.terms))

    def value(self) -> PyTree:
        merged: dict[int, tuple[Any, PyTree]] = {}
        for coefficient, x in self.terms:
            if id(x) in merged:
                known = merged[id(x)][0]
                coefficient = (1 if known is None else known) + (1 if coefficient is None else coefficient)
            merged[id(x)] = (coefficient, x)
        by_coefficient: dict[int, tuple[Any, PyTree]] = {}
        for coefficient, x in merged.values():
            key = id(coefficient)
            by_coefficient[key] = (coefficient, add(by_coefficient[key][1], x) if key in by_coefficient else x)
        (first, total), *rest = by_coefficient.values()
        total = total if first is None else scale(first, total)
        for coefficient, x in rest:
            total = add(total, x) if coefficient is None else add_scaled(total, coefficient, x)
        return total


class Layout(NamedTuple):
    """Shapes of a slot, hashable, and the way to a flat vector and back (the order of ravel_pytree)."""

    treedef: Any
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[Any, ...]

    @classmethod
    def of(cls, x: PyTree) -> "Layout":
        leaves, treedef = jax.tree.flatten(x)
        return cls(treedef, tuple(tuple(leaf.shape) for leaf in leaves), tuple(leaf.dtype for leaf in leaves))

    @property
    def size(self) -> int:
        return sum(math.prod(shape) for shape in self.shapes)

    @property
    def dtype(self) -> Any:
        return _widest(self.dtypes)

    @property
    def is_scalar(self) -> bool:
        return self.shapes == ((),)

    def like(self) -> PyTree:
        """Shapes without values, for `jax.eval_shape`."""
        leaves = [jax.ShapeDtypeStruct(s, d) for s, d in zip(self.shapes, self.dtypes, strict=True)]
        return jax.tree.unflatten(self.treedef, leaves)

    def ravel(self, x: PyTree) -> Array:
        leaves = jax.tree.leaves(x)
        if len(leaves) == 1:
            return leaves[0].reshape(-1)
        return jnp.concatenate([leaf.reshape(-1).astype(self.dtype) for leaf in leaves])

    def unravel(self, vector: Array) -> PyTree:
        leaves, start = [], 0
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            stop = start + math.prod(shape)
            leaves.append(vector[start:stop].reshape(shape).astype(dtype))
            start = stop
        return jax.tree.unflatten(self.treedef, leaves)


def named_leaves(x: PyTree, root: str) -> list[tuple[str, Any]]:
    """Every leaf with the name that messages call it, in the order of `jax.tree.leaves`: `position['w'][0]`."""
    return [(root + jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(x)]


def is_array(leaf: Any) -> bool:
    """Whether the leaf is a NumPy array or scalar, or a JAX array (traced or not)."""
    return isinstance(leaf, np.ndarray | np.generic | jax.Array)


def first_index(mask: np.ndarray) -> tuple[int, ...] | None:
    """The index of the first True; None if there is none."""
    return tuple(int(i) for i in np.unravel_index(np.argmax(mask), mask.shape)) if mask.any() else None


def entry(name: str, index: tuple[int, ...]) -> str:
    """One number of a leaf, as a user would write it: `position['w'][3, 1]`; a scalar leaf is just its name."""
    return name + (f"[{', '.join(map(str, index))}]" if index else "")


def first_non_finite(x: PyTree, root: str) -> str | None:
    """The first NaN or infinity of a tree with values, as "position['w'][3] = nan"; None if all are finite."""
    for name, leaf in named_leaves(x, root):
        values = np.asarray(leaf)
        index = first_index(~np.isfinite(values))
        if index is not None:
            return f"{entry(name, index)} = {values[index]}"
    return None
