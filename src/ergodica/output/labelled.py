"""Draws, statistics and provenance with names, as one labelled tree (xarray) in the groups that ArviZ knows.

Names of the numbers in a position are paths joined by '.', as `layer.weight`; a bare array is `position`.

posterior       the position by name, dimensions (chain, draw, <name>_dim_0, ...)
sample_stats    what each step met, (chain, draw)
moments         count, mean.<name>, variance.<name> by chain, where they were asked for; error.<name> of the means and
                score.<name>, where something was averaged under a name
temperatures    by coordinate of the momentum, (chain, stretch, coordinate): stretches of `steps` steps; `place`: where
                a coordinate is, counted through the position
posterior_predictive, log_likelihood
                what was predicted by each draw, (chain, draw, <name>_dim_0, ...), where it was added
observed_data   what that is compared with, (<name>_dim_0, ...)
halved_...      the same of the run with half the step size
witness_...     of a tuned run, the same of the one with twice the step size
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.errors import InputError
from ergodica.host.seal import SEAL
from ergodica.report import plain

if TYPE_CHECKING:
    import xarray as xr

BARE_NAME = "position"
DRAW_AXES = ("chain", "draw")
FILE_FORMAT = 2  # 1: of version 0.1.0, without checksums
TEMPERATURE_AXES = (("temperature", ("chain", "stretch", "coordinate")), ("steps", ("stretch",)),
                    ("place", ("coordinate",)))  # fmt: skip
PREDICTED_GROUPS, OBSERVED_GROUP = ("posterior_predictive", "log_likelihood"), "observed_data"
LIBRARY_NAME = "ergodica"
HALVED_PREFIX, WITNESS_PREFIX = "halved_", "witness_"
AS_JSON = "json_attributes"  # names of the attributes that hold JSON, where netCDF has no type for a setting
OWN_ATTRIBUTES = ("inference_library", "inference_library_version", "created_at", "ergodica_format", AS_JSON, SEAL)


@dataclass(frozen=True)
class Moments:
    """Of each chain: how many draws, and their mean and variance, trees with leaves (chain, ...).

    Attributes:
        error: of the mean, by batch means; None where they were not kept.
        score: by name, the log predictive density of each row that was held out, (chain, row); None where none was.
    """

    count: np.ndarray
    mean: PyTree
    variance: PyTree
    error: PyTree = None
    score: dict[str, np.ndarray] | None = None


class Temperatures(NamedTuple):
    """Of each coordinate of the momentum, in stretches of a run: T (1 + b) where gradient noise makes variances 1 + b
    times as large."""

    values: np.ndarray
    """(chain, stretch, coordinate)."""
    steps: np.ndarray
    """Of each stretch."""
    places: np.ndarray
    """Of the coordinates, counted through the position."""


def datatree(
    posterior: PyTree,
    stats: dict[str, Any],
    settings: dict[str, Any],
    moments: Moments | None = None,
    halved: Any = None,
    witness: Any = None,
    temperatures: Temperatures | None = None,
    predicted: "dict[str, xr.Dataset] | None" = None,
) -> "xr.DataTree":
    """All that a run leaves. `posterior` has leaves (chain, draw, ...), or is None where only `moments` were kept.

    `halved` and `witness` are anything with posterior, stats, settings and moments of its own; `predicted` are groups
    that were added, as `predicted_group` and `observed_group` make them.
    """
    import xarray as xr

    groups = _groups(posterior, stats, settings, moments, temperatures) | (predicted or {})
    for prefix, other in ((HALVED_PREFIX, halved), (WITNESS_PREFIX, witness)):
        if other is not None:
            measured = getattr(other, "temperatures", None)
            parts = _groups(
                getattr(other, "stored", other.posterior), other.stats, other.settings, other.moments, measured
            )
            groups |= {prefix + name: dataset for name, dataset in parts.items()}
    return xr.DataTree.from_dict({"/": xr.Dataset(attrs=attributes(settings)), **groups})


def _groups(
    posterior: PyTree, stats: dict, settings: dict, moments: Moments | None, temperatures: Temperatures | None
) -> "dict[str, xr.Dataset]":
    groups = {}
    if posterior is not None:
        groups["posterior"] = dataset(named(posterior), DRAW_AXES, attributes(settings))
    groups["sample_stats"] = dataset(dict(stats), DRAW_AXES, attributes(settings))
    if moments is not None:
        groups["moments"] = dataset(moment_variables(moments), DRAW_AXES[:1], attributes(settings))
    if temperatures is not None:
        import xarray as xr

        pairs = zip(TEMPERATURE_AXES, temperatures, strict=True)
        groups["temperatures"] = xr.Dataset({name: (dims, x) for (name, dims), x in pairs})
    return groups


def moment_variables(moments: Moments) -> dict[str, Any]:
    parts = {"mean": moments.mean, "variance": moments.variance, "error": moments.error, "score": moments.score}
    named_parts = {f"{part}.{name}": x for part, tree in parts.items() for name, x in named(tree).items()}
    return {"count": moments.count, **named_parts}


def moments_from(variables: Mapping[str, Any]) -> Moments | None:
    """What `moment_variables` gave; None of nothing."""

    def part(prefix: str) -> PyTree:
        found = {name.removeprefix(prefix): x for name, x in variables.items() if name.startswith(prefix)}
        return unnamed(found) if found else None

    if not variables:
        return None
    scores = {name.removeprefix("score."): x for name, x in variables.items() if name.startswith("score.")}
    return Moments(variables["count"], part("mean."), part("variance."), part("error."), scores or None)


def predicted_group(group: str, variables: Any, chains: np.ndarray, draws: np.ndarray) -> "xr.Dataset":
    """Predictions by name, (chain, draw, ...), labelled by the numbers of the chains and draws that they are of."""
    arrays = _numbers(group, variables)
    for name, array in arrays.items():
        if array.shape[:2] != (len(chains), len(draws)):
            raise InputError(
                f"{name} of {group} has shape {array.shape}: expected ({len(chains)}, {len(draws)}, ...), an axis for "
                "the chains that are not frozen and one for the draws (of every N-th draw: give the same thin=)"
            )
    return dataset(arrays, DRAW_AXES, {}, {"chain": chains, "draw": draws})


def observed_group(variables: Any) -> "xr.Dataset":
    """Data by name, with axes named as those of predictions of the same name."""
    return dataset(_numbers(OBSERVED_GROUP, variables), (), {})


def _numbers(group: str, variables: Any) -> dict[str, np.ndarray]:
    if not isinstance(variables, Mapping) or not variables:
        raise InputError(f"{group} was given {type(variables).__name__}: expected arrays by name, as {{'y': array}}")
    arrays = {name: np.asanyarray(value) for name, value in named(variables, group).items()}
    for name, array in arrays.items():
        if stored_dtype(array.dtype).kind not in "biuf":
            raise InputError(f"{name} of {group} has dtype {array.dtype}: expected numbers or booleans")
    return arrays


def dataset(
    variables: dict[str, Any], leading: tuple[str, ...], attrs: dict[str, Any], labels: Mapping[str, np.ndarray] = {}
) -> "xr.Dataset":
    """Variables whose first axes are `leading`, with whole numbers along every axis, or `labels` by its name."""
    import xarray as xr

    arrays = {name: storable(value) for name, value in variables.items()}
    dims = {name: (*leading, *dimensions(name, x.ndim - len(leading))) for name, x in arrays.items()}
    sizes = {dim: size for name, x in arrays.items() for dim, size in zip(dims[name], x.shape, strict=True)}
    coords = {dim: labels.get(dim, np.arange(size)) for dim, size in sizes.items()}
    return xr.Dataset({name: (dims[name], x) for name, x in arrays.items()}, coords=coords, attrs=attrs)


def storable(value: Any) -> np.ndarray:
    """As netCDF can hold it: half floats become float32, which holds each of them exactly."""
    array = np.asanyarray(value)
    return array.astype(stored_dtype(array.dtype), copy=False)


def stored_dtype(dtype: np.dtype) -> np.dtype:
    is_half = dtype.itemsize == 2 and dtype.kind not in "iu"  # float16, bfloat16
    return np.dtype(np.float32) if is_half else dtype


def attributes(settings: dict[str, Any]) -> dict[str, Any]:
    """Provenance as netCDF attributes: strings and numbers as they are, all else as JSON."""
    versions = settings.get("versions", {})
    attrs: dict[str, Any] = {
        "inference_library": LIBRARY_NAME,
        "inference_library_version": str(versions.get(LIBRARY_NAME, "")) if isinstance(versions, dict) else "",
        "created_at": str(settings.get("started", "")),
        "ergodica_format": FILE_FORMAT,
    }
    nested = []
    for name, value in settings.items():
        value = plain(value)
        if not _is_attribute(value):
            nested.append(name)
            value = json.dumps(value)
        attrs[name] = value
    return {**attrs, AS_JSON: json.dumps(nested)}


def _is_attribute(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, float) or (isinstance(value, str) and bool(value))


def settings_of(attrs: dict[str, Any]) -> dict[str, Any]:
    """The settings that `attributes` wrote."""
    nested = json.loads(attrs.get(AS_JSON, "[]"))
    return {
        name: json.loads(value) if name in nested else plain(value)
        for name, value in attrs.items()
        if name not in OWN_ATTRIBUTES and not name.startswith("_")
    }


def named(position: PyTree, whose: str = "the position") -> dict[str, Any]:
    """The leaves by name, in the order of `jax.tree.leaves`. A dictionary of names comes back as it is.

    >>> list(named({"layer": [1.0, 2.0]}))
    ['layer.0', 'layer.1']
    """
    leaves: dict[str, Any] = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(position):
        # a netCDF name has no '/': it parts groups
        name = jax.tree_util.keystr(path, simple=True, separator=".").replace("/", ".") if path else BARE_NAME
        if name in leaves:
            raise InputError(f"two parts of {whose} are named {name!r} in a file: rename one of them")
        leaves[name] = leaf
    for name in leaves:
        _check_name(name, leaves, whose)
    return leaves


def dimensions(name: str, count: int) -> list[str]:
    """Names of the `count` axes of one draw of this variable, as ArviZ gives them."""
    return [f"{name}_dim_{i}" for i in range(count)]


def unnamed(variables: Mapping[str, Any]) -> PyTree:
    """Nested dictionaries from names with '.', or the bare array: what a file can give back of the tree."""
    if list(variables) == [BARE_NAME]:
        return variables[BARE_NAME]
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


def as_tree_of(values: PyTree, like: PyTree, axes: int, path: Any) -> PyTree:
    """What the file at `path` gave by name, leaves with so many leading axes, in the structure of `like`."""
    got, expected = named(values), named(like)
    for name in expected:
        if name not in got:
            raise InputError(f"{path} has no {name}, which a position like that has: it holds {', '.join(got)}")
        shape, wanted = tuple(np.shape(got[name])[axes:]), tuple(np.shape(expected[name]))
        if shape != wanted:
            raise InputError(f"{name} has shape {shape} in {path}, but {wanted} in a position like that")
    unknown = [name for name in got if name not in expected]
    if unknown:
        raise InputError(f"{path} holds {unknown[0]}, which a position like that has not")
    return jax.tree.unflatten(jax.tree.structure(like), [got[name] for name in expected])


def _check_name(name: str, names: Mapping[str, Any], whose: str) -> None:
    if not name.strip("."):
        raise InputError(f"a part of {whose} is named {name!r}: a variable in a file needs a name")
    if name in DRAW_AXES:
        raise InputError(f"a part of {whose} is named {name!r}, which in a file is an axis: rename it")
    stem, mark, number = name.rpartition("_dim_")
    if mark and number.isdigit() and stem in names:
        raise InputError(f"a part of {whose} is named {name!r}, which in a file is an axis of {stem!r}: rename it")
