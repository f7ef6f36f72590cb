"""What the template shows of one item: its claims with their pictures, its tables, and how to have them again."""

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from ergodica.host.atomic_files import could_not
from ergodica.pages import duration
from ergodica_paper.page.words import cell, is_number
from ergodica_paper.record import Record, StoredPicture, StoredTable
from ergodica_paper.result import Claim

LARGEST_SVG = 300_000  # bytes in the page; above that the PNG is
PIXELS_OF_POINT, DEFAULT_WIDTH = 4 / 3, 700  # of a picture that does not say how wide it is
LONG_CELL = 28  # characters of a cell that needs room
MOST_ROWS = 400  # of a table that are shown
PACKAGE_SOURCES = {"ergodica": "src", "ergodica_paper": "paper/src"}  # where the packages are in the repository


def blocks(record: Record) -> Iterator[tuple[StoredPicture | None, list[Claim]]]:
    """Each picture with the claims that it shows; those that show none come last."""
    pictures = {picture.name: picture for picture in record.pictures}
    for name in dict.fromkeys([*(claim.picture for claim in record.claims), *pictures]):
        yield pictures[name] if name else None, [claim for claim in record.claims if claim.picture == name]


def non_finite(record: Record) -> dict[str, int]:
    return {name: count for name, count in record.non_finite.items() if count}


def files_of(record: Record, picture: StoredPicture) -> list[tuple[str, str]]:
    """Where the picture and its numbers are, and what to call them."""
    files = [(picture.svg, "SVG"), (picture.png, "PNG")]
    return files + [(tabled.csv, "its numbers, CSV") for tabled in record.tables if tabled.table.name == picture.table]


def inlined(folder: Path, picture: StoredPicture) -> tuple[str, int]:
    """The picture as an address of its own, and its width in pixels at the size it was drawn for."""
    try:
        vector = (folder / picture.svg).read_bytes()
        points = re.search(rb'<svg[^>]*? width="([\d.]+)pt"', vector)
        width = round(float(points[1]) * PIXELS_OF_POINT) if points else DEFAULT_WIDTH
        if len(vector) <= LARGEST_SVG:
            return f"data:image/svg+xml;base64,{base64.b64encode(vector).decode()}", width
        return f"data:image/png;base64,{base64.b64encode((folder / picture.png).read_bytes()).decode()}", width
    except OSError as error:
        raise could_not("read", folder / picture.svg, error) from error


class ShownColumn(NamedTuple):
    """A column of a table; `is_quoted`: the paper's own figures."""

    name: str
    is_numeric: bool
    is_quoted: bool


class ShownTable(NamedTuple):
    """A table as the page shows it: of each cell its text and its column; `total`: rows in all."""

    caption: str
    csv: str
    columns: list[ShownColumn]
    rows: list[list[tuple[str, ShownColumn]]]
    total: int
    has_quoted: bool


def shown_table(tabled: StoredTable) -> ShownTable:
    table = tabled.table
    columns = [
        ShownColumn(name, any(is_number(row[i]) for row in table.rows), name in table.quoted)
        for i, name in enumerate(table.columns)
    ]
    rows = [[(cell(value), column) for value, column in zip(row, columns, strict=True)] for row in table.rows]
    has_quoted = any(column.is_quoted for column in columns)
    return ShownTable(table.caption, tabled.csv, columns, rows[:MOST_ROWS], len(rows), has_quoted)


def kinds(column: ShownColumn, text: str = "") -> Markup:
    """The classes of a cell."""
    found = ["number"] * column.is_numeric + ["quoted"] * column.is_quoted + ["long"] * (len(text) > LONG_CELL)
    return Markup(' class="{}"').format(" ".join(found)) if found else Markup()


def settings_of(record: Record) -> dict[str, Any]:
    told = record.circumstances
    return dict(record.settings) | {
        "mode": told.mode, "seed": str(told.seed), "corpus": list(told.corpus or [told.corpus_words]),
        "date": told.date, "took": duration(told.seconds), "versions": dict(told.versions),
    }  # fmt: skip


def in_repository(path: str) -> str:
    """The path of a module, as `ergodica/samplers/langevin.py`, from the root of a checkout."""
    package = path.partition("/")[0]
    return f"{PACKAGE_SOURCES[package]}/{path}" if package in PACKAGE_SOURCES else path
