"""Files that are there whole or not at all: written under a temporary name, brought to the disk and renamed."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from ergodica.output.blocks import could_not


def write_whole(path: Path, write: Callable[[BinaryIO], Any]) -> None:
    """What `write` puts into the open file it is given, as `path`."""
    with renamed(path) as temporary, open(temporary, "wb") as file:
        write(file)


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


def remove_stale(path: Path) -> None:
    """The temporary files of processes that were killed while they wrote `path`: nobody else may be writing it."""
    for other in path.parent.iterdir():
        process = other.name.removeprefix(f".{path.name}.").removesuffix(".part")
        if process.isdigit() and other == _temporary(path, int(process)):
            other.unlink(missing_ok=True)


def _temporary(path: Path, process: int) -> Path:
    return path.with_name(f".{path.name}.{process}.part")
