"""Predictions from draws: every reduction against NumPy on the predictions of all draws; what cannot be predicted."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodica as eg
from ergodica.driver import predictions, reductions
from ergodica.driver.run import Run, load

CHAINS, DRAWS, ROWS = 3, 41, 23
RNG = np.random.default_rng(5)
X = {"x": RNG.normal(size=(ROWS, 4)), "group": RNG.integers(0, 2, ROWS)}
QUANTILES = [0.0, 0.05, 0.5, 1.0]
REDUCTIONS = {
    "mean": lambda all_draws: all_draws.mean((0, 1)),
    "sd": lambda all_draws: all_draws.std((0, 1), ddof=1),
    "log_mean_exp": lambda all_draws: np.log(np.exp(all_draws).mean((0, 1))),
    "draws": lambda all_draws: all_draws,
    "quantiles": lambda all_draws: np.quantile(all_draws, QUANTILES, axis=(0, 1)),
}


def a_run(dtype=np.float64, frozen=()):
    weights, shift = RNG.normal(size=(CHAINS, DRAWS, 4, 2)), RNG.normal(size=(CHAINS, DRAWS, 2))
    diverging = np.zeros((CHAINS, DRAWS), bool)
    diverging[list(frozen), 30:] = True
    draws = {"weights": weights.astype(dtype), "shift": shift.astype(dtype)}
    return Run(draws, {"step_size": np.ones((CHAINS, DRAWS)), "diverging": diverging}, {})


def fn(position, rows):
    """A pytree, one leaf with an axis of its own and one that is a flag."""
    values = jnp.tanh(rows["x"] @ position["weights"]) + position["shift"][None]
    return {"values": values * (1 + rows["group"].astype(values.dtype))[:, None], "is_high": values[:, 0] > 0}


def by_hand(run, rows=X):
    """What fn gives, in NumPy, leaves (chain, draw, n, ...)."""
    draws = jax.tree.map(lambda leaf: leaf.astype(np.float64), run.posterior)
    values = np.tanh(np.einsum("ni,cdij->cdnj", rows["x"], draws["weights"])) + draws["shift"][:, :, None]
    return {"values": values * (1 + rows["group"])[:, None], "is_high": values[..., 0] > 0}


def small_blocks(monkeypatch):
    """Several blocks of several groups, neither of which is filled by the draws."""
    monkeypatch.setattr(predictions, "WORK_BYTES", 2**15)
    monkeypatch.setattr(predictions, "GROUP_DRAWS", 7)


RUN = a_run()


@pytest.mark.parametrize("batch_size", [1, 7, 1_000])
@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_every_reduction_is_that_of_all_predictions(monkeypatch, reduce, batch_size):
    if batch_size == 7:
        small_blocks(monkeypatch)
    found = RUN.predict(fn, X, batch_size=batch_size, reduce=QUANTILES if reduce == "quantiles" else reduce)
    expected = jax.tree.map(REDUCTIONS[reduce], {k: v.astype(float) for k, v in by_hand(RUN).items()})
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), found, expected)
    assert found["is_high"].dtype == (bool if reduce == "draws" else np.float64)


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_in_single_precision(monkeypatch, reduce):
    small_blocks(monkeypatch)
    run, rows = a_run(np.float32), {"x": X["x"].astype(np.float32), "group": X["group"]}
    found = run.predict(fn, rows, batch_size=10, reduce=QUANTILES if reduce == "quantiles" else reduce)["values"]
    expected = REDUCTIONS[reduce](by_hand(run, rows)["values"])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert found.dtype == (np.float32 if reduce == "draws" else np.float64)


def test_a_mean_of_many_is_added_up_in_double_precision():
    run = Run(np.full((1, 40_000), 0.1, np.float32), {}, {})
    found = run.predict(lambda q, rows: q + rows, np.zeros(2, np.float32))
    np.testing.assert_allclose(found, np.float32(0.1), rtol=5e-7)  # in single precision it would be 3e-4 off
    found = run.predict(lambda q, rows: q + rows, np.full(2, 1e3, np.float32), reduce="sd")
    np.testing.assert_allclose(found, 0.0, atol=1e-6)


def test_log_mean_exp_is_stable():
    run = Run(np.array([[-2_000.0, -2_001.0], [-np.inf, -2_000.0]]), {}, {})
    found = run.predict(lambda q, rows: q + rows, np.zeros(1), reduce="log_mean_exp")
    np.testing.assert_allclose(found, -2_000 + np.log((2 + np.exp(-1)) / 4), rtol=1e-15)
    impossible = run.predict(lambda q, rows: q - jnp.inf + rows, np.zeros(1), reduce="log_mean_exp")
    assert impossible == -np.inf


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_of_the_position_alone(reduce):
    found = RUN.predict(lambda q: q["weights"][0], reduce=QUANTILES if reduce == "quantiles" else reduce)
    expected = REDUCTIONS[reduce](RUN.posterior["weights"][:, :, 0])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
    assert found.shape == expected.shape


def test_every_third_draw():
    found = RUN.predict(fn, X, reduce="draws", thin=3)["values"]
    np.testing.assert_allclose(found, by_hand(RUN)["values"][:, ::3], rtol=1e-12)
    assert found.shape[1] == 14


def test_rows_from_files_are_read_once_in_order(tmp_path, monkeypatch):
    paths = {name: tmp_path / f"{name}.npy" for name in X}
    for name, path in paths.items():
        np.save(path, X[name])
    expected = RUN.predict(fn, X, batch_size=5)
    seen = []
    source = eg.data.npy(paths)
    read = source.read
    monkeypatch.setattr(source, "read", lambda start, stop: seen.append((start, stop)) or read(start, stop))
    small_blocks(monkeypatch)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), RUN.predict(fn, source, batch_size=5), expected
    )
    assert seen == [(0, 5), (5, 10), (10, 15), (15, 20), (20, 23)]
    mapped = {name: np.load(path, mmap_mode="r") for name, path in paths.items()}
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), RUN.predict(fn, mapped, batch_size=5), expected
    )


def test_a_frozen_chain_is_left_out():
    run = a_run(frozen=[1])
    with pytest.warns(UserWarning, match="of 2 of 3 chains: frozen ones are left out .*chain 1") as seen:
        found = run.predict(fn, X)["values"]
    assert seen[0].filename == __file__
    np.testing.assert_allclose(found, by_hand(run)["values"][[0, 2]].mean((0, 1)), rtol=1e-12)
    with pytest.warns(UserWarning, match="left out"):
        assert run.predict(fn, X, reduce="draws")["values"].shape[0] == 2
    with pytest.raises(eg.InputError, match="every chain of this run is frozen"):
        a_run(frozen=[0, 1, 2]).predict(fn, X)


def test_a_run_that_was_loaded(tmp_path, monkeypatch):
    from ergodica.output import files

    expected = RUN.predict(fn, X, reduce="draws")["values"]
    RUN.save(tmp_path / "run.nc")
    monkeypatch.setattr(files, "MAPPED_BYTES", 0)
    again = load(tmp_path / "run.nc")
    assert isinstance(again.posterior["weights"], np.memmap)
    np.testing.assert_array_equal(again.predict(fn, X, reduce="draws")["values"], expected)


def test_what_was_compiled_is_used_again():
    traced = []

    def counted(position, rows):
        traced.append(1)
        return fn(position, rows)

    first = RUN.predict(counted, X, batch_size=5)
    before = len(traced)
    again = RUN.predict(counted, X, batch_size=5)
    after = len(traced) - before
    assert after <= 3  # shapes of two lengths, and the sum of what it computes: nothing is compiled
    jax.tree.map(np.testing.assert_array_equal, first, again)


def test_memory_is_that_of_a_block(monkeypatch):
    """One call is given no more draws than its part of the work allows."""
    given = []
    compiled = predictions._compiled
    monkeypatch.setattr(
        predictions, "_compiled", lambda *args: given.append(args[3]["shift"].shape[:2]) or compiled(*args)
    )
    RUN.predict(fn, X, batch_size=ROWS)
    assert set(given) == {(4, 31)}  # 123 draws
    given.clear()
    monkeypatch.setattr(predictions, "WORK_BYTES", 2**15)
    RUN.predict(fn, X, batch_size=ROWS)
    # a product, its tanh, the sum and what it is multiplied with, each 23 x 2 numbers of 8 bytes, and little else
    assert 2**15 / (9 * 368) < np.prod(given[0]) <= 2**15 / (4 * 368)
    given.clear()
    monkeypatch.setattr(predictions, "WORK_BYTES", 1)
    RUN.predict(fn, X, batch_size=ROWS, thin=20)
    assert given == [(1, 1)] * 9


def test_a_network_is_a_network(tmp_path):
    network = eqx.nn.MLP(4, "scalar", 3, 1, key=jax.random.key(0))

    def logits(network, rows):
        return jax.vmap(network)(rows["x"])

    def log_likelihood(network, rows):
        return rows["group"] * logits(network, rows) - jax.nn.softplus(logits(network, rows))

    rows = X | {"group": X["group"].astype(float)}
    target = eg.Posterior(lambda network: jnp.zeros(()), log_likelihood, rows, init=network)
    run = drawn_around(target)
    found = run.predict(logits, rows, reduce="draws", batch_size=8)
    pointwise = run.log_likelihood(target)
    for chain, i in ((0, 0), (1, 5)):
        np.testing.assert_allclose(found[chain, i], logits(run.draw(chain, i), rows), rtol=1e-12)
        np.testing.assert_allclose(pointwise[chain, i], log_likelihood(run.draw(chain, i), rows), rtol=1e-12)
    run.save(tmp_path / "run.nc")
    loaded = load(tmp_path / "run.nc", like=network)
    np.testing.assert_array_equal(loaded.predict(logits, rows, reduce="draws", batch_size=8), found)
    np.testing.assert_array_equal(load(tmp_path / "run.nc").log_likelihood(target), pointwise)
    kept = Run({"bias": np.ones((2, 6, 3))}, run.stats, {"keep": "a function"}, coordinates=run.coordinates)
    np.testing.assert_array_equal(kept.predict(lambda kept: 2.0 * kept["bias"]), np.full(3, 2.0))
    with pytest.raises(eg.InputError, match="this run has no "):
        kept.log_likelihood(target)


def drawn_around(target):
    """Two chains of six draws, as if they had been sampled."""

    def draws(leaf):
        return np.asarray(leaf) + RNG.normal(size=(2, 6, *leaf.shape))

    posterior = jax.vmap(jax.vmap(target.coordinates.drawn))(jax.tree.map(draws, target.init))
    stats = {"step_size": np.ones((2, 6)), "diverging": np.zeros((2, 6), bool)}
    return Run(jax.tree.map(np.asarray, posterior), stats, {"keep": "draws"}, coordinates=target.coordinates)


def test_functions_see_constrained_values():
    def log_likelihood(q, y):
        return -((y / q["sigma"]) ** 2) / 2 - jnp.log(q["sigma"])

    init = {"sigma": np.ones(()), "other": np.zeros(2)}
    logs = {"sigma": eg.transforms.log}
    target = eg.Posterior(lambda q: -q["sigma"], log_likelihood, X["x"][:, 0], init=init, transform=logs)
    run = drawn_around(target)
    expected = run.posterior["sigma"]
    np.testing.assert_allclose(run.predict(lambda q: q["sigma"], reduce="draws"), expected)
    by_row = -((X["x"][:, 0] / expected[..., None]) ** 2) / 2 - np.log(expected[..., None])
    np.testing.assert_allclose(run.log_likelihood(target), by_row, rtol=1e-12)
    more = replace(run, posterior=run.posterior | {"computed": expected**2})  # as NumPyro's deterministic sites
    np.testing.assert_array_equal(more.log_likelihood(target), run.log_likelihood(target))


def bad(fn, rows=X, match="", **settings):
    return pytest.param(fn, rows, settings, match)


@pytest.mark.parametrize(
    ("fn", "rows", "settings", "match"),
    [
        bad(fn, reduce="men", match="reduce is 'men': expected one of draws, mean, sd, log_mean_exp, or a list"),
        bad(fn, reduce=0.5, match="reduce is 0.5"),
        bad(fn, reduce=[0.5, 1.5], match="quantiles from 0 to 1"),
        bad(fn, reduce=["a"], match="quantiles from 0 to 1"),
        bad(fn, reduce=[], match="quantiles from 0 to 1"),
        bad(fn, batch_size=0, match="batch_size is 0"),
        bad(fn, thin=42, match="thin is 42"),
        bad(lambda q, rows: jnp.sum(rows["x"]), match=r"has shape \(\) for 23 rows and \(\) for 24: expected"),
        bad(lambda q, rows: q["shift"], match=r"has shape \(2,\)"),
        bad(lambda q, rows: {"a": rows["x"] @ rows["x"].T}, match=r"fn's value\['a'\] has shape \(23, 23\)"),
        bad(lambda q, rows: jnp.zeros(23), match=r"\(23,\) for 23 rows and \(23,\) for 24"),
        bad(lambda q, rows: jax.lax.complex(rows["x"], rows["x"]), match="dtype complex128"),
        bad(lambda q, rows: None, match="fn returned no arrays"),
        bad(lambda q, rows: "a", match="fn's value is of type str: expected an array"),
        bad(lambda q, rows: np.tanh(rows["x"]) * float(q["shift"][0]), match="fn uses NumPy, or float"),
        bad(lambda q, rows: rows["x"] if q["shift"][0] > 0 else -rows["x"], match="jnp.where"),
        bad(lambda q, rows: rows["x"] @ q["shift"], match="does it fit the draws"),
        bad(lambda q: q, match=r"expected fn\(position, rows\)"),
        bad(fn, rows=None, match=r"expected fn\(position\), as rows is None"),
        bad("mean", match="fn is of type str"),
        bad(fn, rows={"x": X["x"], "group": X["group"][1:]}, match="rows must have the same number .*'x'.* has 23"),
        bad(fn, rows={"x": X["x"][:0], "group": X["group"][:0]}, match="rows has 0 rows"),
        bad(fn, rows={"x": [1.0, 2.0]}, match=r"rows\['x'\]\[0\] is a float"),
        bad(fn, rows=eg.data.batches([X], size=ROWS), match="iterable of batches, which cannot be read by rows"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(fn, rows, settings, match):
    with pytest.raises(eg.InputError, match=match) as caught:
        RUN.predict(fn, rows, **settings)
    assert "\n" not in str(caught.value)


def test_runs_without_draws_and_answers_without_room(monkeypatch):
    with pytest.raises(eg.InputError, match=r"keep=\{'test': eg.mean\(fn\)\}"):
        Run(None, RUN.stats, {}).predict(fn, X)
    monkeypatch.setattr(reductions, "FEW_BYTES", 0)
    monkeypatch.setattr(reductions, "available_memory", lambda: 40_000)
    for reduce, match in (("draws", "48.1 kB .*thin="), ([0.5], "smaller batch")):
        with pytest.raises(eg.InputError, match=f"need .*{match}"):
            RUN.predict(fn, X, reduce=reduce)
    RUN.predict(fn, X, reduce=[0.5], batch_size=5)  # of one batch at a time there is room
    RUN.predict(fn, X)
