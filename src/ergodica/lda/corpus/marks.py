"""What tells a corpus from another of the same name and length, when a run is resumed."""

import hashlib
import os
from collections.abc import Iterable

PIECE = 1 << 16  # bytes of a file's beginning, middle and end
LOOKED_INTO = 1_000  # files; of a corpus with more, an even spread of them


def marked(files: list[str]) -> list[str]:
    """Size and time of change of every file, and a digest of some of its bytes for up to 1,000 of them.

    A change of a file's middle that leaves size and time as they were is not seen.
    """
    every = max(1, -(-len(files) // LOOKED_INTO))
    return [_file(path, number % every == 0) for number, path in enumerate(files)]


def of_texts(texts: Iterable[str]) -> str:
    """A digest of all texts."""
    found = hashlib.sha256()
    for text in texts:
        content = str(text).encode("utf-8", "replace")
        found.update(len(content).to_bytes(8, "little") + content)
    return found.hexdigest()


def _file(path: str, is_looked_into: bool) -> str:
    try:
        told = os.stat(path)
        words = f"{told.st_size} {told.st_mtime_ns}"
        return f"{words} {_sample(path, told.st_size)}" if is_looked_into else words
    except OSError:  # reading it will say so, or leave it out
        return "unreadable"


def _sample(path: str, size: int) -> str:
    found = hashlib.sha256()
    with open(path, "rb") as file:
        for start in sorted({0, max(0, size // 2 - PIECE // 2), max(0, size - PIECE)}):
            file.seek(start)
            found.update(file.read(PIECE))
    return found.hexdigest()
