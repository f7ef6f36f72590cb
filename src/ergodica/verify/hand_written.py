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
from ergodica.host.validate import kind_of
from ergodica.verify.sde import Sde, at

CHUNK_POINTS = 16_384  # evaluated in one compiled call
SYMMETRY_SLACK = 1e-10  # of the size of D, by which it may miss being symmetric and PSD

Functions = tuple[Callable, Callable, Callable]  # drift, diffusion, hamiltonian


class SdeValues(NamedTuple):
    """At n points: H (n,), f (n, dim), D (n, dim, dim) and the current c = f + D grad H - T div D (n, dim)."""

    energy: np.ndarray
    drift: np.ndarray
    diffusion: np.ndarray
    current: np.ndarray

    @property
    def are_finite(self) -> bool:
        return all(bool(np.isfinite(value).all()) for value in self)


class HandWritten(Sde):
    """The SDE of jnp functions of one flat vector; D(z) is a matrix."""

    drift_function: Callable
    diffusion_function: Callable
    hamiltonian_function: Callable

    def drift(self, z, key=None):
        return self.drift_function(z)

    def diffuse(self, z, v):
        return self.diffusion_function(z) @ v

    def diffusion(self, z):
        return self.diffusion_function(z)

    def hamiltonian(self, z):
        return self.hamiltonian_function(z)

    @property
    def functions(self) -> Functions:
        return self.drift_function, self.diffusion_function, self.hamiltonian_function

    @property
    def has_float32(self) -> bool:
        """Whether a float32 number goes into a function's value, as a constant made in JAX's default mode does."""
        programs = [str(jax.make_jaxpr(function)(jnp.zeros(self.dim, jnp.float64))) for function in self.functions]
        return any(kind in program for program in programs for kind in ("f32[", "bf16[", "f16["))

    def energies(self, points: np.ndarray) -> np.ndarray:
        """H at points (n, dim)."""
        return in_chunks(_energies, self.hamiltonian_function, points, CHUNK_POINTS)[0]

    def values(self, points: np.ndarray) -> SdeValues:
        """Everything at points (n, dim)."""
        return SdeValues(*in_chunks(_values, self, points, CHUNK_POINTS))

    def check(self, points: np.ndarray) -> SdeValues:
        """Everything at points (n, dim); refuses what is not finite, and a D that is not symmetric or not PSD."""
        values = self.values(points)
        named = {"hamiltonian": values.energy, "drift": values.drift, "diffusion": values.diffusion}
        named["the gradient of hamiltonian, or of diffusion,"] = values.current
        refuse_values(named, points, "of the box", SYMMETRY_SLACK)
        worst, least, share = most_negative(values.diffusion)
        if share > SYMMETRY_SLACK:
            raise InputError(
                f"diffusion is not positive semidefinite: at {at(points[worst])} its smallest eigenvalue is "
                f"{least:.3g}, and sqrt(2 D) dW needs it to be at least 0"
            )
        return values


# The functions are arguments: the same functions, and those with numbers of their own (modules), compile once.
@quick_filter_jit
def _energies(hamiltonian: Callable, points: Array) -> tuple[Array]:
    return (jax.vmap(hamiltonian)(points),)


@eqx.filter_jit  # on a whole grid it runs long enough to be worth optimising
def _values(sde: HandWritten, points: Array) -> tuple[Array, Array, Array, Array]:
    return jax.vmap(lambda z: (sde.hamiltonian(z), sde.drift(z), sde.diffusion(z), sde.current(z)))(points)


def in_chunks(compiled: Callable, function: Any, points: np.ndarray, rows: int) -> tuple[np.ndarray, ...]:
    """The values at points (n, dim), so many rows at a time; all chunks of one shape, so that they compile once."""
    chunks = []
    for start in range(0, len(points), rows):
        part = np.resize(points[start : start + rows], (rows, points.shape[1]))
        with jax.enable_x64(True):
            values = compiled(function, jnp.asarray(part, jnp.float64))
        chunks.append([np.asarray(value)[: len(points) - start] for value in values])
    return tuple(np.concatenate(column) for column in zip(*chunks, strict=True))


def hand_written(
    drift: Callable, diffusion: Callable, hamiltonian: Callable, dim: int | None, temperature: float = 1.0
) -> HandWritten:
    """The functions as an SDE; dim None: the one, 2 or 3 if possible, at which all three return the right shapes."""
    functions = {"hamiltonian": hamiltonian, "drift": drift, "diffusion": diffusion}
    for name, function in functions.items():
        if not callable(function):
            raise InputError(f"{name} is {kind_of(function)}: expected a jnp function of one flat vector")
    dim = _fitting_dim(functions) if dim is None else int(dim)
    wrong = _mismatch(functions, dim)
    if wrong:
        raise InputError(f"{wrong}; in {dim} dimensions the functions take one vector of {dim} numbers")
    return HandWritten(temperature, (dim,), (), drift, diffusion, hamiltonian)


def _fitting_dim(functions: dict[str, Callable]) -> int:
    fitting = [n for n in (2, 3) if _mismatch(functions, n) is None]
    fitting = fitting or [n for n in (1, *range(4, 9)) if _mismatch(functions, n) is None]
    if len(fitting) > 1:
        raise InputError(
            f"the functions take vectors of {' or '.join(map(str, fitting))} numbers equally well: say how many with "
            "box=[(low, high)] * dim"
        )
    if not fitting:
        two, three = _mismatch(functions, 2), _mismatch(functions, 3)
        raise InputError(f"{two}" if two == three else f"in 2 dimensions {two}; in 3 dimensions {three}")
    return fitting[0]


def _mismatch(functions: dict[str, Callable], dim: int) -> str | None:
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
            except Exception as error:  # the user's code: anything may come out of it
                first = str(error).strip().split("\n")[0]
                return f"{name} fails on a vector of {dim} numbers ({type(error).__name__}: {first})"
            if not isinstance(value, jax.ShapeDtypeStruct):
                return f"{name} returned a {type(value).__name__}, expected an array of shape {shapes[name]}"
            if not jnp.issubdtype(value.dtype, jnp.floating):
                return f"{name} returned numbers of dtype {value.dtype}, expected real floating-point numbers"
            if value.shape != shapes[name]:
                return f"{name} returned shape {value.shape}, expected an array of shape {shapes[name]}"
    return None


def refuse_values(named: dict[str, np.ndarray], points: np.ndarray, where: str, slack: float) -> None:
    """Raises InputError where a value is not finite, or the diffusion among them not symmetric."""
    for name, values in named.items():
        _refuse_non_finite(name, values, points, where)
    _refuse_asymmetric(named["diffusion"], points, slack)


def _refuse_non_finite(name: str, values: np.ndarray, points: np.ndarray, where: str) -> None:
    """Raises InputError at the first of the points (n, dim) where the values (n, ...) are not finite."""
    bad = np.argwhere(~np.isfinite(values))
    if len(bad):
        row, *index = bad[0].tolist()
        entry = f"{name}{index}" if index and name in ("drift", "diffusion") else name
        raise InputError(
            f"{entry} is {values[(row, *index)]} at {at(points[row])}, and non-finite at "
            f"{len(np.unique(bad[:, 0])):,} of {len(points):,} points {where}: it must be finite there"
        )


def _refuse_asymmetric(diffusions: np.ndarray, points: np.ndarray, slack: float) -> None:
    """Raises InputError where D (n, dim, dim) differs from its transpose by more than `slack` of its size."""
    skew = np.abs(diffusions - np.swapaxes(diffusions, 1, 2))
    excess = skew - slack * np.abs(diffusions).max(axis=(1, 2), keepdims=True)
    row, i, j = np.unravel_index(np.argmax(excess), skew.shape)
    if excess[row, i, j] > 0:
        raise InputError(
            f"diffusion is not symmetric: at {at(points[row])} D[{i}, {j}] = {diffusions[row, i, j]:.6g} and "
            f"D[{j}, {i}] = {diffusions[row, j, i]:.6g}; a skew part belongs in the drift"
        )


def most_negative(diffusions: np.ndarray) -> tuple[int, float, float]:
    """Where D (n, dim, dim) has its most negative eigenvalue, it, and minus its share of the size of D there."""
    values = np.linalg.eigvalsh(diffusions)
    size = np.max(np.abs(values), axis=1)
    below = -values[:, 0] / np.where(size == 0, 1.0, size)
    worst = int(np.argmax(below))
    return worst, float(values[worst, 0]), float(below[worst])
