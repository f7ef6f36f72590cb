"""The Gibbs kernel against enumeration: of the posterior, and of the chain after exactly so many sweeps."""

import itertools
import os
import warnings

import numba
import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.lda.corpus import Documents
from ergodica.lda.gibbs import WholeCounts, counting, dense, expectations, float_counts, sparse, whole_counts
from ergodica.lda.gibbs.cached import in_threads
from ergodica.lda.gibbs.layout import _laid_out, from_layout, to_layout

REPLICAS = 1_000_000
WITHIN = 1e-3  # of the mean over a million replicas: 2 standard errors of a sampled count would be 2e-3 / sqrt(sweeps)
PHI = np.array([[0.5, 0.1, 0.2], [0.2, 0.6, 0.1], [0.3, 0.3, 0.7]], np.float32)
GAMMA = 0.3
GAMMAS = np.array([0.1, 0.3, 0.9], np.float32)  # one a topic
DOCUMENT = (0, 1, 1, 2)


def replicated(document: tuple[int, ...], times: int) -> Documents:
    return Documents(np.arange(times + 1) * len(document), np.tile(np.array(document, np.int32), times))


def states(document: tuple[int, ...], topics: int) -> np.ndarray:
    return np.array(list(itertools.product(range(topics), repeat=len(document))))


def conditional(phi, document, gamma, z, i, keeps_own_count=False):
    """p(z_i = k | the others), and wrongly with the token's own count left in."""
    counts = np.bincount(z if keeps_own_count else np.delete(z, i), minlength=phi.shape[1])
    weights = (counts + gamma) * phi[document[i]]
    return weights / weights.sum()


def posterior(phi: np.ndarray, document: tuple[int, ...], gamma: float | np.ndarray) -> np.ndarray:
    """p(z | w) of every state, by the chain rule of the Polya urn."""
    found = []
    for z in states(document, phi.shape[1]):
        seen, p = np.zeros(phi.shape[1]), 1.0
        for word, k in zip(document, z, strict=True):
            p *= (seen[k] + np.broadcast_to(gamma, seen.shape)[k]) * phi[word, k]
            seen[k] += 1
        found.append(p)
    return np.array(found) / np.sum(found)


def counts_of(law: np.ndarray, document: tuple[int, ...], shape: tuple[int, int]) -> np.ndarray:
    """E[N_wk] under a law over states."""
    counts = np.zeros(shape)
    for p, z in zip(law, states(document, shape[1]), strict=True):
        np.add.at(counts, (list(document), z), p)
    return counts


def after_sweeps(phi, document, gamma, sweeps, burn_in, keeps_own_count=False):
    """E[N_wk] averaged over the sweeps after burn_in of a chain begun uniformly: a matrix product for each token."""
    document, everything = tuple(sorted(document)), states(document, phi.shape[1])
    index = {tuple(z): i for i, z in enumerate(everything)}
    moves = []
    for i in range(len(document)):
        move = np.zeros((len(everything),) * 2)
        for row, z in enumerate(everything):
            p = conditional(phi, document, gamma, z, i, keeps_own_count)
            for k in range(phi.shape[1]):
                move[row, index[(*z[:i], k, *z[i + 1 :])]] += p[k]
        moves.append(move)
    law, total = np.full(len(everything), 1 / len(everything)), np.zeros(phi.shape)
    for sweep in range(sweeps):
        for i, move in enumerate(moves):
            law = law @ move
            if sweep >= burn_in:  # the token's topic as it was drawn
                for p, z in zip(law, everything, strict=True):
                    total[document[i], z[i]] += p
    return total / (sweeps - burn_in)


def mean_counts(phi, document, gamma, replicas=REPLICAS, **how) -> np.ndarray:
    how = {"seed": 1, "visit": 0, "sweeps": 4, "burn_in": 1} | how
    found = expectations(phi, replicated(document, replicas), gamma, **how)
    counts = np.zeros(phi.shape)
    counts[found.words] = found.counts / replicas
    np.testing.assert_allclose(found.shares.sum(0, dtype=np.float64) / replicas, counts.sum(0), atol=1e-4)
    return counts


@pytest.mark.parametrize(
    ("kernel", "estimator"),
    [
        ("dense", "rao-blackwell"),
        ("sparse", "sampled"),
        pytest.param("dense", "sampled", marks=pytest.mark.long),
        pytest.param("sparse", "rao-blackwell", marks=pytest.mark.long),
    ],
)
def test_a_million_replicas_after_four_sweeps_agree_with_the_chain_enumerated(kernel, estimator):
    exact = after_sweeps(PHI.astype(float), DOCUMENT, GAMMA, 4, 1)
    found = mean_counts(PHI, DOCUMENT, GAMMA, kernel=kernel, estimator=estimator)
    assert np.max(np.abs(found - exact)) < WITHIN


@pytest.mark.parametrize("kernel", ["dense", "sparse"])
@pytest.mark.parametrize(("document", "topics"), [((2,), 3), ((0, 2, 1), 3), (DOCUMENT, 2)])
def test_thirty_sweeps_after_ten_are_enough_for_the_exact_posterior_of_short_documents(kernel, document, topics):
    phi = np.ascontiguousarray(PHI[:, :topics])
    exact = counts_of(posterior(phi.astype(float), document, GAMMA), document, phi.shape)
    found = mean_counts(phi, document, GAMMA, 200_000, kernel=kernel, sweeps=40, burn_in=10)
    assert np.max(np.abs(found - exact)) < WITHIN


@pytest.mark.parametrize("kernel", ["dense", "sparse"])
@pytest.mark.parametrize("estimator", ["rao-blackwell", "sampled"])
def test_a_prior_for_every_topic_is_that_of_the_posterior(kernel, estimator):
    exact = counts_of(posterior(PHI.astype(float), DOCUMENT, GAMMAS), DOCUMENT, PHI.shape)
    how = {"sweeps": 40, "burn_in": 10, "start": "phi", "kernel": kernel, "estimator": estimator}
    found = mean_counts(PHI, DOCUMENT, GAMMAS, 200_000, **how)
    assert np.max(np.abs(found - exact)) < WITHIN
    reversed_prior = counts_of(posterior(PHI.astype(float), DOCUMENT, GAMMAS[::-1]), DOCUMENT, PHI.shape)
    assert np.max(np.abs(reversed_prior - exact)) > 100 * WITHIN


@pytest.mark.parametrize("kernel", ["dense", "sparse"])
def test_a_number_is_the_prior_of_all_topics(kernel):
    phi, documents = random_batch(20)
    how = {"sweeps": 4, "burn_in": 1, "seed": 1, "visit": 0, "kernel": kernel}
    one, many = (expectations(phi, documents, gamma, **how) for gamma in (0.1, np.full(20, 0.1, np.float32)))
    np.testing.assert_array_equal(one.counts, many.counts)


@pytest.mark.parametrize("kernel", ["dense", "sparse"])
def test_sweeps_one_by_one_with_the_topics_carried_over_are_one_run(kernel):
    document, replicas = (1, 2, 0, 1), REPLICAS  # not sorted by word, as the kernels take it
    topics, counts = np.zeros(4 * replicas, np.uint16), np.zeros(PHI.shape)
    for sweep in range(4):
        how = {"seed": sweep, "sweeps": 1, "burn_in": 0, "kernel": kernel, "topics": topics}
        found = mean_counts(PHI, document, GAMMA, replicas, start="given" if sweep else "uniform", **how)
        counts += found / 3 if sweep else 0
    assert np.max(np.abs(counts - after_sweeps(PHI.astype(float), document, GAMMA, 4, 1))) < WITHIN


@pytest.mark.parametrize("kernel", ["dense", "sparse"])
def test_topics_come_back_to_the_tokens_they_belong_to(kernel):
    # word w can only have come from topic w
    phi, documents = np.eye(50, dtype=np.float32), random_batch(50)[1]
    topics = np.zeros(documents.tokens, np.uint16)
    expectations(phi, documents, 0.1, sweeps=2, burn_in=0, seed=0, visit=0, kernel=kernel, topics=topics)
    np.testing.assert_array_equal(topics, documents.words)


@pytest.mark.parametrize("kernel", ["dense", "sparse"])
def test_given_topics_are_those_of_the_first_sweep(kernel):
    # the second token has no choice but the topic of the first: gamma is nearly nothing
    phi, documents = np.ones((3, 3), np.float32), Documents.of([[2, 0], [1, 2], [0, 1], []])
    topics = np.array([1, 1, 2, 2, 0, 0], np.uint16)
    how = {"sweeps": 3, "burn_in": 0, "seed": 0, "visit": 0, "kernel": kernel, "start": "given", "topics": topics}
    found = expectations(phi, documents, 1e-12, **how)
    np.testing.assert_array_equal(topics, [1, 1, 2, 2, 0, 0])
    np.testing.assert_allclose(found.shares, 2 * np.eye(4, 3)[[1, 2, 0, 3]], atol=1e-6)


def test_the_enumeration_rejects_a_kernel_that_keeps_the_tokens_own_count():
    right, wrong = (after_sweeps(PHI.astype(float), DOCUMENT, GAMMA, 4, 1, own) for own in (False, True))
    assert np.max(np.abs(right - wrong)) > 20 * WITHIN


def test_topics_drawn_from_phi_at_the_start_lead_to_the_same_posterior():
    exact = counts_of(posterior(PHI.astype(float), DOCUMENT, GAMMA), DOCUMENT, PHI.shape)
    found = mean_counts(PHI, DOCUMENT, GAMMA, 200_000, sweeps=40, burn_in=10, start="phi", kernel="sparse")
    assert np.max(np.abs(found - exact)) < WITHIN


def random_batch(topics: int, documents: int = 60, seed: int = 0) -> tuple[np.ndarray, Documents]:
    rng = np.random.default_rng(seed)
    phi = rng.dirichlet(np.full(50, 0.3), topics).T.astype(np.float32) + np.float32(1e-6)
    lengths = rng.integers(0, 60, documents)
    return np.ascontiguousarray(phi), Documents.of([rng.integers(0, 50, n) for n in lengths])


@pytest.mark.parametrize("kernel", ["dense", "sparse"])
@pytest.mark.parametrize("estimator", ["rao-blackwell", "sampled"])
def test_the_number_of_threads_changes_no_bit(kernel, estimator):
    phi, documents = random_batch(40)
    before, found = numba.get_num_threads(), []
    for threads in {1, min(2, numba.config.NUMBA_NUM_THREADS)}:
        numba.set_num_threads(threads)
        topics = np.arange(documents.tokens, dtype=np.uint16) % np.uint16(40)
        how = {"sweeps": 6, "burn_in": 2, "seed": 5, "visit": 3, "start": "given", "topics": topics}
        found.append((*expectations(phi, documents, 0.1, estimator=estimator, kernel=kernel, **how), topics))
    numba.set_num_threads(before)
    for one, other in zip(found[0], found[-1], strict=True):
        assert one.tobytes() == other.tobytes()


def in_parts(phi, documents, parts, **how) -> WholeCounts:
    """Whole numbers of all words, summed over parts of the batch."""
    edges = np.linspace(0, len(documents), parts + 1).astype(int)
    numbers, prior = np.zeros(phi.shape, np.int32), np.zeros(len(phi), np.int32)
    shifts, tokens = np.zeros(len(phi), np.int32), np.bincount(documents.words, minlength=len(phi))
    for first, last in itertools.pairwise(edges):
        part = documents.take(range(first, last))
        found = whole_counts(phi, part, 0.1, visit=7 + first, batch_tokens=tokens, **how)
        numbers[found.words] += found.numbers
        prior[found.words] += found.prior
        shifts[found.words] = found.shifts
    words = np.flatnonzero(tokens).astype(np.int32)
    return WholeCounts(words, numbers[words], prior[words], shifts[words])


@pytest.mark.parametrize("kernel", ["dense", "sparse"])
@pytest.mark.parametrize("estimator", ["rao-blackwell", "sampled"])
@pytest.mark.parametrize("parts", [1, 3, 7])
def test_counts_of_the_parts_of_a_batch_add_up_to_those_of_the_batch_bit_for_bit(kernel, estimator, parts):
    phi, documents = random_batch(40)
    how = {"sweeps": 5, "burn_in": 2, "seed": 5, "kernel": kernel, "estimator": estimator}
    whole = in_parts(phi, documents, parts, **how)
    at_once = expectations(phi, documents, 0.1, visit=7, **how)
    assert float_counts(phi, 0.1, whole, counted=3).tobytes() == at_once.counts.tobytes()
    assert whole.words.tobytes() == at_once.words.tobytes()


@pytest.mark.parametrize("kernel", ["dense", "sparse"])
def test_whole_numbers_are_as_good_as_sums_in_float64(kernel):
    phi, documents = random_batch(40)
    how = {"sweeps": 5, "burn_in": 2, "seed": 5, "kernel": kernel}
    sums = np.zeros(phi.shape)
    for d in range(len(documents)):  # one document has so few tokens that its units are far below float32's
        found = expectations(phi, documents.take([d]), 0.1, visit=d, **how)
        sums[found.words] += found.counts
    found = expectations(phi, documents, 0.1, visit=0, **how)
    off = np.abs(found.counts - sums[found.words]).max(1) / np.bincount(documents.words)[found.words]
    assert off.max() < 1e-6


def test_a_documents_numbers_hang_on_the_seed_and_its_visit_alone():
    phi, documents = random_batch(7)
    how = {"sweeps": 6, "burn_in": 2, "want": "shares"}
    all_of_them = expectations(phi, documents, 0.1, seed=5, visit=100, **how).shares
    some = expectations(phi, documents.take(range(20, 40)), 0.1, seed=5, visit=120, **how).shares
    np.testing.assert_array_equal(all_of_them[20:40], some)
    second_pass = expectations(phi, documents, 0.1, seed=5, visit=160, **how).shares
    other_seed = expectations(phi, documents, 0.1, seed=6, visit=100, **how).shares
    has_words = documents.lengths > 0
    for other in (second_pass, other_seed):
        assert np.mean(np.any(all_of_them != other, axis=1)[has_words]) > 0.9


@pytest.mark.parametrize("kernel", ["dense", "sparse"])
@pytest.mark.parametrize("estimator", ["rao-blackwell", "sampled"])
@pytest.mark.parametrize("topics", [1, 5, 16, 40])
def test_every_token_is_counted_once(kernel, estimator, topics):
    phi, documents = random_batch(topics)
    found = expectations(phi, documents, 0.1, sweeps=5, burn_in=2, seed=0, visit=0, estimator=estimator, kernel=kernel)
    np.testing.assert_array_equal(found.words, np.unique(documents.words))
    np.testing.assert_allclose(found.shares.sum(1), documents.lengths, rtol=1e-5)
    np.testing.assert_allclose(found.counts.sum(1), np.bincount(documents.words)[found.words], rtol=1e-5)
    np.testing.assert_allclose(found.counts.sum(0), found.shares.sum(0), rtol=1e-4)
    if estimator == "sampled":
        np.testing.assert_allclose(found.counts * 3, np.rint(found.counts * 3), atol=1e-4)


@pytest.mark.parametrize("kernel", ["dense", "sparse"])
def test_what_is_wanted_changes_no_draw(kernel):
    phi, documents = random_batch(20)
    how = {"sweeps": 5, "burn_in": 2, "seed": 0, "visit": 0, "kernel": kernel}
    both = expectations(phi, documents, 0.1, **how)
    shares = expectations(phi, documents, 0.1, want="shares", **how)
    assert shares.counts.shape == (0, 20)
    np.testing.assert_allclose(shares.shares, both.shares, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(expectations(phi, documents, 0.1, want="counts", **how).counts, both.counts)


COMPILED = (
    _laid_out, to_layout, from_layout, dense.scale_rows, dense.run, sparse.make_tables, sparse.run,
    counting._add_draws, counting._add_cells, counting._as_counts, counting._counts_of_draws, counting._add_documents,
)  # fmt: skip


def test_a_kernel_compiles_once_for_all_sizes_and_settings():
    choices = itertools.product(
        (3, 40), ("dense", "sparse"), ("rao-blackwell", "sampled"), ("both", "counts", "shares")
    )
    for topics, kernel, estimator, want in choices:
        phi, documents = random_batch(topics, documents=5)
        phi.setflags(write=topics == 3)  # as np.asarray(jax_array) is, and other arrays are not
        gamma = 0.1 if want == "both" else np.full(topics, 0.1)
        carried = None if want == "shares" else np.zeros(documents.tokens, np.uint16)
        start = {"both": "phi", "counts": "given", "shares": "uniform"}[want]
        how = {
            "kernel": kernel,
            "estimator": estimator,
            "sweeps": np.int32(2),
            "burn_in": 1,
            "seed": 0,
            "visit": topics,
        }
        expectations(phi, documents, gamma, want=want, start=start, topics=carried, **how)
        in_parts(phi, documents, 2, **{name: value for name, value in how.items() if name != "visit"})
    assert [len(function.signatures) for function in COMPILED] == [1] * len(COMPILED)


def test_both_kernels_have_one_law():
    # 200 documents of the same 40 words, many topics: the means agree to 5 standard errors of their difference
    phi, _ = random_batch(100, seed=2)
    document = tuple(np.random.default_rng(3).integers(0, 50, 40))
    how = {"sweeps": 8, "burn_in": 4, "visit": 0, "want": "shares"}
    shares = [
        expectations(phi, replicated(document, 2_000), 0.05, kernel=kernel, seed=seed, **how).shares
        for seed, kernel in enumerate(("dense", "sparse"))
    ]
    error = np.sqrt(sum(s.var(0, dtype=np.float64) for s in shares) / 2_000) + 1e-4
    assert np.max(np.abs(shares[0].mean(0) - shares[1].mean(0)) / error) < 5


@pytest.mark.parametrize("kernel", ["dense", "sparse"])
def test_empty_documents_and_batches_without_words(kernel):
    how = {"sweeps": 3, "burn_in": 1, "seed": 0, "visit": 0, "kernel": kernel}
    found = expectations(PHI, Documents.of([[], [1], []]), GAMMA, **how)
    assert found.words.tolist() == [1]
    np.testing.assert_allclose(found.counts[0], PHI[1] / PHI[1].sum(), rtol=1e-5)  # one token: its law is exact
    assert not found.shares[[0, 2]].any()
    for documents in (Documents.of([[], []]), Documents.of([])):
        nothing = expectations(PHI, documents, GAMMA, **how)
        assert nothing.words.shape == (0,)
        assert nothing.counts.shape == (0, 3)
        assert nothing.shares.shape == (len(documents), 3)


def test_a_topic_that_cannot_have_made_a_word_is_never_drawn():
    phi = np.array([[1.0, 0.0, 1e-30], [0.0, 1.0, 1e-30]], np.float32)
    documents = replicated((0, 1, 1), 20_000)
    found = expectations(phi, documents, 0.1, sweeps=5, burn_in=1, seed=0, visit=0, estimator="sampled")
    assert found.counts[0, 1] == 0
    assert found.counts[1, 0] == 0


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"phi": PHI.astype(np.float64)}, "phi is float64"),
        ({"phi": PHI.T}, "C order"),
        (
            {"phi": np.where(PHI > 0.6, np.nan, PHI).astype(np.float32), "documents": Documents.of([[2]])},
            r"phi\[2, 2\] is nan",
        ),
        (
            {"phi": np.where(PHI > 0.6, np.inf, PHI).astype(np.float32), "documents": Documents.of([[2]])},
            r"phi\[2, 2\] is inf",
        ),
        ({"phi": -PHI}, r"phi\[0\] is negative"),
        ({"phi": np.zeros_like(PHI)}, "zero in every topic"),
        ({"phi": -PHI, "kernel": "sparse"}, r"phi\[0\] is negative"),
        ({"documents": Documents.of([[0, 3]])}, "word number 3, but phi has 3 words"),
        ({"documents": Documents.of([[0, -1]])}, "word number -1"),
        ({"documents": [[0, 1]]}, "expected Documents"),
        ({"sweeps": 5, "burn_in": 5}, "burn_in < sweeps"),
        ({"sweeps": 0, "burn_in": 0}, "burn_in < sweeps"),
        ({"gamma": 0.0}, "gamma is 0.0"),
        ({"gamma": np.ones(2, np.float32)}, r"gamma is an array of shape \(2,\)"),
        ({"gamma": np.array([1, 0, 1], np.float32)}, "3 finite numbers above 0"),
        ({"start": "given"}, "topics is None"),
        ({"topics": np.zeros(2, np.int32)}, "topics is int32"),
        ({"topics": np.zeros(3, np.uint16)}, r"of shape \(2,\)"),
        ({"topics": np.zeros(4, np.uint16)[::2]}, "read-only or has gaps"),
        ({"start": "given", "topics": np.full(2, 3, np.uint16)}, "topics has the number 3"),
        ({"visit": -1}, "visit is -1"),
        ({"estimator": "both"}, "rao-blackwell, sampled"),
        ({"kernel": "fast"}, "auto, dense, sparse"),
        ({"want": "all"}, "both, counts, shares"),
        ({"start": "zero"}, "uniform, phi, given"),
    ],
)
def test_bad_input_is_refused_with_one_line(change, says):
    given = {"phi": PHI, "documents": Documents.of([[0, 1]]), "gamma": 0.1, "sweeps": 3, "burn_in": 1, "visit": 0}
    given |= change
    with pytest.raises(InputError, match=says) as raised:
        expectations(given.pop("phi"), given.pop("documents"), given.pop("gamma"), seed=0, **given)
    assert "\n" not in str(raised.value)


def test_an_error_in_another_thread_is_raised_and_a_fork_has_threads_of_its_own():
    def fails(number: int) -> None:
        if number == 1:
            raise ValueError("in thread 1")

    with pytest.raises(ValueError, match="in thread 1"):
        in_threads(fails, 2)
    if hasattr(os, "fork"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of threads and forks: what this is about
            child = os.fork()
        if child == 0:
            seen: list[int] = []
            in_threads(seen.append, 2)
            os._exit(0 if sorted(seen) == [0, 1] else 1)
        assert os.waitpid(child, 0)[1] == 0
