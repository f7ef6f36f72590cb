"""What was computed, and with what, in a form that can be compared after months: traced functions, versions."""

import hashlib
import platform
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib import metadata
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ergodica.host import seal


def versions() -> dict[str, str]:
    """Of the libraries that the numbers of a run depend on."""
    names = ("ergodica", "jax", "jaxlib", "numpy", "equinox")
    return {name: _version(name) for name in names} | {"python": platform.python_version()}


@cache
def _version(name: str) -> str:
    return metadata.version(name)


def digest(*parts: str | np.ndarray) -> str:
    """Of texts and arrays with their shapes and dtypes: 32 hexadecimal digits of a SHA-256."""
    hashed = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            hashed.update(f"{part.dtype}{part.shape}".encode())
            seal.update(hashed, part)
        else:
            hashed.update(part.encode())
    return hashed.hexdigest()[:32]


def traced(function: Callable, *arguments: Any) -> tuple[str, list[np.ndarray]]:
    """The function's jaxpr as text, and every constant that it or anything it calls closes over."""
    closed, _, _ = eqx.filter_make_jaxpr(function)(*arguments)
    # not str(): on a terminal that has colours in it, and a run begun there could not be resumed elsewhere
    return without_addresses(closed.jaxpr.pretty_print(use_color=False)), constants(closed)


def constants(closed: Any) -> list[np.ndarray]:
    """Every constant of a closed jaxpr, and of all that is called within it: their values are not in its text."""
    return [as_numbers(constant) for constant in _constants(closed)]


def traced_digest(function: Callable, *arguments: Any) -> str:
    """A digest of what the function computes for arguments of these shapes."""
    text, constants = traced(function, *arguments)
    return digest(text, *constants)


def without_addresses(text: str) -> str:
    """The addresses of objects differ between processes."""
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def as_numbers(constant: Any) -> np.ndarray:
    """Typed keys have no NumPy dtype: their data stand for them."""
    is_key = isinstance(constant, jax.Array) and jax.dtypes.issubdtype(constant.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(constant) if is_key else constant)


def _constants(found: Any) -> Iterator[Any]:
    """Those of a closed jaxpr and of all that are called within it: a user's own jit, branches, loops."""
    if isinstance(found, tuple | list):
        for part in found:
            yield from _constants(part)
    elif hasattr(found, "consts"):
        yield from found.consts
        yield from _constants(found.jaxpr)
    elif hasattr(found, "eqns"):
        for equation in found.eqns:
            yield from _constants(list(equation.params.values()))
