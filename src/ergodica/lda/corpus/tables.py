"""Tables with a column of texts: CSV and TSV files, Parquet files, DataFrames and Arrow tables in memory."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from ergodica.errors import InputError
from ergodica.host.extras import require
from ergodica.lda.corpus.documents import LABEL_NAMES, DocumentLabel, is_missing, label_columns, label_of
from ergodica.lda.corpus.formats import NO_DOCUMENT, RECORD_LIMITS, Parsed, Reader

SAMPLE_ROWS = 20  # that are looked at for a column of text
ROWS_AT_A_TIME = 500  # of Arrow
CSV_DELIMITERS = ",;\t|"
LONGEST_NAME = 8  # words of the name of a column: more are a text


def text_column(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], field: str | None) -> int:
    """The number of the column with the texts: `field`, else "text", else the only one that looks like text.

    Args:
        name: of the table, for messages.
        rows: the first ones.
    """
    for wanted in (field, None if field else "text"):
        if wanted in columns:
            return columns.index(wanted)
    listed = ", ".join(map(repr, columns[:50]))
    if field is not None:
        raise InputError(f"{name} has no column {field!r}: it has {listed}")
    found = _likely(columns, rows)
    if len(found) != 1:
        raise InputError(
            f"{name} has no column 'text': it has {listed}; --field NAME (Python: field=) takes one of them"
        )
    return found[0]


def _likely(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[int]:
    """The columns that may be the texts: of words, else of letters; those that name a document only if alone."""
    for is_text in (_has_words, _has_letters):
        found = [
            number for number in range(len(columns))
            if any(is_text(row[number]) for row in rows if number < len(row))
        ]  # fmt: skip
        named = [number for number in found if columns[number].lower() not in LABEL_NAMES]
        if named or found:
            return named or found
    return list(range(len(columns))) if len(columns) == 1 else []


def _has_letters(value: Any) -> bool:
    return isinstance(value, str) and any(map(str.isalpha, value[:1000]))


def _has_words(value: Any) -> bool:
    return _has_letters(value) and len(value[:1000].split()) > 1


class DelimitedTable(Reader):
    """A CSV or TSV file with a line of names at its head; in what is between quotes, lines may end.

    The csv module reads it; its limit for the size of a field is raised for the whole program where it is too small.
    A resumed run reads from the file's first byte, as that is where the names of the columns are.
    """

    def items(self) -> Iterator[list[str]]:
        longest = RECORD_LIMITS * self.limit
        if csv.field_size_limit() < longest:
            csv.field_size_limit(longest)
        lines = (self._decoded(line) + "\n" for line in self._lines(longest))
        head = next(lines, "").removeprefix("\ufeff")
        rows = self._sound(csv.reader(chain([head] if head else [], lines), delimiter=self._delimiter(head)))
        self._columns = [column.strip() for column in next(rows, [])]
        if not self._columns:
            return
        first = list(islice(rows, SAMPLE_ROWS))
        self._text = text_column(self.name, self._columns, first, self.reading.field)
        self._labels = label_columns(self._columns)
        if self.reading.field is None and len(self._columns[self._text].split()) > LONGEST_NAME:
            raise InputError(
                f"{self.name} begins with {head[:40]!r}, which are no names of columns: give it a line with some, "
                "or the first document is lost"
            )
        for row in chain(first, rows):
            self.since += 1
            yield row

    def _sound(self, rows: Any) -> Iterator[list[str]]:
        """The rows until the first that cannot be read, counted; an empty line is none."""
        try:
            yield from (row for row in rows if row)
        except csv.Error as error:
            self.tally.add("cut_off", f"{self.name}, line {rows.line_num:,}: {error}")

    def parsed(self, item: list[str]) -> Parsed:
        if len(item) <= self._text:
            self.tally.add("bad_row", f"{self.name}: {len(item)} of {len(self._columns)} columns in {str(item)[:60]}")
            return NO_DOCUMENT
        fields = dict(zip(self._columns, item, strict=False))
        label = label_of({known: fields.get(column) for column, known in self._labels.items()})
        return Parsed(self._cut(item[self._text]), label)

    def _may_restart(self, byte: int) -> None:
        pass

    def _delimiter(self, head: str) -> str:
        if ".tsv" in self.name.lower():
            return "\t"
        return max(CSV_DELIMITERS, key=head.count)  # the first of those that are equally frequent


class ParquetTable(Reader):
    """A Parquet file, some rows of a row group at a time; `byte` is the number of a row group."""

    total_bytes = 0  # of the file; how much of it was read is known by row groups

    def begin(self, path: str, group: int) -> "ParquetTable":
        """Open a local file, as Parquet is read from its end, at a row group."""
        parquet = require("pyarrow.parquet", extra="parquet", by=f"reading {self.name}")
        self._arrow_errors = (require("pyarrow", extra="parquet", by=f"reading {self.name}").ArrowException, OSError)
        try:
            self._file = parquet.ParquetFile(path)
        except self._arrow_errors as error:
            raise InputError(f"{self.name} could not be read as Parquet: {_first_line(error)}") from error
        self._group = group
        return self

    def items(self) -> Iterator[dict[str, Any]]:
        columns = list(self._file.schema_arrow.names)
        try:
            sample = next(self._file.iter_batches(batch_size=SAMPLE_ROWS), None)
            rows = [] if sample is None else [list(row.values()) for row in sample.to_pylist()]
            self._text = columns[text_column(self.name, columns, rows, self.reading.field)]
            self._labels = label_columns(columns)
            wanted = list(dict.fromkeys([self._text, *self._labels]))
            for group in range(self._group, self._file.num_row_groups):
                self._may_restart(group)
                self._group = group
                for batch in self._file.iter_batches(ROWS_AT_A_TIME, row_groups=[group], columns=wanted):
                    for row in batch.to_pylist():
                        self.since += 1
                        yield row
        except self._arrow_errors as error:
            self.tally.add("cut_off", f"{self.name}, in row group {self._group}: {_first_line(error)}")

    def parsed(self, item: dict[str, Any]) -> Parsed:
        text = item[self._text]
        label = label_of({known: item[column] for column, known in self._labels.items()})
        if text is not None and not isinstance(text, str | bytes):
            self.tally.add("bad_row", f"{self.name}: {type(text).__name__} in the column {self._text!r}")
            return Parsed(None, label)
        return Parsed(self._cut_bytes(text) if isinstance(text, bytes) else self._cut(text or ""), label)

    def position(self) -> int:
        return self.total_bytes * self._group // max(1, self._file.num_row_groups)

    def close(self) -> None:
        self._file.close()


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def is_frame(given: Any) -> bool:
    """Whether it is a table in memory: a DataFrame of pandas or polars, or a table of Arrow."""
    return _is_arrow_table(given) or (hasattr(given, "columns") and hasattr(given, "dtypes"))


def is_arrow_array(given: Any) -> bool:
    return hasattr(given, "to_pylist") and hasattr(given, "slice") and not hasattr(given, "column_names")


def arrow_values(array: Any) -> Iterator[Any]:
    """The values of an Arrow array as Python's, some at a time."""
    for first in range(0, len(array), ROWS_AT_A_TIME):
        yield from array.slice(first, ROWS_AT_A_TIME).to_pylist()


def frame_rows(frame: Any, field: str | None) -> Iterator[tuple[Any, DocumentLabel]]:
    """(text, label) of every row; the id is the column `id`, else the index, else the number of the row."""
    is_arrow = _is_arrow_table(frame)
    names = list(frame.column_names if is_arrow else frame.columns)
    columns = [str(name) for name in names]
    if not columns:
        raise InputError("the table has no columns: expected one with texts")
    if len(set(columns)) < len(columns):
        twice = next(column for column in columns if columns.count(column) > 1)
        raise InputError(f"the table has the column {twice!r} twice: rename one of them")
    head = frame.slice(0, SAMPLE_ROWS) if is_arrow else frame.head(SAMPLE_ROWS)
    rows = list(zip(*(_column(head, name, is_arrow) for name in names), strict=True))
    text = names[text_column("the table", columns, rows, field)]
    labels = label_columns(columns)
    wanted = [name for name, column in zip(names, columns, strict=True) if column in labels]
    ids = getattr(frame, "index", None)
    ids = range(len(frame)) if ids is None or callable(ids) else ids
    parts = [_column(frame, name, is_arrow) for name in (text, *wanted)]
    for number, value, *others in zip(ids, *parts, strict=True):
        told = {labels[str(name)]: other for name, other in zip(wanted, others, strict=True)}
        yield None if is_missing(value) else value, label_of(told, str(number))


def _is_arrow_table(given: Any) -> bool:
    return hasattr(given, "column_names") and hasattr(given, "slice")


def _column(frame: Any, name: Any, is_arrow: bool) -> Iterable[Any]:
    return arrow_values(frame.column(name)) if is_arrow else frame[name]
