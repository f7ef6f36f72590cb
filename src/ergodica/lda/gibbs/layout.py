"""How the tokens of a batch are laid out for the kernels: by document for sampling, by word for adding up.

Within a document tokens are sorted by word. A cell is a word of a document, however often it occurs there. Cells are
numbered by word, and within a word by document, so that the counts of a word are sums over neighbouring cells.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ergodica.lda.corpus.documents import Documents
from ergodica.lda.gibbs.cached import cached_njit
from ergodica.lda.gibbs.vectors import LANE_COUNT


class BatchLayout(NamedTuple):
    """A batch, ready for a kernel.

    By word: words (m,), the distinct words; word_tokens, word_cells (m + 1,), where the tokens and cells of each begin
    if all are sorted by word. By document: starts (n + 1,), where its tokens begin; order (n,), the documents, longest
    first, as threads take them. By token, sorted by document: row, the place in `words` of its word; cell; place, its
    place if all are sorted by word; source, its place in the documents as they were given.
    """

    words: np.ndarray
    word_tokens: np.ndarray
    word_cells: np.ndarray
    starts: np.ndarray
    order: np.ndarray
    row: np.ndarray
    cell: np.ndarray
    place: np.ndarray
    source: np.ndarray

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(self.word_cells[-1])

    @property
    def tokens(self) -> int:
        """How many tokens there are."""
        return len(self.row)


def lay_out(documents: Documents, vocabulary: int) -> BatchLayout:
    """The layout of a batch whose word numbers are all below `vocabulary`."""
    words, word_tokens, word_cells, by_token = _laid_out(documents.starts, documents.words, vocabulary)
    order = np.argsort(-documents.lengths, kind="stable")
    return BatchLayout(words, word_tokens, word_cells, documents.starts, order, *by_token)


def padded(topics: int) -> int:
    """The number of topics with padding."""
    return -(-topics // LANE_COUNT) * LANE_COUNT


def aligned_zeros(*shape: int) -> np.ndarray:
    """float32 zeros that begin at a cache line: a vector that straddles two costs twice as much."""
    return _aligned(np.zeros, shape)


def aligned_empty(*shape: int) -> np.ndarray:
    """The same, not set to anything."""
    return _aligned(np.empty, shape)


def _aligned(make: Callable[..., np.ndarray], shape: tuple[int, ...]) -> np.ndarray:
    size = int(np.prod(shape))
    room = make(size + 16, np.float32)
    skipped = (-room.ctypes.data % 64) // 4
    return room[skipped : skipped + size].reshape(shape)


@cached_njit(nogil=True)
def to_layout(by_text, source, z):
    """Topics of tokens in the order of the documents, put in that of a layout; equal words keep their order."""
    for i in range(len(z)):
        z[i] = by_text[source[i]]


@cached_njit(nogil=True)
def from_layout(z, source, by_text):
    """The way back."""
    for i in range(len(z)):
        by_text[source[i]] = z[i]


@cached_njit(nogil=True)
def _laid_out(starts, words, vocabulary):
    """A counting sort of the tokens by word, stable, so that the documents of a word follow one another."""
    next_place = np.zeros(vocabulary + 1, np.int32)
    for w in words:
        next_place[w + 1] += 1
    distinct = 0
    for w in range(vocabulary):
        distinct += next_place[w + 1] > 0
        next_place[w + 1] += next_place[w]
    chosen, word_tokens = np.empty(distinct, np.int32), np.zeros(distinct + 1, np.int32)
    row = 0
    for w in range(vocabulary):
        if next_place[w + 1] > next_place[w]:
            chosen[row], word_tokens[row + 1] = w, next_place[w + 1]
            row += 1
    owner, text_place = np.empty(len(words), np.int32), np.empty(len(words), np.int32)
    for d in range(len(starts) - 1):
        for i in range(starts[d], starts[d + 1]):
            place = next_place[words[i]]
            owner[place], text_place[place] = d, i
            next_place[words[i]] += 1
    word_cells, by_token = np.zeros(distinct + 1, np.int32), np.empty((4, len(words)), np.int32)
    free = starts[:-1].copy()
    cell = -1
    for row in range(distinct):
        before = -1
        for place in range(word_tokens[row], word_tokens[row + 1]):
            d = owner[place]
            cell += d != before
            before = d
            i = free[d]
            free[d] = i + 1
            by_token[0, i], by_token[1, i], by_token[2, i], by_token[3, i] = row, cell, place, text_place[place]
        word_cells[row + 1] = cell + 1
    return chosen, word_tokens, word_cells, by_token
