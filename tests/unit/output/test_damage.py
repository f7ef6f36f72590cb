"""Damage to a run's file is found and named, or changes nothing; 300 trials of each kind: benchmarks/attacks.py."""

import shutil
from pathlib import Path

import h5netcdf
import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.output import checksums, files
from ergodica.output.files import Loaded, load, save
from ergodica.output.labelled import datatree
from tests.attacks import damage
from tests.unit.output import made


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "run.nc"
    halved = Loaded(made.posterior(draws=40), made.stats(draws=40), {"step_size": 0.05})
    settings = made.settings() | {"note": "short"}  # nearly all of the file would be the long one
    save(datatree(made.posterior(), made.stats(), settings, made.moments(), halved), path)
    return path


@pytest.fixture
def path(tmp_path, saved):
    return Path(shutil.copy(saved, tmp_path / "run.nc"))


def test_random_damage(saved, tmp_path):
    trials = damage.attack(saved, load, tmp_path, 100)
    assert all(trial.has_held for trial in trials), damage.told(trials)


def test_a_lost_page_of_checksum_leaves_the_other(path):
    content = path.read_bytes()
    end = len(content) - len(content) % damage.PAGE
    assert 0 < len(content) - end < 200
    path.write_bytes(content[:end] + bytes(len(content) - end))
    assert not checksums.holds_sum(path)
    assert load(path).settings["temperature"] == 1.0


def change(path, act):
    """What another program could do without HDF5 noticing."""
    with h5netcdf.File(path, "a") as file:
        act(file)


def other_draw(file):
    file["posterior"]["layer.b"][0, 3] = 2.0


def other_setting(file):
    file.attrs["temperature"] = 1.5


def other_place(file):
    file["halved_sample_stats"].attrs["step_size"] = 0.04


def no_seal(file):
    del file.attrs["sha256"]


@pytest.mark.parametrize("act", [other_draw, other_setting, other_place, no_seal])
def test_what_was_changed_is_refused(path, act):
    change(path, act)
    with pytest.raises(InputError, match=r"run\.nc is damaged, or was changed by another program") as raised:
        load(path)
    assert "\n" not in str(raised.value)


def test_every_dataset_has_fletcher_32(path):
    with h5netcdf.File(path, "r") as file:
        found = {name: x for group in file.groups.values() for name, x in group.variables.items()}
        assert len(found) > 8
        assert all(variable.fletcher32 for variable in found.values())


@pytest.mark.parametrize("shape", [(3,), (2, 500_000), (4, 300, 7, 5), (2, 3, 400_000), (1, 1, 2**21)])
def test_chunks_are_of_a_megabyte_and_pieces_are_in_order(shape, monkeypatch):
    assert np.prod(checksums.chunks(shape, 8)) * 8 <= checksums.CHUNK_BYTES
    monkeypatch.setattr(checksums, "PIECE_BYTES", 80_000)
    array = np.arange(np.prod(shape)).reshape(shape)
    found = np.concatenate([piece.reshape(-1) for piece in checksums.pieces(array)])
    np.testing.assert_array_equal(found, array.reshape(-1))


def as_version_0_1_0(path, monkeypatch):
    monkeypatch.setattr("ergodica.output.labelled.FILE_FORMAT", 1)
    monkeypatch.setattr(checksums, "storage", lambda *shape: {})
    monkeypatch.setattr(files, "_seal", lambda path: None)
    save(datatree(made.posterior(), made.stats(), made.settings()), path)
    monkeypatch.undo()


@pytest.mark.parametrize("mapped", [files.MAPPED_BYTES, 0])
def test_a_file_of_version_0_1_0_is_read_with_a_note(tmp_path, monkeypatch, mapped):
    as_version_0_1_0(tmp_path / "old.nc", monkeypatch)
    monkeypatch.setattr(files, "MAPPED_BYTES", mapped)
    with pytest.warns(UserWarning, match=r"old\.nc was written by version 0\.1\.0 .* no checksums") as said:
        found = load(tmp_path / "old.nc")
    assert len(said) == 1
    np.testing.assert_array_equal(found.posterior["layer"]["b"], made.posterior()["layer"]["b"])
    assert found.settings == made.settings()
