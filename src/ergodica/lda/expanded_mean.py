"""LDA as a target: the topics' words in the expanded mean, the documents' topics summed out by Gibbs sampling.

Topic k is phi_k = theta_k / theta_.k with theta_wk independent Gamma(alpha, 1) a priori, so that phi_k is
Dirichlet(alpha). For S documents, of which a batch has n (paper's supplement; Patterson and Teh, 2013):

    U(theta) = sum_wk [(1 - alpha) log theta_wk + theta_wk] - (S/n) sum_d log p(w_d | phi),
    dU/dtheta_wk = (1 - alpha) / theta_wk + 1 - (S/n) [N_wk / theta_wk - N_.k / theta_.k],

where N_wk is the expected number of tokens of word w in topic k (`ergodica.lda.gibbs`).

`Augmented` is that posterior without gradient noise: the topics of all tokens are a part of the chain's state. Where
the store keeps the topics z of all tokens, theta need not be moved by an estimate from a batch. Given z,

    p(theta | z, words) ~ prod_wk theta_wk^(alpha - 1) exp(-theta_wk) (theta_wk / theta_.k)^n_wk(z),

whose drift is the one above with n_wk(z), the counts of all tokens, instead of (S/n) N_wk; and given theta one Gibbs
sweep over a batch leaves p(z | theta, words) invariant. So steps that do one after the other leave the joint posterior
invariant as the step size goes to 0, and its theta has the posterior of the paper: data augmentation (Tanner and Wong,
1987), of which a batch is one block. Counts of a batch are not scaled up, so there is no noise to compensate for or to
keep small, and the step is bounded by the discretisation of theta's equation alone: on the demo 200 effective draws
take a hundredth of the passes that batches alone take.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ergodica.errors import InputError, NonFiniteError
from ergodica.host.validate import positive_number, whole
from ergodica.lda.corpus.documents import Documents
from ergodica.lda.gibbs import Expectations, expectations
from ergodica.lda.gibbs.cached import cached_njit, prange
from ergodica.lda.gibbs.estimate import prior_of
from ergodica.lda.store import DocumentStore
from ergodica.targets import Box, External

# The median of Gamma(1e-4, 1) is about 2^-10000, and float32 ends at 2^-149: the floor is part of the model.
THETA_FLOOR = 1e-10
# A probability below this is no float32, and Gibbs sampling needs a positive one for every word that occurs.
_LEAST_PROBABILITY = np.finfo(np.float32).tiny
_SUM_BLOCKS = 64
COUNTED_ONCE = np.int64(1)  # a token


@dataclass(frozen=True)
class ExpandedMean:
    """The posterior of theta, (V, K) float32 with theta >= `floor`, given documents that come in batches.

    Use it where `LDA` is too much: it is the target alone, for `eg.Kernel`, `eg.sample` or a sampler of your own. Its
    gradient is an estimate from a batch; samplers leave exp(-U) invariant with U as above (Patterson and Teh, 2013;
    Ma, Chen and Fox, 2015, supplement, https://arxiv.org/abs/1506.04696).

    Args:
        words, topics: V and K.
        size: S, the number of documents that a batch stands for.
        alpha: of the words in a topic. gamma: of the topics in a document, a number or one for each topic.
        sweeps, burn_in, estimator, start, kernel: as in `gibbs.expectations`.
        floor: on theta; a part of the model.

    >>> model = ExpandedMean(words=3, topics=2, size=10, alpha=0.5, gamma=0.1, sweeps=20, burn_in=5)
    >>> model.gradient(model.init(seed=0), Documents.of([[0, 2, 2], [1]]), visit=0, seed=0).shape
    (3, 2)
    """

    words: int
    topics: int
    size: float
    """S; `LDA` sets it to what is known at each step."""
    alpha: float
    gamma: float | np.ndarray
    sweeps: int
    burn_in: int
    estimator: str = "rao-blackwell"
    start: str = "uniform"
    kernel: str = "auto"
    floor: float = THETA_FLOOR

    def __post_init__(self):
        for name in ("words", "topics"):
            whole(name, getattr(self, name), 1)
        for name in ("size", "alpha", "floor"):
            positive_number(name, getattr(self, name))
        prior_of(self.gamma, self.topics)

    def init(self, seed: int = 0, evenness: float = 1.0, mean: float = 1.0) -> np.ndarray:
        """Independent Gamma numbers of shape `evenness`: 1 as in the paper, more for topics that begin similar.

        Args:
            mean: 1 as in the paper; with alpha theta_.k begins at V alpha, its mean under the posterior.
        """
        theta = np.random.default_rng(seed).standard_gamma(evenness, (self.words, self.topics), np.float32)
        return np.maximum(theta / np.float32(evenness / mean), np.float32(self.floor))

    def target(self, batches: Iterable[tuple[Documents, int]]) -> External:
        """For `eg.Kernel` and `eg.sample`: each batch is (documents, visit number of the first)."""

        def gradient(theta: np.ndarray, batch: tuple[Documents, int], seed: int) -> np.ndarray:
            documents, visit = batch
            return self.gradient(theta, documents, visit, seed)

        return External(gradient, batches, domain=Box(self.floor, np.inf))

    def gradient(self, theta: np.ndarray, documents: Documents, visit: int, seed: int) -> np.ndarray:
        """dU/dtheta, (V, K) float32, from a batch."""
        theta = np.ascontiguousarray(theta, np.float32)
        sums, found = self.counts(theta, documents, visit, seed)
        scale = self.size / len(documents)
        out = np.empty_like(theta)
        counted = column_sums(found.counts)
        _gradient(theta, sums, found.words, found.counts, counted, float(self.alpha), float(scale), out)
        return out

    def counts(self, theta: np.ndarray, documents: Documents, visit: int, seed: int) -> tuple[np.ndarray, Expectations]:
        """theta_.k, and the expected counts N of a batch."""
        if theta.shape != (self.words, self.topics):
            raise InputError(f"theta has shape {theta.shape}: expected (words, topics) = {(self.words, self.topics)}")
        if len(documents) == 0:
            raise InputError("the batch has no documents: expected at least one")
        sums = column_sums(theta)
        if not np.isfinite(sums).all():
            raise NonFiniteError("theta is not finite")
        return sums, expectations(
            _phi(theta, sums), documents, self.gamma, sweeps=self.sweeps, burn_in=self.burn_in, seed=seed, visit=visit,
            estimator=self.estimator, kernel=self.kernel, want="counts", start=self.start,
        )  # fmt: skip


def phi_of(theta: np.ndarray) -> np.ndarray:
    """The topics' words, theta / theta.sum(0)."""
    return _phi(theta, column_sums(theta))


def is_finite(matrix: np.ndarray) -> bool:
    """Whether all of its numbers are: by their sums, which a number that is not would spoil, in half of JAX's time."""
    return bool(np.isfinite(column_sums(matrix)).all())


def _phi(theta: np.ndarray, sums: np.ndarray) -> np.ndarray:
    out = np.empty_like(theta)
    _divided(theta, sums, out)
    return out


@cached_njit(nogil=True, parallel=True)
def column_sums(matrix):
    # In float64: the sum of 8,000 float32 numbers one by one would be off by up to 1e-4 of itself. By blocks whose
    # number is fixed, so that it is the same for any number of threads.
    rows, topics = matrix.shape
    parts = np.zeros((_SUM_BLOCKS, topics))
    for block in prange(_SUM_BLOCKS):
        part = parts[block]
        for w in range(rows * block // _SUM_BLOCKS, rows * (block + 1) // _SUM_BLOCKS):
            for k in range(topics):
                part[k] += matrix[w, k]
    sums = np.zeros(topics)
    for block in range(_SUM_BLOCKS):
        for k in range(topics):
            sums[k] += parts[block, k]
    return sums


@cached_njit(nogil=True, parallel=True)
def _divided(theta, sums, out):
    inverse = (1 / sums).astype(np.float32)
    for w in prange(theta.shape[0]):
        for k in range(theta.shape[1]):
            out[w, k] = max(theta[w, k] * inverse[k], _LEAST_PROBABILITY)


@cached_njit(nogil=True, parallel=True)
def _gradient(theta, theta_sums, words, counts, count_sums, alpha, scale, out):
    constant = (1 + scale * count_sums / theta_sums).astype(np.float32)
    prior, scale32 = np.float32(1 - alpha), np.float32(scale)
    for w in prange(theta.shape[0]):
        for k in range(theta.shape[1]):
            out[w, k] = prior / theta[w, k] + constant[k]
    for i in prange(len(words)):
        for k in range(theta.shape[1]):
            out[words[i], k] -= scale32 * counts[i, k] / theta[words[i], k]


class AllTopics:
    """The topics of all tokens, in the store, and their counts n_wk."""

    def __init__(self, store: DocumentStore, words: int, topics: int):
        self.store, self.places = store, np.zeros(0, np.int64)
        self.documents, self._counts = len(store), np.zeros((words, topics), np.int64)
        for first in range(0, len(store), _AT_A_TIME):
            places = np.arange(first, min(first + _AT_A_TIME, len(store)))
            _tally(self._counts, store.take(places).words, store.topics(places), COUNTED_ONCE)

    @property
    def counts(self) -> np.ndarray:
        """(words, topics) float32."""
        return self._counts.astype(np.float32)

    def unseen_mass(self, phi: np.ndarray, alpha: float) -> tuple[float, float]:
        """What phi gives the words that a topic has no token of, summed over topics, and what it should on average:
        given z, phi_k is Dirichlet(alpha + n_k)."""
        is_unseen = self._counts == 0
        totals = self._counts.sum(axis=0) + len(self._counts) * alpha
        return float(phi[is_unseen].sum(dtype=np.float64)), float(np.sum(alpha * is_unseen.sum(axis=0) / totals))

    def sweep(self, phi: np.ndarray, documents: Documents, gamma: float | np.ndarray, visit: int, seed: int) -> None:
        """Draw the topics of the documents at `places` again."""
        if len(self.places) != len(documents) or self.places.max(initial=-1) >= self.documents:
            raise InputError("these documents are not those whose topics are counted: fit again")
        before = self.store.topics(self.places)
        after = before.copy()
        expectations(
            phi, documents, gamma, sweeps=1, burn_in=0, seed=seed, visit=visit, estimator="sampled", want="shares",
            start="given", topics=after,
        )  # fmt: skip
        _tally(self._counts, documents.words, before, -COUNTED_ONCE)
        _tally(self._counts, documents.words, after, COUNTED_ONCE)
        self.store.keep_topics(self.places, after)


def draw_topics(store: DocumentStore, phi: np.ndarray, gamma: np.ndarray, seed: int) -> None:
    """The topics of all tokens again, at phi: those where they were left belong to topics as they moved."""
    for first in range(0, len(store) if store.keeps_topics else 0, _AT_A_TIME):
        places = np.arange(first, min(first + _AT_A_TIME, len(store)))
        documents = store.take(places)
        topics = np.zeros(documents.tokens, np.uint16)
        expectations(
            phi, documents, gamma, sweeps=_FIRST_SWEEPS, burn_in=_FIRST_SWEEPS - 1, seed=seed, visit=first,
            estimator="sampled", want="shares", start="phi", topics=topics,
        )  # fmt: skip
        store.keep_topics(places, topics)


@dataclass(frozen=True)
class Augmented(ExpandedMean):
    """The posterior of theta together with the topics of all tokens: `counts` draws those of a batch again.

    Its size is that of the batch, so that S/n is 1: what it counts is the whole corpus.
    """

    state: AllTopics = field(kw_only=True)

    def counts(self, theta: np.ndarray, documents: Documents, visit: int, seed: int) -> tuple[np.ndarray, Expectations]:
        sums = column_sums(theta)
        if not np.isfinite(sums).all():
            raise NonFiniteError("theta is not finite")
        self.state.sweep(np.maximum(phi_of(theta), _SMALLEST), documents, self.gamma, visit, seed)
        everything = np.arange(self.words, dtype=np.int32)
        return sums, Expectations(everything, self.state.counts, np.zeros((0, self.topics), np.float32))


_AT_A_TIME = 5_000  # documents
_FIRST_SWEEPS = 10
_SMALLEST = np.float32(1e-37)  # theta may be 0 in SCIR, but a word that occurs must have a topic


@cached_njit(nogil=True)
def _tally(counts, words, topics, change):
    for i in range(len(words)):
        counts[words[i], topics[i]] += change
