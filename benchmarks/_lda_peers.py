"""What benchmarks/lda.py compares topic models with: tomotopy, gensim, scikit-learn, timed while they learn.

Each gives phi (words, topics), the prior of topics in a document that goes with it, and CPU seconds of all threads.
"""

import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ergodica.lda.corpus import Documents

WORKERS = 2
STATES, STATES_APART = 10, 10  # of tomotopy that are averaged, and the iterations between two


class PeerModel(NamedTuple):
    """single: phi of the last state. mean: of (n + eta) averaged over the last ten states, ten iterations apart."""

    name: str
    single: np.ndarray
    mean: np.ndarray
    gamma: np.ndarray | float
    cpu: float


def tomotopy(
    documents: Documents, words: int, topics: int, eta: float, seed: int, marks: tuple[int, ...]
) -> Iterator[PeerModel]:
    """Collapsed Gibbs sampling with learnt alpha, as it is after each of the numbers of iterations in `marks`."""
    import tomotopy as tp

    model = tp.LDAModel(k=topics, eta=eta, alpha=0.1, seed=seed + 1)
    for document in documents:
        model.add_doc([str(word) for word in document])
    model.train(0)  # gets ready
    known = np.array([int(word) for word in model.used_vocabs])
    cpu, done = 0.0, 0
    for mark in marks:
        averaged = []
        first = max(done, mark - STATES_APART * (STATES - 1))
        for until in [*range(first, mark, STATES_APART), mark]:
            begin = time.process_time()
            model.train(until - done, workers=WORKERS)
            cpu, done = cpu + time.process_time() - begin, until
            averaged.append(_smoothed(model, known, words, topics, eta))
        mean, last = np.mean(averaged, axis=0), averaged[-1]
        yield PeerModel(
            f"tomotopy {mark}, eta {eta:g}", last / last.sum(0), mean / mean.sum(0), np.asarray(model.alpha), cpu
        )


def _smoothed(model: Any, known: np.ndarray, words: int, topics: int, eta: float) -> np.ndarray:
    """n + eta, for words it has not seen as well."""
    found = np.full((words, topics), eta)
    totals = np.asarray(model.get_count_by_topics()) + len(known) * eta
    for topic in range(topics):
        found[known, topic] = model.get_topic_word_dist(topic) * totals[topic]
    return found


def gensim(documents: Documents, words: int, topics: int, seed: int, passes: int = 10) -> PeerModel:
    from gensim.models import LdaModel

    counted = [np.unique(document, return_counts=True) for document in documents]
    corpus = [list(zip(ids.tolist(), counts.tolist(), strict=True)) for ids, counts in counted]
    names = {number: str(number) for number in range(words)}
    begin = time.process_time()
    never: Any = None  # what gensim takes for it, but does not declare
    model = LdaModel(corpus, topics, id2word=names, random_state=seed, eval_every=never, passes=passes)
    cpu = time.process_time() - begin
    phi = model.get_topics().T
    return PeerModel(f"gensim, {passes} passes", phi, phi, 1 / topics, cpu)


def scikit_learn(documents: Documents, words: int, topics: int, seed: int, iterations: int = 30) -> PeerModel:
    """Batch; in one process, as two took longer."""
    from scipy.sparse import csr_matrix
    from sklearn.decomposition import LatentDirichletAllocation

    counts, columns, starts = documents.to_csr(words)
    matrix = csr_matrix((counts.astype(np.float64), columns, starts), (len(documents), words))
    model = LatentDirichletAllocation(topics, learning_method="batch", max_iter=iterations, random_state=seed)
    begin = time.process_time()
    model.fit(matrix)
    cpu = time.process_time() - begin
    phi = (model.components_ / model.components_.sum(1, keepdims=True)).T
    return PeerModel(f"scikit-learn, batch {iterations}", phi, phi, 1 / topics, cpu)
