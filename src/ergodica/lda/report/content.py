"""What the page shows, as plain data: everything that is capped is capped here."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergodica.lda.fitted import Fitted
from ergodica.lda.topics import Topic, band_words, topics_of
from ergodica.lda.training import Row
from ergodica.output.page_text import clipped

TOPICS = 1000  # in the list; the map has fewer
MAP_TOPICS = 100
SEARCHED = 30  # words of a topic that the filter knows
WORD = 30  # characters
DOCUMENTS, PARTS, BEGINNING = 12, 6, 320  # documents, topics named in each, characters of their text
ROWS, CELL = 300, 300  # of the settings


@dataclass(frozen=True)
class Document:
    """How a document begins, its largest topics with their shares, and the share of the others."""

    text: str
    parts: tuple[tuple[int, float], ...]
    rest: float


@dataclass(frozen=True)
class Content:
    """All of the page. `topics` by falling share; `mapped` is phi of the first of them, (V, at most MAP_TOPICS)."""

    topics: tuple[Topic, ...]
    total_topics: int
    words: int
    draws: int
    documents: int
    band: str
    perplexity: dict[str, float]
    held_out: int
    sampler: str
    preset: str
    seconds: float
    history: dict[str, np.ndarray]
    samples: tuple[Document, ...]
    total_samples: int
    mapped: np.ndarray
    settings: tuple[tuple[str, str], ...]


def gather(fitted: Fitted) -> Content:
    """What is worth showing of a run."""
    figures, shares = fitted.figures, fitted.topic_shares()
    order = np.argsort(-shares, kind="stable") if shares is not None else np.arange(figures["topics"])
    topics = topics_of(fitted.mean, list(fitted.draws.values()), shares, fitted.vocabulary, SEARCHED)
    held = figures["held_out"]
    return Content(
        topics=tuple(_shown(topics[k]) for k in order[:TOPICS]),
        total_topics=figures["topics"],
        words=figures["words"],
        draws=len(fitted.draws),
        documents=figures["documents"],
        band=band_words(figures["band"], float(figures["noise_ratio"])) if len(fitted.draws) > 1 else "",
        perplexity=_perplexity(held),
        held_out=0 if held is None else held["documents"],
        sampler=clipped(figures["sampler"], 60),
        preset=clipped(figures["preset"], 60),
        seconds=sum(float(seconds) for seconds in figures["seconds"].values()),
        history=_history(fitted.history),
        samples=tuple(_document(sample) for sample in fitted.samples[:DOCUMENTS]),
        total_samples=len(fitted.samples),
        mapped=fitted.mean[:, order[:MAP_TOPICS]],
        settings=_settings(figures),
    )


def _shown(topic: Topic) -> Topic:
    return topic._replace(words=[word._replace(word=clipped(word.word, WORD)) for word in topic.words])


def _perplexity(held: dict[str, Any] | None) -> dict[str, float]:
    own = {} if held is None else held["perplexity"] | {"unigram": held["unigram_perplexity"]}
    figures = {name: float(own.get(name, math.nan)) for name in ("single", "averaged", "unigram")}
    return {name: figure if math.isfinite(figure) else math.nan for name, figure in figures.items()}


def _history(rows: list[Row]) -> dict[str, np.ndarray]:
    columns = np.asarray(rows, float).reshape(-1, len(Row._fields)).T
    return dict(zip(Row._fields, columns, strict=True))


def _document(sample: dict[str, Any]) -> Document:
    shares = np.asarray(sample["shares"], float)
    order = np.argsort(-shares, kind="stable")[:PARTS]
    parts = tuple((int(k), float(shares[k])) for k in order if shares[k] >= 0.01)
    text = clipped(" ".join(sample["words"]), BEGINNING)
    return Document(text, parts, max(0.0, 1 - sum(share for _, share in parts)))


def _settings(figures: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    names = ("sampler", "preset", "seed", "settings", "seconds", "noise_ratio", "held_out", "versions")
    rows = [row for name in names if name in figures for row in _flat(name, figures[name])]
    shown = [(clipped(name, CELL), clipped(value, CELL)) for name, value in rows[:ROWS]]
    if len(rows) > ROWS:
        shown.append(("…", f"{len(rows) - ROWS:,} more in run.json"))
    return tuple(shown)


def _flat(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [row for key, inner in value.items() for row in _flat(f"{name}.{key}", inner)]
    return [(name, value if isinstance(value, str) else str(value))]
