"""Topics as people read them: top words, each with its probability and a band from the draws kept; coherence."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ergodica.errors import InputError
from ergodica.lda.corpus import Documents, Vocabulary

BAND_LEVEL = 0.9  # of a band
BAND_EDGES = (1 - BAND_LEVEL) / 2, (1 + BAND_LEVEL) / 2
POSTERIOR_BAND, SPREAD_BAND = "posterior interval", "sampler spread"
NOT_POSTERIOR_BAND, NO_BAND = "not a posterior", "none"
POSTERIOR_NOISE = 0.1  # gradient noise over injected noise, up to which the spread of draws is a posterior's


class TopicWord(NamedTuple):
    """A word of a topic: its probability, and the band that holds 90 % of the draws; None where there are none."""

    word: str
    probability: float
    low: float | None
    high: float | None


class Topic(NamedTuple):
    """A topic as `LDA.topics` gives it: its number, its share, its most probable words; `print` shows them on a line.

    Attributes:
        share: of the words of the sample documents, NaN where there are none.

    >>> print(Topic(3, 0.25, [TopicWord("ship", 0.1, 0.08, 0.12), TopicWord("sail", 0.05, 0.04, 0.07)]))
       3  25.0%  ship sail
    """

    number: int
    share: float
    words: list[TopicWord]

    def __str__(self) -> str:
        share = "" if np.isnan(self.share) else f" {self.share:6.1%}"
        return f"{self.number:4d}{share}  " + " ".join(word.word for word in self.words)


def top_words(phi: np.ndarray, count: int) -> np.ndarray:
    """(topics, count): numbers of the likeliest words of every topic, ties by their number."""
    return np.argsort(-phi, axis=0, kind="stable")[:count].T


def topics_of(
    phi: np.ndarray, draws: Sequence[np.ndarray], shares: np.ndarray | None, vocabulary: Vocabulary, count: int
) -> list[Topic]:
    """Args:
    phi: (words, topics), the mean of the draws.
    shares: (topics,), of all words.
    """
    found = []
    for k, words in enumerate(top_words(phi, count)):
        low = high = [None] * len(words)
        if len(draws):
            values = np.stack([draw[words, k] for draw in draws]).astype(np.float64)
            low, high = (edge.tolist() for edge in np.quantile(values, BAND_EDGES, axis=0))
        rows = zip(words, phi[words, k].tolist(), low, high, strict=True)
        named = [TopicWord(vocabulary.words[word], mean, least, most) for word, mean, least, most in rows]
        found.append(Topic(k, float("nan") if shares is None else float(shares[k]), named))
    return found


def band_words(band: str, noise_ratio: float) -> str:
    """What a band is, in one line; never a posterior interval where a check of that failed or was not made."""
    times = f"{noise_ratio:,.0f}" if noise_ratio >= 10 else f"{noise_ratio:.2g}"
    noise = "was not measured" if np.isnan(noise_ratio) else f"is {times} times the injected noise"
    noise = f"gradient noise {noise}"
    if band == NO_BAND:
        return "no bands: these are averaged counts, an optimiser's answer; --bands samples from there"
    if band == POSTERIOR_BAND:
        return f"bands are 90 % posterior intervals ({noise})"
    if band == NOT_POSTERIOR_BAND:
        return (
            "bands are not a posterior: a law that is known exactly does not hold (see the checks); take smaller steps"
        )
    if noise_ratio <= POSTERIOR_NOISE:
        noise = (
            "too few effective draws, or a check that was not made (see the checks); --bands, and more time, do better"
        )
    else:
        noise += "; --bands makes it small"
    return f"bands are sampler spread, no posterior intervals: {noise}"


class Coherence(NamedTuple):
    """Whether the top words of each topic come together in documents, as `LDA.coherence` gives it, (K,).

    Use it to find topics that mean nothing, and to compare numbers of topics: unlike perplexity it goes with what
    people call a good topic (Aletras and Stevenson, 2013, https://aclanthology.org/W13-0102).

    npmi: mean of log(p_ij / (p_i p_j)) / -log p_ij over pairs of top words, in [-1, 1] (Bouma, 2009; Aletras and
        Stevenson, 2013), p the share of the documents that hold the word or both words; -1 where they never meet.
    u_mass: mean of log((D_ij + 1) / D_j), j the word of higher rank (Mimno et al., 2011), D the number of documents.
    """

    npmi: np.ndarray
    u_mass: np.ndarray


def coherence(top: np.ndarray, batches: Iterable[Documents], words: int) -> Coherence:
    """Of top words (topics, n), best first, from documents seen once.

    >>> found = coherence(np.array([[0, 1]]), [Documents.of([[0, 1], [0, 1], [2], [2]])], 3)
    >>> found.npmi.tolist(), round(float(found.u_mass[0]), 3)
    ([1.0], 0.405)
    """
    topics, count = top.shape
    if count < 2:
        raise InputError(f"coherence of {count} word a topic: it takes at least 2")
    together = np.zeros((topics, count, count))
    total = 0
    for documents in batches:
        together += _together(top, documents, words)
        total += len(documents)
    if total == 0:
        raise InputError("there are no documents: coherence counts words in documents")
    return _scores(together, total)


def _together(top: np.ndarray, documents: Documents, words: int) -> np.ndarray:
    """(topics, n, n): how many of the documents hold both words; on the diagonal, the one."""
    chosen, place = np.unique(top, return_inverse=True)
    column = np.full(words, -1)
    column[chosen] = np.arange(len(chosen))
    rows = np.repeat(np.arange(len(documents)), documents.lengths)
    columns = column[documents.words]
    holds = np.zeros((len(documents), len(chosen)), np.float32)
    holds[rows[columns >= 0], columns[columns >= 0]] = 1
    found = holds[:, place.reshape(top.shape)].transpose(1, 2, 0)  # topics, n, documents
    return found @ found.transpose(0, 2, 1)


def _scores(together: np.ndarray, total: int) -> Coherence:
    alone = np.diagonal(together, axis1=1, axis2=2)
    first, second = np.triu_indices(together.shape[1], 1)  # `first` is of higher rank
    both, one, other = together[:, first, second], alone[:, first], alone[:, second]
    with np.errstate(divide="ignore", invalid="ignore"):
        npmi = np.log(both * total / (one * other)) / -np.log(both / total)
    npmi = np.where(both == 0, -1.0, np.where(both == total, 1.0, npmi))
    u_mass = np.log((both + 1) / np.maximum(one, 1))
    return Coherence(npmi.mean(axis=1), u_mass.mean(axis=1))
