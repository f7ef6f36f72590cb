"""Is a target Gaussian? Its mean, its precision and the noise of its minibatch gradients, by differentiation."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.errors import InputError
from ergodica.targets import Density, Target
from ergodica.targets.base import DataTarget
from ergodica.tree import Layout

SAME_DERIVATIVE = 1e-8  # relative change, in units of the law, up to which a derivative counts as constant
STRAIGHT_SLOPE = 1e-5  # relative difference up to which a slope counts as that of the Gaussian: float32 data round it
HESSIAN_LIMIT = 2 * 10**7  # numbers in the Hessians of all examples
BLOCK_NUMBERS = 2**22  # numbers of per-example derivatives made at a time


class Quadratic(NamedTuple):
    """U = (q - mean)^T precision (q - mean) / 2, up to a constant; in the order of ravel_pytree."""

    mean: np.ndarray
    precision: np.ndarray


class ExampleSpread(NamedTuple):
    """How the gradients g_i(q) = k_i q - c_i of the N examples differ: all that minibatches need.

    Their covariance at q (divisor N - 1) is `at_mean` + sum_j modes_j x x^T modes_j^T + terms odd in x = q - mean.
    """

    size: int
    at_mean: np.ndarray
    modes: np.ndarray | None  # (r, d, d); None where all k_i are equal

    def factor(self, batch_size: int) -> float:
        """(N^2/n)(1 - n/N): the covariance of a batch's gradient is this many times that of the examples."""
        return self.size**2 / batch_size * (1 - batch_size / self.size)


class QuadraticPotential(eqx.Module):
    """The potential of `Quadratic` on positions of some layout."""

    mean: Array
    precision: Array

    def __call__(self, position: PyTree) -> Array:
        x = Layout.of(position).ravel(position) - self.mean
        return x @ (self.precision @ x) / 2


def as_density(law: Quadratic, position: PyTree) -> Density:
    return Density(QuadraticPotential(jnp.asarray(law.mean), jnp.asarray(law.precision)), init=position)


def quadratic_of(target: Target, position: PyTree) -> Quadratic:
    """The Gaussian that the target is; refuses any other target.

    Hessian and slope are compared at the position, about it at its own scale, at its mirror image, and at 3 and 30
    standard deviations on both sides: the Hessian alone is the same in both of two modes that look the same.
    """
    layout, rng = Layout.of(position), np.random.default_rng(20150615)
    start = np.asarray(layout.ravel(position))
    slope, hessian = _derivatives(target, layout, start)
    around = start + (1 + np.abs(start)) * rng.normal(size=start.shape)
    _refuse_other(hessian, _derivatives(target, layout, around)[1])
    scale = np.sqrt(np.maximum(np.diag(hessian), 0))
    least = np.linalg.eigvalsh(hessian)[0]
    if not np.all(scale > 0) or not np.linalg.eigvalsh(hessian / np.outer(scale, scale))[0] > 1e-13:
        raise InputError(
            f"the target is not a Gaussian that can be normalised: the smallest eigenvalue of its potential's Hessian "
            f"is {least:.3g}, expected more than 0; give every direction a prior"
        )
    mean = start - np.linalg.solve(hessian, slope)
    apart = np.sqrt(np.diag(np.linalg.inv(hessian))) * rng.normal(size=start.shape)
    for far in (mean + 3 * apart, mean + 30 * apart, mean - 30 * apart, -start):
        there, other = _derivatives(target, layout, far)
        _refuse_other(hessian, other)
        _refuse_bent(hessian, there, far - mean, hessian @ mean)
    return Quadratic(mean, hessian)


def _refuse_bent(hessian: np.ndarray, slope: np.ndarray, x: np.ndarray, offset: np.ndarray) -> None:
    """Where the slope is not hessian @ x, up to rounding of its parts."""
    size = np.abs(hessian) @ np.abs(x) + np.abs(offset) + np.sqrt(np.diag(hessian))
    change = np.max(np.abs(slope - hessian @ x) / size)
    if not change < STRAIGHT_SLOPE:
        raise InputError(
            f"the target is not Gaussian: the slope of its potential is off by {change:.3g} of its size from that of a "
            "Gaussian with the same Hessian; has it several modes?"
        )


def _derivatives(target: Target, layout: Layout, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    slope, hessian = slope_and_hessian(_potential, vector, target, layout)
    return slope, (hessian + hessian.T) / 2


def _potential(x: Array, target: Target, layout: Layout) -> Array:
    return target.potential(layout.unravel(x))


def slope_and_hessian(function: Callable[..., Array], vector: np.ndarray, *args: Any) -> tuple[np.ndarray, np.ndarray]:
    """Of function(vector, *args), compiled once for a function and any numbers."""
    slope, hessian = _slope_and_hessian(function, jnp.asarray(vector), args)
    return np.asarray(slope), np.asarray(hessian)


@eqx.filter_jit
def _slope_and_hessian(function: Callable[..., Array], vector: Array, args: tuple[Any, ...]) -> tuple[Array, Array]:
    def slope(x: Array) -> Array:
        return jax.grad(function)(x, *args)

    return slope(vector), jax.jacfwd(slope)(vector)


def _refuse_other(hessian: np.ndarray, other: np.ndarray) -> None:
    scale = np.sqrt(np.abs(np.diag(hessian))) + 1e-7 * np.sqrt(np.max(np.abs(hessian)))
    change = np.max(np.abs(other - hessian) / np.outer(scale, scale)) if np.all(scale > 0) else np.inf
    if not change < SAME_DERIVATIVE:
        raise InputError(
            f"the target is not Gaussian: the Hessian of its potential changes by {change:.3g} of its size between two "
            "points, expected the same everywhere; take eg.gallery.gaussian(mean=..., covariance=...) of about this "
            "shape instead, or look at the target itself by eg.audit or a run"
        )


def example_spread(target: DataTarget, position: PyTree, mean: np.ndarray) -> ExampleSpread:
    """The covariance of the examples' gradients at the mean, and how it grows away from it; from all rows."""
    layout, rng = Layout.of(position), np.random.default_rng(7)
    centre, elsewhere = jnp.asarray(mean), jnp.asarray(mean + (1 + np.abs(mean)) * rng.normal(size=mean.shape))
    direction = jnp.asarray(rng.normal(size=(1, mean.size)))
    gradients, curves = _over_rows(target, layout, centre, direction)
    change = np.abs(_over_rows(target, layout, elsewhere, direction)[1] - curves)
    if not np.all(change <= SAME_DERIVATIVE * np.abs(curves).max(axis=0)):
        raise InputError(
            "the potential of all data is quadratic, but log_likelihood of a single row is not: with batches the "
            "chain is not linear; leave batch_size out, or give gradient_noise=V"
        )
    centred = gradients - gradients.mean(axis=0)
    at_mean = centred.T @ centred / max(target.size - 1, 1)
    is_same = np.all(np.abs(curves - curves.mean(axis=0)) <= SAME_DERIVATIVE * np.abs(curves).max(axis=0))
    return ExampleSpread(target.size, at_mean, None if is_same else _modes(target, layout, centre))


def _modes(target: DataTarget, layout: Layout, mean: Array) -> np.ndarray:
    """Matrices with sum_j m_j X m_j = sum_i (k_i - k) X (k_i - k) / (N - 1) for every X, at most d^2 of them."""
    n, d = target.size, layout.size
    if n * d * d > HESSIAN_LIMIT:
        raise InputError(
            f"the gradient noise of this target depends on the position, and the Hessians of its {n:,} rows hold "
            f"{n * d * d:.2g} numbers, more than {HESSIAN_LIMIT:.0g}: give gradient_noise=eg.gradient_noise(target, "
            "mean, batch_size, dense=True) and compensate=False for the noise at the mean alone"
        )
    hessians = _over_rows(target, layout, mean, jnp.eye(d))[1]
    flat = (hessians - hessians.mean(axis=0)).reshape(n, d * d) / np.sqrt(n - 1)
    if n > d * d:  # only flat^T flat counts, and R has the same
        flat = np.asarray(np.linalg.qr(flat, mode="r"))
    return flat.reshape(-1, d, d)


def _over_rows(target: DataTarget, layout: Layout, vector: Array, directions: Array) -> tuple[np.ndarray, np.ndarray]:
    """Every example's gradient (N, d) and the derivatives of it along the directions (N, directions, d)."""
    block = max(1, BLOCK_NUMBERS // (layout.size * (1 + len(directions))))
    bare, parts = target.without_data(), []
    for start in range(0, target.size, block):
        rows = jax.tree.map(jnp.asarray, target.rows(slice(start, min(start + block, target.size))))
        parts.append([np.asarray(x) for x in _example_derivatives(bare, layout, vector, directions, rows)])
    return np.concatenate([g for g, _ in parts]), np.concatenate([c for _, c in parts])


@eqx.filter_jit
def _example_derivatives(
    target: DataTarget, layout: Layout, vector: Array, directions: Array, rows: PyTree
) -> tuple[Array, Array]:
    def gradients(x):
        return jax.vmap(layout.ravel)(target.example_gradients(layout.unravel(x), rows))

    value, along = jax.linearize(gradients, vector)
    return value, jax.vmap(along, out_axes=1)(directions)
