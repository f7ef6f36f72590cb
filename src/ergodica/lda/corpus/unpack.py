"""Compressed bytes to plain ones in bounded memory: bz2 and gzip, of several streams, cut off or hostile."""

import bz2
import importlib
import os
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from ergodica.errors import InputError
from ergodica.lda.corpus.tally import Tally

PIECE = 1 << 16  # compressed bytes that are read at a time
BLOCK = 1 << 18  # plain bytes that are given at a time
# Text expands 3 to 20 times, pages of one repeated line 100 times; bz2 of zeros 885,000 times. A piece may give 32 MB.
EXPANSION = 500
MAGIC = {"bz2": b"BZh", "gzip": b"\x1f\x8b"}


class Readable(Protocol):
    """Bytes from somewhere."""

    def read(self, size: int, /) -> bytes: ...


class Chunk(NamedTuple):
    """Plain bytes, and the byte of the file from which reading could begin anew with them (None: it could not)."""

    data: bytes
    restart: int | None


def compression(head: bytes) -> str | None:
    """bz2 or gzip by the first bytes; None for anything else."""
    return next((name for name, magic in MAGIC.items() if head.startswith(magic)), None)


def plain_chunks(file: Readable, start: int) -> Iterator[Chunk]:
    """The bytes as they are."""
    while data := file.read(BLOCK):
        yield Chunk(data, start)
        start += len(data)


def unpacked_chunks(file: Readable, kind: str, name: str, tally: Tally, start: int = 0) -> Iterator[Chunk]:
    """The plain bytes of every stream in the file, one after another.

    A file that is cut off or damaged gives what came before and is counted; one of which a piece of 64 kB gives more
    than 500 times as much is refused.
    """
    stream, restart, read = None, None, start
    while piece := file.read(PIECE):
        read, given = read + len(piece), 0
        while piece:
            if stream is None:
                if not MAGIC[kind].startswith(piece[: len(MAGIC[kind])]):
                    if piece.strip(b"\0"):  # files are filled up with zeros to whole blocks on tapes
                        tally.add("trailing", name)
                    return
                stream, restart = _STREAMS[kind](), read - len(piece)
            try:
                for data in _drained(stream, piece):
                    given += len(data)
                    if given > EXPANSION * PIECE:
                        raise InputError(f"{name} expands more than {EXPANSION} : 1 near byte {read:,}: leave it out")
                    yield Chunk(data, restart)
                    restart = None
            except (OSError, zlib.error) as error:
                tally.add("cut_off", f"{name}, damaged near byte {read:,} ({error})")
                return
            piece, stream = (stream.unused_data, None) if stream.eof else (b"", stream)
    if stream is not None:
        tally.add("cut_off", f"{name}, cut off at byte {read:,}")


def _drained(stream: Any, piece: bytes) -> Iterator[bytes]:
    """What a stream gives for a piece, in blocks, until it wants more or is at its end."""
    while True:
        if data := stream.decompress(piece, BLOCK):
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


_STREAMS = {"bz2": bz2.BZ2Decompressor, "gzip": _Gzip}


def parallel_bz2(path: str) -> Any:
    """A local bz2 file decompressed by all cores, where indexed_bzip2 is installed; else None."""
    try:
        return importlib.import_module("indexed_bzip2").open(path, parallelization=os.cpu_count() or 1)
    except ImportError:
        return None


def parallel_chunks(file: Any, name: str, tally: Tally) -> Iterator[Chunk]:
    """The chunks of `parallel_bz2`. It does not tell where streams begin, so reading begins anew at the first byte."""
    size, given, restart = os.path.getsize(name), 0, 0
    while True:
        try:
            data = file.read(BLOCK)
        except (OSError, RuntimeError, ValueError) as error:  # what its C++ throws
            tally.add("cut_off", f"{name}, damaged after {given:,} plain bytes ({' '.join(str(error).split())})")
            return
        if not data:
            return
        given += len(data)
        if given > EXPANSION * (size + PIECE):
            raise InputError(f"{name} expands more than {EXPANSION} : 1: leave it out")
        yield Chunk(data, restart)
        restart = None
