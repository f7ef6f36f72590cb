"""The page of a run: topics, map, perplexity curve, sample documents, in one HTML file that needs no network."""

import os
from pathlib import Path

from ergodica.host.atomic_files import write_whole
from ergodica.lda.report.content import Content, gather
from ergodica.lda.report.curve import MOST_POINTS, curve_svg
from ergodica.lda.report.topic_map import map_of
from ergodica.lda.run_files import read_run
from ergodica.pages import render

__all__ = ["write_report"]

LARGEST_PAGE = 4_500_000  # bytes
# words shown and words searched of each topic: the first that make a page small enough
DETAIL_LEVELS = ((10, 30), (6, 15), (4, 8), (2, 4))
MAP_SIZES = {"wide": (640, 600), "narrow": (350, 680)}
CURVE_SIZES = {"wide": (860, 320), "narrow": (350, 260)}


def write_report(folder: str | os.PathLike, out: str | os.PathLike | None = None) -> Path:
    """Write the page of the run in `folder`, and say where it is; the same folder gives the same page, bit for bit.

    Args:
        folder: what `LDA.save` or `ergodica lda fit --out` left.
        out: the file to write; without it report.html in the folder.
    """
    text = page_of(gather(read_run(Path(folder))))
    path = Path(folder) / "report.html" if out is None else Path(out)
    write_whole(path, lambda file: file.write(text.encode()))
    return path


def page_of(content: Content) -> str:
    """The page as text."""
    drawn = {
        "maps": [map_of(content, size, name) for name, size in MAP_SIZES.items()],
        "curves": [curve for name, size in CURVE_SIZES.items() if (curve := curve_svg(content, size, name))],
        "largest_share": max((topic.share for topic in content.topics if topic.share > 0), default=1.0),
        "most_points": MOST_POINTS,
    }
    text = ""
    for shown, searched in DETAIL_LEVELS:
        text = render(__name__, content=content, shown=shown, searched=searched, **drawn)
        if len(text.encode()) <= LARGEST_PAGE:
            break
    return text
