"""Damage to the files of a run: flipped bits, truncations, zeroed pages; and what a reader makes of it.

Every trial spoils one file of a copy and reads it. `found`: one line (InputError, or a warning) that names the file.
`same`: what was read is what is read of the undamaged copy, so that the damage changed nothing. All else has not held.
"""

import hashlib
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ergodica.errors import InputError

PAGE = 4096
KINDS = ("flip", "cut", "zeros")


class Trial(NamedTuple):
    file: str
    kind: str
    place: int
    outcome: str
    said: str = ""

    @property
    def has_held(self) -> bool:
        return self.outcome in ("found", "same")


def spoil(content: bytes, kind: str, rng: np.random.Generator) -> tuple[bytes, int]:
    """The content with one bit flipped, its end cut off, or a page of it zeroed; and where."""
    place = int(rng.integers(len(content)))
    if kind == "cut":
        return content[:place], place
    if kind == "zeros":
        place -= place % PAGE
        length = len(content[place : place + PAGE])
        return content[:place] + bytes(length) + content[place + PAGE :], place
    changed = bytearray(content)
    changed[place] ^= 1 << int(rng.integers(8))
    return bytes(changed), place


def attack(
    place: Path, read: Callable[[Path], Any], scratch: Path, trials: int, seed: int = 0, kinds: Sequence[str] = KINDS
) -> list[Trial]:
    """Spoil the files in a folder, or one file, in turn.

    Args:
        place: what is attacked; it is copied and left as it is.
        read: what a person would do with the copy; its value is compared by `fingerprint`.
        scratch: a folder for the copies.
    """
    copy = scratch / place.name
    files = sorted(path for path in place.rglob("*") if path.is_file()) if place.is_dir() else [place]
    files = [path for path in files if path.stat().st_size]
    _copy(place, copy)
    expected = fingerprint(read(copy))
    rng, found = np.random.default_rng(seed), []
    for number in range(trials):
        path, kind = files[number % len(files)], kinds[int(rng.integers(len(kinds)))]
        _copy(place, copy)
        target = copy if place.is_file() else copy / path.relative_to(place)
        changed, where = spoil(path.read_bytes(), kind, rng)
        target.write_bytes(changed)
        found.append(Trial(path.name, kind, where, *_outcome(lambda: read(copy), target.name, expected)))
    return found


def _outcome(read: Callable[[], Any], name: str, expected: str) -> tuple[str, str]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            got = fingerprint(read())
        except InputError as error:
            line = str(error)
            return ("found" if name in line and "\n" not in line else "not named"), line
        except Exception as error:
            return "raw error", f"{type(error).__name__}: {error}"
    if any(name in str(one.message) for one in said):
        return "found", str(said[0].message)
    return ("same" if got == expected else "SILENT"), ""


def _copy(place: Path, copy: Path) -> None:
    if place.is_file():
        shutil.copy(place, copy)
        return
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(place, copy)


def fingerprint(value: Any) -> str:
    """A digest of all that was read: arrays by their bytes, all else by its words."""
    found = hashlib.sha256()

    def look(part: Any) -> None:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
        elif isinstance(part, dict):
            for name in sorted(part, key=str):
                found.update(repr(name).encode())
                look(part[name])
        elif isinstance(part, list | tuple):
            found.update(b"(")
            for one in part:
                look(one)
            found.update(b")")
        elif part is not None and hasattr(part, "__dict__") and not callable(part):
            look(vars(part))
        else:
            found.update(repr(part).encode())

    look(value)
    return found.hexdigest()


def told(trials: Sequence[Trial]) -> str:
    """One line: how many of each outcome, and the first that has not held."""
    counts = Counter(trial.outcome for trial in trials)
    words = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    bad = next((trial for trial in trials if not trial.has_held), None)
    return f"{len(trials)} trials: {words}" + ("" if bad is None else f"; first that has not held: {bad}")
