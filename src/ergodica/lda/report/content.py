"""What the page shows, as plain data: everything that is capped is capped here, and whatever a run lacks is empty.

The script of the page reads words, documents and dates as one line of compact JSON (`data_of`).
"""

import json
import math
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from ergodica.lda.perplexity import HistoryRow
from ergodica.lda.report.documents import PageDocument, Timeline, documents_of, timeline_of, typical
from ergodica.lda.report.words import PageWord, overall_frequencies, words_of
from ergodica.lda.run_files import Fitted
from ergodica.lda.topics import POSTERIOR_BAND, SPREAD_BAND, band_words
from ergodica.pages import clipped, number, percent

MOST_TOPICS = 1000  # in the list; the map has fewer
MAP_TOPICS = 100
NOTE_LENGTH, MOST_NOTES = 600, 200  # of warnings and checks
SETTING_ROWS, SETTING_LENGTH = 300, 300  # of the settings
SETTING_NAMES = (
    "sampler", "preset", "seed", "settings", "seconds", "noise_ratio", "held_out", "effective_draws", "scale_check",
    "outside", "versions",
)  # fmt: skip
NO_BANDS = (
    "No bands: this is the averaged-count estimate, an optimiser's answer. "
    "`ergodica lda fit ... --bands` samples from here."
)
# "<" could close the element; the line separators are no JSON to old browsers
UNSAFE_CHARACTERS = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


class PageTopic(NamedTuple):
    """A topic: its share and coherence (NaN: unknown), words by falling probability, typical documents with shares."""

    number: int
    share: float
    npmi: float
    words: tuple[PageWord, ...]
    typical: tuple[tuple[int, float], ...]


class CheckLine(NamedTuple):
    """A question, whether the answer is good (None: it was not looked at), and what was seen."""

    name: str
    passed: bool | None
    text: str


class Content(NamedTuple):
    """All of the page. `topics` by falling share; `mapped` is phi of the first of them, (V, at most MAP_TOPICS)."""

    figures: dict[str, Any]
    topics: tuple[PageTopic, ...]
    has_bands: bool
    band: str
    perplexity: dict[str, float]
    history: dict[str, np.ndarray]
    documents: tuple[PageDocument, ...]
    timeline: Timeline | None
    coherence_documents: int
    mapped: np.ndarray
    warnings: tuple[str, ...]
    checks: tuple[CheckLine, ...]
    settings: tuple[tuple[str, str], ...]


def gather(fitted: Fitted) -> Content:
    """What is worth showing of a run."""
    figures, shares = fitted.figures, fitted.topic_shares()
    order = np.argsort(-shares, kind="stable") if shares is not None else np.arange(figures["topics"])
    documents = documents_of(fitted.documents, fitted.shares)
    rows, lengths = fitted.shares[: len(documents)], fitted.lengths[: len(documents)]
    coherence = figures.get("coherence") or {}
    return Content(
        figures, _topics(fitted, order[:MOST_TOPICS], shares, typical(rows, lengths)),
        len(fitted.draws) > 1, _band(fitted), _perplexity(figures.get("held_out"), bool(fitted.draws)),
        _history(fitted.history), documents,
        timeline_of([document.date for document in documents], rows, lengths), int(coherence.get("documents") or 0),
        fitted.mean[:, order[:MAP_TOPICS]], _warnings(figures), _checks(figures), _settings(figures),
    )  # fmt: skip


def _topics(fitted: Fitted, order: np.ndarray, shares: np.ndarray | None, leading: np.ndarray) -> tuple[PageTopic, ...]:
    npmi = _npmi(fitted.figures)
    words = words_of(fitted, order.tolist(), overall_frequencies(fitted, shares))
    return tuple(
        PageTopic(
            k, math.nan if shares is None else float(shares[k]), npmi[k], own,
            tuple((int(place), float(fitted.shares[place, k])) for place in leading[:, k] if place >= 0),
        )
        for k, own in zip(order.tolist(), words, strict=True)
    )  # fmt: skip


def _npmi(figures: dict[str, Any]) -> list[float]:
    found = [as_figure(value) for value in (figures.get("coherence") or {}).get("npmi") or ()]
    return found if len(found) == figures["topics"] else [math.nan] * figures["topics"]


def as_figure(value: Any) -> float:
    """A finite number, or NaN for whatever is none."""
    try:
        figure = float(value)
    except (TypeError, ValueError):
        return math.nan
    return figure if math.isfinite(figure) else math.nan


def _band(fitted: Fitted) -> str:
    """What the bands are, in a sentence, or why there are none."""
    figures, kind, draws = fitted.figures, fitted.figures.get("band"), len(fitted.draws)
    if draws == 0:
        return NO_BANDS if fitted.found is not None else "No bands: the run kept no draws."
    if draws == 1:
        return "No bands: the run kept one draw, which has no spread."
    if kind in (POSTERIOR_BAND, SPREAD_BAND):
        what = band_words(kind, as_figure(figures.get("noise_ratio")))
    else:
        what = "bands are not a posterior's: they say how far the draws spread, and no more"
    return f"Lines: 5 to 95 % over {draws:,} draws; {what}."


def _perplexity(held: dict[str, Any] | None, has_draws: bool) -> dict[str, float]:
    held = held or {}
    own = (held.get("perplexity") or {}) | {
        "found": held.get("found_perplexity"),
        "unigram": held.get("unigram_perplexity"),
    }
    if not has_draws and "found" in own and own["found"] is not None:
        own |= {"averaged": None, "single": None}  # they are the estimate's
    return {name: as_figure(own.get(name)) for name in ("averaged", "single", "found", "unigram")}


def _history(rows: list[HistoryRow]) -> dict[str, np.ndarray]:
    columns = np.asarray(rows, float).reshape(-1, len(HistoryRow._fields)).T
    return dict(zip(HistoryRow._fields, columns, strict=True))


def _warnings(figures: dict[str, Any]) -> tuple[str, ...]:
    return tuple(clipped(str(text), NOTE_LENGTH) for text in (figures.get("warnings") or ())[:MOST_NOTES])


def _checks(figures: dict[str, Any]) -> tuple[CheckLine, ...]:
    """As the run lists them, and the figures that say how far its bands are to be trusted."""
    listed = [
        CheckLine(
            clipped(str(check.get("name", "")), NOTE_LENGTH), check.get("passed"),
            clipped(str(check.get("text", "")), NOTE_LENGTH),
        )
        for check in (figures.get("checks") or ())[:MOST_NOTES]
    ]  # fmt: skip
    return tuple(listed)


def band_figures(figures: dict[str, Any]) -> tuple[str, ...]:
    """How far the bands are to be trusted, in sentences; empty where nothing was measured."""
    effective, outside = as_figure(figures.get("effective_draws")), as_figure(figures.get("outside"))
    found = []
    if not math.isnan(effective):
        found.append(f"The draws are worth {number(effective)} independent ones.")
    if not math.isnan(outside):
        found.append(f"Of the words, {percent(outside)} have a found value outside their band.")
    return tuple(found)


def _settings(figures: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    rows = [row for name in SETTING_NAMES if figures.get(name) is not None for row in _flat(name, figures[name])]
    shown = [(clipped(name, SETTING_LENGTH), clipped(value, SETTING_LENGTH)) for name, value in rows[:SETTING_ROWS]]
    if len(rows) > SETTING_ROWS:
        shown.append(("…", f"{len(rows) - SETTING_ROWS:,} more in run.json"))
    return tuple(shown)


def _flat(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [row for key, inner in value.items() for row in _flat(f"{name}.{key}", inner)]
    return [(name, value if isinstance(value, str) else str(value))]


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
