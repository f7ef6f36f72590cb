"""The map of topics: circles by share, placed by Jensen-Shannon distance, with labels that can all be read."""

import math
from dataclasses import dataclass

import numpy as np

from ergodica.lda.report.content import Content, PageTopic
from ergodica.pages import clipped, width

MOST_LOGARITHMS = 50_000_000  # that the distances may cost: half a second
MOST_ROUNDS = 600
FONT_SIZE, LINE_HEIGHT, LABEL_PAD = 11.0, 12.5, 3.0
MAP_EDGE = 5
FILLED_SHARE = 0.1  # of the canvas, by circles
# of the canvas, by circles with their labels: the more, the harder to push apart
LABELLED_SHARES = (0.7, 0.62, 0.55, 0.5, 0.45, 0.4, 0.3)
SMALLEST_RADIUS, LARGEST_RADIUS = 2.5, 70.0  # radius
ISOLATED_TEXT = "\u2068{}\u2069"  # so that a right-to-left word turns nothing but itself


@dataclass(frozen=True)
class TopicSpot:
    """A circle, and the lines in it or under it."""

    topic: PageTopic
    x: float
    y: float
    radius: float
    lines: tuple[str, ...]
    is_labelled: bool

    @property
    def is_inside(self) -> bool:
        return _fits(self.radius, self.lines)

    def text_places(self) -> list[tuple[str, float]]:
        """The lines, each with the height of its foot."""
        top = self.y + (LINE_HEIGHT * -len(self.lines) / 2 if self.is_inside else self.radius)
        return [(text, top + LINE_HEIGHT * (line + 0.85)) for line, text in enumerate(self.lines)]


@dataclass(frozen=True)
class TopicMap:
    """Circles on a canvas; `box`: as SVG's viewBox."""

    name: str
    box: str
    spots: list[TopicSpot]


def map_of(content: Content, size: tuple[int, int], name: str) -> TopicMap:
    """The map on a canvas of this size in pixels, of the largest topics."""
    wide, high = size
    points = scaled(distances(content.mapped))
    spots = spots_of(content.topics[: len(points)], points, wide - 2 * MAP_EDGE, high - 2 * MAP_EDGE)
    return TopicMap(name, f"{-MAP_EDGE} {-MAP_EDGE} {wide} {high}", spots)


def spots_of(topics: tuple[PageTopic, ...], points: np.ndarray, wide: int, high: int) -> list[TopicSpot]:
    lines = [_lines(topic) for topic in topics]
    radii = _radii(topics, wide * high)
    full = np.asarray([_half(r, text) for r, text in zip(radii, lines, strict=True)])
    areas = np.cumsum(4 * full.prod(axis=1)) / (wide * high)
    start, tried = fitted(points, wide, high), []
    for part in LABELLED_SHARES:
        has_room = areas <= part
        tried.append(_placed(start, radii, full, has_room, wide, high))
        if _labels(tried[-1]) == has_room.sum():
            break
    places, has_label = max(tried, key=_labels)
    return [
        TopicSpot(topic, x, y, r, text, bool(has))
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


def _lines(topic: PageTopic) -> tuple[str, ...]:
    """The number with the top word, and the second one; a third where it is short enough to stand beside it."""
    first, *others = [clipped(word.word, 16) for word in topic.words[:3]] or [""]
    if len(others) == 2 and len(others[0]) + len(others[1]) <= 10:
        others = [f"{ISOLATED_TEXT.format(others[0])}, {ISOLATED_TEXT.format(others[1])}"]
    else:
        others = [ISOLATED_TEXT.format(word) for word in others[:1]]
    return (f"{topic.number} {ISOLATED_TEXT.format(first)}", *others)


def _radii(topics: tuple[PageTopic, ...], canvas: float) -> np.ndarray:
    shares = np.asarray([1.0 if math.isnan(topic.share) else topic.share for topic in topics])
    total = max(float(shares.sum()), 1e-12)
    return np.clip(np.sqrt(shares / total * FILLED_SHARE * canvas / np.pi), SMALLEST_RADIUS, LARGEST_RADIUS)


def _across(lines: tuple[str, ...]) -> float:
    return max(width(line.replace("\u2068", "").replace("\u2069", ""), FONT_SIZE) for line in lines)


def _fits(radius: float, lines: tuple[str, ...]) -> bool:
    return _across(lines) <= 1.8 * radius and LINE_HEIGHT * len(lines) <= 0.8 * radius


def _half(radius: float, lines: tuple[str, ...]) -> tuple[float, float]:
    if _fits(radius, lines):
        return radius + 1, radius + 1
    return max(2 * radius, _across(lines)) / 2 + LABEL_PAD, (2 * radius + LINE_HEIGHT * len(lines)) / 2 + LABEL_PAD


def distances(phi: np.ndarray) -> np.ndarray:
    """Jensen-Shannon distances (K, K) between the columns of phi (V, K): roots of H(mean) - mean of H, in nats.

    Where all words would cost too much, those that are rare in every topic are counted as one word: by the
    data-processing inequality no distance grows by that.
    """
    topics = _merged(phi, MOST_LOGARITHMS // max(1, phi.shape[1] ** 2)).T
    own = _entropy(topics)
    squares = np.stack([_entropy((topics + topic) / 2) - (own + h) / 2 for topic, h in zip(topics, own, strict=True)])
    return np.sqrt(np.maximum((squares + squares.T) / 2, 0.0))


def _merged(phi: np.ndarray, words: int) -> np.ndarray:
    if len(phi) <= words:
        return phi.astype(float)
    kept = np.argsort(-phi.max(axis=1), kind="stable")[:words]
    frequent = phi[kept].astype(float)
    return np.vstack([frequent, np.maximum(1 - frequent.sum(axis=0), 0.0)])


def _entropy(topics: np.ndarray) -> np.ndarray:
    logarithms = np.log(topics, out=np.zeros_like(topics), where=topics > 0)
    return -np.einsum("kv,kv->k", topics, logarithms)


def scaled(distance: np.ndarray) -> np.ndarray:
    """Classical scaling: points (K, 2) whose inner products fit -J D² J / 2 best, J taking means off.

    The Jensen-Shannon distance embeds in a Hilbert space, so that no eigenvalue is negative but for rounding.
    """
    squares = distance**2
    centred = squares - squares.mean(axis=0) - squares.mean(axis=1)[:, None] + squares.mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    points = np.zeros((len(distance), 2))
    for axis in range(min(2, len(distance))):
        vector = vectors[:, -1 - axis]
        sign = np.sign(vector[np.argmax(np.abs(vector))]) or 1.0  # eigenvectors have no sign of their own
        points[:, axis] = sign * vector * np.sqrt(max(values[-1 - axis], 0.0))
    return points


def fitted(points: np.ndarray, width: float, height: float) -> np.ndarray:
    """Points on a canvas, the axis of the larger spread along its longer side.

    Half of a coordinate is its place among the others: most topics are about equally far from each other, which
    scaling puts into a clump with a few far outside.
    """
    if height > width:
        points = points[:, ::-1]
    extent = np.ptp(points, axis=0)
    even = np.argsort(np.argsort(points, axis=0, kind="stable"), axis=0) / max(len(points) - 1, 1)
    straight = (points - points.min(axis=0)) / np.maximum(extent, 1e-12)
    return np.where(extent > 1e-9, (even + straight) / 2, 0.5) * np.asarray([width, height])


def parted(centres: np.ndarray, halves: np.ndarray, width: float, height: float) -> np.ndarray:
    """Boxes with these centres and half sizes, pushed apart until none overlap or the rounds are over."""
    order = np.sign(np.arange(len(centres))[:, None] - np.arange(len(centres)))
    (across, down), low = halves.T, halves.T
    room_x, room_y = across[:, None] + across, down[:, None] + down
    high = np.maximum(np.asarray([[width], [height]]) - low, low)
    x, y = np.clip(centres.T, low, high)
    for turn in range(MOST_ROUNDS):
        gap_x, gap_y = x[:, None] - x, y[:, None] - y
        over_x, over_y = room_x - np.abs(gap_x), room_y - np.abs(gap_y)
        hits = (over_x > 0.01) & (over_y > 0.01) & (order != 0)
        if not hits.any():
            break
        # out by the shorter way; for ten turns of forty by the other, or boxes jam at the edges
        is_along = (over_x * room_y <= over_y * room_x) ^ (turn // 10 % 4 == 3)
        push_x = np.where(hits & is_along, over_x * np.where(gap_x == 0, order, np.sign(gap_x)), 0.0).sum(axis=1)
        push_y = np.where(hits & ~is_along, over_y * np.where(gap_y == 0, order, np.sign(gap_y)), 0.0).sum(axis=1)
        # a little more than half each, and less where many push: they would throw each other about
        force = 0.55 / np.sqrt(np.maximum(hits.sum(axis=1), 1))
        x, y = np.clip([x + force * push_x, y + force * push_y], low, high)
    return np.column_stack([x, y])


def clear(boxes: np.ndarray, circles: np.ndarray) -> np.ndarray:
    """Which boxes to keep, taken in order: those that overlap no box kept, and no circle but their own.

    Rows of boxes: x, y, half width, half height. Rows of circles: x, y, radius, radius; one for each box.
    """
    kept: list[int] = []
    for i, box in enumerate(boxes):
        others = np.vstack([boxes[kept], np.delete(circles, i, axis=0)])
        gaps = np.abs(others[:, :2] - box[:2]) - others[:, 2:] - box[2:]
        if not (gaps < -0.5).all(axis=1).any():
            kept.append(i)
    return np.isin(np.arange(len(boxes)), kept)
