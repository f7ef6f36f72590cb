"""How the tokens of a batch are laid out for the kernels: by document for sampling, by word for adding up.

A cell is a word of a document, however often it occurs there. Cells are numbered by word, and within a word by
document, so that the counts of a word are sums over neighbouring cells, in an order that no thread changes.
"""

from typing import NamedTuple

import numpy as np

from ergodica.lda.corpus.documents import Documents
from ergodica.lda.gibbs.cached import cached_njit
from ergodica.lda.gibbs.vectors import LANE_COUNT


class BatchLayout(NamedTuple):
    """A batch, ready for a kernel.

    words (m,): the distinct words. word_cells (m + 1,): where the cells of each begin. cell_word (cells,): the place in
    `words` of each cell's word. starts (n + 1,): where documents begin in `tokens`. tokens (tokens,): the cell of each
    token. order (n,): the documents, longest first, as threads take them. cell_tokens (cells + 1,): where the tokens
    of each cell begin, if all are sorted by cell. source (tokens,): where each of `tokens`
    is in the documents.
    """

    words: np.ndarray
    word_cells: np.ndarray
    cell_word: np.ndarray
    starts: np.ndarray
    tokens: np.ndarray
    order: np.ndarray
    cell_tokens: np.ndarray
    source: np.ndarray


def lay_out(documents: Documents, vocabulary: int) -> BatchLayout:
    """The layout of a batch whose word numbers are all below `vocabulary`."""
    words, word_cells, cell_word, tokens, cell_tokens, source = _cells(documents.starts, documents.words, vocabulary)
    order = np.argsort(-documents.lengths, kind="stable")
    return BatchLayout(words, word_cells, cell_word, documents.starts, tokens, order, cell_tokens, source)


def padded(topics: int) -> int:
    """The number of topics with padding."""
    return -(-topics // LANE_COUNT) * LANE_COUNT


def aligned_zeros(*shape: int) -> np.ndarray:
    """float32 zeros that begin at a cache line: a vector that straddles two costs twice as much."""
    size = int(np.prod(shape))
    room = np.zeros(size + 16, np.float32)
    skipped = (-room.ctypes.data % 64) // 4
    return room[skipped : skipped + size].reshape(shape)


@cached_njit(nogil=True)
def _cells(starts, words, vocabulary):
    """A counting sort of the tokens by word, stable, so that the documents of a word follow one another."""
    places = np.zeros(vocabulary + 1, np.int64)
    for w in words:
        places[w + 1] += 1
    distinct = 0
    for w in range(vocabulary):
        distinct += places[w + 1] > 0
        places[w + 1] += places[w]
    by_word, owner = np.empty(len(words), np.int64), np.empty(len(words), np.int64)
    text_place, source = np.empty(len(words), np.int64), np.empty(len(words), np.int64)
    for d in range(len(starts) - 1):
        for i in range(starts[d], starts[d + 1]):
            place = places[words[i]]
            by_word[place], owner[place], text_place[place] = words[i], d, i
            places[words[i]] += 1
    chosen, word_cells = np.empty(distinct, np.int32), np.zeros(distinct + 1, np.int64)
    cell_word, tokens = np.empty(len(words), np.int64), np.empty(len(words), np.int64)
    cell_tokens = np.zeros(len(words) + 1, np.int64)
    free = starts[:-1].copy()
    cell, row = -1, -1
    for i in range(len(words)):
        is_new_word = i == 0 or by_word[i] != by_word[i - 1]
        if is_new_word:
            row += 1
            chosen[row] = by_word[i]
        if is_new_word or owner[i] != owner[i - 1]:
            cell += 1
            cell_word[cell] = row
        word_cells[row + 1], cell_tokens[cell + 1] = cell + 1, i + 1
        tokens[free[owner[i]]], source[free[owner[i]]] = cell, text_place[i]
        free[owner[i]] += 1
    return chosen, word_cells, cell_word[: cell + 1].copy(), tokens, cell_tokens[: cell + 2].copy(), source
