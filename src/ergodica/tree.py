"""Vector-space arithmetic on pytrees of floating arrays, each leaf in its own dtype."""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, PyTree


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


def dot(x: PyTree, y: PyTree) -> Array:
    """Inner product, in the widest dtype among the leaves."""
    dtype = common_dtype(x)
    products = jax.tree.map(lambda a, b: jnp.sum(a * b).astype(dtype), x, y)
    return sum(jax.tree.leaves(products), start=jnp.zeros((), dtype))


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
    keys = [key] if len(leaves) == 1 else jax.random.split(key, len(leaves))
    return jax.tree.unflatten(
        treedef, [jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]
    )


def is_traced(x: PyTree) -> bool:
    """Whether a leaf has no value yet, inside jit, vmap or grad: then there is nothing to check."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(x))


def paths(x: PyTree) -> list[str]:
    """The name of each leaf, as a person would write it: `position['w'][0]` gives `['w'][0]`."""
    return [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(x)]


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
