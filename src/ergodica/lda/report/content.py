"""What the page shows, as plain data: everything that is capped is capped here."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ergodica.errors import InputError
from ergodica.lda.report.folder import Run, Sample
from ergodica.lda.report.text import clipped, number

LOW, HIGH = 0.05, 0.95
TOPICS = 1000  # in the list; the map has fewer
MAP_TOPICS = 100
SEARCHED = 30  # words of a topic that the filter knows
WORD = 30  # characters
DOCUMENTS, PARTS, BEGINNING = 12, 6, 320  # documents, topics named in each, characters of their text
ROWS, CELL = 300, 300  # of the settings


@dataclass(frozen=True)
class Word:
    """A word of a topic: its probability, and the band of that over the draws."""

    text: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Topic:
    """A topic; `share` is NaN where no documents tell it."""

    number: int
    share: float
    words: tuple[Word, ...]

    def label(self, words: int) -> str:
        return ", ".join(word.text for word in self.words[:words])


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
    documents: int | None
    band: str
    perplexity: dict[str, float]
    held_out: int | None
    sampler: str
    preset: str
    seconds: float | None
    history: dict[str, np.ndarray]
    samples: tuple[Document, ...]
    total_samples: int
    has_texts: bool
    mapped: np.ndarray
    settings: tuple[tuple[str, str], ...]


def gather(run: Run) -> Content:
    """What is worth showing of a run."""
    facts, held, shares = run.facts, _object(run.facts, "held_out"), run.shares
    order = np.argsort(-shares, kind="stable") if shares is not None else np.arange(facts["topics"])
    listed = order[:TOPICS]
    return Content(
        topics=tuple(_topic(run, int(k), math.nan if shares is None else float(shares[k])) for k in listed),
        total_topics=facts["topics"],
        words=facts["words"],
        draws=len(run.draws),
        documents=_count(facts, "documents"),
        band=_band(facts, len(run.draws)),
        perplexity=_perplexity(held),
        held_out=_count(held, "documents"),
        sampler=clipped(str(facts.get("sampler", "unknown")), 60),
        preset=clipped(str(facts.get("preset", "unknown")), 60),
        seconds=_seconds(facts),
        history=run.history,
        samples=tuple(_document(sample) for sample in run.samples[:DOCUMENTS]),
        total_samples=len(run.samples),
        has_texts=all(sample.is_text for sample in run.samples),
        mapped=run.phi[:, order[:MAP_TOPICS]],
        settings=_settings(facts),
    )


def _object(facts: dict[str, Any], name: str) -> dict[str, Any]:
    value = facts.get(name)
    if value is not None and not isinstance(value, dict):
        raise InputError(f"run.json has {clipped(repr(value), 40)} as {name}: expected an object")
    return value or {}


def _number(facts: dict[str, Any], name: str) -> float:
    value = facts.get(name)
    if value in ("nan", "inf", "-inf"):  # JSON has no such numbers
        return math.nan
    if value is not None and (not isinstance(value, int | float) or isinstance(value, bool)):
        raise InputError(f"run.json has {clipped(repr(value), 40)} as {name}: expected a number")
    return math.nan if value is None or not math.isfinite(value) else float(value)


def _count(facts: dict[str, Any], name: str) -> int | None:
    value = _number(facts, name)
    return None if math.isnan(value) else int(value)


def _perplexity(held: dict[str, Any]) -> dict[str, float]:
    own = _object(held, "perplexity")
    return {
        "single": _number(own, "single"),
        "averaged": _number(own, "averaged"),
        "unigram": _number(held, "unigram_perplexity"),
    }


def _seconds(facts: dict[str, Any]) -> float | None:
    parts = _object(facts, "seconds")
    if "total" in parts:
        value = _number(parts, "total")
    else:
        value = sum((_number(parts, name) for name in parts), start=0.0) if parts else math.nan
    return None if math.isnan(value) else value


def _band(facts: dict[str, Any], draws: int) -> str:
    if draws < 2:
        return ""
    ratio = _number(facts, "noise_ratio")
    if facts.get("band") == "posterior interval":
        return "posterior interval"
    if math.isnan(ratio):
        return "sampler spread (not a posterior interval)"
    if ratio < 1:
        return f"sampler spread (gradient noise is {ratio:.2g} of the injected noise)"
    return f"sampler spread (gradient noise exceeds injected noise {number(ratio)} times)"


def _topic(run: Run, k: int, share: float) -> Topic:
    column = run.phi[:, k]
    top = np.argpartition(-column, min(SEARCHED, len(column)) - 1)[:SEARCHED]
    top = top[np.lexsort((top, -column[top]))]
    means = column[top]
    low, high = np.quantile(run.draws[:, top, k], [LOW, HIGH], axis=0) if len(run.draws) > 1 else (means, means)
    figures = zip(top, means, low, high, strict=True)
    return Topic(k, share, tuple(Word(_word(run, i), float(m), float(a), float(b)) for i, m, a, b in figures))


def _word(run: Run, number: int) -> str:
    return clipped(run.vocabulary[number], WORD)


def _document(sample: Sample) -> Document:
    order = np.argsort(-sample.shares, kind="stable")[:PARTS]
    parts = tuple((int(k), float(sample.shares[k])) for k in order if sample.shares[k] >= 0.01)
    return Document(clipped(sample.text, BEGINNING), parts, max(0.0, 1 - sum(share for _, share in parts)))


def _settings(facts: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    names = ("sampler", "preset", "seed", "settings", "seconds", "noise_ratio", "held_out", "versions")
    rows = [row for name in names if name in facts for row in _flat(name, facts[name])]
    shown = [(clipped(name, CELL), clipped(value, CELL)) for name, value in rows[:ROWS]]
    if len(rows) > ROWS:
        shown.append(("…", f"{len(rows) - ROWS:,} more in run.json"))
    return tuple(shown)


def _flat(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, dict):
        return [row for key, inner in value.items() for row in _flat(f"{name}.{key}", inner)]
    return [(name, value if isinstance(value, str) else str(value))]
