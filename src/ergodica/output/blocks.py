"""Draws on disk as they come: raw bytes, one item after the other.

A kill in the middle of a write leaves part of an item at the end; it does not count. The number of items is the length
of the file. A checkpoint notes how many were there and their SHA-256, which grows with the file: `verify` and
`truncate` go back to that.
"""

import hashlib
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jax.numpy as jnp
import numpy as np

from ergodica.errors import InputError

PIECE = 2**22  # bytes looked at in one go
LOST = "what was drawn is lost, unless there is a copy"


class BlockFile:
    """An append-only file of arrays of one dtype and shape; `read` gives them stacked, (count, *shape)."""

    def __init__(self, path: Path, dtype: np.dtype, shape: tuple[int, ...]):
        self.path = path
        self.dtype = dtype
        self.shape = shape
        self._stride = max(1, dtype.itemsize * math.prod(shape))  # an item without numbers is one byte, to be counted
        self._hash, self._hashed = hashlib.sha256(), 0  # of the first so many bytes

    @classmethod
    def open(cls, folder: Path | str, name: str, dtype: Any, shape_of_one: tuple[int, ...]) -> "BlockFile":
        """Begin the file `name`, or continue it."""
        blocks = cls.described(folder, name, {"dtype": dtype, "shape": shape_of_one})
        try:
            blocks.path.parent.mkdir(parents=True, exist_ok=True)
            blocks.path.touch()
        except OSError as error:
            raise could_not("write", blocks.path, error) from error
        return blocks

    @classmethod
    def described(cls, folder: Path | str, name: str, words: dict[str, Any]) -> "BlockFile":
        """The file `name`, to be read from; `words` as `description` gives them."""
        path = Path(folder) / f"{quote(name, safe='')}.bin"
        # jnp.dtype also knows bfloat16 by its name
        return cls(path, np.dtype(jnp.dtype(words["dtype"])), tuple(int(length) for length in words["shape"]))

    def description(self) -> dict[str, Any]:
        """What a checkpoint notes: dtype and shape of an item, and the SHA-256 of all items."""
        return {"dtype": self.dtype.name, "shape": list(self.shape), "sha256": self.digest()}

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
        try:
            end = self.count * self._stride
            self._hash_up_to(end)
            with open(self.path, "r+b", buffering=0) as file:
                file.seek(end)
                try:
                    _write_all(file, content)
                except OSError:
                    file.truncate(end)
                    raise
        except OSError as error:
            raise could_not("write", self.path, error) from error
        self._hash.update(content)
        self._hashed += len(content)

    def digest(self) -> str:
        """The SHA-256 of what was appended; of a file that is continued, with what was there."""
        self._hash_up_to(self.count * self._stride)
        return self._hash.hexdigest()

    def verify(self, count: int, sha256: str) -> None:
        """Raise InputError unless the first `count` items are those of this SHA-256."""
        try:
            there = self.count
            if there >= count:
                self._hash, self._hashed = hashlib.sha256(), 0
                self._hash_up_to(count * self._stride)
        except OSError as error:
            raise could_not("read", self.path, error) from error
        if there < count:
            raise InputError(f"{self.path} is cut off: it holds {there} draws, expected {count}; {LOST}")
        if self._hash.hexdigest() != sha256:
            raise self._damaged(count)

    def truncate(self, count: int) -> None:
        """Keep the first `count` items."""
        if not 0 <= count <= self.count:
            raise InputError(f"{self.path} holds {self.count} draws, expected at least {count}: it was changed since")
        try:
            os.truncate(self.path, count * self._stride)
        except OSError as error:
            raise could_not("write", self.path, error) from error

    def sync(self) -> None:
        """Wait until it is on the disk, so that it outlives the machine's fall and not only the process's."""
        try:
            with open(self.path, "rb") as file:
                os.fsync(file.fileno())
        except OSError as error:
            raise could_not("write", self.path, error) from error

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
            self._hash, self._hashed = hashlib.sha256(), 0
        if self._hashed < end:
            with open(self.path, "rb") as file:
                file.seek(self._hashed)
                while self._hashed < end and (piece := file.read(min(PIECE, end - self._hashed))):
                    self._hash.update(piece)
                    self._hashed += len(piece)

    def _damaged(self, count: int) -> InputError:
        return InputError(f"{self.path} is damaged: the checksum of its {count} draws does not match; {LOST}")


def _write_all(file: Any, content: Any) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def could_not(what: str, path: Path | str, error: Exception) -> InputError:
    """One line from what the system says: a full disk, a folder that is read-only, ..."""
    text = " ".join(str(getattr(error, "strerror", None) or error or type(error).__name__).split())
    said = re.search(r"error message = '([^']+)'", text)  # within a long text of h5py's
    return InputError(f"could not {what} {path}: {said[1] if said else text}")
