"""One writer at a time: whoever writes to the folder of a run holds a lock on a file there."""

import fcntl
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from ergodica.errors import InputError
from ergodica.output.blocks import could_not

FILE = "ergodica.lock"


class Lock:
    """Held until the `with` statement ends, or the process does, in whatever way: the system gives it up."""

    def __init__(self, folder: Path | None):
        self.folder = folder
        self._handle: int | None = None

    def take(self) -> None:
        """InputError names the process that has it."""
        assert self.folder is not None
        path = self.folder / FILE
        try:
            self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise could_not("write", path, error) from error
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._handle, 20, 0).decode() or "unknown"
            raise InputError(
                f"{self.folder} is being written by another process (pid {holder}): wait until it ends, or end it"
            ) from None
        except OSError:
            return  # a file system that has no locks
        if not path.exists():  # its holder came to his end, and removed it, after it was opened here
            raise InputError(f"{self.folder} was removed by another process just now: try again")
        with suppress(OSError):  # a full disk: the number is only for the message
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, str(os.getpid()).encode(), 0)

    def __enter__(self) -> "Lock":
        return self

    def __exit__(self, *error: Any) -> None:
        if self._handle is not None:
            os.close(self._handle)
