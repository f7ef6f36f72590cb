"""Where topics stand on a map: distances, classical scaling, and room for the labels."""

import numpy as np

LOGARITHMS = 50_000_000  # that the distances may cost: half a second
ROUNDS = 600


def distances(phi: np.ndarray) -> np.ndarray:
    """Jensen-Shannon distances (K, K) between the columns of phi (V, K): roots of H(mean) - mean of H, in nats.

    Where all words would cost too much, those that are rare in every topic are counted as one word: by the
    data-processing inequality no distance grows by that.
    """
    topics = _merged(phi, LOGARITHMS // max(1, phi.shape[1] ** 2)).T
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
    for turn in range(ROUNDS):
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
