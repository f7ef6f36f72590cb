"""The errors of all rebuilt curls: of each sampler and each kind of random process, and of every process."""

import numpy as np

from ergodica_paper.result import Table
from ergodica_paper.style import LABELS
from ergodica_paper.theorem_2.random_processes import RandomProcess, summaries
from ergodica_paper.theorem_2.rebuilt import RESOLUTION, Rebuilt, Refused


def summary_table(every: list[Rebuilt | Refused], others: list[RandomProcess]) -> Table:
    """Shown on the page."""
    rows: list[tuple] = []
    for r in every:
        tail = (0, None, None)
        if isinstance(r, Rebuilt):
            tail = (int(r.is_back), r.curl.error, r.gap)
        rows.append((LABELS[r.name], "the library's recipe", r.dim, RESOLUTION[r.dim], 1, *tail))
    for s in summaries(others):
        made = (s.kind.name, s.kind.words, s.kind.dim, RESOLUTION[s.kind.dim])
        rows.append((*made, s.made, s.back, s.error, s.gap))
    columns = (
        "process", "made from", "dimensions", "points a side", "made", "came back", "largest error of the drift",
        "largest error of Q",
    )  # fmt: skip
    caption = (
        "Q rebuilt from the drift, D and H by eg.rebuild_curl. Errors are over the size of the drift, and of Q (for "
        "samplers, of the paper's Q, which is 1; for random ones, of D + Q); none where Q is not unique."
    )
    return Table("errors", caption, columns, rows, shown=True)


def random_table(others: list[RandomProcess]) -> Table:
    """Every random process, for the folder of data."""
    rows = [
        (i + 1, r.kind.name, r.kind.dim, r.is_back, *(_finite(x) for x in (r.error, r.gap)), r.refused)
        for i, r in enumerate(others)
    ]
    columns = ("process", "kind", "dimensions", "came back", "error of the drift", "error of Q", "refused")
    return Table("random", "Every random process: the errors of its rebuilt Q.", columns, rows)


def _finite(x: float | None) -> float | None:
    return x if x is not None and np.isfinite(x) else None
