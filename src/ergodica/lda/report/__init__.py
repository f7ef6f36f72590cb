"""The page of a run: map, topics with words and documents, perplexity, checks, in one file that needs no network."""

import os
from pathlib import Path

from markupsafe import Markup

from ergodica.errors import InputError
from ergodica.host.atomic_files import write_whole
from ergodica.lda.report.content import Content, DetailLevel, band_figures, data_of, gather
from ergodica.lda.report.curve import MOST_POINTS, curve_svg
from ergodica.lda.report.topic_map import map_of
from ergodica.lda.run_files import read_run
from ergodica.pages import render

__all__ = ["write_report"]

LARGEST_PAGE = 4_500_000  # bytes
# the first that makes a page small enough
DETAIL_LEVELS = (
    DetailLevel(listed=10, candidates=60, typical=6, documents=2000, opening=240),
    DetailLevel(listed=8, candidates=40, typical=5, documents=2000, opening=140),
    DetailLevel(listed=6, candidates=24, typical=3, documents=1000, opening=100),
    DetailLevel(listed=4, candidates=12, typical=2, documents=300, opening=60),
    DetailLevel(listed=2, candidates=4, typical=1, documents=0, opening=30),
)
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
    if path.exists() and not (path.is_file() or path.is_dir()):  # /dev/stdout, a pipe: a file would take its place
        path.write_bytes(text.encode())
    else:
        write_whole(path, lambda file: file.write(text.encode()))
    return path


def page_of(content: Content) -> str:
    """The page as text."""
    curves, no_curve = _curves(content)
    drawn = {
        "maps": [map_of(content, size, name) for name, size in MAP_SIZES.items()],
        "curves": curves,
        "no_curve": no_curve,
        "largest_share": max((topic.share for topic in content.topics if topic.share > 0), default=1.0),
        "most_points": MOST_POINTS,
        "band_figures": band_figures(content.figures),
    }
    text = ""
    for level in DETAIL_LEVELS:
        text = render(__name__, content=content, level=level, data=data_of(content, level), **drawn)
        if len(text.encode()) <= LARGEST_PAGE:
            break
    return text


def _curves(content: Content) -> tuple[list[Markup], str]:
    """The perplexity curves for wide and narrow windows, or why there are none."""
    try:
        found = [curve for name, size in CURVE_SIZES.items() if (curve := curve_svg(content, size, name))]
    except InputError as error:  # matplotlib is an extra: without it all of the page but the curve is there
        return [], f"Not drawn: {error}."
    return found, "It was not measured while the run went on."
