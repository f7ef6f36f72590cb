"""How functions are compiled: what runs once with little optimisation, and everything around a known fault of XLA."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxlib
import numpy as np
from jaxtyping import Array

from ergodica.errors import InputError

# jaxlib 0.10.2 on the CPU computes small matrix-vector products fused with a reduction wrongly beyond row 16,384 of a
# vmap (jax-ml/jax#39103): a likelihood over many rows may hold one. Without this kind of fusion it is right.
SOUND_OPTIONS = {"xla_cpu_experimental_ynn_fusion_type": ""} if jaxlib.__version__ == "0.10.2" else {}
# Optimising the code of what runs once costs more than it saves.
QUICK_OPTIONS = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True, **SOUND_OPTIONS}
if jaxlib.__version__.startswith("0.10."):  # later ones refuse the option; here it compiles in half the time
    QUICK_OPTIONS["xla_cpu_use_fusion_emitters"] = False


def sound_jit(function: Callable) -> Callable:
    """jax.jit, for functions of arrays alone: before each call it does far less than eqx.filter_jit."""
    return jax.jit(function, compiler_options=SOUND_OPTIONS)


def sound_filter_jit(function: Callable) -> Callable:
    """eqx.filter_jit, not to be nested in another jit."""
    return eqx.filter_jit(function, compiler_options=SOUND_OPTIONS)  # type: ignore[call-overload]


def quick_jit(function: Callable) -> Callable:
    """jax.jit for what runs once: it compiles in a half to a fifth of the time."""
    return jax.jit(function, compiler_options=QUICK_OPTIONS)


def quick_filter_jit(function: Callable) -> Callable:
    """`quick_jit` of a function of functions; those that differ in numbers only (Partial, modules) share it."""
    return eqx.filter_jit(function, compiler_options=QUICK_OPTIONS)  # type: ignore[call-overload]


def quick_keys(rng: np.random.Generator, count: int) -> Array:
    """Random keys from NumPy, which has nothing to compile."""
    data = rng.integers(2**32, size=(count, 2), dtype=np.uint32)
    return jax.random.wrap_key_data(jnp.asarray(data), impl="threefry2x32")


@contextmanager
def traceable(what: str, about_shapes: str = "is `init` of the right shape?") -> Iterator[None]:
    """Wraps the first use of a user's functions: what JAX cannot trace becomes one line that says what to do."""
    try:
        yield
    except jax.errors.TracerArrayConversionError as error:
        raise InputError(f"{what} uses NumPy, or float(), on what JAX traces: use jax.numpy (jnp) there") from error
    except jax.errors.ConcretizationTypeError as error:
        raise InputError(
            f"{what} decides by a value that is known only when it runs: use jnp.where or jax.lax.cond, not if"
        ) from error
    except TypeError as error:
        if "shape" not in str(error):
            raise
        first = str(error).strip().splitlines()[0].rstrip(".")
        raise InputError(f"{what} meets shapes that do not fit ({first}): {about_shapes}") from error
