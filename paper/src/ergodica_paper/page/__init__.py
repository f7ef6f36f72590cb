"""The page of a report: claims with their verdicts, figures, tables, in one HTML file that needs no network."""

from collections.abc import Sequence
from pathlib import Path

from ergodica_paper.page.page import page
from ergodica_paper.record import Record
from ergodica_paper.store import write_together

__all__ = ["write_page"]

NAME = "index.html"


def write_page(folder: Path, records: Sequence[Record]) -> Path:
    """The page of these records, which are in `folder`; the same records give the same bytes."""
    write_together(folder, {NAME: page(folder, records).encode()})
    return folder / NAME
