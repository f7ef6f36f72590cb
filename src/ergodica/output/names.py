"""Names of the numbers in a position: paths joined by '.', as `layer.weight`; a bare array is `position`."""

from collections.abc import Mapping
from typing import Any

import jax
from jaxtyping import PyTree

from ergodica.errors import InputError

BARE = "position"
DIMENSIONS = ("chain", "draw")


def named(position: PyTree) -> dict[str, Any]:
    """The leaves by name, in the order of `jax.tree.leaves`. A dictionary of names comes back as it is.

    >>> list(named({"layer": [1.0, 2.0]}))
    ['layer.0', 'layer.1']
    """
    leaves: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(position):
        # a netCDF name has no '/': it parts groups
        name = jax.tree_util.keystr(path, simple=True, separator=".").replace("/", ".") if path else BARE
        if name in leaves:
            raise InputError(f"two parts of the position are named {name!r} in a file: rename one of them")
        leaves[name] = leaf
    for name in leaves:
        _check(name, leaves)
    return leaves


def dimensions(name: str, count: int) -> list[str]:
    """Names of the `count` axes of one draw of this variable, as ArviZ gives them."""
    return [f"{name}_dim_{i}" for i in range(count)]


def unnamed(variables: Mapping[str, Any]) -> PyTree:
    """Nested dictionaries from names with '.', or the bare array: what a file can give back of the tree."""
    if list(variables) == [BARE]:
        return variables[BARE]
    nested: dict[str, Any] = {}
    for name, value in variables.items():
        *folders, last = name.split(".")
        place = nested
        for folder in folders:
            place = place.setdefault(folder, {})
            if not isinstance(place, dict):
                return dict(variables)
        if last in place:  # both `a` and `a.b`: no tree has these names but a flat one
            return dict(variables)
        place[last] = value
    return nested


def _check(name: str, names: Mapping[str, Any]) -> None:
    if not name.strip("."):
        raise InputError(f"a part of the position is named {name!r}: a variable in a file needs a name")
    if name in DIMENSIONS:
        raise InputError(f"a part of the position is named {name!r}, which in a file is an axis: rename it")
    stem, mark, number = name.rpartition("_dim_")
    if mark and number.isdigit() and stem in names:
        raise InputError(f"a part of the position is named {name!r}, which in a file is an axis of {stem!r}: rename it")
