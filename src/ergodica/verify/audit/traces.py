"""What JAX made of a function: whether a trace is the same as an earlier one, and what is inside of it."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array

Fingerprint = tuple[str, tuple[bytes, ...]]


def fingerprint(trace: Any) -> Fingerprint:
    """Equal for traces that compute the same: the program as text, and the arrays that it holds.

    A function that is told from others only by its address, as a host callback, makes the text differ every time.
    """
    return str(trace.jaxpr), tuple(map(_bytes, _constants(trace)))


def inside(params: dict[str, Any]) -> list[Any]:
    """Programs among an equation's parameters: bodies of loops, branches, functions compiled on their own."""
    found = []
    for value in params.values():
        for x in value if isinstance(value, tuple | list) else (value,):
            if hasattr(x, "eqns") or hasattr(getattr(x, "jaxpr", None), "eqns"):
                found.append(x)
    return found


def _constants(trace: Any) -> list[Any]:
    """Of a trace and of all that is inside: their values are not in the text."""
    found = list(getattr(trace, "consts", ()))
    for equation in getattr(trace, "jaxpr", trace).eqns:
        for part in inside(equation.params):
            found += _constants(part)
    return found


def _bytes(constant: Array | np.ndarray) -> bytes:
    is_key = hasattr(constant, "dtype") and jax.dtypes.issubdtype(constant.dtype, jax.dtypes.prng_key)
    array = np.asarray(jax.random.key_data(constant) if is_key else constant)
    return f"{array.dtype}{array.shape}".encode() + array.tobytes()
