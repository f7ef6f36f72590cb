"""Topics as people read them: top words, each with its probability and a band from the draws kept."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ergodica.lda.corpus import Vocabulary

LEVEL = 0.9  # of a band
POSTERIOR, SPREAD = "posterior interval", "sampler spread"


class Word(NamedTuple):
    """A word of a topic: its probability in the mean of the draws, and the band that holds 90 % of them."""

    word: str
    probability: float
    low: float
    high: float


class Topic(NamedTuple):
    """`share`: of the words of the sample documents, NaN where there are none."""

    number: int
    share: float
    words: list[Word]

    def __str__(self) -> str:
        share = "" if np.isnan(self.share) else f" {self.share:6.1%}"
        return f"{self.number:4d}{share}  " + " ".join(word.word for word in self.words)


def top_words(phi: np.ndarray, count: int) -> np.ndarray:
    """(topics, count): numbers of the likeliest words of every topic, ties by their number."""
    return np.argsort(-phi, axis=0, kind="stable")[:count].T


def band_edges() -> tuple[float, float]:
    return (1 - LEVEL) / 2, (1 + LEVEL) / 2


def topics_of(
    phi: np.ndarray, draws: Sequence[np.ndarray], shares: np.ndarray | None, vocabulary: Vocabulary, count: int
) -> list[Topic]:
    """Args:
    phi: (words, topics), the mean of the draws.
    shares: (topics,), of all words.
    """
    edges, found = band_edges(), []
    for k, words in enumerate(top_words(phi, count)):
        values = np.stack([draw[words, k] for draw in draws]) if len(draws) else phi[words, k][None]
        low, high = np.quantile(values.astype(np.float64), edges, axis=0)
        rows = zip(words, phi[words, k].tolist(), low.tolist(), high.tolist(), strict=True)
        named = [Word(vocabulary.words[word], *figures) for word, *figures in rows]
        found.append(Topic(k, float("nan") if shares is None else float(shares[k]), named))
    return found


def band_words(band: str, noise_ratio: float) -> str:
    """What a band is, in one line; never a posterior interval where gradient noise rules."""
    times = f"{noise_ratio:,.0f}" if noise_ratio >= 10 else f"{noise_ratio:.2g}"
    noise = "was not measured" if np.isnan(noise_ratio) else f"is {times} times the injected noise"
    noise = f"gradient noise {noise}"
    if band == POSTERIOR:
        return f"bands are 90 % posterior intervals ({noise})"
    return f"bands are sampler spread, no posterior intervals: {noise}; --preset posterior makes it small"
