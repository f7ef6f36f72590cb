"""What the gradient of a topic model needs of a batch: the expected topics of its words and documents."""

from typing import NamedTuple

import numba
import numpy as np

from ergodica.errors import InputError
from ergodica.host.validate import choice, positive_number
from ergodica.lda.corpus.documents import Documents
from ergodica.lda.gibbs import dense, sparse
from ergodica.lda.gibbs.cached import cached_njit
from ergodica.lda.gibbs.layout import BatchLayout, aligned_zeros, lay_out, padded

GIBBS_ESTIMATORS, GIBBS_KERNELS = ("rao-blackwell", "sampled"), ("auto", "dense", "sparse")
GIBBS_WANTS, GIBBS_STARTS = ("both", "counts", "shares"), ("uniform", "phi", "given")
MOST_TOPICS = 65_535  # numbers of topics are uint16
SPARSE_FROM = 200  # topics; measured in docs/explanation/lda.md


class Expectations(NamedTuple):
    """N_wk = E[tokens of word w in topic k] of the batch's words, and A_dk = E[tokens of document d in topic k].

    words (m,) int32, rising; counts (m, K) float32; shares (n, K) float32, each row the sum of the document's tokens.
    """

    words: np.ndarray
    counts: np.ndarray
    shares: np.ndarray


class GibbsPlan(NamedTuple):
    """What a kernel has to know of the sampling; gamma (K padded,), `start` a place in GIBBS_STARTS."""

    gamma: np.ndarray
    sweeps: int
    burn_in: int
    seed: np.uint64
    visit: np.uint64
    start: int
    rao_blackwell: bool


def expectations(
    phi: np.ndarray, documents: Documents, gamma: float | np.ndarray, *, sweeps: int, burn_in: int, seed: int,
    visit: int, estimator: str = "rao-blackwell", kernel: str = "auto", want: str = "both", start: str = "uniform",
    topics: np.ndarray | None = None,
) -> Expectations:  # fmt: skip
    """Expected topic counts by Gibbs sampling in every document, bit-equal for any number of threads.

    Args:
        phi: (V, K) float32, in C order: the probability of each word in each topic; a word's row in any scale.
        gamma: the prior of a document's topics: a number, or (K,) float32, one for each.
        sweeps: in all; the first `burn_in` are not counted.
        visit: the number in the stream of the first of these documents. The random numbers of document i depend on the
            seed and visit + i alone.
        estimator: "sampled" counts the topics drawn, as the paper does; "rao-blackwell" averages the probabilities they
            were drawn with: the same expectation, less noise.
        kernel: "dense" looks at every topic for every token; "sparse" at those the document has; "auto" picks by K.
        want: "counts" or "shares" leaves the other empty, "both" neither.
        start: topics at the first sweep: "uniform", "phi", drawn in proportion to gamma_k phi_wk, or "given".
        topics: (tokens,) uint16, by token in the order of documents.words; on return those at the end of the last
            sweep. With start="given", those at the beginning of the first one.

    >>> phi = np.array([[0.9, 0.1], [0.1, 0.9]], np.float32)
    >>> found = expectations(phi, Documents.of([[0, 0, 0], [1]]), 0.1, sweeps=50, burn_in=10, seed=0, visit=0)
    >>> found.words.tolist(), found.counts.shape, [round(float(x)) for x in found.shares[1]]
    ([0, 1], (2, 2), [0, 1])
    """
    _check(phi, documents, sweeps, burn_in, visit)
    choice("estimator", estimator, GIBBS_ESTIMATORS)
    choice("kernel", kernel, GIBBS_KERNELS)
    choice("want", want, GIBBS_WANTS)
    choice("start", start, GIBBS_STARTS)
    _check_topics(topics, start, documents.tokens, phi.shape[1])
    plan = GibbsPlan(
        _prior(gamma, phi.shape[1]), int(sweeps), int(burn_in), np.uint64(int(seed) % 2**64),
        np.uint64(int(visit) % 2**64), GIBBS_STARTS.index(start), estimator == "rao-blackwell",
    )  # fmt: skip
    layout = lay_out(documents, len(phi))
    z = np.empty(documents.tokens, np.uint16) if topics is None or start != "given" else topics[layout.source]
    if kernel == "sparse" or (kernel == "auto" and phi.shape[1] >= SPARSE_FROM):
        counts, shares = _sparse(phi, layout, plan, z, want)
    else:
        counts, shares = _dense(phi, layout, plan, z, want)
    if topics is not None:
        topics[layout.source] = z
    return Expectations(layout.words, counts, shares)


def _dense(
    phi: np.ndarray, layout: BatchLayout, plan: GibbsPlan, z: np.ndarray, want: str
) -> tuple[np.ndarray, np.ndarray]:
    topics, width, threads = phi.shape[1], padded(phi.shape[1]), numba.get_num_threads()
    rows = aligned_zeros(len(layout.words), width)
    _check_rows(_scaled_rows(phi, layout.words, rows))
    sums = aligned_zeros(0 if want == "shares" else len(layout.cell_word), width)
    shares = aligned_zeros(len(layout.order), width)
    room = aligned_zeros(threads, 2, 2 * width + dense.SLOT_ROOM)
    dense.run(rows, tuple(layout), topics, tuple(plan), z, sums, shares, room, threads)
    counted = np.float32(plan.sweeps - plan.burn_in)
    counts = np.zeros((0 if want == "shares" else len(layout.words), topics), np.float32)
    if want != "shares":
        _added(sums, layout.word_cells, counted, counts)
    return counts, shares[: 0 if want == "counts" else None, :topics] / counted


def _sparse(
    phi: np.ndarray, layout: BatchLayout, plan: GibbsPlan, z: np.ndarray, want: str
) -> tuple[np.ndarray, np.ndarray]:
    topics, counted = phi.shape[1], plan.sweeps - plan.burn_in
    tables = np.empty((len(layout.words), topics), np.float32)
    sparse.running_sums(phi, layout.words, plan.gamma, tables)
    bad = np.flatnonzero(tables[:, -1] <= 0)
    _check_rows(int(layout.words[bad[0]]) if len(bad) else -1)
    found = sparse.room_for(len(layout.tokens), len(layout.cell_word), counted)
    threads, width = numba.get_num_threads(), padded(topics)
    numbers, whole = aligned_zeros(threads, 2 * width + dense.SLOT_ROOM), np.zeros((threads, 2 * width), np.int32)
    sparse.run(phi, tables, tuple(layout), tuple(plan), z, found, numbers, whole, threads)
    counts = np.zeros((0 if want == "shares" else len(layout.words), topics), np.float32)
    shares = np.zeros((0 if want == "counts" else len(layout.order), topics), np.float32)
    if want != "shares":
        sparse.add_words(phi, tuple(layout), found, plan.gamma, np.float32(counted), counts)
    if want != "counts":
        sparse.add_documents(phi, tuple(layout), found, plan.gamma, np.float32(counted), shares)
    return counts, shares


def _check_rows(bad: int) -> None:
    if bad >= 0:
        raise InputError(
            f"phi[{bad}] is negative somewhere or zero in every topic: expected a probability above 0 for every word "
            "that occurs"
        )


def _check(phi: np.ndarray, documents: Documents, sweeps: int, burn_in: int, visit: int) -> None:
    if not isinstance(phi, np.ndarray) or phi.dtype != np.float32 or phi.ndim != 2 or not phi.flags.c_contiguous:
        got = f"{phi.dtype} of shape {phi.shape}" if isinstance(phi, np.ndarray) else type(phi).__name__
        raise InputError(
            f"phi is {got}: expected float32 of shape (words, topics) in C order; np.ascontiguousarray(phi, np.float32)"
        )
    if phi.shape[1] > MOST_TOPICS:
        raise InputError(f"phi has {phi.shape[1]:,} topics: expected at most {MOST_TOPICS:,}")
    if not _is_finite(phi):
        w, k = np.argwhere(~np.isfinite(phi))[0]
        raise InputError(f"phi[{w}, {k}] is {phi[w, k]}: expected finite probabilities")
    if not isinstance(documents, Documents):
        raise InputError(f"documents is {type(documents).__name__}: expected Documents, as Documents.of makes them")
    if documents.tokens and not 0 <= documents.words.min() <= documents.words.max() < len(phi):
        bad = documents.words.max() if documents.words.min() >= 0 else documents.words.min()
        raise InputError(f"documents have the word number {bad}, but phi has {len(phi)} words: 0 to {len(phi) - 1}")
    if not 0 <= burn_in < sweeps:
        raise InputError(f"sweeps is {sweeps} and burn_in {burn_in}: expected 0 <= burn_in < sweeps")
    if visit < 0:
        raise InputError(f"visit is {visit}: expected the number of the first document in the stream, from 0")


def _prior(gamma: float | np.ndarray, topics: int) -> np.ndarray:
    """(K padded,) the prior of every topic."""
    prior = aligned_zeros(padded(topics))
    if np.ndim(gamma) == 0:
        prior[:topics] = positive_number("gamma", gamma)
        return prior
    vector = np.asarray(gamma, np.float32)
    if vector.shape != (topics,) or not (np.isfinite(vector).all() and (vector > 0).all()):
        raise InputError(f"gamma is an array of shape {vector.shape}: expected {topics} finite numbers above 0")
    prior[:topics] = vector
    return prior


def _check_topics(given: np.ndarray | None, start: str, tokens: int, topics: int) -> None:
    if given is None:
        if start == "given":
            raise InputError('start is "given", and topics is None: expected the topic of every token')
        return
    if not isinstance(given, np.ndarray) or given.dtype != np.uint16 or given.shape != (tokens,):
        got = f"{given.dtype} of shape {given.shape}" if isinstance(given, np.ndarray) else type(given).__name__
        raise InputError(f"topics is {got}: expected uint16 of shape ({tokens},), one for each token")
    if start == "given" and tokens and given.max() >= topics:
        raise InputError(f"topics has the number {given.max()}, but phi has {topics} topics: 0 to {topics - 1}")


@cached_njit(nogil=True)
def _scaled_rows(phi, words, rows):
    """Rows of phi divided by their largest entry: no draw changes, and products stay in range. A bad word, or -1."""
    for i in range(len(words)):
        largest, smallest = np.float32(0), np.float32(0)
        for k in range(phi.shape[1]):
            largest, smallest = max(largest, phi[words[i], k]), min(smallest, phi[words[i], k])
        if smallest < 0 or largest <= 0:
            return words[i]
        for k in range(phi.shape[1]):
            rows[i, k] = phi[words[i], k] / largest
    return -1


@cached_njit(nogil=True, parallel=True)
def _added(sums, word_cells, counted, counts):
    """The cells of every word, in their order; in float64, as there may be very many."""
    for w in numba.prange(len(word_cells) - 1):
        total = np.zeros(counts.shape[1])
        for cell in range(word_cells[w], word_cells[w + 1]):
            for k in range(counts.shape[1]):
                total[k] += sums[cell, k]
        for k in range(counts.shape[1]):
            counts[w, k] = total[k] / counted


@cached_njit(nogil=True, fastmath={"reassoc"})
def _is_finite(matrix):
    # x - x is 0 or NaN
    total = np.float32(0)
    for w in range(matrix.shape[0]):
        for k in range(matrix.shape[1]):
            total += matrix[w, k] - matrix[w, k]
    return total == 0
