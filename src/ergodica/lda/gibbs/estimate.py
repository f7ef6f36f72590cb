"""What the gradient of a topic model needs of a batch: the expected topics of its words and documents; and checks."""

from typing import Any, NamedTuple

import numpy as np

from ergodica.errors import InputError
from ergodica.host.validate import choice, positive_number
from ergodica.lda.corpus.documents import Documents
from ergodica.lda.gibbs import counting, dense, sparse
from ergodica.lda.gibbs.cached import by_parts, in_threads, thread_count
from ergodica.lda.gibbs.counting import Draws, PriorRows
from ergodica.lda.gibbs.layout import BatchLayout, aligned_empty, aligned_zeros, from_layout, lay_out, padded, to_layout
from ergodica.lda.gibbs.vectors import LANE_COUNT

GIBBS_ESTIMATORS, GIBBS_KERNELS = ("rao-blackwell", "sampled"), ("auto", "dense", "sparse")
GIBBS_WANTS, GIBBS_STARTS = ("both", "counts", "shares"), ("uniform", "phi", "given")
# topics from which the sparse kernel is the faster: where the dense one has to add up probabilities for every word of
# every document, and otherwise; measured in docs/explanation/lda.md
SPARSE_FROM, SPARSE_FROM_WITHOUT_SUMS = 150, 300
MOST_TOPICS = 65_535  # numbers of topics are uint16


class Expectations(NamedTuple):
    """N_wk = E[tokens of word w in topic k] of the batch's words, and A_dk = E[tokens of document d in topic k].

    words (m,) int32, rising; counts (m, K) float32; shares (n, K) float32, each row the sum of the document's tokens.
    """

    words: np.ndarray
    counts: np.ndarray
    shares: np.ndarray


class WholeCounts(NamedTuple):
    """Counts of a part of a batch as whole numbers: sums over parts do not depend on how the batch was split.

    words (m,) int32, rising; numbers (m, K) int32, in units of 2^-shift of a token and sweep; prior (m,) int32, what
    each word has in proportion to gamma_k phi_wk besides; shifts (m,) int32. `float_counts` makes counts of sums.
    """

    words: np.ndarray
    numbers: np.ndarray
    prior: np.ndarray
    shifts: np.ndarray


class GibbsPlan(NamedTuple):
    """What a kernel has to know of the sampling; gamma (K padded,), `start` a place in GIBBS_STARTS."""

    gamma: np.ndarray
    sweeps: int
    burn_in: int
    seed: np.uint64
    visit: np.uint64
    start: int
    rao_blackwell: bool


class OwnCounts(NamedTuple):
    """How much of phi each document has made itself: then no token confirms the topic that it has already.

    phi_wk is (n_wk + alpha) unit_k, and weights[d] of n_wk is every token of document d at the topic it starts with:
    for its draw phi_wk there is max(n_wk - weights[d], 0) + alpha times unit_k.

    weights (n,) float32; unit (K,) float32.
    """

    weights: np.ndarray
    unit: np.ndarray
    alpha: np.float32


_NOTHING_OWN = OwnCounts(np.zeros(0, np.float32), np.zeros(0, np.float32), np.float32(0))


class _Sampled(NamedTuple):
    """What a kernel leaves: draws, or instead of them the sums of cells and documents; the latter by their mean."""

    layout: BatchLayout
    rows: PriorRows
    shifts: np.ndarray
    draws: Draws | None
    cells: np.ndarray
    shares: np.ndarray


def expectations(
    phi: np.ndarray, documents: Documents, gamma: float | np.ndarray, *, sweeps: int, burn_in: int, seed: int,
    visit: int, estimator: str = "rao-blackwell", kernel: str = "auto", want: str = "both", start: str = "uniform",
    topics: np.ndarray | None = None, own: OwnCounts | None = None,
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
        kernel: "dense" looks at every topic for every token; "sparse" at those the document has; "auto" picks the
            faster one, by K, estimator and want.
        want: "counts" or "shares" leaves the other empty, "both" neither.
        start: topics at the first sweep: "uniform", "phi", drawn in proportion to gamma_k phi_wk, or "given".
        topics: (tokens,) uint16, by token in the order of documents.words; on return those at the end of the last
            sweep. With start="given", those at the beginning of the first one.
        own: what to take out of phi; for one sweep from topics that are given. The sparse kernel then takes "sampled".

    >>> phi = np.array([[0.9, 0.1], [0.1, 0.9]], np.float32)
    >>> found = expectations(phi, Documents.of([[0, 0, 0], [1]]), 0.1, sweeps=50, burn_in=10, seed=0, visit=0)
    >>> found.words.tolist(), found.counts.shape, [round(float(x)) for x in found.shares[1]]
    ([0, 1], (2, 2), [0, 1])
    """
    check_own(own, documents, sweeps, start, phi.shape[1])
    if own is not None and _is_sparse(kernel, phi.shape[1], want != "shares"):
        estimator = "sampled"
    plan = _planned(phi, documents, gamma, sweeps, burn_in, seed, visit, estimator, start)
    phi, counted = _readonly(phi), plan.sweeps - plan.burn_in
    sampled = _sampled(phi, documents, plan, kernel, want, topics, None, own or _NOTHING_OWN)
    layout, rows, shifts, draws, _, shares = sampled
    counts = np.zeros((0, phi.shape[1]), np.float32)
    if want != "shares" and draws is not None:
        counts = counting.counts_of_draws(draws, layout.word_tokens, rows, shifts, counted)
    elif want != "shares":
        whole = _whole(sampled)
        counts = counting.as_counts(rows, shifts, counted, whole.numbers, whole.prior)
    if want != "counts" and draws is not None:
        shares = counting.shares_of(rows, layout, draws)
    return Expectations(layout.words, counts, shares)


def whole_counts(
    phi: np.ndarray, documents: Documents, gamma: float | np.ndarray, *, sweeps: int, burn_in: int, seed: int,
    visit: int, batch_tokens: np.ndarray, estimator: str = "rao-blackwell", kernel: str = "auto",
    start: str = "uniform", topics: np.ndarray | None = None,
) -> WholeCounts:  # fmt: skip
    """The counts of `expectations` for a part of a batch, in whole numbers that other parts can be added to.

    Args:
        batch_tokens: (V,) how many tokens of each word the whole batch has.

    The rest as in `expectations`; `visit` is that of the first document of this part.
    """
    plan = _planned(phi, documents, gamma, sweeps, burn_in, seed, visit, estimator, start)
    phi = _readonly(phi)
    return _whole(_sampled(phi, documents, plan, kernel, "counts", topics, np.asarray(batch_tokens)))


def float_counts(phi: np.ndarray, gamma: float | np.ndarray, whole: WholeCounts, counted: int) -> np.ndarray:
    """(m, K) float32: the expected counts that whole numbers, summed over all parts of a batch, stand for.

    Args:
        counted: sweeps that were counted.
    """
    phi, gamma = _readonly(phi), prior_of(gamma, phi.shape[1])
    _, totals = _tables(phi, whole.words, gamma)
    rows = PriorRows(phi, gamma, whole.words, totals)
    return counting.as_counts(rows, whole.shifts, counted, whole.numbers, whole.prior)


def _planned(phi, documents, gamma, sweeps, burn_in, seed, visit, estimator, start) -> GibbsPlan:
    check_input(phi, documents, sweeps, burn_in, visit)
    choice("estimator", estimator, GIBBS_ESTIMATORS)
    choice("start", start, GIBBS_STARTS)
    return GibbsPlan(
        prior_of(gamma, phi.shape[1]), int(sweeps), int(burn_in), np.uint64(int(seed) % 2**64),
        np.uint64(int(visit) % 2**64), GIBBS_STARTS.index(start), estimator == "rao-blackwell",
    )  # fmt: skip


def _is_sparse(kernel: str, topics: int, has_sums: bool) -> bool:
    return kernel == "sparse" or (
        kernel == "auto" and topics >= (SPARSE_FROM if has_sums else SPARSE_FROM_WITHOUT_SUMS)
    )


def _readonly(phi: np.ndarray) -> np.ndarray:
    """For Numba an array that can be written to is of another type: it would compile everything for either."""
    view = phi.view()
    view.setflags(write=False)
    return view


def _sampled(
    phi: np.ndarray, documents: Documents, plan: GibbsPlan, kernel: str, want: str, topics: np.ndarray | None,
    batch_tokens: np.ndarray | None, own: OwnCounts = _NOTHING_OWN,
) -> _Sampled:  # fmt: skip
    choice("kernel", kernel, GIBBS_KERNELS)
    choice("want", want, GIBBS_WANTS)
    is_given = GIBBS_STARTS[plan.start] == "given"
    check_topics(topics, is_given, documents.tokens, phi.shape[1])
    layout = lay_out(documents, len(phi))
    z = np.empty(documents.tokens, np.uint16)
    if topics is not None and is_given:
        to_layout(topics, layout.source, z)
    tokens = np.diff(layout.word_tokens) if batch_tokens is None else batch_tokens[layout.words]
    shifts = counting.shifts_of(tokens, plan.sweeps - plan.burn_in)
    find = _sparse if _is_sparse(kernel, phi.shape[1], plan.rao_blackwell and want != "shares") else _dense
    found = find(phi, layout, plan, own, z, shifts, want)
    if topics is not None:
        from_layout(z, layout.source, topics)
    return found


def _dense(
    phi: np.ndarray, layout: BatchLayout, plan: GibbsPlan, own: OwnCounts, z: np.ndarray, shifts: np.ndarray, want: str
) -> _Sampled:
    topics, width, threads, counted = phi.shape[1], padded(phi.shape[1]), thread_count(), plan.sweeps - plan.burn_in
    rows, scales = aligned_empty(len(layout.words), width), np.empty(len(layout.words), np.float32)
    refuse_row(phi, dense.scale_rows(phi, layout.words, rows, scales))
    by_draw = not plan.rao_blackwell
    sums = aligned_empty(0 if by_draw or want == "shares" else layout.cells, width)
    shares = aligned_zeros(0 if by_draw or want == "counts" else len(layout.order), width)
    draws = _room_for_draws(layout.tokens if by_draw else 0, 0, 0, counted)
    room, queue = aligned_zeros(threads, 2, 2 * width + dense.SLOT_ROOM), np.zeros(1, np.int64)
    in_threads(
        lambda t: dense.run(
            rows, scales, tuple(layout), topics, tuple(plan), tuple(own), z, shifts, sums, shares, draws.topics,
            room[t], queue,
        ), threads,
    )  # fmt: skip
    nothing_left = PriorRows(phi, plan.gamma, layout.words, np.ones(len(layout.words), np.float32))
    shares = shares[:, :topics] / np.float32(counted)
    return _Sampled(layout, nothing_left, shifts, draws if by_draw else None, sums.view(np.int32), shares)


def _sparse(
    phi: np.ndarray, layout: BatchLayout, plan: GibbsPlan, own: OwnCounts, z: np.ndarray, shifts: np.ndarray, want: str
) -> _Sampled:
    width, threads, counted = padded(phi.shape[1]), thread_count(), plan.sweeps - plan.burn_in
    blocks, totals = _tables(phi, layout.words, plan.gamma)
    bad = np.flatnonzero(~((totals > 0) & np.isfinite(totals)))
    refuse_row(phi, int(layout.words[bad[0]]) if len(bad) else -1)
    weighted = layout.tokens if plan.rao_blackwell else 0
    draws = _room_for_draws(
        layout.tokens, 0 if want == "counts" else weighted, 0 if want == "shares" else weighted, counted
    )
    numbers, whole = aligned_zeros(threads, 2 * width + dense.SLOT_ROOM), np.zeros((threads, 2 * width), np.int32)
    queue = np.zeros(1, np.int64)
    in_threads(
        lambda t: sparse.run(
            phi, (blocks, totals), tuple(layout), tuple(plan), tuple(own), z, shifts, tuple(draws), numbers[t],
            whole[t], queue,
        ), threads,
    )  # fmt: skip
    nothing = np.zeros((0, phi.shape[1]), np.float32)
    rows = PriorRows(phi, plan.gamma, layout.words, totals)
    return _Sampled(layout, rows, shifts, draws, nothing.view(np.int32), nothing)


def _tables(phi: np.ndarray, words: np.ndarray, gamma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    size = len(words)
    blocks, totals = np.empty((size, padded(len(gamma) // LANE_COUNT)), np.float32), np.empty(size, np.float32)
    by_parts(lambda a, b: sparse.make_tables(phi, words, gamma, blocks, totals, a, b), size, thread_count())
    return blocks, totals


def _room_for_draws(tokens: int, weights: int, rounded: int, counted: int) -> Draws:
    shapes = (((tokens, np.uint16)), (weights, np.float32), (rounded, np.int32))
    return Draws(*(np.empty((size, counted), kind) for size, kind in shapes))


def _whole(sampled: _Sampled) -> WholeCounts:
    layout, rows, shifts, draws, cells, _ = sampled
    topics = rows.phi.shape[1]
    if draws is None:
        numbers, prior = counting.add_cells(cells, layout.word_cells, topics)
    else:
        numbers, prior = counting.add_draws(draws, layout.word_tokens, shifts, topics)
    return WholeCounts(layout.words, numbers, prior, shifts)


def check_input(phi: Any, documents: Any, sweeps: int, burn_in: int, visit: int) -> None:
    """Types, shapes and ranges; the numbers in phi are checked by `refuse_row`, for the words that occur."""
    if not isinstance(phi, np.ndarray) or phi.dtype != np.float32 or phi.ndim != 2 or not phi.flags.c_contiguous:
        raise InputError(
            f"phi is {_got(phi)}: expected float32 of shape (words, topics) in C order; "
            "np.ascontiguousarray(phi, np.float32)"
        )
    if phi.shape[1] > MOST_TOPICS:
        raise InputError(f"phi has {phi.shape[1]:,} topics: expected at most {MOST_TOPICS:,}")
    if not isinstance(documents, Documents):
        raise InputError(f"documents is {type(documents).__name__}: expected Documents, as Documents.of makes them")
    least, most = (documents.words.min(), documents.words.max()) if documents.tokens else (0, -1)
    if least < 0 or most >= len(phi):
        bad = least if least < 0 else most
        raise InputError(f"documents have the word number {bad}, but phi has {len(phi)} words: 0 to {len(phi) - 1}")
    if not 0 <= burn_in < sweeps:
        raise InputError(f"sweeps is {sweeps} and burn_in {burn_in}: expected 0 <= burn_in < sweeps")
    if visit < 0:
        raise InputError(f"visit is {visit}: expected the number of the first document in the stream, from 0")


def prior_of(gamma: float | np.ndarray, topics: int) -> np.ndarray:
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


def check_topics(given: Any, is_start: bool, tokens: int, topics: int) -> None:
    """The topics of the tokens, if they are given; `is_start`: as those of the first sweep."""
    if given is None:
        if is_start:
            raise InputError('start is "given", and topics is None: expected the topic of every token')
        return
    if not isinstance(given, np.ndarray) or given.dtype != np.uint16 or given.shape != (tokens,):
        raise InputError(f"topics is {_got(given)}: expected uint16 of shape ({tokens},), one for each token")
    if not (given.flags.c_contiguous and given.flags.writeable):
        raise InputError("topics is read-only or has gaps: expected an array in C order, as the topics are left in it")
    if is_start and tokens and given.max() >= topics:
        raise InputError(f"topics has the number {given.max()}, but phi has {topics} topics: 0 to {topics - 1}")


def check_own(own: Any, documents: Documents, sweeps: int, start: str, topics: int) -> None:
    """What is taken out of phi, if anything is."""
    if own is None:
        return
    if start != "given" or sweeps != 1:
        raise InputError(f"own is given with start={start!r} and {sweeps} sweeps: expected topics given and one sweep")
    if own.weights.shape != (len(documents),) or own.unit.shape != (topics,):
        raise InputError(
            f"own has weights of shape {own.weights.shape} and a unit of {own.unit.shape}: expected "
            f"({len(documents)},), one for each document, and ({topics},)"
        )


def refuse_row(phi: np.ndarray, bad: int) -> None:
    """`bad` is a word whose row cannot be drawn from, or -1."""
    if bad < 0:
        return
    strange = np.flatnonzero(~np.isfinite(phi[bad]))
    if len(strange):
        raise InputError(f"phi[{bad}, {strange[0]}] is {phi[bad, strange[0]]}: expected finite probabilities")
    raise InputError(
        f"phi[{bad}] is negative somewhere or zero in every topic: expected a probability above 0 for every word "
        "that occurs"
    )


def _got(value: Any) -> str:
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
