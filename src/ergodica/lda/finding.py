"""Finding topics by averaged counts, an optimiser's answer, and the priors of a topic model, learnt on the way.

Expected counts of a batch, N_wk by Gibbs sampling at phi, scaled to the tokens of the corpus, are averaged over batches
at a rate that falls with the steps t alone, down to where n is an average over an eighth of a pass. Nothing of it
depends on the number of topics or the length of documents, and on the size of the corpus by the batch's share of it:

    n_wk <- (1 - rho) n_wk + rho (tokens of the corpus / tokens of the batch) N_wk,  rho = (1 + (t+1)/30)^-0.9 or 8 n/S
    phi_wk = (n_wk + alpha) / (n_.k + V alpha)

That is stochastic EM (Celeux and Diebolt, 1985; in its online form Cappe and Moulines, 2009,
https://arxiv.org/abs/0712.4273), with counts as in the collapsed samplers (Griffiths and Steyvers, 2004). It finds
topics; it has no posterior, and its phi is called what it is, the averaged-count estimate.

A document that is visited again meets its own tokens in n, and would confirm itself: a word that occurs once would stay
in its topic for ever. So the token being drawn is taken out of n first, as collapsed Gibbs sampling does. How much of n
is a document's own is known: a visit adds rho (scale) of it, every later step takes the fraction rho off. On 1,000
articles of Wikipedia with 50 topics that is 80 in perplexity.

The priors are gamma of topics in a document and alpha of words in a topic. Both are Dirichlet priors of counts, whose
likelihood (Minka, 2000, Estimating a Dirichlet distribution) rises with

    gamma_k <- gamma_k  sum_d [psi(n_dk + gamma_k) - psi(gamma_k)] / sum_d [psi(n_d + gamma_.) - psi(gamma_.)]

Counts must be sampled ones: averaged counts are spread over more topics than any sample, and gamma runs away.

While topics are being found only the shape of gamma is learnt, and half of it: with the full estimate documents and
topics confirm each other, each document ends in one topic, and held-out perplexity rises by 5 to 20 % (1,000 articles,
50 and 200 topics). What the likelihood says of gamma and alpha is learnt once the topics are found, and frozen: it is
the prior of the posterior that is then sampled.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import digamma

from ergodica.lda.corpus.documents import Documents
from ergodica.lda.expanded_mean import column_sums
from ergodica.lda.gibbs import expectations
from ergodica.lda.gibbs.cached import by_parts, cached_njit, thread_count
from ergodica.lda.gibbs.estimate import OwnCounts
from ergodica.lda.store import DocumentStore
from ergodica.lda.stream import DocumentBatch

DEFAULT_GAMMA = 0.1  # at 50 topics; their sum rises with the root of their number
DEFAULT_ALPHA = 0.02
EVEN_SHARE = 0.5  # of gamma while finding, that all topics share equally
SLOWEST_RATE = 0.02  # at which the shape of gamma is averaged
LEARNT_ROUNDS = 200
LEAST_PRIOR = 1e-4
# On 9,500 and 1,000 articles, 50 topics, 14 and 30 passes, mean of two seeds: 1,800 and 2,405; with 10 and 0.7 1,836
# and 2,460, with 60 and 1 1,814 and 2,398 (averaged as below)
RATE_STEPS, RATE_POWER = 30.0, 0.9
# and never so slow that n is an average over more than an eighth of a pass: topics keep moving, and the mean of where
# they go is better than where they would come to rest. 1,000 articles with 50 topics, 80 passes, and 9,500 with 50, 60
# passes, mean of three and of two files: 2,339 and 1,750; with 4 2,371 and 1,760, 2 2,415 and 1,766, 0 2,450 and 1,774,
# 16 2,433
LEAST_RATE = 8.0
LEAST_RATE_FROM = 300  # steps: up to there a rate that falls finds more
LARGEST_LEAST_RATE = 0.4  # where a batch is more than a twentieth of the corpus
MEAN_EVERY = 8  # steps between two of the counts that are averaged
# topics: beyond, the sparse kernel is several times as fast, but what it counts is noisier: at 1,000 topics and 9,500
# articles it had a perplexity of 1,636 after four passes, in 3.6 s, and the dense one 1,419 in 10.2 s
DENSE_UP_TO = 1_024
SMALLEST_SCALE = 1e-25  # of n as it is stored, before it is written out again: float32 ends at 1e38
WORTH_THREADS = 1 << 19  # numbers; with fewer, to wake a thread costs more than it saves
DUPLICATE_OVERLAP = 0.9  # from which two topics are called one,
PARTED_OVERLAP = 0.65  # and from which they are parted to see; of 50 topics of Wikipedia the largest is 0.55 to 0.58
START_EVENNESS = 100.0  # topics begin similar: shape of the Gamma numbers they begin with


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


def overlaps(phi: np.ndarray) -> np.ndarray:
    """(K, K): sum_w sqrt(phi_wk phi_wl) of pairs k < l, else 0; 1 for topics that are the same."""
    roots = np.sqrt(np.maximum(phi, 0)).astype(np.float32)
    return np.triu(roots.T @ roots, 1)


def duplicates(phi: np.ndarray) -> list[tuple[int, int]]:
    """Pairs of topics that are nearly the same."""
    return [(int(k), int(other)) for k, other in np.argwhere(overlaps(phi) > DUPLICATE_OVERLAP)]


def rate_of(step: int, share: float) -> float:
    """rho, for a batch that has this share of the documents of the corpus.

    >>> round(rate_of(0, 0.001), 2), round(rate_of(10_000, 0.001), 3), round(rate_of(10_000, 0.05), 1)
    (0.97, 0.008, 0.4)
    """
    falling = (1 + (step + 1) / RATE_STEPS) ** -RATE_POWER
    return falling if step < LEAST_RATE_FROM else max(falling, min(LEAST_RATE * share, LARGEST_LEAST_RATE))


class Finder:
    """Topics by averaged counts.

    Args:
        words, topics: V and K.
        alpha: added to the counts of a word in a topic.
        prior: of the topics in a document.
        sweeps, burn_in: of a first visit to a document; a later one, whose topics are known, takes one sweep.
    """

    def __init__(self, words: int, topics: int, alpha: float, prior: TopicPrior, sweeps: int, burn_in: int, seed: int):
        self.alpha, self.prior, self.sweeps, self.burn_in, self.seed = alpha, prior, sweeps, burn_in, seed
        self.steps = 0
        start = np.random.default_rng(seed).standard_gamma(START_EVENNESS, (words, topics), np.float32)
        self._stored = start / np.float32(START_EVENNESS)
        # n is `scale` times what is stored: a step then changes the rows of its own words only
        self._scale, self._decay = 1.0, 0.0
        self._totals = self._stored.sum(axis=0, dtype=np.float64)
        self._mean, self._averaged = np.zeros_like(self._stored), 0

    @property
    def counts(self) -> np.ndarray:
        """n, (words, topics)."""
        return self._stored * np.float32(self._scale)

    @property
    def phi(self) -> np.ndarray:
        """(words, topics): the averaged-count estimate, from n averaged once more, over the last half of the steps."""
        smoothed = (self._mean if self._averaged else self.counts) + np.float32(self.alpha)
        return smoothed / smoothed.sum(axis=0, dtype=np.float64).astype(np.float32)

    @property
    def _unit(self) -> np.ndarray:
        """1 / (n_.k + V alpha): what one token is in phi."""
        return (1 / (self._totals + len(self._stored) * self.alpha)).astype(np.float32)

    def step(self, batch: DocumentBatch, store: DocumentStore | None) -> None:
        """Learn from a batch of a corpus that has about batch.tokens tokens."""
        documents, places = batch.documents, batch.places
        words, local = _compact(documents.words, len(self._stored))
        unit = self._unit
        phi = np.empty((len(words), len(unit)), np.float32)
        scale, alpha = np.float32(self._scale), np.float32(self.alpha)
        _on_rows(phi, lambda first, last: _rows(self._stored, words, scale, alpha, unit, phi, first, last))
        found, topics, own = self._visit(phi, Documents(documents.starts, local), batch, store, unit)
        rate = rate_of(self.steps, len(documents) / batch.size)
        weight = batch.tokens / max(1, documents.tokens)
        if store is not None and places is not None and store.keeps_topics:
            store.keep_topics(places, topics)
            self._decay += math.log1p(-rate)
            # the weight of a document is kept as of the start of the run, so that all decay together
            store.weights[places] = np.log((1 - rate) * own + rate * weight) - self._decay
        self._scale *= 1 - rate
        factor = np.float32(rate * weight / self._scale)
        _on_rows(found, lambda first, last: _add(self._stored, words, found, factor, first, last))
        self._totals = (1 - rate) * self._totals + rate * weight * column_sums(found)
        if self._scale < SMALLEST_SCALE:
            self._write_out()
        self.prior.learn(documents.starts, topics, rate)
        self.steps += 1
        self._average()

    def _visit(self, phi, documents, batch, store, unit):
        """Counts of the batch, the topics its tokens are left in, and the weights of the documents in n."""
        topics = np.zeros(documents.tokens, np.uint16)
        own, kept = np.zeros(len(documents), np.float32), None
        settings = {"sweeps": self.sweeps, "burn_in": self.burn_in, "start": "phi"}
        if batch.is_known and store is not None and store.keeps_topics:
            topics = store.topics(batch.places)
            own = np.exp(store.weights[batch.places] + self._decay).astype(np.float32)
            kept = OwnCounts(own, unit, np.float32(self.alpha))
            settings = {"sweeps": 1, "burn_in": 0, "start": "given"}
        found = expectations(
            phi, documents, self.prior.gamma, seed=self.seed, visit=batch.visit, want="counts", topics=topics,
            own=kept, kernel="dense" if phi.shape[1] <= DENSE_UP_TO else "auto", **settings,
        )  # fmt: skip
        return found.counts, topics, own

    def _average(self) -> None:
        # begun again at steps 8, 16, 32, ...: over what came after, a quarter to a half of all steps, or at first less
        if self.steps % MEAN_EVERY:
            return
        turn = self.steps // MEAN_EVERY
        self._averaged = 1 if turn & (turn - 1) == 0 else self._averaged + 1
        scale, share = np.float32(self._scale), np.float32(1 / self._averaged)
        _on_rows(self._mean, lambda first, last: _move_mean(self._mean, self._stored, scale, share, first, last))

    def part_topics(self, store: DocumentStore | None) -> bool:
        """Of the two topics most like each other one takes all, the other half of the words of the largest topic.

        Two topics in one place mean that two others share one, in the same corpus, and no step of averaging leaves
        that. Whether it was so here, perplexity shows: `answer` and `return_to` are for going back. False where no two
        overlap.
        """
        self._write_out()
        overlap = overlaps(self.phi)
        kept, freed = (int(k) for k in np.unravel_index(np.argmax(overlap), overlap.shape))
        if overlap[kept, freed] < PARTED_OVERLAP or len(overlap) < 3:
            return False
        sizes = self._stored.sum(axis=0)
        sizes[[kept, freed]] = 0
        largest = int(np.argmax(sizes))
        share = np.random.default_rng((self.seed, self.steps)).random(len(self._stored), np.float32)
        self._stored[:, kept] += self._stored[:, freed]
        self._stored[:, freed] = share * self._stored[:, largest]
        self._stored[:, largest] *= 1 - share
        if store is not None:
            store.rename_topic(freed, kept)
        self._averaged, self._totals = 0, self._stored.sum(axis=0, dtype=np.float64)
        return True

    def answer(self) -> dict[str, np.ndarray]:
        """The estimate as it is now: n averaged, and the prior."""
        return {"counts": self._mean.copy() if self._averaged else self.counts, **self.prior.saved()}

    def return_to(self, answer: dict[str, np.ndarray]) -> None:
        self._stored, self._mean = answer["counts"].copy(), answer["counts"].copy()
        self._scale, self._averaged, self._totals = 1.0, 1, self._stored.sum(axis=0, dtype=np.float64)
        self.prior.restore(answer)

    def _write_out(self) -> None:
        self._stored *= np.float32(self._scale)
        self._scale = 1.0
        self._totals = self._stored.sum(axis=0, dtype=np.float64)

    def saved(self) -> dict[str, np.ndarray]:
        """All that is needed to continue."""
        numbers = np.array([self.steps, self._scale, self._decay, self._averaged])
        arrays = {"counted": self._stored.copy(), "mean": self._mean.copy(), "totals": self._totals}
        return {**arrays, "numbers": numbers, **self.prior.saved()}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        self._stored, self._mean = saved["counted"].copy(), saved["mean"].copy()
        self._totals = saved["totals"].copy()
        steps, self._scale, self._decay, averaged = saved["numbers"].tolist()
        self.steps, self._averaged = int(steps), int(averaged)
        self.prior.restore(saved)


@cached_njit(nogil=True)
def _compact(words, vocabulary):
    """The distinct words, rising, and the place of every token's word among them."""
    place = np.full(vocabulary, -1, np.int32)
    for word in words:
        place[word] = 0
    count = 0
    for word in range(vocabulary):
        if place[word] == 0:
            place[word] = count
            count += 1
    distinct, local = np.empty(count, np.int32), np.empty(len(words), np.int32)
    for i in range(len(words)):
        local[i] = place[words[i]]
        distinct[local[i]] = words[i]
    return distinct, local


def _on_rows(matrix: np.ndarray, work: Callable[[int, int], object]) -> None:
    """work(first, last) on parts of the rows: on several threads where there is enough to do for them."""
    by_parts(work, len(matrix), thread_count() if matrix.size >= WORTH_THREADS else 1)


@cached_njit(nogil=True)
def _rows(stored, words, scale, alpha, unit, out, first, last):
    """out = (n_w + alpha) unit, for some of the words."""
    for i in range(first, last):
        for k in range(stored.shape[1]):
            out[i, k] = (stored[words[i], k] * scale + alpha) * unit[k]


@cached_njit(nogil=True)
def _add(stored, words, counts, factor, first, last):
    for i in range(first, last):
        for k in range(stored.shape[1]):
            stored[words[i], k] += factor * counts[i, k]


@cached_njit(nogil=True)
def _move_mean(mean, stored, scale, share, first, last):
    for w in range(first, last):
        for k in range(mean.shape[1]):
            mean[w, k] += share * (stored[w, k] * scale - mean[w, k])
