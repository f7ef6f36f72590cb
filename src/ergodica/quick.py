"""Compilation of what runs once or a few times: optimising its code would cost more than it saves."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

OPTIONS = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def quick_jit(function: Callable) -> Callable:
    """jax.jit for what runs once: it compiles in a half to a fifth of the time."""
    return jax.jit(function, compiler_options=OPTIONS)


def quick_filter_jit(function: Callable) -> Callable:
    """`quick_jit` of a function of functions; those that differ in numbers only (Partial, modules) share it."""
    return eqx.filter_jit(function, compiler_options=OPTIONS)  # type: ignore[call-overload]


def quick_keys(rng: np.random.Generator, count: int) -> Array:
    """Random keys from NumPy, which has nothing to compile."""
    data = rng.integers(2**32, size=(count, 2), dtype=np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(data), impl="threefry2x32")
