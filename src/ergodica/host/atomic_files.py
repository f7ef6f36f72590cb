"""Files that are there whole or not at all: written under a temporary name, brought to the disk and renamed."""

import hashlib
import io
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from ergodica.errors import InputError

LONGEST = 200  # bytes of a name that temporary names repeat: most file systems allow 255


def write_whole(path: Path, write: Callable[[Any], Any]) -> str:
    """What `write` puts into the open file it is given, as `path`; the SHA-256 of these bytes."""
    with renamed(path) as temporary, open(temporary, "wb") as file:
        summed = _Summed(file)
        write(summed)
    return summed.sha256.hexdigest()


class _Summed(io.RawIOBase):
    """A file that can only be appended to: what is summed is what was handed over, not what the disk gives back."""

    def __init__(self, file: BinaryIO):
        super().__init__()
        self._file, self.sha256 = file, hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self.sha256.update(content)
        return self._file.write(content)


@contextmanager
def renamed(path: Path) -> Iterator[Path]:
    """A temporary name beside `path`, which takes its place at the end; nothing is left behind on failure."""
    temporary = _temporary(path, os.getpid())
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except (OSError, RuntimeError) as error:  # h5py has both for a full disk
        raise could_not("write", path, error) from error
    finally:
        temporary.unlink(missing_ok=True)


def remove_folder(folder: Path, path: Path) -> None:
    """A folder beside `path` that nobody needs any more, as what was to become of it is there whole.

    It gets a temporary name first: of a process that is killed meanwhile `remove_stale` takes what is left, where half
    a folder under its own name would look like one of worth.
    """
    temporary = _temporary(path, os.getpid())
    with suppress(OSError):  # such a name is there already, or the folder above cannot be written
        folder.rename(temporary)
        folder = temporary
    shutil.rmtree(folder, ignore_errors=True)


def remove_stale(path: Path) -> None:
    """What processes left that were killed while they wrote `path`, or removed a folder in its favour, under temporary
    names: nobody else may be writing it."""
    for other in path.parent.iterdir():
        process = other.name.removesuffix(".part").rpartition(".")[2]
        if process.isdigit() and other == _temporary(path, int(process)):
            if other.is_dir() and not other.is_symlink():
                shutil.rmtree(other, ignore_errors=True)
            else:
                other.unlink(missing_ok=True)


def check_name(path: Path) -> None:
    """Refuse a name that is too long for the file system: ask before hours of work, not after."""
    try:
        most = os.pathconf(path.parent, "PC_NAME_MAX")
    except (OSError, ValueError):  # no such folder, which others complain of; or it is not known
        return
    length = len(os.fsencode(path.name))
    if length > most:
        raise InputError(
            f"{path.name[:40]}... has {length} bytes, and a name may have {most} there: give a shorter one"
        )


def hidden(path: Path, ending: str) -> Path:
    """A name beside `path` that is its own and begins with a dot: `.run.nc.lock`; of a very long name, a short one."""
    name = path.name
    if len(os.fsencode(name)) > LONGEST:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()[:32]
    return path.with_name(f".{name}.{ending}")


def _temporary(path: Path, process: int) -> Path:
    return hidden(path, f"{process}.part")


def could_not(what: str, path: Path | str, error: Exception) -> InputError:
    """One line from what the system says: a full disk, a folder that is read-only, ..."""
    text = " ".join(str(getattr(error, "strerror", None) or error or type(error).__name__).split())
    said = re.search(r"error message = '([^']+)'", text)  # within a long text of h5py's
    return InputError(f"could not {what} {path}: {said[1] if said else text}")
