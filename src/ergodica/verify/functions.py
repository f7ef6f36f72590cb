"""A hand-written SDE, looked at before it is used: shapes without values, then values at points, in float64."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.compiling import quick_filter_jit
from ergodica.errors import InputError
from ergodica.verify.sde import from_functions

CHUNK = 16_384  # points evaluated in one compiled call
SYMMETRIC = 1e-10  # of the size of D


class Values(NamedTuple):
    """At n points: H (n,), f (n, dim), D (n, dim, dim) and the current c = f + D grad H - div D (n, dim)."""

    energy: np.ndarray
    drift: np.ndarray
    diffusion: np.ndarray
    current: np.ndarray

    @property
    def are_finite(self) -> bool:
        return all(bool(np.isfinite(value).all()) for value in self)


class HandWritten(eqx.Module):
    """f, D and H, jnp functions of one flat vector, evaluated at many points at once."""

    drift: Callable
    diffusion: Callable
    hamiltonian: Callable
    dim: int = eqx.field(static=True)

    def energies(self, points: np.ndarray) -> np.ndarray:
        """H at points (n, dim)."""
        return in_chunks(_energies, self, points, CHUNK)[0]

    def values(self, points: np.ndarray) -> Values:
        """Everything at points (n, dim)."""
        return Values(*in_chunks(_values, self, points, CHUNK))

    def check(self, points: np.ndarray) -> Values:
        """Everything at points (n, dim); refuses what is not finite, and a D that is not symmetric or not PSD."""
        values = self.values(points)
        for name, value in (("hamiltonian", values.energy), ("drift", values.drift), ("diffusion", values.diffusion)):
            check_finite(name, value, points)
        check_finite("the gradient of hamiltonian, or of diffusion,", values.current, points)
        check_psd(values.diffusion, points)
        return values


# The process is an argument: the same functions, and those with numbers of their own (modules), compile once.
@quick_filter_jit
def _energies(process: HandWritten, points: Array) -> tuple[Array]:
    return (jax.vmap(process.hamiltonian)(points),)


@eqx.filter_jit  # on a whole grid it runs long enough to be worth optimising
def _values(process: HandWritten, points: Array) -> tuple[Array, Array, Array, Array]:
    sde = from_functions(process.drift, process.diffusion, process.hamiltonian, process.dim)
    return jax.vmap(lambda z: (sde.hamiltonian(z), process.drift(z), process.diffusion(z), sde.current(z)))(points)


def in_chunks(compiled: Callable, function: Any, points: np.ndarray, rows: int) -> tuple[np.ndarray, ...]:
    """The values at points (n, dim), so many rows at a time; all chunks of one shape, so that they compile once."""
    chunks = []
    for start in range(0, len(points), rows):
        part = np.resize(points[start : start + rows], (rows, points.shape[1]))
        with jax.enable_x64(True):
            values = compiled(function, jnp.asarray(part, jnp.float64))
        chunks.append([np.asarray(value)[: len(points) - start] for value in values])
    return tuple(np.concatenate(column) for column in zip(*chunks, strict=True))


def hand_written(drift: Callable, diffusion: Callable, hamiltonian: Callable, dim: int | None) -> HandWritten:
    """The functions with their dimension; None: the one, 2 or 3, at which all three return the right shapes."""
    functions = {"hamiltonian": hamiltonian, "drift": drift, "diffusion": diffusion}
    for name, function in functions.items():
        if not callable(function):
            raise InputError(f"{name} is a {type(function).__name__}: expected a jnp function of one flat vector")
    if dim is None:
        fitting = [n for n in (2, 3) if mismatch(functions, n) is None]
        fitting = fitting or [n for n in (1, *range(4, 9)) if mismatch(functions, n) is None]
        if len(fitting) > 1:
            raise InputError(
                f"the functions take vectors of {' or '.join(map(str, fitting))} numbers alike: say how many with "
                "box=[(low, high)] * dim"
            )
        if not fitting:
            two, three = mismatch(functions, 2), mismatch(functions, 3)
            raise InputError(f"{two}" if two == three else f"in 2 dimensions {two}; in 3 dimensions {three}")
        dim = fitting[0]
    if dim not in (2, 3):
        raise InputError(f"got a process in {dim} dimensions: Q is rebuilt on a grid, in 2 or 3")
    wrong = mismatch(functions, dim)
    if wrong:
        raise InputError(f"{wrong}; the functions are jnp functions of one vector of {dim} numbers")
    return HandWritten(drift, diffusion, hamiltonian, dim)


def mismatch(functions: dict[str, Callable], dim: int) -> str | None:
    """What is wrong with the functions at vectors of that many numbers, in words; None: nothing."""
    shapes = {"hamiltonian": (), "drift": (dim,), "diffusion": (dim, dim)}
    with jax.enable_x64(True):
        for name, function in functions.items():
            try:
                value = jax.eval_shape(function, jax.ShapeDtypeStruct((dim,), jnp.float64))
            except jax.errors.TracerArrayConversionError:
                return f"{name} hands its argument to NumPy: write it with jax.numpy"
            except jax.errors.ConcretizationTypeError:
                return f"{name} asks for the value of its argument (if, float, int): use jnp.where and jnp functions"
            except Exception as error:
                first = str(error).strip().split("\n")[0]
                return f"{name} fails on a vector of {dim} numbers ({type(error).__name__}: {first})"
            kind = getattr(value, "dtype", None)
            if kind is not None and not jnp.issubdtype(kind, jnp.floating):
                return f"{name} returned numbers of dtype {kind}, expected real floating-point numbers"
            got = getattr(value, "shape", None)
            if got != shapes[name]:
                what = f"a {type(value).__name__}" if got is None else f"shape {got}"
                return f"{name} returned {what}, expected an array of shape {shapes[name]}"
    return None


def has_float32(function: Callable, dim: int) -> bool:
    """Whether a number of float32 comes into the function's value, as a constant made in JAX's default mode does."""
    jaxpr = str(jax.make_jaxpr(function)(jnp.zeros(dim, jnp.float64)))
    return any(kind in jaxpr for kind in ("f32[", "bf16[", "f16["))


def check_finite(name: str, values: np.ndarray, points: np.ndarray) -> None:
    bad = np.flatnonzero(~np.isfinite(values.reshape(len(points), -1)).all(axis=1))
    if bad.size:
        value = values[bad[0]].ravel()
        found = value[~np.isfinite(value)][0]
        raise InputError(
            f"{name} is {found} at {at(points[bad[0]])} and at {bad.size - 1:,} more of {len(points):,} points: it "
            "must be finite in the whole box"
        )


def check_psd(diffusions: np.ndarray, points: np.ndarray) -> None:
    size = np.abs(diffusions).max(axis=(1, 2))
    skew = np.abs(diffusions - np.swapaxes(diffusions, 1, 2)).max(axis=(1, 2))
    worst = int(np.argmax(skew - SYMMETRIC * size))
    if skew[worst] > SYMMETRIC * size[worst]:
        raise InputError(
            f"diffusion is not symmetric: at {at(points[worst])} an entry and its mirror image differ by "
            f"{skew[worst]:.3g}; dz = f dt + sqrt(2 D) dW needs a symmetric D, and a skew part belongs into the drift"
        )
    least = np.linalg.eigvalsh(diffusions)[:, 0]
    worst = int(np.argmin(least + SYMMETRIC * size))
    if least[worst] < -SYMMETRIC * size[worst]:
        raise InputError(
            f"diffusion is not positive semidefinite: at {at(points[worst])} its smallest eigenvalue is "
            f"{least[worst]:.3g}, and sqrt(2 D) dW needs it to be at least 0"
        )


def at(point: np.ndarray) -> str:
    """A point in words."""
    return "z = (" + ", ".join(f"{float(x):.4g}" for x in point) + ")"
