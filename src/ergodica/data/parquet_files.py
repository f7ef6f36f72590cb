"""Parquet files, read by row groups (extra `parquet`)."""

import difflib
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.data.source import Source
from ergodica.errors import InputError
from ergodica.host.extras import require


def parquet(path: str | os.PathLike, columns: PyTree = None) -> "Parquet":
    """A source of the rows of a Parquet file, which need not fit in memory.

    It reads and shuffles whole row groups: write the file with some 10,000 to 100,000 rows in each. Page checksums are
    verified where the file has them (`pyarrow.parquet.write_table(..., write_page_checksum=True)`); a file without
    them causes a warning. Needs the extra `parquet`.

    Args:
        path: of the file.
        columns: which columns make the data: a name is a vector, a list of names a matrix of these columns, and a
            dictionary of such makes a dictionary of arrays; None: a dictionary with a vector for every column.

    Returns:
        A source, to be given to `eg.Posterior` as its data; `source.size` is the number of rows.

    Example:
        >>> import tempfile
        >>> import pyarrow.parquet
        >>> path = os.path.join(tempfile.mkdtemp(), "trips.parquet")
        >>> table = pyarrow.table({"distance": [1.5, 2.0], "hour": [8.0, 9.0], "tip": [3, 4]})
        >>> pyarrow.parquet.write_table(table, path, write_page_checksum=True)
        >>> parquet(path, {"x": ["distance", "hour"], "y": "tip"}).read(1, 2)
        {'x': array([[2., 9.]]), 'y': array([4])}
    """
    return Parquet(path, columns)


class Parquet(Source):
    """Columns of one file; the row group read last is kept."""

    def __init__(self, path: str | os.PathLike, columns: PyTree):
        format = require("pyarrow.parquet", extra="parquet", by="eg.data.parquet")
        self.path = os.fspath(path)
        with self._reading():
            self._file = format.ParquetFile(self.path, page_checksum_verification=True)
            self._look_around(columns)
            is_checked = _has_checksums(self.path, self._file.metadata)
        if not is_checked:
            warnings.warn(
                f"{self.path} has no page checksums, so damage to it may go unnoticed: write it with "
                "write_page_checksum=True",
                stacklevel=3,
            )
        self._lock, self._kept = threading.Lock(), (-1, {})

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """Whatever a damaged file makes pyarrow raise, in one line."""
        try:
            yield
        except (InputError, MemoryError):
            raise
        except FileNotFoundError as error:
            raise InputError(f"cannot read {self.path}: {error.strerror or 'there is no such file'}") from None
        except Exception as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(f"{self.path} is no Parquet file, or is damaged: {reason}") from error

    def _look_around(self, columns: PyTree) -> None:
        """How many rows there are, in which groups, and whether the columns are numbers."""
        groups = [self._file.metadata.row_group(i).num_rows for i in range(self._file.metadata.num_row_groups)]
        self._edges = np.concatenate([[0], np.cumsum([n for n in groups if n])]).astype(int)
        self._numbers = [i for i, n in enumerate(groups) if n]
        self.size = int(self._edges[-1])
        if self.size == 0:
            raise InputError(f"{self.path} has 0 rows: expected at least one")
        schema = self._file.schema_arrow
        self.columns = {name: name for name in schema.names} if columns is None else columns
        self._names = list(dict.fromkeys(jax.tree.leaves(self.columns)))
        self._check_columns(schema)

    def fetch(self, start: int, stop: int) -> PyTree:
        first, last = np.searchsorted(self._edges, [start, max(start, stop - 1)], side="right") - 1
        parts = []
        for block in range(int(first), min(int(last), len(self._numbers) - 1) + 1):
            low, high = int(self._edges[block]), int(self._edges[block + 1])
            table = self._group(block)
            parts.append({name: values[max(start - low, 0) : min(stop, high) - low] for name, values in table.items()})
        table = {name: np.concatenate([part[name] for part in parts]) for name in self._names}
        return _build(self.columns, table)

    def files(self) -> list[str]:
        return [self.path]

    def edges(self) -> np.ndarray:
        return self._edges

    def leaf_name(self, path: Any, column: tuple[int, ...]) -> str:
        names: Any = self.columns
        for key in path:
            names = names[key.key]
        name = names[column[0]] if column else names
        return f"column {name!r} of {Path(self.path).name}"

    def _group(self, block: int) -> dict[str, np.ndarray]:
        with self._lock:
            if self._kept[0] != block:
                self._kept = (-1, {})  # two decoded row groups need not be in memory at once
                with self._reading():
                    table = self._file.read_row_group(self._numbers[block], columns=self._names, use_threads=False)
                    values = {name: self._numeric(table.column(name), name, block) for name in self._names}
                self._kept = (block, values)
            return self._kept[1]

    def _numeric(self, column: Any, name: str, block: int) -> np.ndarray:
        if column.null_count:
            row = int(self._edges[block]) + int(np.argmax(column.is_null().to_numpy()))
            raise InputError(f"column {name!r} of {Path(self.path).name} is null in row {row}: drop or fill such rows")
        expected = int(self._edges[block + 1] - self._edges[block])
        if len(column) != expected:
            raise InputError(f"column {name!r} of {self.path} has {len(column)} rows, not {expected}: it is damaged")
        return column.to_numpy()

    def _check_columns(self, schema: Any) -> None:
        from pyarrow import types

        if not self._names:
            raise InputError(f"no columns were named: expected some of {', '.join(schema.names)}")
        for name in self._names:
            if name not in schema.names:
                near = difflib.get_close_matches(str(name), schema.names, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(schema.names[:20])}"
                raise InputError(f"{self.path} has no column {name!r}: {hint}")
            kind = schema.field(name).type
            if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
                raise InputError(f"column {name!r} of {self.path} holds {kind}: expected numbers or booleans")


def _has_checksums(path: str, metadata: Any) -> bool:
    """Whether the first page of the first column has one; whoever writes them writes them for all."""
    for group in range(metadata.num_row_groups):
        column = metadata.row_group(group).column(0)
        if column.num_values:
            starts = [column.data_page_offset]
            if column.has_dictionary_page and column.dictionary_page_offset is not None:
                starts.append(column.dictionary_page_offset)
            with open(path, "rb") as file:
                file.seek(min(starts))
                return _has_crc(file.read(64))
    return True


def _has_crc(header: bytes) -> bool:
    """Of a page's header, in Thrift's compact protocol: type, two sizes, and then the checksum or something else."""
    at = 0
    for _ in range(3):
        if header[at : at + 1] != b"\x15":  # the next field, a whole number
            return False
        at += 1
        while at < len(header) and header[at] & 0x80:
            at += 1
        at += 1
    return header[at : at + 1] == b"\x15"


def _build(columns: PyTree, table: dict[str, np.ndarray]) -> PyTree:
    if isinstance(columns, str):
        return table[columns]
    if isinstance(columns, dict):
        return {key: _build(part, table) for key, part in columns.items()}
    return np.stack([table[name] for name in columns], axis=1)
