"""What the page shows, as plain data: everything that is capped is capped here."""

import math
from collections import Counter
from typing import Any, NamedTuple

import numpy as np

from ergodica.lda.perplexity import HistoryRow
from ergodica.lda.run_files import Fitted
from ergodica.lda.topics import Topic, band_words, topics_of
from ergodica.pages import clipped

MOST_TOPICS = 1000  # in the list; the map has fewer
MAP_TOPICS = 100
WORDS_SEARCHED = 30  # words of a topic that the filter knows
WORD_LENGTH = 30  # characters
COLOUR_COUNT = 6  # classes c0 ... c5 of the style sheet
MOST_DOCUMENTS, MOST_PARTS, TEXT_LENGTH = 12, 6, 320  # documents, topics named in each, characters of their text
SETTING_ROWS, SETTING_LENGTH = 300, 300  # of the settings


class SharePart(NamedTuple):
    """A topic in a document: where its part of the bar starts, its colour, its first words."""

    number: int
    start: float
    share: float
    colour: int
    words: tuple[str, ...]


class SampleDocument(NamedTuple):
    """How a document begins, its largest topics, and the share of the others."""

    text: str
    parts: tuple[SharePart, ...]
    rest: float


class Content(NamedTuple):
    """All of the page. `topics` by falling share; `mapped` is phi of the first of them, (V, at most MAP_TOPICS)."""

    figures: dict[str, Any]
    topics: tuple[Topic, ...]
    draws: int
    band: str
    perplexity: dict[str, float]
    history: dict[str, np.ndarray]
    samples: tuple[SampleDocument, ...]
    total_samples: int
    mapped: np.ndarray
    settings: tuple[tuple[str, str], ...]


def gather(fitted: Fitted) -> Content:
    """What is worth showing of a run."""
    figures, shares = fitted.figures, fitted.topic_shares()
    order = np.argsort(-shares, kind="stable") if shares is not None else np.arange(figures["topics"])
    topics = topics_of(fitted.mean, list(fitted.draws.values()), shares, fitted.vocabulary, WORDS_SEARCHED)
    band = band_words(figures["band"], float(figures["noise_ratio"])) if len(fitted.draws) > 1 else ""
    samples = _documents(fitted.samples[:MOST_DOCUMENTS], topics)
    return Content(
        figures, tuple(_shown(topics[k]) for k in order[:MOST_TOPICS]), len(fitted.draws), band,
        _perplexity(figures["held_out"]), _history(fitted.history), samples, len(fitted.samples),
        fitted.mean[:, order[:MAP_TOPICS]], _settings(figures),
    )  # fmt: skip


def _shown(topic: Topic) -> Topic:
    return topic._replace(words=[word._replace(word=clipped(word.word, WORD_LENGTH)) for word in topic.words])


def _perplexity(held: dict[str, Any] | None) -> dict[str, float]:
    own = {} if held is None else held["perplexity"] | {"unigram": held["unigram_perplexity"]}
    figures = {name: float(own.get(name, math.nan)) for name in ("single", "averaged", "unigram")}
    return {name: figure if math.isfinite(figure) else math.nan for name, figure in figures.items()}


def _history(rows: list[HistoryRow]) -> dict[str, np.ndarray]:
    columns = np.asarray(rows, float).reshape(-1, len(HistoryRow._fields)).T
    return dict(zip(HistoryRow._fields, columns, strict=True))


def _documents(samples: list[dict[str, Any]], topics: list[Topic]) -> tuple[SampleDocument, ...]:
    largest = [_largest(np.asarray(sample["shares"], float)) for sample in samples]
    colours, found = _colours([list(shares) for shares in largest]), []
    for sample, shares in zip(samples, largest, strict=True):
        parts, start = [], 0.0
        for number, share in shares.items():
            words = tuple(word.word for word in topics[number].words[:2])
            parts.append(SharePart(number, start, share, colours[number], words))
            start += share
        text = clipped(" ".join(sample["words"]), TEXT_LENGTH)
        found.append(SampleDocument(text, tuple(parts), max(0.0, 1 - start)))
    return tuple(found)


def _largest(shares: np.ndarray) -> dict[int, float]:
    order = np.argsort(-shares, kind="stable")[:MOST_PARTS]
    return {int(k): float(shares[k]) for k in order if shares[k] >= 0.01}


def _colours(documents: list[list[int]]) -> dict[int, int]:
    """A colour for each topic named, the same everywhere, and where possible none twice in a document."""
    colours: dict[int, int] = {}
    for number in dict.fromkeys(number for document in documents for number in document):
        beside = set().union(*(document for document in documents if number in document))
        taken, used = Counter(colours.get(other) for other in beside), Counter(colours.values())
        colours[number] = min(range(COLOUR_COUNT), key=lambda colour: (taken[colour], used[colour], colour))
    return colours


def _settings(figures: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    names = ("sampler", "preset", "seed", "settings", "seconds", "noise_ratio", "held_out", "versions")
    rows = [row for name in names if name in figures for row in _flat(name, figures[name])]
    shown = [(clipped(name, SETTING_LENGTH), clipped(value, SETTING_LENGTH)) for name, value in rows[:SETTING_ROWS]]
    if len(rows) > SETTING_ROWS:
        shown.append(("…", f"{len(rows) - SETTING_ROWS:,} more in run.json"))
    return tuple(shown)


def _flat(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [row for key, inner in value.items() for row in _flat(f"{name}.{key}", inner)]
    return [(name, value if isinstance(value, str) else str(value))]
