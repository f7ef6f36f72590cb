"""A run's file: written, read back, read by ArviZ; and what is not such a file."""

import os
import shutil
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
import xarray as xr

from ergodica.errors import InputError
from ergodica.output import files
from ergodica.output.blocks import BlockFile
from ergodica.output.files import Loaded, load, save, save_blocks
from ergodica.output.labelled import datatree, named
from tests.unit.output import made

HALVED = Loaded(made.posterior(draws=40), made.stats(draws=40), {"step_size": 0.05, "batch_size": None})


def whole():
    return datatree(made.posterior(), made.stats(), made.settings(), made.moments(), HALVED)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "run.nc"
    save(whole(), path)
    return path


@pytest.fixture
def path(tmp_path, saved):
    return Path(shutil.copy(saved, tmp_path / "run.nc"))


def same(left, right):
    jax.tree.map(np.testing.assert_array_equal, left, right)
    assert [x.dtype for x in jax.tree.leaves(left)] == [x.dtype for x in jax.tree.leaves(right)]


@pytest.mark.parametrize("mapped", [files.MAPPED_BYTES, 0])
def test_what_is_saved_is_loaded(path, monkeypatch, mapped):
    monkeypatch.setattr(files, "MAPPED_BYTES", mapped)
    found = load(path)
    same(found.posterior, made.posterior())
    same(found.stats, made.stats())
    assert found.settings == made.settings()
    np.testing.assert_array_equal(found.moments.count, [30, 29])
    same(found.moments.mean, made.moments().mean)
    same(found.moments.variance, made.moments().variance)
    same(found.halved.posterior, HALVED.posterior)
    same(found.halved.stats, HALVED.stats)
    assert found.halved.settings == HALVED.settings
    assert isinstance(found.posterior["layer"]["w"], np.memmap) == (mapped == 0)


def test_moments_alone_and_half_floats(tmp_path):
    save(datatree(None, {}, {}, made.moments()), tmp_path / "moments.nc")
    assert load(tmp_path / "moments.nc").posterior is None
    half = np.random.default_rng(0).normal(size=(1, 5)).astype(jax.numpy.bfloat16)
    save(datatree(half, {}, {}), tmp_path / "half.nc")
    found = load(tmp_path / "half.nc").posterior
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, half.astype(np.float32))


def test_blocks_give_the_same_file(tmp_path, path, monkeypatch):
    monkeypatch.setattr(files, "COPIED_BYTES", 200)

    def stored(name, array):
        file = BlockFile.open(tmp_path / "blocks", name, array.dtype, (array.shape[0], *array.shape[2:]))
        file.append(np.ascontiguousarray(np.swapaxes(array, 0, 1)))
        return file

    posterior = {name: stored(name, x) for name, x in named(made.posterior()).items()}
    stats = {"potential": stored("potential", made.stats()["potential"]), **{
        name: x for name, x in made.stats().items() if name != "potential"
    }}  # fmt: skip
    save_blocks(tmp_path / "blocks.nc", posterior, stats, made.settings(), made.moments(), HALVED)
    with xr.open_datatree(path, engine="h5netcdf") as left, xr.open_datatree(tmp_path / "blocks.nc") as right:
        assert set(left.groups) == set(right.groups)
        for group in left.groups:
            xr.testing.assert_identical(left[group].to_dataset(), right[group].to_dataset())


def test_arviz_reads_and_summarises_it(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ 0.23 announces its next version
        import arviz as az

        data = az.from_netcdf(path)
        table = az.summary(data)
        axes = az.plot_trace(data, divergences="auto")
    assert {"posterior", "sample_stats", "moments", "halved_posterior"} <= set(data.groups())
    assert data.posterior["layer.w"].dims == ("chain", "draw", "layer.w_dim_0", "layer.w_dim_1")
    assert data.posterior["layer.w"].dtype == np.float32
    assert data.sample_stats["diverging"].dtype == bool
    assert int(data.sample_stats["diverging"].sum()) == 3
    assert data.attrs["inference_library"] == "ergodica"
    assert data.attrs["recipe"] == "sghmc"
    assert table.loc["layer.b", "mean"] == pytest.approx(made.posterior()["layer"]["b"].mean(), abs=1e-3)
    assert len(table) == 7
    assert axes.shape == (2, 2)
    data.close()


def test_nothing_is_overwritten_and_nothing_left_behind(path, tmp_path):
    before = path.read_bytes()
    with pytest.raises(InputError, match="exists already"):
        save(whole(), path)
    assert path.read_bytes() == before
    save(datatree(np.zeros((1, 4)), {}, {}), path, overwrite=True)
    assert load(path).posterior.shape == (1, 4)
    with pytest.raises(InputError, match="no folder"):
        save(whole(), tmp_path / "missing" / "run.nc")
    with pytest.raises(InputError, match="is a folder"):
        save(whole(), tmp_path)
    assert os.listdir(tmp_path) == ["run.nc"]


def test_a_full_disk_is_one_line(tmp_path, monkeypatch):
    def full(tree, path):
        path.write_bytes(b"part of a file")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "_write", full)
    with pytest.raises(InputError, match=r"could not write .*run.nc: No space left on device"):
        save(whole(), tmp_path / "run.nc")
    assert os.listdir(tmp_path) == []


def foreign(path):
    xr.Dataset({"x": ("time", np.arange(3.0))}).to_netcdf(path, engine="h5netcdf")


def from_the_future(path):
    tree = whole()
    tree.attrs["ergodica_format"] = 99
    save(tree, path, overwrite=True)


def other_axes(path):
    posterior = xr.Dataset({"x": (("sample",), np.arange(3.0))})
    xr.DataTree.from_dict({"/posterior": posterior}).to_netcdf(path, engine="h5netcdf")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda path: os.truncate(path, path.stat().st_size // 2), "is cut off"),
        (lambda path: os.truncate(path, 100), "run.nc is"),
        (lambda path: path.write_bytes(b""), "is not a netCDF file"),
        (lambda path: path.write_text("chain,draw\n"), "is not a netCDF file"),
        (lambda path: path.unlink(), "there is no file"),
        (foreign, "is not the file of a run"),
        (from_the_future, "format 99"),
        (other_axes, "expected chain, draw first"),
    ],
)
def test_what_is_not_a_run_is_one_line(path, spoil, message):
    spoil(path)
    with pytest.raises(InputError, match=message) as caught:
        load(path)
    assert "\n" not in str(caught.value)
