"""The sample documents on the page, which of them are typical of a topic, and topic shares over time by their dates."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from ergodica.pages import DIRECTION_MARKS, clipped

TITLE_LENGTH, OPENING_LENGTH, URL_LENGTH = 120, 300, 1000  # characters
MOST_DOCUMENTS, MOST_PARTS = 2000, 5  # topics named of a document
LEAST_PART = 0.02
MOST_TYPICAL, LEAST_TYPICAL = 8, 0.1  # documents of a topic, and the share of their words that it has
WILSON_DEVIATIONS = 2.0
DATE_PATTERN = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?(?!\d)", re.ASCII)
MOST_BINS = 60
DAY_BINS, MONTH_BINS = 45, 36  # up to which days and months are drawn one by one
MOSTLY = 0.9
YEAR_WIDTHS = (1, 2, 5, 10, 20, 50, 100, 200)


class PageDocument(NamedTuple):
    """A document with what is known of it, "" where nothing is; `parts`: its largest topics with their shares."""

    title: str
    id: str
    url: str
    date: str
    opening: str
    parts: tuple[tuple[int, float], ...]


def documents_of(documents: Sequence[dict[str, Any]], shares: np.ndarray) -> tuple[PageDocument, ...]:
    rows = zip(documents[:MOST_DOCUMENTS], shares, strict=False)
    return tuple(_document(number, document, row) for number, (document, row) in enumerate(rows, 1))


def _document(number: int, document: dict[str, Any], shares: np.ndarray) -> PageDocument:
    order = np.argsort(-shares, kind="stable")[:MOST_PARTS]
    parts = tuple((int(k), float(shares[k])) for k in order if shares[k] >= LEAST_PART)
    name = _text(document, "id")
    title = _text(document, "title") or name or f"Document {number:,}"
    begin = begin_of(document.get("date", ""))
    opening = clipped(" ".join(document.get("words", ())), OPENING_LENGTH)
    url, day = safe_url(document.get("url", "")), "" if begin is None else begin.text
    return PageDocument(title, "" if name == title else name, url, day, opening, parts)


def _text(document: dict[str, Any], name: str) -> str:
    return clipped(str(document.get(name) or ""), TITLE_LENGTH)


def safe_url(text: str) -> str:
    """A link that opens a page of the web; "" for any other: javascript:, data:, file:, or what is no address."""
    if not isinstance(text, str) or not 0 < len(text) <= URL_LENGTH:
        return ""
    if any(c in DIRECTION_MARKS or c.isspace() or unicodedata.category(c) in ("Cc", "Cf", "Cs") for c in text):
        return ""
    try:
        parts = urlsplit(text)
        return text if parts.scheme in ("http", "https") and parts.hostname else ""
    except ValueError:  # "http://["
        return ""


def typical(shares: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """(at most MOST_TYPICAL, topics): documents in which a topic is surely large, best first; -1 where there is none.

    By the lower bound of Wilson (1927) for the share of a document that is a sample of so many words: a document of two
    words does not lead a list because both are of the topic.
    """
    z, n = WILSON_DEVIATIONS, np.maximum(np.asarray(lengths, float), 1.0)[:, None]
    share = np.asarray(shares, float)
    spread = z * np.sqrt(np.maximum(share * (1 - share), 0) / n + (z / n) ** 2 / 4)
    bound = (share + z**2 / (2 * n) - spread) / (1 + z**2 / n)
    order = np.argsort(-bound, axis=0, kind="stable")[:MOST_TYPICAL]
    return np.where(np.take_along_axis(share, order, axis=0) >= LEAST_TYPICAL, order, -1)


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
