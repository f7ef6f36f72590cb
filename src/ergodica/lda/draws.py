"""Draws kept while a model learns: spread evenly over the second half of the run, however long it gets."""

import numpy as np

BYTES = 200 << 20  # of all draws held at a time


class Draws:
    """The topics after some of the steps.

    After step t those of the multiples of `every` in [t/2, t] are held. When there are more than twice the number
    wanted, `every` is doubled: which are held hangs on t alone. The memory of all that will be held is taken at the
    start: a run that fits then fits to its end.

    >>> draws = Draws(2, (1, 1))
    >>> for step in range(1, 101):
    ...     if draws.is_due(step):
    ...         draws.add(step, np.zeros((1, 1), np.float32))
    >>> sorted(draws.held), draws.every
    ([48, 64, 80, 96], 16)
    """

    def __init__(self, wanted: int, shape: tuple[int, int]):
        self.wanted = max(1, min(wanted, BYTES // (2 * 4 * shape[0] * shape[1])))
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
        while len(self._spare) + len(self.held) < 2 * self.wanted + 1:
            self._spare.append(np.ones(self._shape, np.float32))

    def _forget(self, step: int) -> None:
        self.held = {at: phi for at, phi in self.held.items() if 2 * at >= step and at % self.every == 0}

    def chosen(self, step: int) -> dict[int, np.ndarray]:
        """As many as were wanted, or fewer, of the second half of a run of `step` steps."""
        steps = [at for at in self.held if 2 * at >= step]
        places = np.unique(np.linspace(0, len(steps) - 1, min(self.wanted, len(steps))).round().astype(int))
        return {steps[place]: self.held[steps[place]] for place in places}
