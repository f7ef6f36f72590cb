"""One writer at a time: a lock is held before anything is looked at, made, cut or removed.

The lock is on an open file (`flock`), so that the system releases it however the process ends. The file is removed
while the lock is still held; whoever had opened it before finds that the name is of another file now, and tries again.
"""

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ergodica.errors import InputError
from ergodica.output.blocks import could_not
from ergodica.output.whole import hidden

try:
    import fcntl
except ImportError:  # Windows: nothing is locked
    fcntl = None

FILE = "ergodica.lock"  # in a folder; version 0.1.0 also left it in `run.nc.part`
TRIES = 100  # of a lock whose holders remove it each time
PATIENCE = 0.2  # seconds in which a holder writes its number


class Lock:
    """Held while the `with` statement lasts.

    Args:
        path: of the lock file; None: there is nothing to lock.
        guarded: what the lock is for, as a message names it.
        prepare: makes the folder that the lock file lies in.
    """

    def __init__(self, path: Path | None, guarded: Path | None, prepare: Callable[[], None] = lambda: None):
        self.path, self.guarded, self._prepare = path, guarded, prepare
        self._handle: int | None = None

    @classmethod
    def beside(cls, file: Path | None) -> "Lock":
        """For `file` and the folder that becomes it; none where nothing can be written."""
        # what needs to write there will say so
        can_write = file is not None and file.parent.is_dir() and os.access(file.parent, os.W_OK)
        return cls(hidden(file, "lock") if file is not None and can_write else None, file)

    @classmethod
    def within(cls, folder: Path | None, prepare: Callable[[], None]) -> "Lock":
        return cls(None if folder is None else folder / FILE, folder, prepare)

    def __enter__(self) -> "Lock":
        """InputError names the process that has it."""
        for _ in range(TRIES if self.path is not None else 0):
            if self._is_taken():
                break
        else:
            if self.path is not None:
                raise InputError(f"{self.guarded} is being made and removed by other processes: try again")
        return self

    def _is_taken(self) -> bool:
        """False where the file was removed by its last holder before it was locked here."""
        assert self.path is not None
        self._prepare()
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except FileNotFoundError:  # the folder was removed just now
            return False
        except OSError as error:
            raise could_not("write", self.path, error) from error
        try:
            self._lock(handle)
            is_same = os.path.samestat(os.fstat(handle), os.stat(self.path))
        except FileNotFoundError:
            is_same = False
        except BaseException:
            os.close(handle)
            raise
        if not is_same:
            os.close(handle)
            return False
        self._handle = handle
        with suppress(OSError):  # a full disk: the number is only for the message
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        return True

    def _lock(self, handle: int) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"{self.guarded} is being written by another process (pid {_holder(handle)}): wait until it ends, or "
                "end it"
            ) from None
        except OSError:
            pass  # a file system that has no locks

    def unlink(self) -> None:
        """Take the file away; the lock is held on."""
        if self._handle is not None and self.path is not None:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __exit__(self, *error: Any) -> None:
        self.unlink()
        self.close()


def _holder(handle: int) -> str:
    end = time.monotonic() + PATIENCE
    while True:
        number = os.pread(handle, 20, 0).decode(errors="replace")
        if number.isdigit() or time.monotonic() > end:
            return number if number.isdigit() else "unknown"
        time.sleep(0.01)
