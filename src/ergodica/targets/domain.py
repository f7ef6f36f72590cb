"""Where a position may be: boxes, matched to the leaves of a position, and the reflection into them."""

import math
from numbers import Real
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.errors import InputError
from ergodica.tree import entry, first_index, is_array, is_traced, named_leaves


def _bound(value: Any) -> float | Array | np.ndarray:
    # A number stays a Python float: it is then part of the compiled program and picks the branch of `fold`.
    if isinstance(value, Real) and not is_array(value):
        return float(value)
    values: Any = value if is_array(value) else np.asarray(value)
    if not jnp.issubdtype(values.dtype, np.floating) and not jnp.issubdtype(values.dtype, np.integer):
        raise InputError(f"a bound of Box is {value!r}: expected a number or an array of numbers")
    return values if jnp.issubdtype(values.dtype, np.floating) else values.astype(float)


class Box(eqx.Module):
    """The closed box low <= x <= high, for every number of a leaf: a chain is reflected at its walls.

    Use it as the `domain` of a target whose density ends at a wall. Where the density vanishes towards the wall, a
    change of variables (a logarithm for a positive scale) usually mixes better.

    Args:
        low, high: numbers, or arrays that broadcast to the leaf; -inf and inf leave a side open.

    Example:
        >>> import ergodica as eg
        >>> eg.Box(0, 1)
        Box(low=0.0, high=1.0)
    """

    low: float | Array | np.ndarray = eqx.field(converter=_bound)
    high: float | Array | np.ndarray = eqx.field(converter=_bound)

    def __check_init__(self):
        try:
            np.broadcast_shapes(np.shape(self.low), np.shape(self.high))
        except ValueError:
            shapes = f"{np.shape(self.low)} and {np.shape(self.high)}"
            raise InputError(f"the bounds of Box have shapes {shapes}, which do not broadcast") from None
        if is_traced((self.low, self.high)):
            return
        low, high = np.broadcast_arrays(np.asarray(self.low), np.asarray(self.high))
        index = first_index(~(low < high))  # written so that a NaN bound is caught as well
        if index is not None:
            pair = f"{entry('low', index)} = {low[index]}, {entry('high', index)} = {high[index]}"
            raise InputError(f"Box needs low < high everywhere, got {pair}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The common shape of the bounds; () for two numbers."""
        return np.broadcast_shapes(np.shape(self.low), np.shape(self.high))


positive = Box(0.0, math.inf)
"""The domain x >= 0."""


def _is_place(node: Any) -> bool:
    return node is None or isinstance(node, Box)


def leaf_boxes(domain: PyTree, position: PyTree) -> list[Box | None]:
    """The box of each leaf of `position`, None where it is unbounded.

    `domain` is a pytree prefix of the position: one Box holds for every leaf below its place.
    """
    places, structure = jax.tree.flatten(domain, is_leaf=_is_place)
    for place in places:
        if not _is_place(place):
            raise InputError(
                f"domain holds {place!r} ({type(place).__name__}): expected eg.positive, eg.Box(low, high), "
                "None for unbounded, or a pytree of them"
            )
    try:
        subtrees = structure.flatten_up_to(position)
    except ValueError as error:
        raise InputError(
            f"domain does not match the position: domain is {domain}, position is {jax.tree.structure(position)} "
            f"({error}); give one Box for all, or the same keys with None where a part is unbounded"
        ) from None
    boxes = [box for box, subtree in zip(places, subtrees, strict=True) for _ in jax.tree.leaves(subtree)]
    for box, (name, leaf) in zip(boxes, named_leaves(position, "position"), strict=True):
        _check_broadcast(box, name, np.shape(leaf))
    return boxes


def _check_broadcast(box: Box | None, name: str, shape: tuple[int, ...]) -> None:
    if box is None:
        return
    try:
        fits = np.broadcast_shapes(box.shape, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise InputError(f"the Box of {name} has bounds of shape {box.shape}, which do not broadcast to {shape}")


def first_outside(domain: PyTree, position: PyTree) -> str | None:
    """The first number outside the domain, as "position['w'][3] = -1.0 is outside ..."; None if all are inside."""
    for box, (name, leaf) in zip(leaf_boxes(domain, position), named_leaves(position, "position"), strict=True):
        if box is None:
            continue
        values, low, high = np.broadcast_arrays(np.asarray(leaf), np.asarray(box.low), np.asarray(box.high))
        index = first_index(~((low <= values) & (values <= high)))
        if index is not None:
            return f"{entry(name, index)} = {values[index]} is outside [{low[index]}, {high[index]}]"
    return None


def contains(domain: PyTree, position: PyTree) -> bool:
    """Whether a position with values is inside the domain; the boundary counts, NaN does not."""
    return first_outside(domain, position) is None


def fold(box: Box | None, x: Array) -> tuple[Array, Array]:
    """`x` reflected at the walls of `box` until it is inside, and +1 or -1: whether the normal velocity is flipped.

    |x| for `positive`, a triangular wave for a finite box. An x inside comes back bit for bit; one far outside is
    folded in one go. Both arrays have the dtype of `x`.
    """
    if box is None:
        return x, jnp.ones_like(x)
    low, high = (jnp.broadcast_to(jnp.asarray(bound, x.dtype), x.shape) for bound in (box.low, box.high))
    if isinstance(box.low, float) and isinstance(box.high, float):
        # Known while tracing: the compiled step has the operations of the one case and no other.
        match math.isfinite(box.low), math.isfinite(box.high):
            case False, False:
                return x, jnp.ones_like(x)
            case True, False if box.low == 0:
                return jnp.abs(x), jnp.where(x < 0, -jnp.ones_like(x), jnp.ones_like(x))
            case True, False:
                return _mirror(x, low, x < low)
            case False, True:
                return _mirror(x, high, x > high)
            case _:
                return _wave(x, low, high)
    # An open side gets a finite stand-in, so that the branch not taken has no NaN, nor its derivative.
    both = jnp.isfinite(low) & jnp.isfinite(high)
    edge = jnp.where(jnp.isfinite(low), low, jnp.where(jnp.isfinite(high), high, jnp.zeros_like(x)))
    wave = _wave(x, edge, jnp.where(both, high, edge + 1.0))
    mirror = _mirror(x, edge, (x < low) | (x > high))
    return jnp.where(both, wave[0], mirror[0]), jnp.where(both, wave[1], mirror[1])


def _mirror(x: Array, edge: Array, outside: Array) -> tuple[Array, Array]:
    # 2 * edge is exact and rounding is monotone, so the image never lands beyond the edge again.
    return jnp.where(outside, 2.0 * edge - x, x), jnp.where(outside, -jnp.ones_like(x), jnp.ones_like(x))


def _wave(x: Array, low: Array, high: Array) -> tuple[Array, Array]:
    # The wave has period 2 (high - low); the remainder of a floating-point division is exact however many folds.
    width = high - low
    phase = jnp.mod(x - low, 2.0 * width)
    inside = (low <= x) & (x <= high)
    rising = inside | (phase <= width)
    # high - low rounds, so low + width may pass high by one unit in the last place.
    folded = jnp.clip(low + jnp.where(rising, phase, 2.0 * width - phase), low, high)
    return jnp.where(inside, x, folded), jnp.where(rising, jnp.ones_like(x), -jnp.ones_like(x))
