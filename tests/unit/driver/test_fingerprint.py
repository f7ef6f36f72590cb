"""What a run was made of: data that changed anywhere are seen."""

import os

import numpy as np
import pytest

import ergodica as eg
from ergodica.driver.identity import data_digest
from tests.unit.driver.runs import TARGET, log_likelihood, log_prior

ROWS = np.random.default_rng(0).normal(size=(5_000, 2))


def digest(rows):
    return data_digest(eg.Posterior(log_prior, log_likelihood, rows, init=TARGET.init))


@pytest.mark.parametrize("row", [0, 1, 2_501, 4_998])
def test_every_row_in_memory_counts(row):
    changed = ROWS.copy()
    changed[row, 1] += 1e-9
    assert digest(ROWS) == digest(ROWS.copy())
    assert digest(ROWS) != digest(changed)
    assert digest(ROWS) != digest(ROWS.astype(np.float32))


def test_of_a_file_size_time_and_a_sample_count(tmp_path):
    path = tmp_path / "rows.npy"
    np.save(path, ROWS)
    before, told = digest(eg.data.npy(path)), path.stat()
    path.rename(tmp_path / "moved.npy")
    path = tmp_path / "moved.npy"
    assert digest(eg.data.npy(path)) == before
    changed = ROWS.copy()
    changed[1] = 0  # not among those that are looked at
    np.save(path, changed)
    assert digest(eg.data.npy(path)) != before
    changed[0] = 0  # among them: seen whatever the time says
    np.save(path, changed)
    os.utime(path, ns=(told.st_atime_ns, told.st_mtime_ns))
    assert digest(eg.data.npy(path)) != before
