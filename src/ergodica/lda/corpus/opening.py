"""Bytes of a corpus file, wherever it is (path, standard input, address), plain, bz2 or gzip, in bounded memory."""

import bz2
import importlib
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from ergodica.errors import InputError
from ergodica.lda.corpus.tally import Tally

STANDARD_INPUT = "-"
READ_BYTES = 1 << 16  # compressed bytes that are read at a time
BLOCK_BYTES = 1 << 18  # plain bytes that are given at a time
# Text expands 3 to 20 times, pages of one repeated line 100 times; bz2 of zeros 885,000 times. A piece may give 32 MB.
LARGEST_EXPANSION = 500
FIRST_BYTES = {"bz2": b"BZh", "gzip": b"\x1f\x8b"}


def without_password(text: str) -> str:
    """The text with the user name and password taken out of every address in it: for messages and files."""
    return re.sub(r"([a-zA-Z]+://)[^/?#\s]*@", r"\1", text)


def is_address(place: str) -> bool:
    return place.lower().startswith(("http://", "https://"))


class Readable(Protocol):
    """Bytes from somewhere."""

    def read(self, size: int, /) -> bytes: ...


class Chunk(NamedTuple):
    """Plain bytes, and the byte of the file from which reading could start again with them (None: it could not)."""

    data: bytes
    restart: int | None


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
        head = self._file.peek(READ_BYTES)
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
            with suppress(ImportError):  # by all cores, where the extra `fast` is installed
                self._unpacker = importlib.import_module("indexed_bzip2").open(self.place, os.cpu_count() or 1)
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
        from ergodica.lda.corpus.download import Download  # which few need, and takes a while to load

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


def compression(head: bytes) -> str | None:
    """bz2 or gzip by the first bytes; None for anything else."""
    return next((name for name, magic in FIRST_BYTES.items() if head.startswith(magic)), None)


def plain_chunks(file: Readable, start: int) -> Iterator[Chunk]:
    """The bytes as they are."""
    while data := file.read(BLOCK_BYTES):
        yield Chunk(data, start)
        start += len(data)


def unpacked_chunks(file: Readable, kind: str, name: str, tally: Tally, start: int = 0) -> Iterator[Chunk]:
    """The plain bytes of every stream in the file, one after another.

    A file that is cut off or damaged gives what came before and is counted; one of which a piece of 64 kB gives more
    than 500 times as much is refused.
    """
    stream, restart, read = None, None, start
    while piece := file.read(READ_BYTES):
        read, given = read + len(piece), 0
        while piece:
            if stream is None:
                if not FIRST_BYTES[kind].startswith(piece[: len(FIRST_BYTES[kind])]):
                    if piece.strip(b"\0"):  # files are filled up with zeros to whole blocks on tapes
                        tally.add("trailing", name)
                    return
                stream, restart = _STREAM_KINDS[kind](), read - len(piece)
            try:
                for data in _drained(stream, piece):
                    given += len(data)
                    if given > LARGEST_EXPANSION * READ_BYTES:
                        raise _hostile(name, f" near byte {read:,}")
                    yield Chunk(data, restart)
                    restart = None
            except (OSError, zlib.error) as error:
                tally.add("cut_off", f"{name}, damaged near byte {read:,} ({error})")
                return
            piece, stream = (stream.unused_data, None) if stream.eof else (b"", stream)
    if stream is not None:
        tally.add("cut_off", f"{name}, cut off at byte {read:,}")


def _hostile(name: str, where: str = "") -> InputError:
    return InputError(f"{name} expands more than {LARGEST_EXPANSION} : 1{where}: leave it out")


def _drained(stream: Any, piece: bytes) -> Iterator[bytes]:
    """What a stream gives for a piece, in blocks, until it wants more or is at its end."""
    while True:
        if data := stream.decompress(piece, BLOCK_BYTES):
            yield data
        piece = b""
        if stream.eof or stream.needs_input:
            return


class _Gzip:
    """zlib's decompressor with the manners of bz2's: what it did not take in stays with it."""

    def __init__(self) -> None:
        self._inner, self._is_full = zlib.decompressobj(wbits=31), False

    def decompress(self, piece: bytes, limit: int) -> bytes:
        data = self._inner.decompress(self._inner.unconsumed_tail + piece, limit)
        self._is_full = len(data) == limit  # more may be inside, even where all input was taken in
        return data

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail and not self._is_full

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data


_STREAM_KINDS = {"bz2": bz2.BZ2Decompressor, "gzip": _Gzip}


def parallel_chunks(file: Any, name: str, tally: Tally) -> Iterator[Chunk]:
    """Those of indexed_bzip2. It does not tell where streams begin, so reading starts again at the first byte."""
    size, given, restart = os.path.getsize(name), 0, 0
    while True:
        try:
            data = file.read(BLOCK_BYTES)
        except (OSError, RuntimeError, ValueError) as error:  # what its C++ throws
            tally.add("cut_off", f"{name}, damaged after {given:,} plain bytes ({' '.join(str(error).split())})")
            return
        if not data:
            return
        given += len(data)
        if given > LARGEST_EXPANSION * (size + READ_BYTES):
            raise _hostile(name)
        yield Chunk(data, restart)
        restart = None
