"""One writer at a time: a lock is held before anything is looked at, made, cut or removed.

The lock is on an open file, so that the system releases it however the process ends. The file is removed while the lock
is still held; whoever had opened it before finds that it has no name any more, and `filelock` tries again.
"""

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import filelock

from ergodica.errors import InputError
from ergodica.host.atomic_files import could_not, hidden

LOCK_FILE = "ergodica.lock"  # in a folder; version 0.1.0 also left it in `run.nc.part`
TRIES = 20  # of a folder whose holders make and remove it each time
PATIENCE = 0.2  # seconds in which a holder may end, or write its number
NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP}  # a file system that has none


class Lock:
    """Held while the `with` statement lasts.

    Args:
        path: of the lock file; None: there is nothing to lock.
        guarded: what the lock is for, as a message names it.
        prepare: makes the folder that the lock file lies in.
    """

    def __init__(self, path: Path | None, guarded: Path | None, prepare: Callable[[], None] = lambda: None):
        self.path, self.guarded, self._prepare = path, guarded, prepare
        self._held: filelock.BaseFileLock | None = None

    @classmethod
    def beside(cls, file: Path | None) -> "Lock":
        """For `file` and the folder that becomes it; none where nothing can be written."""
        # what needs to write there will say so
        can_write = file is not None and file.parent.is_dir() and os.access(file.parent, os.W_OK)
        return cls(hidden(file, "lock") if file is not None and can_write else None, file)

    @classmethod
    def within(cls, folder: Path | None, prepare: Callable[[], None]) -> "Lock":
        return cls(None if folder is None else folder / LOCK_FILE, folder, prepare)

    def __enter__(self) -> "Lock":
        """InputError names the process that has it."""
        if self.path is None:
            return self
        for _ in range(TRIES):
            self._prepare()
            with suppress(FileNotFoundError):  # the folder was removed just now
                self._acquire(self.path)
                return self
        raise InputError(f"{self.guarded} is being made and removed by other processes: try again")

    def _acquire(self, path: Path) -> None:
        lock = filelock.FileLock(path, timeout=PATIENCE, poll_interval=0.01, fallback_to_soft=False)
        try:
            lock.acquire()
        except (filelock.Timeout, RuntimeError):  # RuntimeError: this very thread has it
            raise InputError(
                f"{self.guarded} is being written by another process (pid {_holder(path)}): wait until it ends, or "
                "end it"
            ) from None
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno in NO_LOCKS:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
                return
            raise could_not("write", path, error) from error
        self._held = lock
        with suppress(OSError):  # a full disk: the number is only for the message
            path.write_text(str(os.getpid()))

    def unlink(self) -> None:
        """Remove the file; the lock stays held."""
        if self._held is not None and self.path is not None:
            with suppress(OSError):
                self.path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._held is not None:
            self._held.release()
            self._held = None

    def __exit__(self, *error: Any) -> None:
        self.unlink()
        self.close()


def _holder(path: Path) -> str:
    end = time.monotonic() + PATIENCE
    while True:
        with suppress(OSError, UnicodeDecodeError):
            number = path.read_text()
            if number.isdigit():
                return number
        if time.monotonic() > end:
            return "unknown"
        time.sleep(0.01)
