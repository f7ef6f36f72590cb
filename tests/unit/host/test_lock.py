"""One writer at a time, however the lock file comes and goes."""

import errno
import os

import pytest

import ergodica as eg
from ergodica.host.lock import Lock


@pytest.fixture
def out(tmp_path):
    (tmp_path / "own").mkdir()
    return tmp_path / "own" / "run.nc"


def test_a_lock_file_that_was_removed_by_its_holder_is_not_held(out):
    """The second had opened the file before the first removed it: a lock on that is a lock on nothing."""
    first = Lock.beside(out)
    first.__enter__()
    opened, taken = os.open, []

    def open_late(*arguments, **words):
        handle = opened(*arguments, **words)
        if not taken:
            taken.append(first.__exit__())
        return handle

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", open_late)
        with Lock.beside(out):
            patch.undo()
            with pytest.raises(eg.InputError, match="written by another process"), Lock.beside(out):
                pass
    assert os.listdir(out.parent) == []


def test_a_file_system_without_locks_is_no_reason_to_fail(out, monkeypatch):
    def none(handle, how):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", none)
    with Lock.beside(out):
        pass
    assert os.listdir(out.parent) == []
