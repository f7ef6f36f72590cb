"""What a target's functions may return: real scalars in the dtype of the position, finite where they are looked at."""

from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.compiling import quick_filter_jit, traceable
from ergodica.errors import InputError
from ergodica.targets.leaves import first_non_finite, is_array
from ergodica.tree import is_staged, is_traced


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


def real_scalar(value: Any, name: str, dtype: np.dtype) -> Array:
    """What the user's function `name` returned, as a scalar of the given dtype."""
    array = real_array(value, name)
    if array.shape != ():
        raise InputError(
            f"{name} returned shape {array.shape}, expected a scalar: "
            "it is one number for the whole position, so end it with jnp.sum(...)"
        )
    return array.astype(dtype)


def evaluate_once(target: Any, position: PyTree, batch: PyTree) -> tuple[Array, PyTree]:
    """The potential and its gradient, to be looked at: operation by operation it takes half a second and more."""
    if is_traced((target, position, batch)) or is_staged():
        return target.evaluate(position, batch)
    with traceable("the target's function"):
        return _evaluate(target, position, batch)


@quick_filter_jit
def _evaluate(target: Any, position: PyTree, batch: PyTree) -> tuple[Array, PyTree]:
    return target.evaluate(position, batch)


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
