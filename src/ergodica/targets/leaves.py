"""The leaves of a user's pytree, by the names that messages call them."""

from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree


def named_leaves(tree: PyTree, root: str) -> list[tuple[str, Any]]:
    """Every leaf with its name, in the order of `jax.tree.leaves`: `position['w'][0]` for root "position"."""
    return [(root + jax.tree_util.keystr(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]


def is_array(leaf: Any) -> bool:
    """Whether the leaf is a NumPy array or scalar, or a JAX array (traced or not)."""
    return isinstance(leaf, np.ndarray | np.generic | jax.Array)


def first_index(mask: np.ndarray) -> tuple[int, ...] | None:
    """The index of the first True, None where there is none."""
    if not mask.any():
        return None
    return tuple(int(i) for i in np.unravel_index(np.argmax(mask), mask.shape))


def entry(name: str, index: tuple[int, ...]) -> str:
    """One number of a leaf, as a user would write it: `position['w'][3, 1]`; a scalar leaf is just its name."""
    return name + (f"[{', '.join(map(str, index))}]" if index else "")


def first_non_finite(tree: PyTree, root: str) -> str | None:
    """The first NaN or infinity of a tree with values, as "position['w'][3] = nan"; None if all are finite."""
    for name, leaf in named_leaves(tree, root):
        values = np.asarray(leaf)
        index = first_index(~np.isfinite(values))
        if index is not None:
            return f"{entry(name, index)} = {values[index]}"
    return None
