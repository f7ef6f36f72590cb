"""A run's file: written under a temporary name and renamed, read back whole or memory-mapped."""

import errno
import math
import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from ergodica.errors import InputError
from ergodica.host.atomic_files import could_not, renamed
from ergodica.host.seal import SEAL
from ergodica.output import checksums
from ergodica.output.blocks import BlockFile
from ergodica.output.labelled import (
    DRAW_AXES,
    FILE_FORMAT,
    HALVED_PREFIX,
    OBSERVED_GROUP,
    PREDICTED_GROUPS,
    TEMPERATURE_AXES,
    WITNESS_PREFIX,
    Moments,
    Temperatures,
    datatree,
    dimensions,
    moments_from,
    settings_of,
    stored_dtype,
    unnamed,
)  # fmt: skip

if TYPE_CHECKING:
    import xarray as xr

COPIED_BYTES = 2**26  # at a time from blocks
MAPPED_BYTES = 2**28  # a variable of more than this is memory-mapped when a file is loaded
OTHER_BYTES = 2**20  # of a file beside its draws: settings, names, HDF5's tables
Draws = np.ndarray | BlockFile


class Loaded(NamedTuple):
    """What is in a file: as in a Run. `posterior` is nested dictionaries or an array; None where moments were kept."""

    posterior: PyTree
    stats: dict[str, np.ndarray]
    settings: dict[str, Any]
    moments: Moments | None = None
    halved: "Loaded | None" = None
    witness: "Loaded | None" = None
    temperatures: Temperatures | None = None
    predicted: "dict[str, xr.Dataset] | None" = None


def save(tree: "xr.DataTree", path: Path | str, overwrite: bool = False) -> None:
    """Write the tree to `path`, which must not exist unless `overwrite`."""
    with _new_file(path, overwrite) as temporary:
        _check_room(temporary, sum(group.to_dataset(inherit=False).nbytes for group in tree.subtree))
        _write(tree, temporary)
        _seal(temporary)


def save_blocks(
    path: Path | str,
    posterior: dict[str, Draws],
    stats: dict[str, Draws],
    settings: dict[str, Any],
    moments: Any = None,
    halved: Any = None,
    overwrite: bool = False,
    temperatures: Temperatures | None = None,
) -> None:
    """As `save(datatree(...), path)`, from draws that need not fit in memory.

    A variable is an array (chain, draw, ...), or a BlockFile with one draw of all chains (chain, ...) as its item.
    """
    import h5netcdf

    with _new_file(path, overwrite) as temporary:
        _check_room(temporary, sum(_bytes(value) for value in (*posterior.values(), *stats.values())))
        _write(datatree(None, {}, settings, moments, halved, temperatures=temperatures), temporary)
        with h5netcdf.File(temporary, "a") as file:
            for group, variables in (("posterior", posterior), ("sample_stats", stats)):
                if variables:
                    place = file.groups[group] if group in file.groups else file.create_group(group)
                    _write_blocks(place, variables, file.attrs)
        _seal(temporary)


def load(path: Path | str) -> Loaded:
    """Read what `save` wrote, or draws (chain, draw, ...) in the group `posterior` of another library's file."""
    path = Path(path)
    with _opened(path) as (raw, file, is_whole):
        return _loaded(_Reader(raw, file, path, is_whole), file, path)


def is_of_version_0_1_0(path: Path | str) -> bool:
    """Whether that version wrote it: it left no checksums, and told runs apart by other marks than this one."""
    with _opened(Path(path)) as (_, file, _):
        return _format(file.attrs) == 1 and SEAL not in file.attrs


def _format(attrs: Any) -> int:
    return int(attrs.get("ergodica_format", FILE_FORMAT if SEAL in attrs else 0))


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, Any, bool]]:
    """The file as h5py and as h5netcdf see it, and whether it has the bytes that were written; errors in one line."""
    import h5netcdf
    import h5py

    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r}: expected the netCDF file of a run")
    try:
        is_whole = checksums.holds_sum(path)  # first: damage to its tables can keep HDF5 busy for ever
        with h5py.File(path, "r") as raw, h5netcdf.File(raw, "r") as file:
            yield raw, file, is_whole
    except InputError:
        raise
    except Exception as error:  # h5py and h5netcdf raise many kinds for a damaged file
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        with open(path, "rb") as start:
            what = "is damaged" if start.read(8) == b"\x89HDF\r\n\x1a\n" else "is not a netCDF file"
        what = "is cut off: it was not written to its end" if "truncated" in reason else what
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


def _check_room(path: Path, size: int) -> None:
    """OSError where the disk has no room: HDF5, which meets a full disk while it closes a file, crashes the process."""
    with open(path, "wb") as file:
        if not hasattr(os, "posix_fallocate"):  # macOS
            return
        try:
            os.posix_fallocate(file.fileno(), 0, size + size // 50 + OTHER_BYTES)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
                raise  # any other: a file system that cannot reserve
    path.unlink()


def _bytes(value: Draws) -> int:
    return value.nbytes if isinstance(value, np.ndarray) else value.path.stat().st_size


def _write(tree: "xr.DataTree", path: Path) -> None:
    # xarray would mark NaN as "missing" in every float variable
    plain = {
        g.path: {
            name: {"_FillValue": None, **checksums.storage(x.shape, x.dtype.itemsize, "chunksizes")}
            for name, x in g.to_dataset(inherit=False).variables.items()
        }
        for g in tree.subtree
    }
    tree.to_netcdf(path, engine="h5netcdf", encoding=plain)


def _seal(path: Path) -> None:
    """Of what was written, as a reader finds it: so the whole file is read once before it gets its name."""
    import h5netcdf

    with h5netcdf.File(path, "a") as file:
        file.attrs[SEAL] = checksums.digest(file)
    checksums.add_sum(path)


def _write_blocks(group: Any, variables: dict[str, Draws], attrs: Any) -> None:
    for name, value in attrs.items():
        if not name.startswith("_"):
            group.attrs[name] = value
    for name, draws in variables.items():
        shape = _shape(draws)
        dims = (*DRAW_AXES, *dimensions(name, len(shape) - 2))
        for dim, size in zip(dims, shape, strict=True):
            if dim not in group.dimensions:
                group.dimensions[dim] = size
                index = group.create_variable(dim, (dim,), np.int64, **checksums.storage((size,), 8, "chunks"))
                index[...] = np.arange(size)
            elif group.dimensions[dim].size != size:
                raise InputError(f"{name} has {size} along {dim}, other variables {group.dimensions[dim].size}")
        is_bool = draws.dtype == np.bool_
        dtype = np.dtype(np.int8) if is_bool else stored_dtype(draws.dtype)
        variable = group.create_variable(name, dims, dtype, **checksums.storage(shape, dtype.itemsize, "chunks"))
        if is_bool:
            variable.attrs["dtype"] = "bool"
        for here, piece in _pieces(draws, checksums.chunks(shape, dtype.itemsize)[1]):
            variable[:, here] = piece.astype(variable.dtype, copy=False)


def _shape(draws: Draws) -> tuple[int, ...]:
    return draws.shape if isinstance(draws, np.ndarray) else (draws.shape[0], draws.count, *draws.shape[1:])


def _pieces(draws: Draws, unit: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Stretches of draws and what is there, (chain, draw, ...): about COPIED_BYTES, and whole chunks of `unit`."""
    chains, count, *rest = _shape(draws)
    length = max(1, COPIED_BYTES // max(1, draws.dtype.itemsize * chains * math.prod(rest)))
    length = max(1, length // unit) * unit
    if isinstance(draws, np.ndarray):
        found = (draws[:, start : start + length] for start in range(0, count, length))
    else:
        found = (np.swapaxes(part, 0, 1) for part in draws.pieces(length))
    for number, piece in enumerate(found):
        yield slice(number * length, number * length + piece.shape[1]), piece


class _Reader:
    """The variables of an open file as arrays; where it has a checksum they are read once, and that is compared.

    Args:
        raw: the same file as h5py sees it, which knows where and how a variable is stored.
        is_whole: its bytes are known to be those that were written.
    """

    def __init__(self, raw: Any, file: Any, path: Path, is_whole: bool):
        self.raw, self.path = raw, path
        self._held: dict[str, np.ndarray] = {}
        attrs = file.attrs
        version = _format(attrs)
        if version > FILE_FORMAT:
            raise InputError(
                f"{path} has format {version} and this ergodica reads up to {FILE_FORMAT}: install a newer one"
            )
        if is_whole:
            return
        if SEAL in attrs or version == FILE_FORMAT:
            if attrs.get(SEAL) != checksums.digest(file, self._kept):
                raise InputError(f"{path} is damaged, or was changed by another program: its checksum does not match")
        elif version == 1:
            warnings.warn(
                f"{path} was written by version 0.1.0 of ergodica, which left no checksums: whether it was damaged "
                "since is not known",
                stacklevel=4,
            )

    def _kept(self, variable: Any) -> list[np.ndarray]:
        stored, claimed = self.raw[variable.name], math.prod(variable.shape) * variable.dtype.itemsize
        # a damaged shape can claim terabytes that are not there
        if stored.compression is None and claimed > stored.id.get_storage_size():
            raise InputError(f"{variable.name} claims {claimed} bytes, which the file does not hold")
        self._held[variable.name] = array = self._read(variable)
        return [array]

    def array(self, variable: Any) -> np.ndarray:
        held = self._held.get(variable.name)
        found = self._read(variable) if held is None else held
        return found.astype(bool) if variable.attrs.get("dtype") == "bool" else found

    def _read(self, variable: Any) -> np.ndarray:
        """In memory; a large one mapped, as long as it is looked at from a copy that has no name."""
        if math.prod(variable.shape) * variable.dtype.itemsize <= MAPPED_BYTES:
            return np.asarray(variable[...])
        # the offset: known where the variable lies in one piece, without checksums, as version 0.1.0 left it
        offset = self.raw[variable.name].id.get_offset()
        if offset is not None:
            return np.memmap(self.path, variable.dtype, mode="r", offset=offset, shape=variable.shape)
        with _nameless_file(self.path.parent) as copy:
            try:
                for piece in checksums.pieces(variable):
                    copy.write(np.ascontiguousarray(piece).reshape(-1).view(np.uint8).data)
                copy.flush()
            except OSError as error:
                if error.errno is None:  # h5py's, of a damaged file
                    raise
                raise could_not("copy", self.path, error) from error
            return np.memmap(copy, variable.dtype, mode="r", shape=variable.shape)

    def variables(self, file: Any, group: str) -> dict[str, np.ndarray]:
        if group not in file.groups:
            return {}
        found = file[group].variables
        return {name: self.array(x) for name, x in found.items() if name not in found[name].dimensions}


def _loaded(reader: _Reader, file: Any, path: Path) -> Loaded:
    if not {"posterior", "moments"} & set(file.groups):
        raise InputError(f"{path} is not the file of a run: it has no group 'posterior' and no group 'moments'")
    found = _part(reader, file, path, "")._replace(predicted=_predicted(reader, file))
    prefixes = {"halved": HALVED_PREFIX, "witness": WITNESS_PREFIX}
    there = {name: prefix for name, prefix in prefixes.items() if prefix + "sample_stats" in file.groups}
    return found._replace(**{name: _part(reader, file, path, prefix) for name, prefix in there.items()})


def _part(reader: _Reader, file: Any, path: Path, prefix: str) -> Loaded:
    posterior = reader.variables(file, prefix + "posterior")
    for name, array in posterior.items():
        dims = file[prefix + "posterior"][name].dimensions[:2]
        if dims != DRAW_AXES:
            raise InputError(f"{path}: {name} has dimensions {dims}, shape {array.shape}; expected chain, draw first")
    stats = reader.variables(file, prefix + "sample_stats")
    settings = settings_of(dict(file[prefix + "sample_stats"].attrs) if prefix else dict(file.attrs))
    moments = moments_from(reader.variables(file, prefix + "moments"))
    measured = reader.variables(file, prefix + "temperatures")
    temperatures = Temperatures(*(measured[name] for name, _ in TEMPERATURE_AXES)) if measured else None
    return Loaded(unnamed(posterior) if posterior else None, stats, settings, moments, temperatures=temperatures)


def _predicted(reader: _Reader, file: Any) -> "dict[str, xr.Dataset]":
    """What `Run.with_predictions` added; not what another library did, whose axes may have labels of any kind."""
    import xarray as xr

    found = {}
    for name in (*PREDICTED_GROUPS, OBSERVED_GROUP) if _format(file.attrs) else ():
        if name in file.groups:
            there = file[name].variables
            arrays = {key: (x.dimensions, reader.array(x)) for key, x in there.items()}
            coords = {key: arrays.pop(key) for key in there if key in there[key].dimensions}
            found[name] = xr.Dataset(arrays, coords)
    return found


def _nameless_file(folder: Path) -> Any:
    """Beside the run, where there should be room; in the system's place for such files where that cannot be written."""
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError:
        return tempfile.TemporaryFile()
