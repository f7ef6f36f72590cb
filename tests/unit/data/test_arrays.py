"""What is said of data at construction, and that a memory-mapped file stays on disk (more in tests/unit/data)."""

import jax.numpy as jnp
import numpy as np
import pytest

from ergodica.data import arrays
from ergodica.errors import InputError
from ergodica.targets import Posterior


def posterior(data):
    return Posterior(lambda m: -(m**2), lambda m, b: b * m, data)


@pytest.mark.parametrize(
    "data",
    [
        np.ones(3),
        jnp.ones((3, 2)),
        {"a": np.ones((3, 2)), "b": [jnp.arange(3), np.array([True, False, True])]},
        np.ones(3, jnp.bfloat16),
        np.ones((3, 0)),
        np.ones(3, complex),
    ],
)
def test_good_data(data):
    assert posterior(data).size == 3


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (None, "data is None, which holds no arrays"),
        ({}, "holds no arrays"),
        ({"x": np.ones((4, 2)), "y": np.ones(3)}, r"same number of rows.*data\['x'\] has 4, data\['y'\] has 3"),
        ({"x": np.ones(3), "s": np.asarray(1.0)}, r"data\['s'\] is a scalar"),
        (np.ones((0, 2)), "data has 0 rows"),
        ({"city": np.array(["a", "b"])}, r"data\['city'\] has dtype <U1: expected numbers or booleans.*encode"),
        ({"o": np.array([1, None])}, r"data\['o'\] has dtype object"),
        ({"t": np.array(["2020-01-01"], "datetime64[D]")}, r"data\['t'\] has dtype datetime64"),
        ({"x": [1.0, 2.0]}, r"data\['x'\]\[0\] is a float.*np.asarray.*to_numpy"),
        (np.ma.masked_array(np.ones(3), [0, 1, 0]), "masked array"),
    ],
)
def test_bad_data(data, match):
    with pytest.raises(InputError, match=match):
        posterior(data)


@pytest.mark.parametrize("convert", [np.asarray, jnp.asarray])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, complex])
def test_non_finite_rows_are_named_and_counted(convert, dtype):
    x = np.ones((20, 3), dtype)
    x[4, 1], x[4, 2], x[17, 0] = np.nan, np.inf, -np.inf
    with pytest.raises(InputError, match=r"data\['x'\] has NaN or infinite values in 2 of 20 rows, first in row 4"):
        posterior({"n": np.arange(20), "x": convert(x)})


def test_counts_across_blocks(monkeypatch):
    monkeypatch.setattr(arrays, "BLOCK_NUMBERS", 7)
    x = np.ones((50, 2))
    x[[13, 14, 49], 1] = np.nan
    with pytest.raises(InputError, match="in 3 of 50 rows, first in row 13"):
        posterior(x)
    assert posterior(np.ones((50, 2))).size == 50
    assert posterior(np.ones((5, 20))).size == 5  # a row longer than a block


def test_a_memory_mapped_file_becomes_a_source_and_is_not_read_at_construction(tmp_path, monkeypatch):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(40.0).reshape(20, 2))
    mapped = np.load(path, mmap_mode="r")
    monkeypatch.setattr(arrays, "_check_finite", None)
    target = posterior(mapped)
    monkeypatch.undo()
    assert target.source is target.data
    assert target.size == 20
    np.testing.assert_array_equal(target.rows(np.array([19, 0])), [[38.0, 39.0], [0.0, 1.0]])
    assert type(target.rows(slice(0, 4))) is np.ndarray


def test_arrays_are_kept_as_given():
    x = {"a": np.ones(3), "b": jnp.ones(3)}
    target = posterior(x)
    assert target.data["a"] is x["a"]
    assert target.data["b"] is x["b"]
