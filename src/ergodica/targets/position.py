"""What a position must be, and what a target's functions may return there."""

from collections.abc import Callable
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.compiling import quick_filter_jit, traceable
from ergodica.errors import InputError
from ergodica.targets.domain import first_outside, leaf_boxes
from ergodica.tree import first_non_finite, is_array, is_staged, is_traced, named_leaves


def check_position(position: PyTree, init: PyTree, domain: PyTree) -> None:
    """Raise InputError unless `position` can be sampled: floating arrays, finite, like `init`, inside the domain.

    Without values (inside `jit`) only shapes are looked at.
    """
    check_arrays(position)
    leaves = named_leaves(position, "position")
    if not any(leaf.size for _, leaf in leaves):
        raise InputError(f"the position holds no numbers ({position!r}): expected a pytree of floating arrays")
    if init is not None:
        _check_like(position, init)
    leaf_boxes(domain, position)
    if is_traced((position, domain)):
        return
    bad = first_non_finite(position, "position")
    if bad is not None:
        raise InputError(f"{bad}: every number of a position must be finite, a chain cannot leave such a start")
    outside = first_outside(domain, position)
    if outside is not None:
        raise InputError(f"{outside}, the domain of this target: start inside it")


def check_arrays(position: PyTree) -> None:
    """Raise InputError unless all leaves are floating arrays."""
    for name, leaf in named_leaves(position, "position"):
        if not is_array(leaf):
            kind = type(leaf).__name__
            raise InputError(f"{name} is {leaf!r} ({kind}): expected a floating array, as jnp.asarray(0.5)")
        if not jnp.issubdtype(leaf.dtype, np.floating):
            raise InputError(
                f"{name} has dtype {leaf.dtype}: expected a floating array, a gradient is taken with respect to it; "
                "convert it with .astype(float)"
            )


def _check_like(position: PyTree, init: PyTree) -> None:
    got, expected = jax.tree.structure(position), jax.tree.structure(init)
    if got != expected:
        raise InputError(f"the position has structure {got}, but the target's init has {expected}")
    for (name, leaf), example in zip(named_leaves(position, "position"), jax.tree.leaves(init), strict=True):
        if leaf.shape != example.shape:
            raise InputError(f"{name} has shape {leaf.shape}, but in the target's init it is {example.shape}")


def position_dtype(position: PyTree) -> np.dtype:
    """The widest dtype among the leaves: that of the potential."""
    # Not result_type: under strict promotion it refuses a position that mixes float32 and float64.
    dtypes = [jax.dtypes.canonicalize_dtype(leaf.dtype) for leaf in jax.tree.leaves(position)]
    return max(dtypes, key=lambda dtype: jnp.finfo(dtype).bits)


def real_array(value: Any, name: str) -> Array:
    """What the user's function `name` returned, as an array of real numbers."""
    if not is_array(value) and not isinstance(value, Real):
        forgotten = "; is the return statement missing?" if value is None else ""
        raise InputError(f"{name} returned {type(value).__name__}, expected an array of real numbers{forgotten}")
    array = jnp.asarray(value)
    if jnp.issubdtype(array.dtype, np.complexfloating) or not jnp.issubdtype(array.dtype, np.number):
        raise InputError(f"{name} returned dtype {array.dtype}, expected real numbers")
    return array


def real_scalar(function: Callable, name: str, position: PyTree, dtype: Any) -> Array:
    """What the user's `function`, called `name` in messages, returns for the position: a scalar in this dtype."""
    array = real_array(function(position), name)
    if array.shape != ():
        raise InputError(
            f"{name} returned shape {array.shape}, expected a scalar: "
            "it is one number for the whole position, so end it with jnp.sum(...)"
        )
    return array.astype(dtype)


def run_once(function: Callable, *arguments: PyTree) -> PyTree:
    """function(*arguments), compiled: operation by operation it takes half a second and more."""
    if is_traced(arguments) or is_staged():
        return function(*arguments)
    with traceable("the target's function"):
        return _compiled(function, *arguments)


@quick_filter_jit
def _compiled(function: Callable, *arguments: PyTree) -> PyTree:
    return function(*arguments)


def check_evaluation(potential: Array, gradient: PyTree) -> None:
    """Refuse a potential or gradient that is not finite; without values (inside `jit`) say nothing."""
    if is_traced((potential, gradient)):
        return
    if not np.isfinite(potential):
        raise InputError(
            f"the potential is {potential} at this position, expected a finite number: the position may be where the "
            "density is zero (start elsewhere, or give the target a domain=), or the function overflows there"
        )
    bad = first_non_finite(gradient, "gradient")
    if bad is not None:
        raise InputError(
            f"the potential is finite at this position but its gradient is not: {bad}; a square root, norm, logarithm "
            "or power at 0, or the branch of a jnp.where that is not taken, is the usual cause"
        )
