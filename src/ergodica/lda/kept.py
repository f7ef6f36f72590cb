"""What is kept of a run in bounded memory: draws of the chain, and some of the documents."""

from typing import Any

import numpy as np

from ergodica.lda.corpus import Documents
from ergodica.lda.corpus.labels import DocumentLabel

DRAW_BYTES = 200 << 20  # of all draws held at a time
SAMPLE_DOCUMENTS = 2_000  # whose shares are reported at the end


class Reservoir:
    """Some of the documents of a stream, each with the same chance, whatever the length of the stream.

    By algorithm R (Vitter, 1985), with random numbers that depend on the seed and the numbers of the documents alone.
    """

    def __init__(self, seed: int, room: int = SAMPLE_DOCUMENTS):
        self.seed, self.room = seed, room
        self.seen = 0
        self.documents = Documents.of([])

    def add(self, documents: Documents) -> None:
        chosen: dict[int, int] = {}  # by place in the sample: which of these documents
        first = self.seen
        self.seen += len(documents)
        numbers = np.arange(first, self.seen)
        drawn = np.random.default_rng((self.seed, first)).integers(0, numbers + 1)
        for number, place in enumerate(np.where(numbers < self.room, numbers, drawn).tolist()):
            if place < self.room:
                chosen[place] = number
        if not chosen:
            return
        held = min(first, self.room)
        both = Documents.concatenate([self.documents, documents])
        length = min(self.seen, self.room)
        self.documents = both.take([held + chosen[place] if place in chosen else place for place in range(length)])

    def saved(self) -> tuple[dict[str, np.ndarray], Any]:
        """Arrays, and what JSON holds."""
        documents = self.documents
        arrays = {
            "sample_starts": documents.starts,
            "sample_words": documents.words,
            "sample_seen": np.array(self.seen),
        }
        return arrays, None if documents.labels is None else [list(label) for label in documents.labels]

    def restore(self, arrays: dict[str, np.ndarray], labels: Any) -> None:
        self.seen = int(arrays["sample_seen"])
        known = None if labels is None else [DocumentLabel(*label) for label in labels]
        self.documents = Documents(arrays["sample_starts"], arrays["sample_words"], known)


class KeptDraws:
    """The topics after some of the steps: spread evenly over the second half of the run, however long it gets.

    After step t those of the multiples of `every` in [t/2, t] are held. When there are more than twice the number
    wanted, `every` is doubled: which are held depends on t alone. The memory of all that will be held is taken at the
    start: a run that fits then fits to its end.

    >>> draws = KeptDraws(2, (1, 1))
    >>> for step in range(1, 101):
    ...     if draws.is_due(step):
    ...         draws.add(step, np.zeros((1, 1), np.float32))
    >>> sorted(draws.held), draws.every
    ([48, 64, 80, 96], 16)
    """

    def __init__(self, wanted: int, shape: tuple[int, int]):
        self.wanted = max(min(1, wanted), min(wanted, DRAW_BYTES // (2 * 4 * shape[0] * shape[1])))
        self.every = 1
        self.held: dict[int, np.ndarray] = {}
        self._shape = shape
        self._spare: list[np.ndarray] = []
        self._make_spare()

    def is_due(self, step: int) -> bool:
        return step % self.every == 0

    def add(self, step: int, phi: np.ndarray) -> None:
        self.held[step] = self._spare.pop()
        np.copyto(self.held[step], phi)
        self._forget(step)
        while len(self.held) > 2 * self.wanted:
            self.every *= 2
            self._forget(step)
        self._make_spare()

    def restore(self, every: int, held: dict[int, np.ndarray]) -> None:
        self.every, self.held = every, dict(held)
        self._spare.clear()
        self._make_spare()

    def _make_spare(self) -> None:
        # New ones, as a checkpoint may be writing those that were forgotten; ones, as zeros would take no memory yet.
        while self.wanted and len(self._spare) + len(self.held) < 2 * self.wanted + 1:
            self._spare.append(np.ones(self._shape, np.float32))

    def _forget(self, step: int) -> None:
        self.held = {at: phi for at, phi in self.held.items() if 2 * at >= step and at % self.every == 0}

    def chosen(self, step: int) -> dict[int, np.ndarray]:
        """As many as were wanted, or fewer, of the second half of a run of `step` steps."""
        steps = [at for at in self.held if 2 * at >= step]
        places = np.unique(np.linspace(0, len(steps) - 1, min(self.wanted, len(steps))).round().astype(int))
        return {steps[place]: self.held[steps[place]] for place in places}
