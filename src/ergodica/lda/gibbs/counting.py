"""Expected counts as whole numbers, so that their sums do not depend on the order of documents, threads or processes.

What a word has of its batch, tokens x sweeps counted, is cut into units of 2^-shift of a token, with

    shift = 30 - ceil(log2(tokens x sweeps + 1)),

so that sums fit in 31 bits, and a unit is 2^-30 of what the word has: finer than a float32 is there. A document rounds
what it has up or down at random, with random numbers of its own: rounding to the nearest would lose topics that have
less than half a unit in every document of a very large batch.
"""

from typing import NamedTuple

import numpy as np

from ergodica.lda.gibbs.cached import by_parts, cached_njit, thread_count
from ergodica.lda.gibbs.layout import BatchLayout
from ergodica.lda.gibbs.vectors import pointer

UNIT_BITS = 30
_WORDS_AT_A_TIME = 16


class PriorRows(NamedTuple):
    """What the prior has for the words of a batch: gamma_k phi_wk. words (m,); totals (m,), the sums over topics."""

    phi: np.ndarray
    gamma: np.ndarray
    words: np.ndarray
    totals: np.ndarray

    def part(self, first: int, last: int) -> "PriorRows":
        """Some of the words."""
        return self._replace(words=self.words[first:last], totals=self.totals[first:last])


class Draws(NamedTuple):
    """What the tokens count for, in every sweep counted: (tokens, sweeps), tokens sorted by word.

    topics, uint16, and what each counts for: weights, float32, for the sums of documents, the same as whole numbers,
    int32, for those of words. What a weight is short of 1 belongs to all topics in proportion to gamma_k phi_wk.
    No rows of either: not wanted, or each counts for one token.
    """

    topics: np.ndarray
    weights: np.ndarray
    rounded: np.ndarray


def shifts_of(tokens: np.ndarray, counted: int) -> np.ndarray:
    """The shift of every word that has so many tokens in the batch.

    >>> shifts_of(np.array([0, 1, 3, 1000]), 2).tolist()
    [30, 28, 27, 19]
    """
    # exact: frexp's exponent of n >= 1 is floor(log2 n) + 1, which is ceil(log2(n + 1))
    return (UNIT_BITS - np.frexp(np.asarray(tokens, np.float64) * counted)[1]).astype(np.int32)


def add_draws(draws: Draws, word_tokens: np.ndarray, shifts: np.ndarray, topics: int) -> tuple[np.ndarray, np.ndarray]:
    """The whole numbers of each word, (m, K), and what is left for the prior, (m,), both int32."""
    numbers, prior = np.zeros((len(shifts), topics), np.int32), np.zeros(len(shifts), np.int32)
    by_parts(
        lambda first, last: _add_draws(
            draws.topics, draws.rounded, word_tokens[first : last + 1], shifts[first:last], numbers[first:last],
            prior[first:last],
        ), len(shifts), thread_count(),
    )  # fmt: skip
    return numbers, prior


def add_cells(cells: np.ndarray, word_cells: np.ndarray, topics: int) -> tuple[np.ndarray, np.ndarray]:
    """The same for sums of cells, (cells, K padded) int32; nothing is left for the prior."""
    size = len(word_cells) - 1
    numbers = np.zeros((size, topics), np.int32)
    by_parts(
        lambda first, last: _add_cells(cells, word_cells[first : last + 1], numbers[first:last]), size, thread_count()
    )
    return numbers, np.zeros(size, np.int32)


def as_counts(rows: PriorRows, shifts: np.ndarray, counted: int, numbers: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """(m, K) float32: N_wk = [numbers_wk + prior_w gamma_k phi_wk / total_w] 2^-shift / sweeps counted."""
    counts = np.empty(numbers.shape, np.float32)
    by_parts(
        lambda first, last: _as_counts(
            *rows.part(first, last), shifts[first:last], counted, numbers[first:last], prior[first:last],
            counts[first:last],
        ), len(shifts), thread_count(),
    )  # fmt: skip
    return counts


def counts_of_draws(
    draws: Draws, word_tokens: np.ndarray, rows: PriorRows, shifts: np.ndarray, counted: int
) -> np.ndarray:
    """`as_counts` of `add_draws`, some words at a time, so that whole numbers stay in the cache."""
    counts = np.empty((len(shifts), rows.phi.shape[1]), np.float32)
    by_parts(
        lambda first, last: _counts_of_draws(
            draws.topics, draws.rounded, word_tokens[first : last + 1], *rows.part(first, last), shifts[first:last],
            counted, counts[first:last],
        ), len(shifts), thread_count(),
    )  # fmt: skip
    return counts


def shares_of(rows: PriorRows, layout: BatchLayout, draws: Draws) -> np.ndarray:
    """(n, K) float32: what the draws of each document count for, over the sweeps counted."""
    shares = np.zeros((len(layout.order), rows.phi.shape[1]), np.float32)
    by_parts(
        lambda first, last: _add_documents(*rows, tuple(layout), tuple(draws), shares, first, last),
        len(shares), thread_count(),
    )  # fmt: skip
    return shares


@cached_njit(nogil=True, error_model="numpy")
def _add_draws(topics, rounded, word_tokens, shifts, numbers, prior):
    counted = topics.shape[1]
    for w in range(len(shifts)):
        one = np.int32(1) << shifts[w]
        rest = np.int32(0)
        for token in range(word_tokens[w], word_tokens[w + 1]):
            for j in range(counted):
                number = rounded[token, j] if len(rounded) else one
                numbers[w, topics[token, j]] += number
                rest += one - number
        prior[w] += rest


@cached_njit(nogil=True, error_model="numpy")
def _add_cells(cells, word_cells, numbers):
    topics, width, p_cells, p_numbers = numbers.shape[1], cells.shape[1], pointer(cells), pointer(numbers)
    for w in range(len(numbers)):
        place = w * topics
        for cell in range(word_cells[w], word_cells[w + 1]):
            for k in range(topics):
                p_numbers[place + k] += p_cells[cell * width + k]


@cached_njit(nogil=True, error_model="numpy")
def _as_counts(phi, gamma, words, totals, shifts, counted, numbers, prior, counts):
    for w in range(len(words)):
        scale = np.float32(2.0 ** -shifts[w] / counted)
        here, out = numbers[w], counts[w]
        if prior[w] == 0:
            for k in range(len(out)):
                out[k] = scale * np.float32(here[k])
        else:
            rest, row = scale * np.float32(prior[w]) / totals[w], phi[words[w]]
            for k in range(len(out)):
                out[k] = scale * np.float32(here[k]) + rest * gamma[k] * row[k]


@cached_njit(nogil=True, error_model="numpy")
def _counts_of_draws(topics, rounded, word_tokens, phi, gamma, words, totals, shifts, counted, counts):
    numbers, prior = np.empty((_WORDS_AT_A_TIME, phi.shape[1]), np.int32), np.empty(_WORDS_AT_A_TIME, np.int32)
    for first in range(0, len(words), _WORDS_AT_A_TIME):
        last = min(first + _WORDS_AT_A_TIME, len(words))
        size = last - first
        numbers[:size] = 0
        prior[:size] = 0
        tokens, units = word_tokens[first : last + 1], shifts[first:last]
        _add_draws(topics, rounded, tokens, units, numbers[:size], prior[:size])
        _as_counts(
            phi, gamma, words[first:last], totals[first:last], units, counted, numbers[:size], prior[:size],
            counts[first:last],
        )  # fmt: skip


@cached_njit(nogil=True, error_model="numpy")
def _add_documents(phi, gamma, words, totals, layout, draws, shares, first, last):
    _, _, _, starts, _, row_of, _, place_of, _ = layout
    topics, weights, _ = draws
    counted = topics.shape[1]
    for d in range(first, last):
        rest = np.float32(0)
        for i in range(starts[d], starts[d + 1]):
            place, row = place_of[i], row_of[i]
            for j in range(counted):
                weight = weights[place, j] if len(weights) else np.float32(1)
                shares[d, topics[place, j]] += weight
                rest += np.float32(1) - weight
            if i + 1 == starts[d + 1] or row_of[i + 1] != row:
                if rest > 0:
                    scale = rest / totals[row]
                    for k in range(phi.shape[1]):
                        shares[d, k] += scale * gamma[k] * phi[words[row], k]
                rest = np.float32(0)
        for k in range(phi.shape[1]):
            shares[d, k] /= counted
