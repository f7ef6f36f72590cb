"""Expected counts as whole numbers, so that their sums do not depend on the order of documents, threads or processes.

What a word has of its batch, tokens x sweeps counted, is cut into units of 2^-shift of a token, with

    shift = 30 - ceil(log2(tokens x sweeps + 1)),

so that sums fit in 31 bits, and a unit is 2^-30 of what the word has: finer than a float32 is there. A document rounds
what it has up or down at random, with random numbers of its own: rounding to the nearest would lose the topics that have
less than half a unit in every document of a very large batch.
"""

from typing import NamedTuple

import numba
import numpy as np

from ergodica.lda.gibbs.cached import cached_njit
from ergodica.lda.gibbs.layout import BatchLayout
from ergodica.lda.gibbs.threads import by_parts, thread_count

UNIT_BITS = 30


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


def add_draws(draws: Draws, word_tokens: np.ndarray, shifts: np.ndarray, numbers: np.ndarray, prior: np.ndarray) -> None:
    """To the whole numbers of each word (m, K) and what is left for the prior (m,), int32."""
    by_parts(
        lambda first, last: _add_draws(draws.topics, draws.rounded, word_tokens, shifts, numbers, prior, first, last),
        len(shifts), thread_count(),
    )  # fmt: skip


def add_cells(cells: np.ndarray, word_cells: np.ndarray, numbers: np.ndarray) -> None:
    """To the whole numbers of each word (m, K), those of its cells (cells, K padded)."""
    by_parts(
        lambda first, last: _add_cells(cells, word_cells, numbers, first, last), len(numbers), thread_count()
    )


def as_counts(
    phi: np.ndarray, gamma: np.ndarray, words: np.ndarray, numbers: np.ndarray, prior: np.ndarray, shifts: np.ndarray,
    counted: int,
) -> np.ndarray:  # fmt: skip
    """(m, K) float32: N_wk = [numbers_wk + prior_w gamma_k phi_wk / sum] 2^-shift / sweeps counted."""
    counts = np.empty(numbers.shape, np.float32)
    by_parts(
        lambda first, last: _as_counts(phi, gamma, words, shifts, counted, numbers, prior, counts, first, last),
        len(words), thread_count(),
    )  # fmt: skip
    return counts


def shares_of(phi: np.ndarray, gamma: np.ndarray, layout: BatchLayout, draws: Draws) -> np.ndarray:
    """(n, K) float32: what the draws of each document count for, over the sweeps counted."""
    shares = np.zeros((len(layout.order), phi.shape[1]), np.float32)
    by_parts(
        lambda first, last: _add_documents(phi, gamma, tuple(layout), tuple(draws), shares, first, last),
        len(shares), thread_count(),
    )  # fmt: skip
    return shares


@cached_njit(nogil=True, error_model="numpy")
def _add_draws(topics, rounded, word_tokens, shifts, numbers, prior, first, last):
    counted = topics.shape[1]
    for w in range(first, last):
        one = np.int32(1) << shifts[w]
        rest = np.int32(0)
        for token in range(word_tokens[w], word_tokens[w + 1]):
            for j in range(counted):
                number = rounded[token, j] if len(rounded) else one
                numbers[w, topics[token, j]] += number
                rest += one - number
        prior[w] += rest


@cached_njit(nogil=True, error_model="numpy")
def _add_cells(cells, word_cells, numbers, first, last):
    for w in range(first, last):
        for cell in range(word_cells[w], word_cells[w + 1]):
            for k in range(numbers.shape[1]):
                numbers[w, k] += cells[cell, k]


@cached_njit(nogil=True, error_model="numpy")
def _as_counts(phi, gamma, words, shifts, counted, numbers, prior, counts, first, last):
    for w in range(first, last):
        scale = np.float32(2.0 ** -shifts[w] / counted)
        row = words[w]
        rest = np.float32(0)
        if prior[w] > 0:
            rest = scale * np.float32(prior[w]) / _prior_total(phi[row], gamma)
        for k in range(counts.shape[1]):
            counts[w, k] = scale * np.float32(numbers[w, k]) + rest * gamma[k] * phi[row, k]


@cached_njit(nogil=True, error_model="numpy")
def _add_documents(phi, gamma, layout, draws, shares, first, last):
    words, _, _, starts, _, row_of, _, place_of, _ = layout
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
                    scale = rest / _prior_total(phi[words[row]], gamma)
                    for k in range(phi.shape[1]):
                        shares[d, k] += scale * gamma[k] * phi[words[row], k]
                rest = np.float32(0)
        for k in range(phi.shape[1]):
            shares[d, k] /= counted


@numba.njit(fastmath={"reassoc"})
def _prior_total(row, gamma):
    total = np.float32(0)
    for k in range(len(row)):
        total += gamma[k] * row[k]
    return total
