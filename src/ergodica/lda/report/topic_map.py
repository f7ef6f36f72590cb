"""The map of topics: circles by share, placed by Jensen-Shannon distance, with labels that can all be read."""

import math
from dataclasses import dataclass

import numpy as np

from ergodica.lda.report.content import Content
from ergodica.lda.report.layout import clear, fitted, parted
from ergodica.lda.topics import Topic
from ergodica.output.page_text import clipped, escaped, percent, width

FONT, LINE, PAD = 11.0, 12.5, 3.0
EDGE = 5
FILLED = 0.1  # of the canvas, by circles
# of the canvas, by circles with their labels: the more, the harder to push apart
LABELLED = (0.7, 0.62, 0.55, 0.5, 0.45, 0.4, 0.3)
SMALLEST, LARGEST = 2.5, 70.0  # radius
ISOLATED = "\u2068{}\u2069"  # so that a right-to-left word turns nothing but itself


@dataclass(frozen=True)
class Spot:
    """A circle, and the lines in it or under it."""

    topic: Topic
    x: float
    y: float
    radius: float
    lines: tuple[str, ...]
    is_labelled: bool

    @property
    def is_inside(self) -> bool:
        return _fits(self.radius, self.lines)


def map_svg(content: Content, points: np.ndarray, size: tuple[int, int], name: str) -> str:
    """The map on a canvas of this size; `points` from classical scaling, one for each mapped topic."""
    wide, high = size
    spots = _spots(content.topics[: len(points)], points, wide - 2 * EDGE, high - 2 * EDGE)
    drawn = "\n".join(_circle(spot) for spot in spots)
    box = f"{-EDGE} {-EDGE} {wide} {high}"
    return f'<svg class="map {name}" viewBox="{box}" role="group" aria-label="Map of topics">\n{drawn}\n</svg>'


def _spots(topics: tuple[Topic, ...], points: np.ndarray, wide: int, high: int) -> list[Spot]:
    lines = [_lines(topic) for topic in topics]
    radii = _radii(topics, wide * high)
    full = np.asarray([_half(r, text) for r, text in zip(radii, lines, strict=True)])
    areas = np.cumsum(4 * full.prod(axis=1)) / (wide * high)
    start, tried = fitted(points, wide, high), []
    for part in LABELLED:
        has_room = areas <= part
        tried.append(_placed(start, radii, full, has_room, wide, high))
        if _labels(tried[-1]) == has_room.sum():
            break
    places, has_label = max(tried, key=_labels)
    return [
        Spot(topic, x, y, r, text, bool(has))
        for topic, (x, y), r, text, has in zip(topics, places, radii, lines, has_label, strict=True)
    ]


def _placed(
    start: np.ndarray, radii: np.ndarray, full: np.ndarray, has_room: np.ndarray, wide: int, high: int
) -> tuple[np.ndarray, np.ndarray]:
    """Centres of the circles, and which of them have a label that overlaps nothing."""
    halves = np.where(has_room[:, None], full, radii[:, None] + 1)
    centres = parted(start, halves, wide, high)
    places = np.column_stack([centres[:, 0], centres[:, 1] - halves[:, 1] + radii + 1])
    circles = np.column_stack([places, radii, radii])
    has_label = np.zeros(len(radii), bool)
    has_label[has_room] = clear(np.hstack([centres, halves]), circles)[has_room]
    return places, has_label


def _labels(placed: tuple[np.ndarray, np.ndarray]) -> int:
    return int(placed[1].sum())


def _lines(topic: Topic) -> tuple[str, ...]:
    """The number with the top word, and the second one; a third where it is short enough to stand beside it."""
    first, *others = [clipped(word.word, 16) for word in topic.words[:3]] or [""]
    if len(others) == 2 and len(others[0]) + len(others[1]) <= 10:
        others = [f"{ISOLATED.format(others[0])}, {ISOLATED.format(others[1])}"]
    else:
        others = [ISOLATED.format(word) for word in others[:1]]
    return (f"{topic.number} {ISOLATED.format(first)}", *others)


def _radii(topics: tuple[Topic, ...], canvas: float) -> np.ndarray:
    shares = np.asarray([1.0 if math.isnan(topic.share) else topic.share for topic in topics])
    total = max(float(shares.sum()), 1e-12)
    return np.clip(np.sqrt(shares / total * FILLED * canvas / np.pi), SMALLEST, LARGEST)


def _across(lines: tuple[str, ...]) -> float:
    return max(width(line.replace("\u2068", "").replace("\u2069", ""), FONT) for line in lines)


def _fits(radius: float, lines: tuple[str, ...]) -> bool:
    return _across(lines) <= 1.8 * radius and LINE * len(lines) <= 0.8 * radius


def _half(radius: float, lines: tuple[str, ...]) -> tuple[float, float]:
    if _fits(radius, lines):
        return radius + 1, radius + 1
    return max(2 * radius, _across(lines)) / 2 + PAD, (2 * radius + LINE * len(lines)) / 2 + PAD


def _circle(spot: Spot) -> str:
    topic, x = spot.topic, f"{spot.x:.1f}"
    share = "" if math.isnan(topic.share) else f", {percent(topic.share)}"
    words = ", ".join(word.word for word in topic.words[:6])
    title = escaped(f"Topic {topic.number}{share}: {words}")
    foot = LINE * -len(spot.lines) / 2 if spot.is_inside else spot.radius
    text = "".join(
        f'<text x="{x}" y="{spot.y + foot + LINE * (line + 0.85):.1f}">{escaped(text)}</text>'
        for line, text in enumerate(spot.lines)
    )
    where = (" inside" if spot.is_inside else "") + ("" if spot.is_labelled else " crowded")
    return (
        f'<g class="spot{where}" data-topic="{topic.number}" tabindex="0" role="button" aria-label="{title}">'
        f'<title>{title}</title><circle cx="{x}" cy="{spot.y:.1f}" r="{spot.radius:.1f}"/>{text}</g>'
    )
