"""Parquet files, read by row groups (extra `parquet`)."""

import os
import threading
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.errors import InputError
from ergodica.targets.source import Source


def parquet(path: str | os.PathLike, columns: PyTree = None) -> "Parquet":
    """A source of the rows of a Parquet file that need not fit in memory.

    Args:
        path: of the file.
        columns: which columns make the data: a name is a vector, a list of names a matrix of these columns, and a
            dictionary of such makes a dictionary of arrays; None: a dictionary with a vector for every column.

    It reads and shuffles whole row groups: write the file with some 10,000 to 100,000 rows in each.

    Example:
        >>> data = eg.data.parquet("trips.parquet", {"x": ["distance", "hour"], "y": "tip"})    # doctest: +SKIP
    """
    return Parquet(path, columns)


class Parquet(Source):
    """Columns of one file; the row group read last is kept."""

    def __init__(self, path: str | os.PathLike, columns: PyTree):
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise InputError("eg.data.parquet needs pyarrow: pip install 'ergodica[parquet]'") from None
        self.path = os.fspath(path)
        try:
            self._file = pyarrow.parquet.ParquetFile(self.path)
        except OSError as error:
            raise InputError(f"cannot read {self.path}: {error.strerror or str(error).splitlines()[0]}") from None
        except pyarrow.ArrowInvalid as error:
            raise InputError(f"{self.path} is no Parquet file: {str(error).splitlines()[0]}") from None
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
        self._lock, self._kept = threading.Lock(), (-1, {})

    def fetch(self, start: int, stop: int) -> PyTree:
        first, last = np.searchsorted(self._edges, [start, max(start, stop - 1)], side="right") - 1
        parts = []
        for block in range(int(first), min(int(last), len(self._numbers) - 1) + 1):
            low, high = int(self._edges[block]), int(self._edges[block + 1])
            table = self._group(block)
            parts.append({name: values[max(start - low, 0) : min(stop, high) - low] for name, values in table.items()})
        table = {name: np.concatenate([part[name] for part in parts]) for name in self._names}
        return _build(self.columns, table)

    def edges(self) -> np.ndarray:
        return self._edges

    def leaf_name(self, path: Any, column: tuple[int, ...]) -> str:
        names: Any = self.columns
        for key in path:
            names = names[getattr(key, "key", getattr(key, "idx", None))]
        name = names[column[0]] if column else names
        return f"column {name!r} of {Path(self.path).name}"

    def _group(self, block: int) -> dict[str, np.ndarray]:
        with self._lock:
            if self._kept[0] != block:
                self._kept = (-1, {})  # two decoded row groups need not be in memory at once
                table = self._file.read_row_group(self._numbers[block], columns=self._names, use_threads=False)
                values = {name: self._numeric(table.column(name), name, block) for name in self._names}
                self._kept = (block, values)
            return self._kept[1]

    def _numeric(self, column: Any, name: str, block: int) -> np.ndarray:
        if column.null_count:
            row = int(self._edges[block]) + int(np.argmax(column.is_null().to_numpy()))
            raise InputError(f"column {name!r} of {Path(self.path).name} is null in row {row}: drop or fill such rows")
        return column.to_numpy()

    def _check_columns(self, schema: Any) -> None:
        import difflib

        import pyarrow

        if not self._names:
            raise InputError(f"no columns were named: expected some of {', '.join(schema.names)}")
        for name in self._names:
            if name not in schema.names:
                near = difflib.get_close_matches(str(name), schema.names, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(schema.names[:20])}"
                raise InputError(f"{self.path} has no column {name!r}: {hint}")
            kind = schema.field(name).type
            is_number = any(
                test(kind) for test in (pyarrow.types.is_integer, pyarrow.types.is_floating, pyarrow.types.is_boolean)
            )
            if not is_number:
                raise InputError(f"column {name!r} of {self.path} holds {kind}: expected numbers or booleans")


def _build(columns: PyTree, table: dict[str, np.ndarray]) -> PyTree:
    if isinstance(columns, str):
        return table[columns]
    if isinstance(columns, dict):
        return {key: _build(part, table) for key, part in columns.items()}
    return np.stack([table[name] for name in columns], axis=1)
