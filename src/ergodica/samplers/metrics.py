"""Inverse metrics G^-1 for the Riemannian samplers. Their roots are derived (fields.Root)."""

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
    """G^-1 = diag(theta), the Fisher metric of the expanded-mean simplex (Patterson and Teh, 2013); theta > 0."""
    return Elementwise(_Position())


def potential_scaled(scale: Any = 1.5, offset: Any = 1.5) -> Scaled:
    """G^-1 = scale sqrt|U + offset| I, larger where the density is low (supplement of the paper, section E.1).

    `offset` must exceed -min U: where U + offset meets zero the root has a cusp and the correction is infinite.
    """
    return Scaled(_PotentialRoot(scale, offset))


def fisher(information: Callable[[PyTree], Array], damping: Any = 0.0) -> Dense:
    """G^-1 = (I(theta) + damping)^-1 from the Fisher information of all data, a matrix in ravel_pytree order."""
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
