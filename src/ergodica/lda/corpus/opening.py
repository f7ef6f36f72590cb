"""Bytes of a corpus file, wherever it is: a path, standard input or an address; plain, bz2 or gzip."""

import os
import sys
from collections.abc import Iterator
from typing import Any

from ergodica.errors import InputError
from ergodica.lda.corpus.download import Download, without_password
from ergodica.lda.corpus.tally import Tally
from ergodica.lda.corpus.unpack import (
    PIECE,
    Chunk,
    Readable,
    compression,
    parallel_bz2,
    parallel_chunks,
    plain_chunks,
    unpacked_chunks,
)

STANDARD_INPUT = "-"


def is_address(place: str) -> bool:
    return place.lower().startswith(("http://", "https://"))


class Opened:
    """The plain bytes of one file.

    Args:
        place: a path, "-" for standard input, or an http(s) address.
        tally: where a file that is cut off is counted.
        start: the byte to begin at: 0, or one that a `Chunk` named.
    """

    def __init__(self, place: str, tally: Tally, start: int = 0):
        self.place, self.tally, self.start = place, tally, start
        self.name = "standard input" if place == STANDARD_INPUT else without_password(place)
        self._file = _Counted(_raw(place, start), start)
        self.total: int | None = os.path.getsize(place) if os.path.isfile(place) else self._file.total
        self._unpacker: Any = None
        head = self._file.peek(PIECE)
        self.compression = compression(head)
        if self.compression is None and place.endswith((".bz2", ".gz")):
            wanted = "bz2" if place.endswith(".bz2") else "gzip"
            self.close()
            raise InputError(f"{self.name} is not {wanted}, whatever its name says: it begins with {head[:8]!r}")

    @property
    def position(self) -> int:
        """How many bytes of the file, as it is stored, were read."""
        where = getattr(self._unpacker, "tell_compressed", None)
        return where() // 8 if where is not None else self._file.position

    def chunks(self) -> Iterator[Chunk]:
        """The bytes in blocks of at most 256 kB. A connection that drops or a disk that fails is one InputError."""
        try:
            yield from self._chunks()
        except OSError as error:
            raise InputError(f"{self.name} could not be read: {error.strerror or error}") from error

    def close(self) -> None:
        self._file.close()
        if self._unpacker is not None:
            self._unpacker.close()

    def _chunks(self) -> Iterator[Chunk]:
        if self.compression is None:
            return plain_chunks(self._file, self.start)
        if self.compression == "bz2" and self.start == 0 and os.path.isfile(self.place):
            self._unpacker = parallel_bz2(self.place)
            if self._unpacker is not None:
                return parallel_chunks(self._unpacker, self.place, self.tally)
        return unpacked_chunks(self._file, self.compression, self.name, self.tally, self.start)


class _Counted:
    """A file that counts its bytes, always fills a read, and can be looked into first."""

    def __init__(self, inner: Any, start: int):
        self._inner, self._ahead, self.position = inner, b"", start
        self.total: int | None = getattr(inner, "total", None)

    def peek(self, size: int) -> bytes:
        self._ahead += self._filled(size - len(self._ahead))
        return self._ahead

    def read(self, size: int) -> bytes:
        data, self._ahead = self._ahead[:size], self._ahead[size:]
        if len(data) < size:
            data += self._filled(size - len(data))
        self.position += len(data)
        return data

    def close(self) -> None:
        if self._inner is not getattr(sys.stdin, "buffer", None):
            self._inner.close()

    def _filled(self, size: int) -> bytes:
        parts, missing = [], size
        while missing > 0 and (part := self._inner.read(missing)):
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)


def _standard_input() -> Readable:
    # Below Python's buffer: a thread that waits in that one when the program ends stops it with a fatal error.
    try:
        return open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)
    except (AttributeError, OSError, ValueError):  # what stands in for standard input may be no file
        return sys.stdin.buffer


def _raw(place: str, start: int) -> Readable:
    if place == STANDARD_INPUT:
        return _standard_input()
    if is_address(place):
        return Download(place, start)
    try:
        file = open(place, "rb")  # noqa: SIM115 - Opened closes it
    except FileNotFoundError:
        raise InputError(f"there is no file or folder {place!r}") from None
    except OSError as error:
        raise InputError(f"{place} could not be opened: {error.strerror or error}") from None
    if start:
        file.seek(start)
    return file
