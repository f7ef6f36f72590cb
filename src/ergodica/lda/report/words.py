"""The words of topics on the page: enough of them that the relevance slider finds the first ones wherever it stands."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ergodica.lda.run_files import Fitted
from ergodica.lda.topics import BAND_EDGES
from ergodica.pages import clipped

WORD_LENGTH = 30  # characters
WORDS_SHOWN = 20  # of a topic, in the order of their relevance
MOST_CANDIDATES = 60  # words of a topic among which the slider chooses
SLIDER_GRID = tuple(step / 10 for step in range(11))
TOPICS_AT_A_TIME = 64
LEAST_PROBABILITY = 1e-12  # so that a logarithm is finite


class PageWord(NamedTuple):
    """A word of a topic: its place in the vocabulary, its probability there with a band, and in all topics."""

    word: str
    place: int
    probability: float
    low: float
    high: float
    frequency: float


def relevance(phi: np.ndarray, frequency: np.ndarray, weight: float) -> np.ndarray:
    """weight log phi + (1 - weight) log(phi / p), Sievert and Shirley (2014, https://aclanthology.org/W14-3110)."""
    return np.log(phi) - (1 - weight) * np.log(frequency)


def overall_frequencies(fitted: Fitted, shares: np.ndarray | None) -> np.ndarray:
    """(words,): p(w) = sum over topics of share times phi; as counted while learning where no shares are known.

    Not as counted where they are: shares come from a sample of the documents, and a word could seem more frequent in
    one topic than in all of them.
    """
    if shares is not None:
        return fitted.mean @ shares.astype(fitted.mean.dtype)  # or all of phi would be copied
    total = float(fitted.counts.sum())
    return fitted.counts / total if total > 0 else fitted.mean.mean(axis=1)


def words_of(fitted: Fitted, numbers: Sequence[int], frequency: np.ndarray) -> Iterator[tuple[PageWord, ...]]:
    """For each of the topics its candidates, by falling probability."""
    # a word that never occurred has only what the prior gives it: rare everywhere, it would seem particular to a topic
    seen = np.flatnonzero(fitted.counts) if fitted.counts.any() else np.arange(len(frequency))
    draws = list(fitted.draws.values())
    for first in range(0, len(numbers), TOPICS_AT_A_TIME):
        block = list(numbers[first : first + TOPICS_AT_A_TIME])
        columns = np.ascontiguousarray(fitted.mean[:, block].T, dtype=np.float64)
        for k, phi in zip(block, columns, strict=True):
            words = seen[candidates(phi[seen], frequency[seen])]
            low, high = _band(draws, words, k, phi)
            rows = zip(words.tolist(), phi[words].tolist(), low, high, frequency[words].tolist(), strict=True)
            yield tuple(PageWord(clipped(fitted.vocabulary.words[row[0]], WORD_LENGTH), *row) for row in rows)


def candidates(phi: np.ndarray, frequency: np.ndarray) -> np.ndarray:
    """Places of the words that come first for some weight of the slider, at most MOST_CANDIDATES, likeliest first."""
    phi, frequency = np.maximum(phi, LEAST_PROBABILITY), np.maximum(frequency, LEAST_PROBABILITY)
    # the last weight is 1: the likeliest words themselves, which are kept whatever else is
    ranked = [_first(relevance(phi, frequency, weight), WORDS_SHOWN) for weight in reversed(SLIDER_GRID)]
    by_rank = np.stack(ranked[1:], axis=1).ravel()
    kept = np.asarray(list(dict.fromkeys([*ranked[0].tolist(), *by_rank.tolist()]))[:MOST_CANDIDATES], int)
    return kept[np.lexsort((kept, -phi[kept]))]


def _first(score: np.ndarray, count: int) -> np.ndarray:
    """Places of the largest, in their order; ties by place, so that a page does not depend on how NumPy partitions."""
    if len(score) > count:
        least = np.partition(score, len(score) - count)[len(score) - count]
        places = np.flatnonzero(score >= least)
    else:
        places = np.arange(len(score))
    return places[np.argsort(-score[places], kind="stable")][:count]


def _band(draws: list[np.ndarray], words: np.ndarray, k: int, phi: np.ndarray) -> tuple[list[float], list[float]]:
    if len(draws) < 2:
        return phi[words].tolist(), phi[words].tolist()
    values = np.stack([draw[words, k] for draw in draws]).astype(np.float64)
    low, high = np.quantile(values, BAND_EDGES, axis=0)
    return low.tolist(), high.tolist()
