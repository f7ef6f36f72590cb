"""Draws on disk as they come: raw bytes, one item after the other, and a small JSON header beside them.

A kill in the middle of a write leaves part of an item at the end; it does not count. The number of items is the length
of the file: a checkpoint notes how many were there, and `truncate` goes back to that.
"""

import json
import math
import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import jax.numpy as jnp
import numpy as np

from ergodica.errors import InputError


class BlockFile:
    """An append-only file of arrays of one dtype and shape; `read` gives them stacked, (count, *shape)."""

    def __init__(self, path: Path, dtype: np.dtype, shape: tuple[int, ...]):
        self.path = path
        self.dtype = dtype
        self.shape = shape
        self._stride = max(1, dtype.itemsize * math.prod(shape))  # an item without numbers is one byte, to be counted

    @classmethod
    def open(cls, folder: Path | str, name: str, dtype: Any, shape_of_one: tuple[int, ...]) -> "BlockFile":
        """Begin the file `name`, or go on with it: then dtype and shape must be the same."""
        path = Path(folder) / f"{quote(name, safe='')}.bin"
        # jnp.dtype also knows bfloat16 by its name
        blocks = cls(path, np.dtype(jnp.dtype(dtype)), tuple(int(length) for length in shape_of_one))
        header = path.with_suffix(".json")
        words = json.dumps({"dtype": blocks.dtype.name, "order": "C", "shape": list(blocks.shape)})
        try:
            if header.exists():
                if header.read_text() != words:
                    raise InputError(f"{header} has other draws ({header.read_text()[:100]}), expected {words}")
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                header.write_text(words)
            path.touch()
        except OSError as error:
            raise could_not("write", path, error) from error
        return blocks

    @classmethod
    def existing(cls, header: Path) -> "tuple[str, BlockFile]":
        """The file beside this header, with its name: to be read from."""
        try:
            words = json.loads(header.read_text())
            blocks = cls(header.with_suffix(".bin"), np.dtype(jnp.dtype(words["dtype"])), tuple(words["shape"]))
            blocks.path.stat()
        except OSError as error:
            raise could_not("read", header.with_suffix(".bin"), error) from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{header} is damaged: expected the dtype and shape of draws as JSON") from error
        return unquote(header.stem), blocks

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
            with open(self.path, "r+b", buffering=0) as file:
                file.seek(end)
                try:
                    _write_all(file, content)
                except OSError:
                    file.truncate(end)
                    raise
        except OSError as error:
            raise could_not("write", self.path, error) from error

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

    def items(self, start: int, stop: int) -> np.ndarray:
        """Some of them in memory; unlike `read`, which counts every page that was touched as resident."""
        shape = (stop - start, *self.shape)
        if math.prod(shape) == 0:
            return np.zeros(shape, self.dtype)
        count = (stop - start) * self._stride
        return np.fromfile(self.path, np.uint8, count, offset=start * self._stride).view(self.dtype).reshape(shape)


def _write_all(file: Any, content: Any) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def could_not(what: str, path: Path | str, error: Exception) -> InputError:
    """One line from what the system says: a full disk, a folder that is read-only, ..."""
    text = " ".join(str(getattr(error, "strerror", None) or error or type(error).__name__).split())
    said = re.search(r"error message = '([^']+)'", text)  # within a long text of h5py's
    return InputError(f"could not {what} {path}: {said[1] if said else text}")
