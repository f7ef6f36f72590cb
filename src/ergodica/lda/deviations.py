"""How uncertain the topic shares of a document are.

With topics phi given, the topics z of a document's N words are sampled by Gibbs sweeps. Given z its shares eta have a
Dirichlet law with A_k + gamma_k, A_k the words in topic k. With G = sum_k gamma_k and m_k = (A_k + gamma_k) / (N + G)
the law of total variance says

    Var(eta_k) = E[m_k (1 - m_k) / (N + G + 1)] + Var(m_k)

with mean and variance over states z of several independent runs. Where topics were sampled too, every run has another
draw of phi, so that their uncertainty is in both terms; where they were only found, it is not.
"""

from collections.abc import Sequence

import numpy as np

from ergodica.lda import gibbs
from ergodica.lda.corpus.documents import Documents

DEVIATION_RUNS = 8  # independent ones, where there are no draws of the topics
RUN_STATES, STATE_SWEEPS = 12, 2  # states z of a run, and the sweeps from one to the next
DEVIATION_BURN_IN = 25


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
