"""Topic shares of documents that are not learnt from, how uncertain they are, and perplexity by document completion.

Shares come from Gibbs sweeps at fixed topics. For perplexity nine tenths of a document tell its topics, and the rest is
predicted:

    perplexity = exp(-mean over test words of log pbar(w)),  p(w) = sum_k eta_dk phi_wk

`single`: p of one draw of the topics. `averaged`: pbar is the mean of p over several draws, the posterior predictive
(Patterson and Teh, 2013). Figures of different vocabularies cannot be compared, so the size of the vocabulary and the
perplexity of the words' frequencies alone stand beside them.

How uncertain shares are: with topics phi given, the topics z of a document's N words are sampled by Gibbs sweeps. Given
z its shares eta have a Dirichlet law with A_k + gamma_k, A_k the words in topic k. With G = sum_k gamma_k and
m_k = (A_k + gamma_k) / (N + G) the law of total variance says

    Var(eta_k) = E[m_k (1 - m_k) / (N + G + 1)] + Var(m_k)

with mean and variance over states z of several independent runs. Where topics were sampled too, every run has another
draw of phi, so that their uncertainty is in both terms; where they were only found, it is not.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ergodica.errors import InputError
from ergodica.lda import gibbs
from ergodica.lda.corpus import Documents

SHARE_SWEEPS, SHARE_BURN_IN = 50, 25
WARM_SWEEPS, WARM_BURN_IN = 5, 1
PRODUCTS_HELD = 1 << 24  # of eta times phi held at a time
DEVIATION_RUNS = 8  # independent ones, where there are no draws of the topics
RUN_STATES, STATE_SWEEPS = 12, 2  # states z of a run, and the sweeps from one to the next
DEVIATION_BURN_IN = 25


def shares(
    phi: np.ndarray,
    documents: Documents,
    gamma: float | np.ndarray,
    seed: int,
    visit: int = 0,
    sweeps: int = SHARE_SWEEPS,
) -> np.ndarray:
    """(n, K) eta_dk = (A_dk + gamma) / (A_d. + K gamma), A the expected counts of the document's topics."""
    burn_in = min(SHARE_BURN_IN, sweeps // 2)
    found = gibbs.expectations(
        phi, documents, gamma, sweeps=sweeps, burn_in=burn_in, seed=seed, visit=visit, want="shares"
    )
    return eta_of(found.shares, gamma)


def eta_of(counts: np.ndarray, gamma: float | np.ndarray) -> np.ndarray:
    """(n, K) the shares that expected counts stand for."""
    smoothed = counts.astype(np.float64) + gamma
    return smoothed / smoothed.sum(axis=1, keepdims=True)


class Perplexity(NamedTuple):
    """How well held-out words are predicted, as `LDA.perplexity` gives it; smaller is better.

    Use it to compare models with one vocabulary: a model that gives every word the same probability has the size of the
    vocabulary. `single` is of the last draw, `averaged` of the predictions averaged over draws, `unigram` of the words'
    frequencies alone (Wallach et al., 2009, https://doi.org/10.1145/1553374.1553515, on document completion).
    """

    single: float
    averaged: float
    unigram: float
    vocabulary: int
    documents: int

    def to_dict(self) -> dict[str, Any]:
        figures = {"perplexity": {"single": self.single, "averaged": self.averaged}, "unigram_perplexity": self.unigram}
        return figures | {"vocabulary": self.vocabulary, "documents": self.documents}


class HistoryRow(NamedTuple):
    """An evaluation on the held-out documents. `seconds`: of learning, without the evaluations."""

    documents: int
    seconds: float
    single: float
    averaged: float


def word_probabilities(phi: np.ndarray, eta: np.ndarray, test: Documents) -> np.ndarray:
    """p(w) of every test word in turn: sum_k eta_dk phi_wk."""
    rows = np.repeat(np.arange(len(test)), test.lengths)
    found = np.empty(test.tokens)
    length = max(1, PRODUCTS_HELD // phi.shape[1])
    for first in range(0, test.tokens, length):
        part = slice(first, first + length)
        found[part] = np.einsum("tk,tk->t", eta[rows[part]], phi[test.words[part]])
    return found


def unigram_law(counts: np.ndarray) -> np.ndarray:
    """Probabilities of words by how often each was seen, one added to all."""
    return (counts + 1) / (counts.sum() + len(counts))


def perplexity(
    single: np.ndarray, draws: Sequence[np.ndarray], batches: Iterable[Documents],
    gamma: float | np.ndarray, counts: np.ndarray, seed: int,
) -> Perplexity:  # fmt: skip
    """Of documents that were not learnt from.

    Args:
        single: phi (words, topics) of one draw.
        draws: those that are averaged.
        batches: the documents, some at a time.
        gamma: the documents' prior.
        counts: how often each word was seen in learning, for the unigram figure.
    """
    logs, tokens, seen, law = np.zeros(3), 0, 0, unigram_law(counts)
    for documents in batches:
        train, test = documents.split_tenth()
        p = [word_probabilities(phi, shares(phi, train, gamma, seed, seen), test) for phi in (single, *draws)]
        mean = np.mean(p[1:] or p, axis=0)
        logs += [np.log(values).sum() for values in (p[0], mean, law[test.words])]
        tokens += test.tokens
        seen += len(documents)
    check_test_words(tokens, seen)
    single_figure, averaged, unigram = np.exp(-logs / tokens).tolist()
    return Perplexity(single_figure, averaged, unigram, len(law), seen)


def check_test_words(tokens: int, documents: int) -> None:
    if documents == 0:
        raise InputError("there are no documents with two words of the vocabulary: perplexity needs some")
    if tokens == 0:
        raise InputError(
            f"none of the {documents} documents has ten words of the vocabulary, and every tenth word is what is "
            "predicted: give longer ones"
        )


class HeldOut:
    """Documents evaluated again and again while a model learns: p of their test words, now and on average so far."""

    def __init__(self, documents: Documents, seed: int):
        self.documents, self.seed = documents, seed
        self.train, self.test = documents.split_tenth()
        check_test_words(self.test.tokens, len(documents))
        self.total, self.evaluations = np.zeros(self.test.tokens), 0
        self._topics = np.zeros(self.train.tokens, np.uint16)  # where the last evaluation left the tokens

    def evaluate(
        self, phi: np.ndarray, gamma: float | np.ndarray, sweeps: int = SHARE_SWEEPS, is_warm: bool = False
    ) -> tuple[float, float]:
        """(single, averaged); every evaluation has random numbers of its own.

        Args:
            is_warm: begin where the last one ended, with a few sweeps: for topics that move little in between.
        """
        visit = self.evaluations * len(self.documents)
        if is_warm and self.evaluations:
            counts = gibbs.expectations(
                phi, self.train, gamma, sweeps=WARM_SWEEPS, burn_in=WARM_BURN_IN, seed=self.seed, visit=visit,
                want="shares", start="given", topics=self._topics,
            ).shares  # fmt: skip
        else:
            burn_in = min(SHARE_BURN_IN, sweeps // 2)
            counts = gibbs.expectations(
                phi, self.train, gamma, sweeps=sweeps, burn_in=burn_in, seed=self.seed, visit=visit, want="shares",
                topics=self._topics if is_warm else None,
            ).shares  # fmt: skip
        p = word_probabilities(phi, eta_of(counts, gamma), self.test)
        self.total += p
        self.evaluations += 1
        return float(np.exp(-np.log(p).mean())), float(np.exp(-np.log(self.total / self.evaluations).mean()))

    def saved(self, name: str) -> dict[str, np.ndarray]:
        """For a checkpoint."""
        return {
            f"{name}_total": self.total.copy(), f"{name}_evaluations": np.array(self.evaluations),
            f"{name}_topics": self._topics.copy(), f"{name}_starts": self.documents.starts,
            f"{name}_words": self.documents.words,
        }  # fmt: skip

    def restore(self, name: str, saved: dict[str, np.ndarray]) -> None:
        self.total, self.evaluations = saved[f"{name}_total"].copy(), int(saved[f"{name}_evaluations"])
        self._topics = saved[f"{name}_topics"].copy()


def share_deviations(
    phis: Sequence[np.ndarray], documents: Documents, gamma: float | np.ndarray, seed: int, visit: int = 0
) -> np.ndarray:
    """(n, K): the standard deviation of each share; of an empty document that of the prior.

    Args:
        phis: (words, topics) each, one for every run: draws, or the same again and again.
        visit: the number in the stream of the first of these documents.
    """
    topics = phis[0].shape[1]
    prior = np.broadcast_to(np.asarray(gamma, np.float64), (topics,))
    total = documents.lengths[:, None] + prior.sum()
    # around the first state, so that no small difference of large numbers is taken
    first = np.zeros((len(documents), topics))
    sums, squares, within = np.zeros_like(first), np.zeros_like(first), np.zeros_like(first)
    count = len(phis) * RUN_STATES
    for run, phi in enumerate(phis):
        z = np.zeros(documents.tokens, np.uint16)
        for state in range(RUN_STATES):
            sweeps = STATE_SWEEPS if state else DEVIATION_BURN_IN + 1
            number = np.random.SeedSequence([seed, run, state]).generate_state(1, np.uint64)[0]
            found = gibbs.expectations(
                phi, documents, gamma, sweeps=sweeps, burn_in=sweeps - 1, seed=int(number), visit=visit,
                estimator="sampled", want="shares", start="given" if state else "uniform", topics=z,
            )  # fmt: skip
            mean = (found.shares + prior) / total
            if run == state == 0:
                first = mean
            sums += mean - first
            squares += (mean - first) ** 2
            within += mean * (1 - mean) / (total + 1)
    between = (squares - sums**2 / count) / (count - 1)
    return np.sqrt(within / count + np.maximum(between, 0))


WATCHED_DOCUMENTS = 250


def watched_of(documents: Documents, seed: int) -> HeldOut | None:
    """Some of the documents learnt from, where none is held out: their perplexity shows when nothing changes."""
    try:
        return HeldOut(documents.take(range(min(WATCHED_DOCUMENTS, len(documents)))), seed)
    except InputError:  # none has ten words
        return None
