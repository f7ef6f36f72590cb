"""Checksums of our own files: what is read is what was written, or the file that was damaged is named.

There is one mechanism. A *record* is a dictionary as JSON holds it, sealed by the SHA-256 of its own text; it holds the
SHA-256 of all that belongs to it: of arrays in the same file, of other files. So `checkpoint.npz` answers for the draws
beside it, and `run.json` for the folder it lies in. (`run.nc` has a checksum of its own: output/checksums.py.)
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from ergodica.errors import InputError

SEAL = "sha256"


def sealed(record: dict[str, Any]) -> dict[str, Any]:
    """The record with its seal."""
    return {**record, SEAL: _of_record(record)}


def unsealed(record: dict[str, Any], path: Path, advice: str) -> dict[str, Any]:
    """The record without its seal; InputError where it is not as it was sealed."""
    inner = {name: value for name, value in record.items() if name != SEAL}
    if record.get(SEAL) != _of_record(inner):
        raise damaged(path, advice)
    return inner


def damaged(path: Path, advice: str, what: str = "its checksum does not match") -> InputError:
    return InputError(f"{path} is damaged ({what}): {advice}")


def of_array(array: Any) -> str:
    """The SHA-256 of dtype, shape and numbers."""
    array = np.asarray(array)
    found = hashlib.sha256(f"{array.dtype} {array.shape}".encode())
    update(found, array)
    return found.hexdigest()


def of_file(path: Path) -> str:
    """The SHA-256 of a file's bytes, as `sha256sum` prints it."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def update(found: Any, array: np.ndarray) -> None:
    """Add an array's bytes to a SHA-256 that has begun."""
    if array.size:
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _of_record(record: dict[str, Any]) -> str:
    plain = json.loads(json.dumps(record))  # as it will be read: keys are strings, tuples lists
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()
