"""The page of a run: topics, map, perplexity curve, sample documents, in one HTML file that needs no network."""

import os
from pathlib import Path

from ergodica.errors import InputError
from ergodica.lda.report.content import gather
from ergodica.lda.report.folder import read_run
from ergodica.lda.report.page import page

__all__ = ["write_report"]


def write_report(folder: str | os.PathLike, out: str | os.PathLike | None = None) -> Path:
    """Write the page of the run in `folder`, and say where it is; the same folder gives the same bytes.

    Args:
        folder: what `LDA.save` or `ergodica lda fit --out` left.
        out: the file to write; without it report.html in the folder.
    """
    text = page(gather(read_run(Path(folder))))
    path = Path(folder) / "report.html" if out is None else Path(out)
    try:
        path.write_bytes(text.encode())
    except OSError as error:
        raise InputError(f"the report {path} could not be written: {error.strerror or error}") from None
    return path
