"""Maps from all real numbers to constrained ones, as `transform=` of a target takes them.

`eg.Posterior(..., transform={"sigma": eg.transforms.log})`: your functions, `init`, `keep` and draws see sigma > 0,
while chains move in u = log sigma. The potential there is U(x(u)) - T log |det dx/du|, so that x has the law
exp(-U/T) at every temperature T.

| name | x |
|---|---|
| `log` | positive, x = exp(u) |
| `softplus` | positive, x = log(1 + exp(u)): close to u where that is large |
| `interval(low, high)` | between two numbers |
| `ordered` | increasing along the last axis |
| `simplex` | positive, with sum 1 along the last axis; its density is that of all but the last |
| `cholesky_correlation` | the Cholesky factor of a correlation matrix; its density is that below the diagonal |

Where a density does not vanish at a wall, reflection (`domain=`) keeps the variable as it is; where it does, these
usually mix better.

Example:
    >>> import ergodica as eg
    >>> import jax.numpy as jnp
    >>> eg.transforms.simplex.forward(jnp.zeros(2)).round(3).tolist()
    [0.333, 0.333, 0.333]
"""

import math
from abc import abstractmethod
from numbers import Real
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.errors import InputError
from ergodica.tree import first_index, is_array

Found = tuple[tuple[int, ...], str]
"""The place of a number, and what is wrong with it."""

__all__ = [
    "CholeskyCorrelation",
    "Interval",
    "Log",
    "Ordered",
    "Simplex",
    "Softplus",
    "Transform",
    "cholesky_correlation",
    "interval",
    "log",
    "ordered",
    "simplex",
    "softplus",
]


class Transform(eqx.Module):
    """x = forward(u) of one array: u any real numbers, x constrained ones."""

    @abstractmethod
    def forward(self, u: Array) -> Array: ...

    @abstractmethod
    def inverse(self, x: Array) -> Array: ...

    @abstractmethod
    def log_jacobian(self, u: Array) -> Array:
        """log |det dx/du|, a scalar."""

    @abstractmethod
    def outside(self, x: np.ndarray) -> Found | None:
        """Where and why this is no value of `forward`; None if it is one."""


class Log(Transform):
    """x = exp(u) > 0."""

    def forward(self, u: Array) -> Array:
        return jnp.exp(u)

    def inverse(self, x: Array) -> Array:
        return jnp.log(x)

    def log_jacobian(self, u: Array) -> Array:
        return jnp.sum(u)  # dx/du = exp(u)

    def outside(self, x: np.ndarray) -> Found | None:
        return _not_positive(x)


class Softplus(Transform):
    """x = log(1 + exp(u)) > 0."""

    def forward(self, u: Array) -> Array:
        return jax.nn.softplus(u)

    def inverse(self, x: Array) -> Array:
        # exp(u) = exp(x) - 1 = exp(x) (1 - exp(-x)): no overflow where x is large, no cancellation where it is small
        return x + jnp.log(-jnp.expm1(-x))

    def log_jacobian(self, u: Array) -> Array:
        return jnp.sum(jax.nn.log_sigmoid(u))  # dx/du = 1 / (1 + exp(-u))

    def outside(self, x: np.ndarray) -> Found | None:
        return _not_positive(x)


def _bound(value: Any) -> Any:
    # a number stays one, a part of the compiled program; else an array of the leaf's kind
    return float(value) if isinstance(value, Real) and not is_array(value) else np.asarray(value, float)


class Interval(Transform):
    """low < x < high; made by `interval`."""

    low: float | np.ndarray = eqx.field(converter=_bound)
    high: float | np.ndarray = eqx.field(converter=_bound)

    def __check_init__(self):
        low, high = np.asarray(self.low), np.asarray(self.high)
        if not (np.isfinite(low).all() and np.isfinite(high).all() and np.all(low < high)):
            raise InputError(
                f"interval({self.low}, {self.high}): expected finite numbers, low < high; for one open side use log of "
                "the distance to the other"
            )

    def _bounds(self, x: Array) -> tuple[Array, Array]:
        low, high = (jnp.broadcast_to(jnp.asarray(bound, x.dtype), x.shape) for bound in (self.low, self.high))
        return low, high

    def forward(self, u: Array) -> Array:
        # from the closer end: high - low may round, and high - x is small there
        low, high = self._bounds(u)
        part = (high - low) * jax.nn.sigmoid(-jnp.abs(u))
        return jnp.where(u < 0, low + part, high - part)

    def inverse(self, x: Array) -> Array:
        low, high = self._bounds(x)
        return jnp.log(x - low) - jnp.log(high - x)

    def log_jacobian(self, u: Array) -> Array:
        # dx/du = (high - low) s(u) s(-u), s(u) = 1 / (1 + exp(-u))
        low, high = self._bounds(u)
        return jnp.sum(jnp.log(high - low) + jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u))

    def outside(self, x: np.ndarray) -> Found | None:
        shapes = np.shape(self.low), np.shape(self.high), x.shape
        try:
            fits = np.broadcast_shapes(*shapes) == x.shape
        except ValueError:
            fits = False
        if not fits:
            return (), f"has shape {x.shape}, to which bounds of shapes {shapes[0]} and {shapes[1]} do not broadcast"
        index = first_index(~((x > self.low) & (x < self.high)))
        low, high = (np.broadcast_to(bound, x.shape) for bound in (self.low, self.high))
        return None if index is None else (index, f"is not between {low[index]} and {high[index]}")


class Ordered(Transform):
    """x_1 < x_2 < ... along the last axis: x_1 = u_1, x_k = x_(k-1) + exp(u_k)."""

    def forward(self, u: Array) -> Array:
        return jnp.cumsum(jnp.concatenate([u[..., :1], jnp.exp(u[..., 1:])], axis=-1), axis=-1)

    def inverse(self, x: Array) -> Array:
        return jnp.concatenate([x[..., :1], jnp.log(jnp.diff(x, axis=-1))], axis=-1)

    def log_jacobian(self, u: Array) -> Array:
        return jnp.sum(u[..., 1:])  # dx/du is triangular, with 1, exp(u_2), exp(u_3), ... on its diagonal

    def outside(self, x: np.ndarray) -> Found | None:
        if x.ndim == 0:
            return (), "is one number: expected an axis along which to increase"
        index = first_index(~(np.diff(x, axis=-1) > 0))
        return None if index is None else ((*index[:-1], index[-1] + 1), "is not above the number before it")


class Simplex(Transform):
    """x_1, ..., x_K > 0 with sum 1 along the last axis, from K - 1 numbers, by breaking a stick.

    Of what is left, r_k = 1 - x_1 - ... - x_(k-1), the share s(v_k) is x_k, with s(v) = 1 / (1 + exp(-v)) and
    v_k = u_k - log(K - k): so u = 0 gives equal parts.
    """

    def _shifts(self, count: int, dtype: Any) -> Array:
        return jnp.asarray(np.log(np.arange(count, 0, -1)), dtype)

    def _logs(self, u: Array) -> tuple[Array, Array, Array]:
        """log of the share taken, of the share left, and of r_k, for each break."""
        v = u - jnp.broadcast_to(self._shifts(u.shape[-1], u.dtype), u.shape)
        left = jax.nn.log_sigmoid(-v)
        return jax.nn.log_sigmoid(v), left, jnp.cumsum(left, axis=-1) - left

    def forward(self, u: Array) -> Array:
        taken, left, rest = self._logs(u)
        last = jnp.sum(left, axis=-1, keepdims=True)
        return jnp.exp(jnp.concatenate([taken + rest, last], axis=-1))

    def inverse(self, x: Array) -> Array:
        # s(v_k) = x_k / r_k and s(-v_k) = r_(k+1) / r_k, so v_k = log x_k - log r_(k+1), with r_(k+1) the sum of what
        # follows: a sum of positive numbers, where 1 - x_1 - ... would cancel
        after = jnp.flip(jnp.cumsum(jnp.flip(x[..., 1:], axis=-1), axis=-1), axis=-1)
        v = jnp.log(x[..., :-1]) - jnp.log(after)
        return v + jnp.broadcast_to(self._shifts(v.shape[-1], v.dtype), v.shape)

    def log_jacobian(self, u: Array) -> Array:
        # d(x_1, ..., x_(K-1))/du is triangular, with s(v_k) s(-v_k) r_k on its diagonal
        taken, left, rest = self._logs(u)
        return jnp.sum(taken + left + rest)

    def outside(self, x: np.ndarray) -> Found | None:
        if x.ndim == 0 or x.shape[-1] < 2:
            return (), f"has shape {x.shape}: expected at least two numbers along the last axis"
        found = _not_positive(x)
        if found is not None:
            return found
        sums = x.sum(axis=-1)
        index = first_index(~(np.abs(sums - 1) <= _rounding(x)))
        return None if index is None else (index, f"sums to {sums[index]}, not to 1")


class CholeskyCorrelation(Transform):
    """L with L L^T a correlation matrix of d variables: lower triangular, rows of length 1, a positive diagonal.

    From d(d-1)/2 numbers u_ij, i > j, row by row, by partial correlations z = tanh(u):
    L_ij = z_ij r_ij and L_ii = r_ii, with r_ij^2 = prod_(k<j) (1 - z_ik^2) what the row has left.
    (Lewandowski, Kurowicka and Joe, 2009, https://doi.org/10.1016/j.jmva.2009.04.008.)
    """

    def _parts(self, u: Array) -> tuple[Array, Array, Array, np.ndarray]:
        """u in its places, log(1 - z^2), log r^2, and which places are below the diagonal."""
        d = (1 + math.isqrt(1 + 8 * u.shape[-1])) // 2
        below = np.tril(np.ones((d, d), bool), -1)
        matrix = jnp.zeros((*u.shape[:-1], d, d), u.dtype).at[..., *np.nonzero(below)].set(u)
        below = np.broadcast_to(below, matrix.shape)
        # 1 - tanh(u)^2 = 4 / (exp(u) + exp(-u))^2: without cancellation where tanh rounds to 1
        squares = 2 * (jnp.asarray(math.log(2), u.dtype) - jnp.logaddexp(matrix, -matrix))
        squares = jnp.where(below, squares, jnp.zeros_like(squares))
        return matrix, squares, jnp.cumsum(squares, axis=-1) - squares, below

    def forward(self, u: Array) -> Array:
        matrix, _, rest, below = self._parts(u)
        z = jnp.where(below, jnp.tanh(matrix), jnp.broadcast_to(jnp.eye(below.shape[-1], dtype=u.dtype), matrix.shape))
        return z * jnp.exp(rest / 2)

    def inverse(self, x: Array) -> Array:
        # sinh(u) = z / sqrt(1 - z^2) = L_ij / r_i(j+1), and r_i(j+1) is the length of what follows in the row: by
        # hypot, as the square of a small one would be 0
        lengths = jax.lax.associative_scan(jnp.hypot, x[..., 1:], reverse=True, axis=x.ndim - 1)
        below = np.nonzero(np.tril(np.ones(x.shape[-2:], bool), -1))
        return jnp.arcsinh(x[..., *below] / lengths[..., *below])

    def log_jacobian(self, u: Array) -> Array:
        # in every row dL/du is triangular, with (1 - z_ij^2) r_ij on its diagonal
        _, squares, rest, below = self._parts(u)
        return jnp.sum(jnp.where(below, squares + rest / 2, jnp.zeros_like(rest)))

    def outside(self, x: np.ndarray) -> Found | None:
        if x.ndim < 2 or x.shape[-1] != x.shape[-2] or x.shape[-1] < 2:
            return (), f"has shape {x.shape}: expected a square matrix of at least two rows"
        is_bad = np.triu(np.ones(x.shape[-2:], bool), 1) & (x != 0)
        index = first_index(is_bad)
        if index is not None:
            return index, "is above the diagonal, where a Cholesky factor has zeros"
        diagonal = np.diagonal(x, axis1=-2, axis2=-1)
        index = first_index(~(diagonal > 0))
        if index is not None:
            return (*index, index[-1]), "is on the diagonal, which must be positive"
        lengths = np.sqrt(np.sum(np.square(x), axis=-1))
        index = first_index(~(np.abs(lengths - 1) <= _rounding(x)))
        return None if index is None else (index, f"is a row of length {lengths[index]}, in a correlation's factor 1")


def _not_positive(x: np.ndarray) -> Found | None:
    index = first_index(~(x > 0))
    return None if index is None else (index, "is not positive")


def _rounding(x: np.ndarray) -> float:
    """How far a sum may be off: numbers may have been typed, or come from a narrower format."""
    return float(np.sqrt(jnp.finfo(x.dtype).eps))


log = Log()
"""x = exp(u): positive."""
softplus = Softplus()
"""x = log(1 + exp(u)): positive."""
ordered = Ordered()
"""Increasing along the last axis."""
simplex = Simplex()
"""Positive with sum 1 along the last axis."""
cholesky_correlation = CholeskyCorrelation()
"""The Cholesky factor of a correlation matrix."""


def interval(low: Any, high: Any) -> Interval:
    """x between two numbers, or two arrays that broadcast to the leaf.

    Example:
        >>> import ergodica as eg
        >>> import jax.numpy as jnp
        >>> float(eg.transforms.interval(0, 10).forward(jnp.asarray(0.0)))
        5.0
    """
    return Interval(low, high)
