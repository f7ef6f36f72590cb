"""Everything in float64: in float32 a residual says nothing below 1e-3."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.energy import Gaussian
from ergodica.fields import Constant


def widened(x: PyTree) -> PyTree:
    """The same with all floating numbers in float64; roots and inverses of matrices derived anew. Needs x64 mode."""
    kinds = (Constant, Gaussian)

    def widen(leaf: Any) -> Any:
        if isinstance(leaf, Constant):
            return Constant(widened(leaf.entries))
        if isinstance(leaf, Gaussian):
            return Gaussian(None if leaf.mass is None else widened(leaf.mass.entries))
        is_array = isinstance(leaf, np.ndarray | np.generic | jax.Array)
        return jnp.asarray(leaf, jnp.float64) if is_array and jnp.issubdtype(leaf.dtype, jnp.floating) else leaf

    return jax.tree.map(widen, x, is_leaf=lambda leaf: isinstance(leaf, kinds))
