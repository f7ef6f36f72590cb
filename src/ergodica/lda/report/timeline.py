"""Topic shares over time, by the dates of the sample documents."""

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import NamedTuple

import numpy as np

DATE_PATTERN = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?(?!\d)", re.ASCII)
MOST_BINS = 60
DAY_BINS, MONTH_BINS = 45, 36  # up to which days and months are drawn one by one
MOSTLY = 0.9
YEAR_WIDTHS = (1, 2, 5, 10, 20, 50, 100, 200)


class DateBegin(NamedTuple):
    """The beginning of a date: the year, and the month and the day where they are known."""

    text: str
    day: date
    precision: int  # 1: year, 2: month, 3: day


class Timeline(NamedTuple):
    """Shares (bins, topics), NaN where a bin has no document; `unit`: year, month, day or "10 years"."""

    unit: str
    labels: tuple[str, ...]
    documents: tuple[int, ...]
    shares: np.ndarray


def begin_of(text: str) -> DateBegin | None:
    """YYYY, YYYY-MM or YYYY-MM-DD at the beginning of a text; None where there is no such date."""
    found = DATE_PATTERN.match(text) if isinstance(text, str) else None
    if found is None:
        return None
    known = [int(part) for part in found.groups() if part]
    try:
        return DateBegin(found[0], date(*(known + [1, 1])[:3]), len(known))
    except ValueError:  # the 31st of February
        return None


def timeline_of(texts: Sequence[str], shares: np.ndarray, lengths: np.ndarray) -> Timeline | None:
    """Shares of the words of the documents in each year, month or day; None where fewer than two of those have any."""
    begins = {place: begin for place, text in enumerate(texts) if (begin := begin_of(text))}
    known = _precision([begin.precision for begin in begins.values()])
    begins = {place: begin for place, begin in begins.items() if begin.precision >= known}
    if not begins:
        return None
    unit, numbers, label = _bins([begin.day for begin in begins.values()], known)
    first, count = min(numbers), max(numbers) - min(numbers) + 1
    if count < 2:
        return None
    bins, places = np.asarray(numbers) - first, list(begins)
    weights = np.asarray(lengths, float)[places]
    sums = np.zeros((count, shares.shape[1]))
    np.add.at(sums, bins, weights[:, None] * shares[places])
    with np.errstate(invalid="ignore", divide="ignore"):
        found = sums / np.bincount(bins, weights, count)[:, None]
    labels = tuple(label(first + i) for i in range(count))
    return Timeline(unit, labels, tuple(np.bincount(bins, minlength=count).tolist()), found)


def _precision(known: list[int]) -> int:
    """As fine as nine tenths of the dates are: a few that name only a year do not make all of them years."""
    return next((p for p in (3, 2) if known and sum(k >= p for k in known) >= MOSTLY * len(known)), 1)


def _bins(days: list[date], known: int) -> tuple[str, list[int], Callable[[int], str]]:
    """The unit, the number of the bin of each, and what a bin is called."""
    if known == 3 and (max(days) - min(days)).days < DAY_BINS:
        return "day", [day.toordinal() for day in days], lambda n: date.fromordinal(n).isoformat()
    months = [12 * day.year + day.month - 1 for day in days]
    if known >= 2 and max(months) - min(months) < MONTH_BINS:
        return "month", months, lambda n: f"{n // 12:04d}-{n % 12 + 1:02d}"
    years = [day.year for day in days]
    width = next(width for width in YEAR_WIDTHS if max(years) // width - min(years) // width < MOST_BINS)
    if width == 1:
        return "year", years, lambda n: f"{n:04d}"
    return (
        f"{width} years",
        [year // width for year in years],
        lambda n: f"{n * width:04d} to {(n + 1) * width - 1:04d}",
    )
