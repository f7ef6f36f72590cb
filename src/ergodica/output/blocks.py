"""Draws on disk as they come: raw bytes, one item after the other.

A kill in the middle of a write leaves part of an item at the end; it does not count. The number of items is the length
of the file. A checkpoint notes how many were there, the SHA-256 of all but the last, which grows with the file, and the
last itself: that one may still be withdrawn after the checkpoint, and `go_back` has it as it was.
"""

import hashlib
import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jax.numpy as jnp
import numpy as np

from ergodica.errors import InputError
from ergodica.host.atomic_files import could_not

PIECE_BYTES = 2**22  # looked at in one go
LOST_WORDS = "what was drawn is lost, unless there is a copy"


class BlockFile:
    """An append-only file of arrays of one dtype and shape; `read` gives them stacked, (count, *shape)."""

    def __init__(self, path: Path, dtype: np.dtype, shape: tuple[int, ...]):
        self.path = path
        self.dtype = dtype
        self.shape = shape
        self._stride = max(1, dtype.itemsize * math.prod(shape))  # an item without numbers is one byte, to be counted
        self._hash, self._hashed = hashlib.sha256(), 0  # and of how many bytes
        self._before = self._hash.copy()  # as it was before the last item

    @classmethod
    def open(cls, folder: Path | str, name: str, dtype: Any, shape_of_one: tuple[int, ...]) -> "BlockFile":
        """Begin the file `name`, or continue it."""
        blocks = cls.described(folder, name, {"dtype": dtype, "shape": shape_of_one})
        with blocks._reported("write"):
            blocks.path.parent.mkdir(parents=True, exist_ok=True)
            blocks.path.touch()
        return blocks

    @contextmanager
    def _reported(self, what: str) -> Iterator[None]:
        """What the system refuses, in one line."""
        try:
            yield
        except OSError as error:
            raise could_not(what, self.path, error) from error

    @classmethod
    def described(cls, folder: Path | str, name: str, words: dict[str, Any]) -> "BlockFile":
        """The file `name`, to be read from; `words` as `description` gives them."""
        path = Path(folder) / f"{quote(name, safe='')}.bin"
        # jnp.dtype also knows bfloat16 by its name
        return cls(path, np.dtype(jnp.dtype(words["dtype"])), tuple(int(length) for length in words["shape"]))

    def description(self) -> dict[str, Any]:
        """What a checkpoint notes beside the last item: dtype and shape of one, and the SHA-256 of those before it."""
        self.digest()
        return {"dtype": self.dtype.name, "shape": list(self.shape), "sha256": self._before.hexdigest()}

    def last(self) -> np.ndarray:
        """The last item, (1, *shape); (0, *shape) where there is none."""
        count = self.count
        return self.items(max(0, count - 1), count)

    @property
    def count(self) -> int:
        """How many whole items there are."""
        return self.path.stat().st_size // self._stride

    def append(self, block: np.ndarray) -> None:
        """Add the items of `block`, (n, *shape); what cannot be written whole is taken back."""
        if block.dtype != self.dtype or block.shape[1:] != self.shape:
            got, expected = f"{block.dtype} {block.shape}", f"{self.dtype} (n, {', '.join(map(str, self.shape))})"
            raise InputError(f"{self.path.name} was given a block of {got}, expected {expected}")
        content = np.ascontiguousarray(block).view(np.uint8).reshape(-1).data if block.size else bytes(len(block))
        with self._reported("write"):
            end = self.count * self._stride
            self._hash_up_to(end)
            with open(self.path, "r+b", buffering=0) as file:
                file.seek(end)
                try:
                    _write_all(file, content)
                except OSError:
                    file.truncate(end)
                    raise
        self._note(content)

    def digest(self) -> str:
        """The SHA-256 of what was appended; of a file that is continued, with what was there."""
        self._hash_up_to(self.count * self._stride)
        return self._hash.hexdigest()

    def verify(self, count: int, sha256: str) -> None:
        """Raise InputError unless the first `count` items but the last are those of this SHA-256."""
        before = max(0, count - 1)
        with self._reported("read"):
            there = self.count
            if there >= before:
                self._hash, self._hashed = hashlib.sha256(), 0
                self._hash_up_to(before * self._stride)
        if there < before:
            raise InputError(f"{self.path} is cut off: it holds {there} draws, expected {count}; {LOST_WORDS}")
        if self._hash.hexdigest() != sha256:
            raise self._damaged(count)

    def go_back(self, count: int, last: np.ndarray) -> None:
        """Keep the first `count` items, whose last is `last`."""
        self.truncate(max(0, count - 1))
        if count:
            self.append(last)

    def read_as_of(self, count: int, last: np.ndarray) -> np.ndarray:
        """The first `count` items, whose last is `last`; the file stays as it is."""
        if self.count < count:
            return np.concatenate([self.read()[: max(0, count - 1)], last[:count]])
        found = self.read()[:count]
        if count and found.size and found[-1:].tobytes() != last.tobytes():
            found = np.memmap(self.path, self.dtype, mode="c", shape=found.shape)  # a copy of the pages that change
            found[-1:] = last
            found.flags.writeable = False
        return found

    def truncate(self, count: int) -> None:
        """Keep the first `count` items."""
        if not 0 <= count <= self.count:
            raise InputError(f"{self.path} holds {self.count} draws, expected at least {count}: it was changed since")
        with self._reported("write"):
            os.truncate(self.path, count * self._stride)
        if self._hashed and self._hashed - self._stride == count * self._stride:
            self._hash, self._hashed = self._before.copy(), count * self._stride

    def sync(self) -> None:
        """Wait until it is on the disk, so that it outlives the machine's fall and not only the process's."""
        with self._reported("write"), open(self.path, "rb") as file:
            os.fsync(file.fileno())

    def read(self) -> np.ndarray:
        """All items, as a read-only memory map: nothing is read before it is looked at."""
        shape = (self.count, *self.shape)
        if math.prod(shape) == 0:
            return np.zeros(shape, self.dtype)
        return np.memmap(self.path, self.dtype, mode="r", shape=shape)

    def pieces(self, length: int) -> Iterator[np.ndarray]:
        """All items, `length` at a time, in memory; InputError at the end if they are not those that were appended.

        Unlike `read`, which counts every page that was touched as resident.
        """
        expected, found = self.digest(), hashlib.sha256()
        for start in range(0, self.count, length):
            part = self.items(start, min(start + length, self.count))
            found.update(part.reshape(-1).view(np.uint8).data if part.size else bytes(len(part)))
            yield part
        if found.hexdigest() != expected:
            raise self._damaged(self.count)

    def items(self, start: int, stop: int) -> np.ndarray:
        """Some of them in memory."""
        shape = (stop - start, *self.shape)
        if math.prod(shape) == 0:
            return np.zeros(shape, self.dtype)
        count = (stop - start) * self._stride
        return np.fromfile(self.path, np.uint8, count, offset=start * self._stride).view(self.dtype).reshape(shape)

    def _hash_up_to(self, end: int) -> None:
        """Where the file was not written here, or was cut: its bytes are read."""
        if self._hashed > end:
            self._hash, self._hashed, self._before = hashlib.sha256(), 0, hashlib.sha256()
        if self._hashed < end:
            with open(self.path, "rb") as file:
                file.seek(self._hashed)
                length = max(1, PIECE_BYTES // self._stride) * self._stride
                while self._hashed < end and (piece := file.read(min(length, end - self._hashed))):
                    self._note(piece)

    def _note(self, content: Any) -> None:
        """Add whole items to the SHA-256."""
        whole = memoryview(content)
        self._hash.update(whole[: len(whole) - self._stride])
        if len(whole):
            self._before = self._hash.copy()
            self._hash.update(whole[len(whole) - self._stride :])
        self._hashed += len(whole)

    def _damaged(self, count: int) -> InputError:
        return InputError(f"{self.path} is damaged: the checksum of its {count} draws does not match; {LOST_WORDS}")


def _write_all(file: Any, content: Any) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]
