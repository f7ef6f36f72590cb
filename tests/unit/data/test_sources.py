"""Sources: the rows that are in the files, NaN named where it is, files that are not what they should be."""

import gc
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodica.data import Source, batches, npy, parquet
from ergodica.errors import InputError
from ergodica.targets import posterior as posteriors
from ergodica.targets.posterior import Posterior, blocks, evaluate_all

RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(300, 4)), RNG.integers(0, 5, 300)


def log_prior(q):
    return -jnp.sum(q**2)


def log_likelihood(q, batch):
    return -((batch["x"] @ q - batch["y"].astype(float)) ** 2) / 2


def posterior(data):
    return Posterior(log_prior, log_likelihood, data, init=jnp.ones(4))


def saved(folder, **arrays):
    for name, values in arrays.items():
        np.save(folder / f"{name}.npy", values)
    return {name: folder / f"{name}.npy" for name in arrays}


def written(folder, columns, rows_per_group=70, has_checksums=True):
    import pyarrow
    import pyarrow.parquet

    path = folder / "rows.parquet"
    pyarrow.parquet.write_table(
        pyarrow.table(columns), path, row_group_size=rows_per_group, write_page_checksum=has_checksums
    )
    return path


@pytest.fixture
def source_of(tmp_path):
    columns = {f"x{i}": X[:, i] for i in range(4)} | {"y": Y}

    def make(kind):
        if kind == "parquet":
            return parquet(written(tmp_path, columns), {"x": [f"x{i}" for i in range(4)], "y": "y"})
        paths = saved(tmp_path, x=X, y=Y)
        if kind == "npy":
            return npy(paths)
        if kind == "one on disk":
            return posterior({"x": np.load(paths["x"], mmap_mode="r"), "y": Y}).source
        return posterior({name: np.load(path, mmap_mode="r") for name, path in paths.items()}).source

    return make


KINDS = ["npy", "memory map", "one on disk", "parquet"]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_of_the_file(kind, source_of):
    source = source_of(kind)
    assert isinstance(source, Source)
    assert source.size == 300
    for start, stop in [(0, 300), (65, 75), (299, 300), (10, 10)]:
        rows = source.read(start, stop)
        np.testing.assert_array_equal(rows["x"], X[start:stop])
        np.testing.assert_array_equal(rows["y"], Y[start:stop])
        assert rows["x"].shape == (stop - start, 4)
    index = np.array([299, 0, 71, 70, 71])
    np.testing.assert_array_equal(source.take(index)["x"], X[index])
    assert len(jax.tree.leaves(source.take(np.array([], int)))[0]) == 0
    np.testing.assert_array_equal(source.example()["x"], X[:1])
    assert source.row_bytes() == 40
    edges = source.edges()
    assert edges[0] == 0
    assert edges[-1] == 300
    assert (np.diff(edges) > 0).all()
    with pytest.raises(InputError, match="the data has 300 rows"):
        source.read(290, 301)


@pytest.mark.parametrize("kind", KINDS)
def test_a_posterior_over_a_source_is_the_one_in_memory(kind, source_of, monkeypatch):
    monkeypatch.setattr(posteriors, "BLOCK_BYTES", 70 * 40)  # 300 rows are five blocks of 60
    target, plain = posterior(source_of(kind)), posterior({"x": X, "y": Y})
    q = jnp.array([0.1, -0.4, 0.3, 1.0])
    value, gradient = target.evaluate(q)
    expected = evaluate_all(plain, q)
    np.testing.assert_allclose(value, expected[0], rtol=1e-12)
    np.testing.assert_allclose(gradient, expected[1], rtol=1e-12)
    np.testing.assert_allclose(value, np.sum((X @ np.asarray(q) - Y) ** 2) / 2 + np.sum(np.asarray(q) ** 2), rtol=1e-12)
    np.testing.assert_allclose(target.potential(q), value, rtol=1e-12)
    np.testing.assert_array_equal(target.rows(slice(0, 9, 2))["x"], X[0:9:2])
    np.testing.assert_array_equal(target.rows(np.array([7, 3]))["y"], Y[[7, 3]])
    np.testing.assert_array_equal(target.loaded().data["x"], X)
    assert target.without_data().source is None
    target.check(q)
    with pytest.raises(InputError, match=r"stay on disk.*give batch_size, or target.loaded"):
        jax.jit(lambda q: target.potential(q))(q)
    with pytest.raises(InputError, match="cannot be taken inside jit"):
        jax.jit(lambda i: target.rows(i))(np.arange(2))
    with pytest.raises(InputError, match="row 300 does not exist"):
        target.rows(np.array([300]))


def test_blocks_of_all_sizes_cover_every_row_once(monkeypatch):
    target = posterior({"x": X, "y": Y})
    for longest in (1, 7, 64, 299, 300, 1000):
        counts, priors = np.zeros(300), 0
        for rows, weights, prior_weight in blocks(target, longest):
            priors += prior_weight
            first = int(np.flatnonzero((rows["x"][0] == X).all(axis=1))[0])
            counts[first : first + len(weights)] += weights
        assert (counts == 1).all()
        assert priors == 1


@pytest.mark.parametrize("kind", ["npy", "memory map", "parquet"])
def test_nan_is_named_by_row_and_column_when_it_is_read(kind, tmp_path):
    bad = X.copy()
    bad[201, 2], bad[250, 0] = np.nan, np.inf
    if kind == "parquet":
        path = written(tmp_path, {f"x{i}": bad[:, i] for i in range(4)})
        source, where = parquet(path, {"x": ["x0", "x1", "x2", "x3"]}), "column 'x2' of rows.parquet is nan in row 201"
    else:
        paths = saved(tmp_path, x=bad)
        source = npy(paths) if kind == "npy" else posterior({"x": np.load(paths["x"], mmap_mode="r")}).source
        where = r"data\['x'\], column 2 \(x.npy\) is nan in row 201"
    source.read(0, 200)
    for _ in range(2):  # and again
        with pytest.raises(InputError, match=where):
            source.read(190, 210)
        with pytest.raises(InputError, match=where):
            source.take(np.array([3, 201]))
        with pytest.raises(InputError, match=where):
            source.read_into(0, 300, [np.empty((300, 4))], 0)
    source.read(202, 250)
    with pytest.raises(InputError, match="in row 250"):
        source.read(202, 300)


def test_large_finite_values_are_no_nan(tmp_path):
    source = npy(saved(tmp_path, x=np.full((10, 2), 3e38, np.float32)))
    assert source.read(0, 10)["x"].max() > 1e38


def test_other_dtypes_and_byte_order(tmp_path):
    paths = saved(tmp_path, a=X.astype(">f4"), b=Y > 2, c=Y.astype(np.int16), d=np.zeros((300, 0)))
    rows = npy(paths).read(5, 90)
    assert rows["a"].dtype == np.float32
    np.testing.assert_array_equal(rows["a"], X[5:90].astype(np.float32))
    np.testing.assert_array_equal(rows["b"], (Y > 2)[5:90])
    np.testing.assert_array_equal(rows["c"], Y[5:90])
    assert rows["d"].shape == (85, 0)
    np.testing.assert_array_equal(npy(tmp_path / "c.npy").read(0, 3), Y[:3])


def test_views_of_a_memory_map(tmp_path):
    path = saved(tmp_path, x=X)["x"]
    whole_map = np.load(path, mmap_mode="r")
    part = posterior({"x": whole_map[100:200], "y": Y[100:200]})
    assert part.source is not None
    np.testing.assert_array_equal(part.rows(slice(3, 6))["x"], X[103:106])
    later = np.memmap(path, np.float64, "r", offset=128 + 32 * 50, shape=(200, 4))[7:]
    np.testing.assert_array_equal(posterior({"x": later, "y": Y[:193]}).rows(slice(0, 2))["x"], X[57:59])
    # what is not simply the bytes of the file is kept as an array
    changed = np.load(path, mmap_mode="c")
    changed[0] = 7.0
    for view in (whole_map[::2], whole_map[:, ::-1], changed):
        target = posterior({"x": view, "y": Y[: len(view)]})
        assert target.source is None
        np.testing.assert_array_equal(target.rows(slice(0, 4))["x"], view[:4])


def test_a_file_is_closed_with_its_source(tmp_path):
    paths = saved(tmp_path, x=X)
    gc.collect()
    before = len(os.listdir("/dev/fd"))
    source = npy(paths)
    assert len(os.listdir("/dev/fd")) == before + 1
    del source
    gc.collect()
    assert len(os.listdir("/dev/fd")) == before


def _cut(path):
    path.write_bytes(path.read_bytes()[:-50])
    return path


def _text(path):
    path.write_text("no array")
    return path


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda f: npy(f / "none.npy"), "cannot read .*none.npy: No such file"),
        (lambda f: npy(f), "cannot read .*directory"),
        (lambda f: npy({}), "given no paths"),
        (lambda f: npy({"x": X}), "given a ndarray"),
        (lambda f: npy(_text(f / "t.npy")), "t.npy is no .npy file"),
        (lambda f: npy(_cut(saved(f, x=X)["x"])), "x.npy is cut short: .* 300 rows need"),
        (lambda f: npy(saved(f, x=X, y=Y[:9])), "same number of rows.*x.npy has 300, .*y.npy has 9"),
        (lambda f: npy(saved(f, x=np.asfortranarray(X))), "stored by columns"),
        (lambda f: npy(saved(f, x=np.array(["a"]))), "holds dtype <U1"),
        (lambda f: npy(saved(f, x=np.asarray(1.0))), "a single number"),
        (lambda f: npy(saved(f, x=X[:0])), "has 0 rows"),
        (lambda f: parquet(f / "none.parquet"), "cannot read .*none.parquet"),
        (lambda f: parquet(_text(f / "t.parquet")), "t.parquet is no Parquet file"),
        (lambda f: parquet(written(f, {"alpha": Y}), "alpa"), "no column 'alpa': did you mean 'alpha'"),
        (lambda f: parquet(written(f, {"a": ["s", "t"]})), "column 'a' of .* holds string"),
        (lambda f: parquet(written(f, {"a": [1, None]})).read(0, 2), "column 'a' of rows.parquet is null in row 1"),
        (lambda f: parquet(written(f, {"a": Y[:0]})), "has 0 rows"),
        (lambda f: batches(3, 10), "expected an iterable"),
        (lambda f: batches([X], 0), "size is 0"),
        (lambda f: batches([], 5).first(), "is empty"),
        (lambda f: posterior(batches([{"x": X[:5], "y": Y[:5]}], 300)).evaluate(jnp.ones(4)), "cannot be read by rows"),
    ],
)
def test_what_is_refused(make, match, tmp_path):
    with pytest.raises(InputError, match=match) as error:
        make(tmp_path)
    assert "\n" not in str(error.value)


def test_a_file_that_shrinks_while_it_is_read(tmp_path):
    path = saved(tmp_path, x=X)["x"]
    source = npy(path)
    os.truncate(path, 500)
    with pytest.raises(InputError, match="became shorter while it was read"):
        source.read(100, 200)


def test_batches_can_be_checked_by_their_first():
    target = posterior(batches([{"x": X[:5], "y": Y[:5]}], 300))
    assert target.size == 300
    target.check(jnp.ones(4))


def test_every_column_by_default(tmp_path):
    rows = parquet(written(tmp_path, {"a": Y, "b": Y > 1})).read(68, 72)
    np.testing.assert_array_equal(rows["a"], Y[68:72])
    assert rows["b"].dtype == bool
