"""What the script of the page reads: words, documents and dates as one line of compact JSON."""

import json
import math
from typing import Any, NamedTuple

from markupsafe import Markup

from ergodica.lda.report.content import Content, PageTopic
from ergodica.lda.report.documents import PageDocument
from ergodica.lda.report.words import PageWord
from ergodica.pages import clipped

# "<" could close the element; the line separators are no JSON to old browsers
UNSAFE_CHARACTERS = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class DetailLevel(NamedTuple):
    """How much of a topic and of a document is put into a page."""

    listed: int  # words of a topic in the list
    candidates: int  # words of a topic for the slider
    typical: int  # documents of a topic
    documents: int  # for the search
    opening: int  # characters of a document


def data_of(content: Content, level: DetailLevel) -> Markup:
    """The data, safe inside a script element."""
    words = _Numbered()
    topics = [_topic(topic, content, words, level) for topic in content.topics]
    kept = _kept(content, level)
    places = {place: row for row, place in enumerate(kept)}
    for row, topic in zip(topics, content.topics, strict=True):
        row["d"] = [[places[place], _short(share)] for place, share in topic.typical[: level.typical]]
    timeline = content.timeline
    data = {
        "words": list(words.words), "frequencies": [_short(p) for p in words.words.values()], "topics": topics,
        "documents": [_document(content.documents[place], level) for place in kept],
        "timeline": timeline and {"unit": timeline.unit, "labels": timeline.labels, "documents": timeline.documents},
    }  # fmt: skip
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup("".join(UNSAFE_CHARACTERS.get(c, c) for c in text))


class _Numbered:
    """Words with their frequency, each once, numbered as they come."""

    def __init__(self):
        self.words: dict[str, float] = {}
        self._numbers: dict[int, int] = {}

    def number(self, word: PageWord) -> int:
        if word.place not in self._numbers:
            self._numbers[word.place] = len(self._numbers)
            # two words that are cut to the same beginning are two words
            text = word.word if word.word not in self.words else f"{word.word} ({word.place})"
            self.words[text] = word.frequency
        return self._numbers[word.place]


def _topic(topic: PageTopic, content: Content, words: _Numbered, level: DetailLevel) -> dict[str, Any]:
    own = _spread(topic.words, level.candidates)
    row: dict[str, Any] = {
        "n": topic.number, "s": _short(topic.share), "c": _short(topic.npmi), "w": [words.number(word) for word in own],
        "p": [_short(word.probability) for word in own],
    }  # fmt: skip
    if content.has_bands:
        row |= {"l": [_short(word.low) for word in own], "h": [_short(word.high) for word in own]}
    if content.timeline is not None:
        row["t"] = [_short(float(share), 2) for share in content.timeline.shares[:, topic.number]]
    return row


def _spread(words: tuple[PageWord, ...], count: int) -> list[PageWord]:
    """The likeliest half of so many words, and of the others those that are the most particular to the topic."""
    if len(words) <= count:
        return list(words)
    first, others = words[: (count + 1) // 2], words[(count + 1) // 2 :]
    particular = sorted(others, key=lambda word: -word.probability / max(word.frequency, 1e-12))[: count // 2]
    return sorted([*first, *particular], key=lambda word: (-word.probability, word.place))


def _kept(content: Content, level: DetailLevel) -> list[int]:
    """Documents that are typical of a topic, and the first of the others, up to the level's number."""
    needed = {place for topic in content.topics for place, _ in topic.typical[: level.typical]}
    others = [place for place in range(len(content.documents)) if place not in needed]
    return sorted([*needed, *others[: max(0, level.documents - len(needed))]])


def _document(document: PageDocument, level: DetailLevel) -> list[Any]:
    parts = [figure for k, share in document.parts for figure in (k, _short(share, 2))]
    opening = clipped(document.opening, level.opening)
    return [document.title, document.id, document.url, document.date, opening, parts]


def _short(value: float, digits: int = 3) -> float | None:
    """A number in as few characters as its digits take: 0.0123, and 0 rather than 0.0."""
    if not math.isfinite(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded == int(rounded) else rounded
