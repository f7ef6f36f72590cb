"""What a document is called: its id, title, address and date, as its source has them."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

LONGEST_LABEL = 500  # characters of a part of a label
DATE_NAMES = ("date", "timestamp", "created", "published")
LABEL_NAMES = ("id", "title", "url", *DATE_NAMES)


class DocumentLabel(NamedTuple):
    """What a document is called; "" where its source does not say.

    Use it to tell which document a row of topic shares belongs to: `documents.labels[row]`. A date is as it was found.

    >>> DocumentLabel(id="7", title="Oslo")
    DocumentLabel(id='7', title='Oslo', url='', date='')
    """

    id: str = ""
    title: str = ""
    url: str = ""
    date: str = ""


NO_LABEL = DocumentLabel()


def label_of(fields: Mapping[str, Any], id: str = "") -> DocumentLabel:
    """The label in the fields of a record.

    Args:
        fields: with names in lower case.
        id: where the record has none.
    """
    found, date = fields.get, ""
    for name in DATE_NAMES:
        if name in fields:
            date = date or _told(found(name))
    return DocumentLabel(_told(found("id")) or id, _told(found("title")), _told(found("url")), date)


def label_columns(columns: Iterable[str]) -> dict[str, str]:
    """The columns of a table that are part of labels: the name that `label_of` knows, by the column's own."""
    return {column: column.lower() for column in columns if column.lower() in LABEL_NAMES}


def is_missing(value: Any) -> bool:
    """Whether it stands for no value: None, NaN, pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def _told(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value[:LONGEST_LABEL]
    if type(value) is int:
        return str(value)[:LONGEST_LABEL]
    if is_missing(value) or isinstance(value, list | tuple | dict | bytes):
        return ""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)[:LONGEST_LABEL]
