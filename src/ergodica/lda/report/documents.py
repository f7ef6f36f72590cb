"""The sample documents on the page, and which of them are typical of a topic."""

import unicodedata
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np

from ergodica.lda.report.timeline import begin_of
from ergodica.pages import DIRECTION_MARKS, clipped

TITLE_LENGTH, OPENING_LENGTH, URL_LENGTH = 120, 300, 1000  # characters
MOST_DOCUMENTS, MOST_PARTS = 2000, 5  # topics named of a document
LEAST_PART = 0.02
MOST_TYPICAL, LEAST_TYPICAL = 8, 0.1  # documents of a topic, and the share of their words that it has
WILSON_DEVIATIONS = 2.0


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
