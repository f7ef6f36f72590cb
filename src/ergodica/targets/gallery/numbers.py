"""The arrays of the gallery: made in NumPy's float64, then given the dtype that was asked for."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.errors import InputError


def floating(dtype: Any) -> np.dtype:
    """The dtype to build in; None: JAX's default, float64 where x64 is on."""
    chosen = jax.dtypes.canonicalize_dtype(float if dtype is None else dtype)
    if not jnp.issubdtype(chosen, np.floating):
        raise InputError(f"dtype is {dtype!r}: expected a floating dtype, as jnp.float32")
    return chosen


def array(values: Any, dtype: np.dtype) -> Array:
    """`values` on the device in `dtype`."""
    return jnp.asarray(np.asarray(values), dtype)


def count(value: Any, name: str, least: int) -> int:
    """`value` as a whole number of at least `least`."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < least:
        raise InputError(f"{name} is {value!r}: expected a whole number of at least {least}")
    return int(value)
