"""What a position must be: a pytree of floating arrays, finite, like the example, inside the domain."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.errors import InputError
from ergodica.targets.domain import first_outside, leaf_boxes
from ergodica.targets.leaves import first_non_finite, is_array, named_leaves
from ergodica.tree import is_traced


def check_position(position: PyTree, init: PyTree, domain: PyTree) -> None:
    """Raise InputError unless `position` can be sampled; without values (inside `jit`) only shapes are looked at."""
    leaves = named_leaves(position, "position")
    for name, leaf in leaves:
        _check_floating(name, leaf)
    if not any(leaf.size for _, leaf in leaves):
        raise InputError(f"the position holds no numbers ({position!r}): expected a pytree of floating arrays")
    if init is not None:
        _check_like(position, init)
    leaf_boxes(domain, position)
    if is_traced((position, domain)):
        return
    bad = first_non_finite(position, "position")
    if bad is not None:
        raise InputError(f"{bad}: every number of a position must be finite, a chain cannot leave such a start")
    outside = first_outside(domain, position)
    if outside is not None:
        raise InputError(f"{outside}, the domain of this target: start inside it")


def _check_floating(name: str, leaf: Any) -> None:
    if not is_array(leaf):
        raise InputError(f"{name} is {leaf!r} ({type(leaf).__name__}): expected a floating array, as jnp.asarray(0.5)")
    if not jnp.issubdtype(leaf.dtype, np.floating):
        raise InputError(
            f"{name} has dtype {leaf.dtype}: expected a floating array, a gradient is taken with respect to it; "
            "convert it with .astype(float)"
        )


def _check_like(position: PyTree, init: PyTree) -> None:
    got, expected = jax.tree.structure(position), jax.tree.structure(init)
    if got != expected:
        raise InputError(f"the position has structure {got}, but the target's init has {expected}")
    for (name, leaf), example in zip(named_leaves(position, "position"), jax.tree.leaves(init), strict=True):
        if leaf.shape != example.shape:
            raise InputError(f"{name} has shape {leaf.shape}, but in the target's init it is {example.shape}")
