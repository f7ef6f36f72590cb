"""Inverse metrics G^-1 for the Riemannian samplers, `eg.sgrld`, `eg.sgrhmc` and `eg.riemannian_sgnht`.

Roots are derived (`fields.Root`), and so are corrections: a metric is only its entries.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.errors import InputError
from ergodica.fields import Constant, Dense, Elementwise, Field, Scaled, as_number
from ergodica.phase import View


def as_field(inverse_metric: Any) -> Field:
    """A field as it is; a number, vector or matrix as a constant metric."""
    return inverse_metric if isinstance(inverse_metric, Field) else Constant(inverse_metric)


def expanded_mean() -> Elementwise:
    """G^-1 = diag(theta), for positive parameters: steps proportional to the square root of each one.

    Use it for Gamma and Dirichlet laws, written in unnormalised positive weights, such as the topics of a topic model;
    give the target `domain=eg.positive`. Not for parameters that may be negative.

    Returns:
        A field, to be given to `eg.sgrld`, `eg.sgrhmc` or `eg.riemannian_sgnht`. With `eg.Splitting` the motion
        dq = sqrt(q) r dt is solved exactly.

    Example:
        >>> import ergodica as eg
        >>> recipe = eg.sgrhmc(eg.expanded_mean(), friction=1.0)

    Reference:
        Patterson and Teh (2013), NeurIPS; as used by Ma, Chen and Fox (2015), section 4,
        https://arxiv.org/abs/1506.04696.
    """
    return Elementwise(_Position())


def potential_scaled(scale: Any = 1.5, offset: Any = 1.5) -> Scaled:
    """G^-1 = scale sqrt|U + offset| I: larger steps where the density is low.

    The metric of `eg.gsgrhmc`; give it to `eg.sgrld` or `eg.riemannian_sgnht` to have theirs. It depends on the
    potential, so minibatches must come in pairs (`eg.BatchPair`), and targets with gradients alone are refused.

    Args:
        scale: a positive number.
        offset: it must exceed -min U: where U + offset meets zero the root has a cusp and the correction is infinite.

    Returns:
        A field.

    Example:
        >>> import ergodica as eg
        >>> recipe = eg.sgrld(eg.potential_scaled(scale=1.0, offset=2.0))

    Reference:
        Ma, Chen and Fox (2015), supplement, section E.1, https://arxiv.org/abs/1506.04696.
    """
    return Scaled(_PotentialRoot(scale, offset))


def fisher(information: Callable[[PyTree], Array], damping: Any = 0.0) -> Dense:
    """G^-1 = (I(theta) + damping)^-1, from the Fisher information of all data.

    Use it for a handful of parameters whose information matrix you can write down: the correction takes one derivative
    of its inverse for each parameter. If the information hardly changes over the posterior, give its inverse to
    `eg.sgld` as a constant.

    Args:
        information: I(theta), a positive semidefinite matrix in the order of `jax.flatten_util.ravel_pytree`.
        damping: a number added to the diagonal, such as the precision of the prior.

    Returns:
        A field, to be given to `eg.sgrld`, `eg.sgrhmc` or `eg.riemannian_sgnht`.

    Example:
        >>> import jax.numpy as jnp, ergodica as eg
        >>> recipe = eg.sgrld(eg.fisher(lambda theta: jnp.diag(1 + theta**2), damping=1.0))

    Reference:
        Girolami and Calderhead (2011), https://doi.org/10.1111/j.1467-9868.2010.00765.x.
    """
    return Dense(_InverseInformation(information, damping))


class _Position(eqx.Module):
    def __call__(self, z: View) -> PyTree:
        return z.position

    def root_flow(self, position: PyTree, velocity: PyTree, time: Any) -> tuple[PyTree, PyTree]:
        # dq/dt = sqrt(q) v is ds/dt = v/2 for s = sqrt(q); a path through s = 0 comes back with v reversed
        s = jax.tree.map(lambda q, v: jnp.sqrt(q) + tree.cast(time / 2, q) * v, position, velocity)
        signs = jax.tree.map(lambda x: jnp.where(x < 0, -jnp.ones_like(x), jnp.ones_like(x)), s)
        return jax.tree.map(jnp.square, s), signs


class _PotentialRoot(eqx.Module):
    scale: Array
    offset: Array

    def __init__(self, scale: Any, offset: Any):
        self.scale, self.offset = as_number(scale), as_number(offset)
        if not tree.is_traced(self.scale) and not np.asarray(self.scale) > 0:
            raise InputError(f"the scale of the metric must be positive, got {float(self.scale):g}")

    def __call__(self, z: View) -> Array:
        shifted = z.potential + tree.cast(self.offset, z.potential)
        # NaN where the offset is too small: the run stops there and names the offset, never a silent cusp
        return tree.cast(self.scale, shifted) * jnp.sqrt(jnp.where(shifted > 0, shifted, jnp.nan))

    def explain(self, potential: float) -> str | None:
        offset = float(self.offset)
        if potential + offset > 0:
            return None
        return (
            f"the metric scale * sqrt|U + offset| met U = {potential:g} with offset {offset:g}, so U + offset <= 0: "
            f"the offset must exceed -min U; use offset > {-potential:g}, such as {1 - potential:g}"
        )


class _InverseInformation(eqx.Module):
    information: Callable[[PyTree], Array]
    damping: Array

    def __init__(self, information: Callable[[PyTree], Array], damping: Any):
        self.information, self.damping = information, as_number(damping)

    def __call__(self, z: View) -> Array:
        matrix = self.information(z.position)
        inverse = jnp.linalg.inv(matrix + tree.cast(self.damping, matrix) * jnp.eye(len(matrix), dtype=matrix.dtype))
        return (inverse + inverse.T) / 2
