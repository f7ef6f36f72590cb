"""A posterior without gradient noise: the topics of all tokens are a part of the chain's state.

Where the store keeps the topics z of all tokens, theta need not be moved by an estimate from a batch. Given z,

    p(theta | z, words) ~ prod_wk theta_wk^(alpha - 1) exp(-theta_wk) (theta_wk / theta_.k)^n_wk(z),

whose drift is that of expanded_mean.py with n_wk(z), the counts of all tokens, instead of (S/n) N_wk; and given theta
one Gibbs sweep over a batch leaves p(z | theta, words) invariant. So steps that do one after the other leave the joint
posterior invariant as the step size goes to 0, and its theta has the posterior of the paper: data augmentation
(Tanner and Wong, 1987), of which a batch is one block. Counts of a batch are not scaled up, so there is no noise to
compensate for or to keep small, and the step is bounded by the discretisation of theta's equation alone: on the
demo 200 effective draws take a hundredth of the passes that batches alone take.
"""

from dataclasses import dataclass, field

import numpy as np

from ergodica.errors import NonFiniteError
from ergodica.lda.corpus.documents import Documents
from ergodica.lda.expanded_mean import ExpandedMean, column_sums, phi_of
from ergodica.lda.gibbs import Expectations, expectations
from ergodica.lda.gibbs.cached import cached_njit
from ergodica.lda.store import DocumentStore


COUNTED_ONCE = np.float32(1)  # a token


class AllTopics:
    """The topics of all tokens, in the store, and their counts n_wk."""

    def __init__(self, store: DocumentStore, words: int, topics: int):
        self.store, self.places = store, np.zeros(0, np.int64)
        self.counts = np.zeros((words, topics), np.float32)  # whole numbers, exact up to 2^24
        for first in range(0, len(store), _AT_A_TIME):
            places = np.arange(first, min(first + _AT_A_TIME, len(store)))
            _tally(self.counts, store.take(places).words, store.topics(places), COUNTED_ONCE)

    def sweep(self, phi: np.ndarray, documents: Documents, gamma: float | np.ndarray, visit: int, seed: int) -> None:
        """Draw the topics of the documents at `places` again."""
        before = self.store.topics(self.places)
        after = before.copy()
        expectations(
            phi, documents, gamma, sweeps=1, burn_in=0, seed=seed, visit=visit, estimator="sampled", want="shares",
            start="given", topics=after,
        )  # fmt: skip
        _tally(self.counts, documents.words, before, -COUNTED_ONCE)
        _tally(self.counts, documents.words, after, COUNTED_ONCE)
        self.store.keep_topics(self.places, after)


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
_SMALLEST = np.float32(1e-37)  # theta may be 0 in SCIR, but a word that occurs must have a topic


@cached_njit(nogil=True)
def _tally(counts, words, topics, change):
    for i in range(len(words)):
        counts[words[i], topics[i]] += change
