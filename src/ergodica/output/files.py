"""A run's file: written under a temporary name and renamed, read back whole or memory-mapped."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from ergodica.errors import InputError
from ergodica.output.blocks import BlockFile
from ergodica.output.names import DIMENSIONS, dimensions, unnamed
from ergodica.output.tree import FORMAT, HALVED, Moments, datatree, settings_of, stored_dtype
from ergodica.output.whole import renamed

if TYPE_CHECKING:
    import xarray as xr

AT_A_TIME = 2**26  # bytes copied at a time from blocks
MAPPED = 2**28  # a variable of more bytes than this is memory-mapped when a file is loaded
Draws = np.ndarray | BlockFile


class Loaded(NamedTuple):
    """What is in a file: as in a Run. `posterior` is nested dictionaries or an array; None where moments were kept."""

    posterior: PyTree
    stats: dict[str, np.ndarray]
    settings: dict[str, Any]
    moments: Moments | None = None
    halved: "Loaded | None" = None


def save(tree: "xr.DataTree", path: Path | str, overwrite: bool = False) -> None:
    """Write the tree to `path`, which must not exist unless `overwrite`."""
    with _new_file(path, overwrite) as temporary:
        _write(tree, temporary)


def save_blocks(
    path: Path | str,
    posterior: dict[str, Draws],
    stats: dict[str, Draws],
    settings: dict[str, Any],
    moments: Any = None,
    halved: Any = None,
    overwrite: bool = False,
) -> None:
    """As `save(datatree(...), path)`, from draws that need not fit in memory.

    A variable is an array (chain, draw, ...), or a BlockFile with one draw of all chains (chain, ...) as its item.
    """
    import h5netcdf

    with _new_file(path, overwrite) as temporary:
        _write(datatree(None, {}, settings, moments, halved), temporary)
        with h5netcdf.File(temporary, "a") as file:
            for group, variables in (("posterior", posterior), ("sample_stats", stats)):
                if variables:
                    place = file.groups[group] if group in file.groups else file.create_group(group)
                    _write_blocks(place, variables, file.attrs)


def load(path: Path | str) -> Loaded:
    """Read what `save` wrote, or draws (chain, draw, ...) in the group `posterior` of another library's file."""
    import h5netcdf

    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}: expected the netCDF file of a run")
    try:
        with h5netcdf.File(path, "r") as file:
            return _loaded(file, path)
    except InputError:
        raise
    except Exception as error:  # h5py and h5netcdf raise many kinds for a damaged file
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        what = "is cut off: it was not written to its end" if "truncated" in reason else "is not a netCDF file"
        raise InputError(f"{path} {what} ({reason}); expected what run.save or ergodica sample wrote") from error


@contextmanager
def _new_file(path: Path | str, overwrite: bool) -> Iterator[Path]:
    path = Path(path)
    check_free(path, overwrite)
    with renamed(path) as temporary:
        yield temporary
        check_free(path, overwrite)


def check_free(path: Path | str, overwrite: bool = False) -> None:
    """Raise InputError where a file could not be written: ask before hours of work, not after."""
    path = Path(path)
    if path.is_dir():
        raise InputError(f"{path} is a folder: expected the name of a file, as run.nc")
    if path.exists() and not overwrite:
        raise InputError(f"{path} exists already and is left as it is: give another name, or remove it first")
    if not path.parent.is_dir():
        raise InputError(f"there is no folder {str(path.parent)!r} for {path.name}: make it first")
    if not os.access(path.parent, os.W_OK):
        raise InputError(f"the folder {str(path.parent)!r} is read-only: {path.name} cannot be written there")


def _write(tree: "xr.DataTree", path: Path) -> None:
    # xarray would mark NaN as "missing" in every float variable
    plain = {
        g.path: {name: {"_FillValue": None} for name in g.to_dataset(inherit=False).variables} for g in tree.subtree
    }
    tree.to_netcdf(path, engine="h5netcdf", encoding=plain)


def _write_blocks(group: Any, variables: dict[str, Draws], attrs: Any) -> None:
    for name, value in attrs.items():
        if not name.startswith("_"):
            group.attrs[name] = value
    for name, draws in variables.items():
        shape = _shape(draws)
        dims = (*DIMENSIONS, *dimensions(name, len(shape) - 2))
        for dim, size in zip(dims, shape, strict=True):
            if dim not in group.dimensions:
                group.dimensions[dim] = size
                group.create_variable(dim, (dim,), np.int64)[...] = np.arange(size)
            elif group.dimensions[dim].size != size:
                raise InputError(f"{name} has {size} along {dim}, other variables {group.dimensions[dim].size}")
        is_bool = draws.dtype == np.bool_
        variable = group.create_variable(name, dims, np.dtype(np.int8) if is_bool else stored_dtype(draws.dtype))
        if is_bool:
            variable.attrs["dtype"] = "bool"
        for here, piece in _pieces(draws):
            variable[:, here] = piece.astype(variable.dtype, copy=False)


def _shape(draws: Draws) -> tuple[int, ...]:
    return draws.shape if isinstance(draws, np.ndarray) else (draws.shape[0], draws.count, *draws.shape[1:])


def _pieces(draws: Draws) -> Iterator[tuple[slice, np.ndarray]]:
    """Stretches of draws and what is there, (chain, draw, ...): none larger than AT_A_TIME, unless one draw is."""
    chains, count, *rest = _shape(draws)
    length = max(1, AT_A_TIME // max(1, draws.dtype.itemsize * chains * math.prod(rest)))
    for start in range(0, count, length):
        stop = min(start + length, count)
        is_array = isinstance(draws, np.ndarray)
        yield slice(start, stop), draws[:, start:stop] if is_array else np.swapaxes(draws.items(start, stop), 0, 1)


def _loaded(file: Any, path: Path) -> Loaded:
    version = int(file.attrs.get("ergodica_format", FORMAT))
    if version > FORMAT:
        raise InputError(f"{path} has format {version} and this ergodica reads up to {FORMAT}: install a newer one")
    if not {"posterior", "moments"} & set(file.groups):
        raise InputError(f"{path} is not the file of a run: it has no group 'posterior' and no group 'moments'")
    halved = _part(file, path, HALVED) if HALVED + "sample_stats" in file.groups else None
    return _part(file, path, "", halved)


def _part(file: Any, path: Path, prefix: str, halved: Loaded | None = None) -> Loaded:
    posterior = _variables(file, path, prefix + "posterior")
    for name, array in posterior.items():
        dims = file[prefix + "posterior"][name].dimensions[:2]
        if dims != DIMENSIONS:
            raise InputError(f"{path}: {name} has dimensions {dims}, shape {array.shape}; expected chain, draw first")
    stats = _variables(file, path, prefix + "sample_stats")
    settings = settings_of(dict(file[prefix + "sample_stats"].attrs) if prefix else dict(file.attrs))
    return Loaded(unnamed(posterior) if posterior else None, stats, settings, _moments(file, path, prefix), halved)


def _moments(file: Any, path: Path, prefix: str) -> Moments | None:
    variables = _variables(file, path, prefix + "moments")
    if not variables:
        return None
    count = variables.pop("count")
    parts = [
        unnamed({name.removeprefix(part): x for name, x in variables.items() if name.startswith(part)})
        for part in ("mean.", "variance.")
    ]
    return Moments(count, *parts)


def _variables(file: Any, path: Path, group: str) -> dict[str, np.ndarray]:
    if group not in file.groups:
        return {}
    found = file[group].variables
    return {name: _array(x, path) for name, x in found.items() if name not in found[name].dimensions}


def _array(variable: Any, path: Path) -> np.ndarray:
    if variable.attrs.get("dtype") == "bool":
        return variable[...].astype(bool)
    size = math.prod(variable.shape) * variable.dtype.itemsize
    # the offset in the file: known where the variable lies in one piece, uncompressed, as `save` leaves it
    offset = variable._h5ds.id.get_offset() if size > MAPPED else None
    if offset is not None:
        return np.memmap(path, variable.dtype, mode="r", offset=offset, shape=variable.shape)
    return np.asarray(variable[...])
