"""The priors of a topic model, learnt from sampled counts: gamma of topics in a document, alpha of words in a topic.

Both are Dirichlet priors of counts, whose likelihood (Minka, 2000, Estimating a Dirichlet distribution) rises with

    gamma_k <- gamma_k  sum_d [psi(n_dk + gamma_k) - psi(gamma_k)] / sum_d [psi(n_d + gamma_.) - psi(gamma_.)]

Counts must be sampled ones: averaged counts are spread over more topics than any sample, and gamma runs away.

While topics are being found only the shape of gamma is learnt, and half of it: with the full estimate documents and
topics confirm each other, each document ends in one topic, and held-out perplexity rises by 5 to 20 % (1,000 articles,
50 and 200 topics). What the likelihood says of gamma and alpha is learnt once the topics are found, and frozen: it is
the prior of the posterior that is then sampled.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import digamma

from ergodica.lda.corpus.documents import Documents
from ergodica.lda.gibbs.cached import cached_njit

DEFAULT_GAMMA = 0.1  # at 50 topics; their sum rises with the root of their number
DEFAULT_ALPHA = 0.02
EVEN_SHARE = 0.5  # of gamma while finding, that all topics share equally
SLOWEST_RATE = 0.02  # at which the shape of gamma is averaged
LEARNT_ROUNDS = 200
LEAST_PRIOR = 1e-4


def default_gamma(topics: int) -> float:
    """0.1 for 50 topics, 0.05 for 200: larger sums for more topics, measured on Wikipedia.

    >>> default_gamma(200)
    0.05
    """
    return DEFAULT_GAMMA * (50 / topics) ** 0.5


class TopicPrior:
    """gamma, (K,) float32, while topics are being found: a fixed sum, whose shape follows the topics' use.

    Args:
        gamma: the mean of gamma_k.
        is_fixed: whether a person gave it, and the same for all topics.
    """

    def __init__(self, topics: int, gamma: float, is_fixed: bool = False):
        self.mean, self.is_fixed = gamma, is_fixed
        self.gamma = np.full(topics, gamma, np.float32)
        self._use = np.full(topics, 1.0 / topics)

    def learn(self, starts: np.ndarray, topics: np.ndarray, rate: float) -> None:
        """From the topics that the tokens of some documents were left in."""
        if self.is_fixed or len(topics) == 0:
            return
        use = self.gamma * _use(starts, topics, self.gamma.astype(np.float64))
        if use.sum() > 0:
            self._use += max(rate, SLOWEST_RATE) * (use / use.sum() - self._use)
            even = 1.0 / len(use)
            self.gamma = (self.mean * len(use) * ((1 - EVEN_SHARE) * self._use + EVEN_SHARE * even)).astype(np.float32)

    def saved(self) -> dict[str, np.ndarray]:
        return {"gamma": self.gamma, "use": self._use.copy()}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        self.gamma, self._use = saved["gamma"].copy(), saved["use"].copy()


class LearntPriors(NamedTuple):
    """What the likelihood of sampled counts says of the priors: gamma (K,), alpha."""

    gamma: np.ndarray
    alpha: float


def learnt_priors(documents: Documents, topics: np.ndarray, words: int, start: LearntPriors) -> LearntPriors:
    """The maximum of both likelihoods, from the topics (tokens,) that the tokens of some documents were sampled in.

    Args:
        words: the size of the vocabulary.
        start: where to begin; its gamma has the number of topics.

    >>> rng = np.random.default_rng(0)
    >>> shares = rng.dirichlet([0.5, 0.5, 2.0], size=2_000)
    >>> topics = np.concatenate([rng.choice(3, 50, p=row) for row in shares]).astype(np.uint16)
    >>> documents = Documents(np.arange(2_001) * 50, np.zeros(100_000, int))
    >>> learnt_priors(documents, topics, 2, LearntPriors(np.full(3, 0.1), 0.1)).gamma.round(1).tolist()
    [0.5, 0.5, 2.0]
    """
    return LearntPriors(_learnt_gamma(documents, topics, start.gamma), _learnt_alpha(documents, topics, words, start))


def _learnt_gamma(documents: Documents, topics: np.ndarray, start: np.ndarray) -> np.ndarray:
    gamma, lengths = start.astype(np.float64), documents.lengths[documents.lengths > 0]
    for _ in range(LEARNT_ROUNDS):
        total = gamma.sum()
        shared = float(np.sum(digamma(lengths + total) - digamma(total)))
        new = np.maximum(gamma * _use(documents.starts, topics, gamma) / shared, LEAST_PRIOR)
        is_over = np.abs(new - gamma).max() < 1e-4 * gamma.max()
        gamma = new
        if is_over:
            break
    return gamma.astype(np.float32)


def _learnt_alpha(documents: Documents, topics: np.ndarray, words: int, start: LearntPriors) -> float:
    count = len(start.gamma)
    cells, numbers = np.unique(topics.astype(np.int64) * words + documents.words, return_counts=True)
    totals = np.bincount(cells // words, numbers, count)
    values, times = np.unique(numbers, return_counts=True)
    alpha = start.alpha
    for _ in range(LEARNT_ROUNDS):
        above = np.sum(times * (digamma(values + alpha) - digamma(alpha)))
        below = words * np.sum(digamma(totals + words * alpha) - digamma(words * alpha))
        new = max(float(alpha * above / below), LEAST_PRIOR)
        is_over = abs(new - alpha) < 1e-4 * alpha
        alpha = new
        if is_over:
            break
    return alpha


@cached_njit(nogil=True)
def _use(starts, topics, gamma):
    """sum_d [psi(n_dk + gamma_k) - psi(gamma_k)], (K,)."""
    # psi(n + gamma) - psi(gamma) = sum over j < n of 1 / (gamma + j): the j-th token of a topic in a document adds one
    found, count = np.zeros(len(gamma)), np.zeros(len(gamma), np.int64)
    for d in range(len(starts) - 1):
        for i in range(starts[d], starts[d + 1]):
            k = topics[i]
            found[k] += 1 / (gamma[k] + count[k])
            count[k] += 1
        for i in range(starts[d], starts[d + 1]):
            count[topics[i]] = 0
    return found
