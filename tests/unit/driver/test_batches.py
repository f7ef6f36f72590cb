"""Batches: every row equally often, whatever their kind; from disk as from memory; and shared between chains."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.diagnostics.columns import chain_correlation
from ergodica.driver.keys import chunk_keys, seed_words
from ergodica.driver.minibatches import Independent, RowNumbers, batches_for, places_ahead, subsets
from tests.unit.driver.runs import ROWS, TARGET, assert_same_bytes, log_likelihood, log_prior, run

KEYS = chunk_keys(seed_words(0), jnp.asarray(0), jnp.arange(1_000, dtype=jnp.int32))


@pytest.mark.parametrize("is_paired", [False, True])
def test_epochs_visit_every_row_once_and_go_on_across_their_end(is_paired):
    epochs = batches_for(TARGET, 14, is_paired, False, 0, "epochs")
    assert epochs.kind == "epochs"
    length = epochs.length
    orders_of = RowNumbers(epochs, 0).rows
    rows = orders_of(1, 0, 60)
    assert rows.shape == (60, 1 + is_paired, length)
    for lane in np.moveaxis(rows, 1, 0):
        orders = lane.reshape(length, 60)
        assert all(sorted(order.tolist()) == list(range(60)) for order in orders)
        assert len({tuple(order) for order in orders.tolist()}) == length
    # the same rows whatever the chunks
    parts = [orders_of(1, first, count) for first, count in ((0, 7), (7, 30), (37, 23))]
    np.testing.assert_array_equal(np.concatenate(parts), rows)
    assert not np.array_equal(orders_of(0, 0, 60), rows)


def test_independent_rows_come_with_replacement_and_equally_often():
    rows = batches_for(TARGET, 6, False, False, 0, "independent")
    assert isinstance(rows, Independent)
    places = np.asarray(places_ahead(rows, KEYS))
    counts = np.bincount(places.ravel(), minlength=60)
    # 6,000 draws over 60 rows: chi-square with 59 degrees of freedom, 1e-6 quantile 119
    assert np.sum((counts - 100) ** 2 / 100) < 119
    assert any(len(set(batch.tolist())) < 6 for batch in places[:, 0])
    assert run(batches="independent").settings["batches"] == "independent"


def test_shared_batches_are_those_of_chain_0_and_correlate_chains():
    own, shared = run(steps=190), run(steps=190, share_batches=True)
    np.testing.assert_allclose(shared.posterior["mean"][0], own.posterior["mean"][0], rtol=1e-9, atol=1e-12)
    assert not np.allclose(shared.posterior["mean"][1], own.posterior["mean"][1])
    assert shared.settings["chain_correlation"] > 0.3
    assert "chain_correlation" not in own.settings


def test_the_correlation_of_chains_is_measured():
    rng = np.random.default_rng(5)
    common, apart = rng.normal(size=(1, 2_000, 3)), rng.normal(size=(8, 2_000, 3))
    # rho = 0.36; its standard error is about 0.36 * sqrt(2 / 2000) over three coordinates
    assert abs(chain_correlation({"a": 0.6 * common + 0.8 * apart}) - 0.36) < 0.03
    assert abs(chain_correlation(apart + np.arange(8.0)[:, None, None])) < 0.02
    assert chain_correlation(apart[:1]) is None


def test_the_coordinate_that_chains_share_most_counts():
    rng = np.random.default_rng(6)
    draws = rng.normal(size=(8, 2_000, 30))
    draws[..., 3] += 3 * rng.normal(size=(1, 2_000))
    assert abs(chain_correlation(draws) - 0.9) < 0.05


def test_an_order_is_made_once_however_many_chains_there_are():
    orders = RowNumbers(batches_for(TARGET, 6, False, False, 0, "epochs"), 0)
    first = [orders._of_block(chain, 0, 0) for chain in range(40)]
    assert all(orders._of_block(chain, 0, 0) is first[chain] for chain in range(40))


def test_rows_from_disk_reach_the_chains_in_turn(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    on_disk = eg.Posterior(log_prior, log_likelihood, np.load(tmp_path / "rows.npy", mmap_mode="r"), init=TARGET.init)
    assert on_disk.source is not None
    first, again = (run(target=on_disk, steps=70) for _ in range(2))
    assert_same_bytes(first, again)
    from ergodica.data.stream import open_stream

    # chain 1 of two sees batches 1, 3, 5, ... : by hand, with Euler on the gradient of each
    batches = open_stream(on_disk.source, 6, 0).next(140)[1::2]
    by_hand = run(eg.sgld(), target=on_disk, steps=70, temperature=1e-300, step_size=1e-4).posterior["mean"][1]
    q = np.zeros(2)
    for batch, expected in zip(batches, by_hand, strict=True):
        q = q - 1e-4 * (q + 10 * (q - batch).sum(0))
        np.testing.assert_allclose(q, expected, rtol=1e-9)
    assert first.settings["batches"] == "epochs"
    with pytest.raises(eg.InputError, match="come in epochs: leave batches='independent' out"):
        run(target=on_disk, batches="independent")
    with pytest.raises(eg.InputError, match="stay on disk"):
        run(target=on_disk, batch_size=None)
    with pytest.raises(eg.InputError, match="not independent"):
        run(target=on_disk, gradient_noise=1.0)


def test_an_estimator_needs_batches():
    from ergodica.gradients.control import ControlVariates

    with pytest.raises(eg.InputError, match="an estimator is for minibatches"):
        run(estimator=ControlVariates(), batch_size=None)
    # at the mode of a Gaussian the difference is exact: the batches bring no noise
    mode = {"mean": ROWS.sum(0) / 61}
    found = run(estimator=ControlVariates(mode), batch_size=6, chains=1)
    whole = run(batch_size=None, chains=1)
    np.testing.assert_allclose(found.posterior["mean"], whole.posterior["mean"], rtol=1e-9, atol=1e-12)


def test_large_batches_are_gathered_unless_windows_are_asked_for():
    assert batches_for(TARGET, 1, False, False, 0).kind == "windows"
    assert batches_for(TARGET, 2, False, False, 0).kind == "gathers"
    assert batches_for(TARGET, 6, False, False, 0, "windows").kind == "windows"
    assert batches_for(TARGET, 6, False, True, 0, "windows").kind == "gathers"
    assert run().settings["batches"] == "gathers"


@pytest.mark.parametrize(("count", "length", "size"), [(40, 30, 200), (7, 3, 5), (300, 500, 20_000), (3, 400, 300_000)])
def test_subsets_are_the_first_distinct_numbers_of_a_generator(count, length, size, monkeypatch):
    """As they were when they were found by sorting: a run that was begun then goes on with the same rows."""
    taken = []
    monkeypatch.setattr(np, "sort", lambda *_, **__: taken.append("sorted"))
    found = subsets(np.random.default_rng(3), count, length, size)
    less = min(length, size - length)
    drawn = int(size * np.log(size / (size - less)) + 6 * np.sqrt(less)) + 8
    kind = np.uint32 if size << drawn.bit_length() <= 2**32 else np.uint64
    numbers = np.random.default_rng(3).integers(size, size=(count, drawn), dtype=kind)
    for row, expected in zip(found, numbers, strict=True):
        first = list(dict.fromkeys(expected.tolist()))[:less]
        first = first if less == length else [number for number in range(size) if number not in first]
        assert row.tolist() == first
    assert not taken  # it takes most of the time


@pytest.mark.parametrize("length", [1, 3, 7, 10])
def test_subsets_are_uniform_among_all_of_their_size(length):
    found = subsets(np.random.default_rng(1), 20_000, length, 10)
    assert found.shape == (20_000, length)
    sets = np.sum(2 ** np.sort(found, axis=1), axis=1)
    masks = [mask for mask in range(2**10) if mask.bit_count() == length]
    counts = np.array([np.count_nonzero(sets == mask) for mask in masks])
    assert counts.sum() == 20_000
    mean, free = 20_000 / len(masks), len(masks) - 1
    # chi-square: 5.5 standard deviations above its mean, for at least nine degrees of freedom a chance of 1e-5
    assert np.sum((counts - mean) ** 2 / mean) <= free + 5.5 * np.sqrt(2 * free)


def test_gathered_rows_do_not_depend_on_chunks_and_differ_between_chains():
    rows_in = RowNumbers(batches_for(TARGET, 14, True, False, 0), 0).rows
    whole = rows_in(1, 0, 700)
    assert whole.shape == (700, 2, 7)
    parts = [rows_in(1, first, count) for first, count in ((0, 7), (7, 300), (307, 393))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert not np.array_equal(rows_in(0, 0, 700), whole)
    assert not np.array_equal(whole[:, 0], whole[:, 1])


def test_default_batches_have_the_exact_law_at_50_rows_and_7_in_a_batch():
    target = eg.Posterior(log_prior, log_likelihood, ROWS[:50], init=TARGET.init)
    law = eg.exact_law(eg.sgld(), target, 1e-2, batch_size=7)
    found = run(eg.sgld(), target=target, batch_size=7, steps=40_000, warmup=100)
    variance = np.var(found.posterior["mean"], axis=(0, 1))
    # 60 % of it is gradient noise; the standard error is 0.8 %
    np.testing.assert_allclose(variance, np.diag(law.covariance), rtol=0.05)


def test_both_words_of_a_seed_count():
    steps = jnp.arange(2, dtype=jnp.int32)
    with jax.enable_x64(False):
        keys = [chunk_keys(seed_words(seed), jnp.asarray(0), steps) for seed in (5, 2**31 + 5, 2**32 + 5, 2**63 - 1)]
    assert len({np.asarray(jax.random.key_data(each)).tobytes() for each in keys}) == 4


def test_a_key_is_never_used_twice():
    windows = batches_for(TARGET, 6, True, False, 0, "windows")
    places = np.asarray(places_ahead(windows, KEYS))
    assert places.shape == (1_000, 2)
    assert abs(np.corrcoef(places.T)[0, 1]) < 5 / 1_000**0.5
    assert jax.tree.leaves(windows.at(jnp.asarray(places[0])))[0].shape == (3, 2)
