"""The order in which a shuffled pass visits rows: a function of the seed and the place in it, so it can be taken up.

An epoch visits the blocks of a source in random order, some at a time; the rows of these are shuffled together. Every
row is visited once an epoch.
"""

from typing import NamedTuple

import numpy as np

from ergodica.targets.source import Source

BUFFER_BYTES = 1 << 25  # of the blocks that are shuffled together


class Place(NamedTuple):
    """The next row to be given out: its epoch, its group of blocks there, and how many rows of that went before."""

    epoch: int
    group: int
    row: int


class Order:
    """Which rows come when."""

    def __init__(self, source: Source, seed: tuple[int, ...]):
        self.seed = seed
        edges = source.edges()
        self.blocks = np.stack([edges[:-1], edges[1:]], axis=1)
        row_bytes = max(1, source.row_bytes())
        largest = int((self.blocks[:, 1] - self.blocks[:, 0]).max()) * row_bytes
        self.together = max(1, BUFFER_BYTES // max(1, largest))
        self.groups = -(-len(self.blocks) // self.together)
        self._epoch: tuple[int, np.ndarray] = (-1, np.empty(0, int))

    def group(self, epoch: int, group: int) -> tuple[np.ndarray, np.ndarray]:
        """The blocks (start, stop) to read, and the order of the rows when these are laid end to end."""
        if self._epoch[0] != epoch:
            self._epoch = (epoch, np.random.default_rng((*self.seed, epoch)).permutation(len(self.blocks)))
        chosen = self.blocks[self._epoch[1][group * self.together : (group + 1) * self.together]]
        rows = int((chosen[:, 1] - chosen[:, 0]).sum())
        return chosen, np.random.default_rng((*self.seed, epoch, group + 1)).permutation(rows)

    def after(self, epoch: int, group: int) -> tuple[int, int]:
        """The group that follows."""
        return (epoch, group + 1) if group + 1 < self.groups else (epoch + 1, 0)
