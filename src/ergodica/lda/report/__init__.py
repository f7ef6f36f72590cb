"""The page of a run: topics, map, perplexity curve, sample documents, in one HTML file that needs no network."""

import os
from pathlib import Path

from ergodica.host.atomic_files import write_whole
from ergodica.lda import files
from ergodica.lda.report.content import gather
from ergodica.lda.report.page import page

__all__ = ["write_report"]


def write_report(folder: str | os.PathLike, out: str | os.PathLike | None = None) -> Path:
    """Write the page of the run in `folder`, and say where it is; the same folder gives the same bytes.

    Args:
        folder: what `LDA.save` or `ergodica lda fit --out` left.
        out: the file to write; without it report.html in the folder.
    """
    text = page(gather(files.read(Path(folder))))
    path = Path(folder) / "report.html" if out is None else Path(out)
    write_whole(path, lambda file: file.write(text.encode()))
    return path
