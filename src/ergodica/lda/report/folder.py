"""A run folder, read and checked: every complaint is one line that names the file."""

import csv
import io
import json
import math
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ergodica.errors import InputError

FORMAT = 1


@dataclass(frozen=True)
class Sample:
    """A document: its text, or else its words; and its topic shares (K,)."""

    text: str
    is_text: bool
    shares: np.ndarray


@dataclass(frozen=True)
class Run:
    """What a run left behind.

    Args:
        facts: run.json.
        vocabulary: V words.
        phi: (V, K), the mean of the draws, or the last state where none were kept.
        draws: (draws, V, K), words by topics.
        history: columns documents, single, averaged; NaN where nothing was measured.
        samples: some documents, held-out ones where there are any.
        shares: (K,) of the words of all documents whose shares were kept, or None where there are none.
    """

    facts: dict[str, Any]
    vocabulary: list[str]
    phi: np.ndarray
    draws: np.ndarray
    history: dict[str, np.ndarray]
    samples: list[Sample]
    shares: np.ndarray | None


def read_run(folder: Path) -> Run:
    """The run in a folder, as `ergodica.lda.files` writes it."""
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder: give the one that `ergodica lda fit --out` wrote")
    facts = _facts(folder / "run.json")
    size = words, topics = facts["words"], facts["topics"]
    draws = _array(folder / "draws.npz", "phi", (None, *size))
    return Run(
        facts,
        _vocabulary(folder / "vocabulary.txt", words),
        draws.mean(axis=0, dtype=np.float32) if len(draws) else _last_phi(folder / "theta.npz", size),
        draws,
        _history(folder / "history.csv"),
        (samples := _samples(folder / "samples.json", topics)),
        _shares(folder / "shares.npz", samples, topics),
    )


def _missing(path: Path) -> InputError:
    return InputError(f"{path} is missing: the folder is not that of a finished run, fit it again")


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise _missing(path) from None
    except OSError as error:
        raise InputError(f"{path} could not be read: {error.strerror or error}") from None


def _text(path: Path) -> str:
    try:
        return _bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 at byte {error.start}: it was damaged, fit again") from None


def _json(path: Path) -> Any:
    try:
        return json.loads(_text(path))
    except (json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error}): it was damaged, fit again") from None


def _facts(path: Path) -> dict[str, Any]:
    facts = _json(path)
    if not isinstance(facts, dict):
        raise InputError(f"{path} holds {type(facts).__name__}: expected an object with the facts of a run")
    if facts.get("format") != FORMAT:
        raise InputError(f"{path} has format {facts.get('format')!r}: this version of ergodica reads format {FORMAT}")
    for name in ("topics", "words"):
        value = facts.get(name)
        if type(value) is not int or value < 1:
            raise InputError(f"{path} has {value!r} as its {name}: expected a positive whole number")
    return facts


def _vocabulary(path: Path, size: int) -> list[str]:
    words = _text(path).removesuffix("\n").split("\n")
    if len(words) != size:
        raise InputError(f"{path} has {len(words):,} words: run.json says {size:,}, so one of them was changed")
    return words


def _array(path: Path, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            array = archive[name]
    except FileNotFoundError:
        raise _missing(path) from None
    except KeyError:
        raise InputError(f"{path} has no array {name!r}: it is not the one of a run") from None
    except (ValueError, TypeError, EOFError, OSError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path} could not be read as npz ({reason}): it was damaged, fit again") from None
    if array.ndim != len(shape) or any(want not in (None, got) for want, got in zip(shape, array.shape, strict=True)):
        expected = ", ".join("draws" if want is None else str(want) for want in shape)
        raise InputError(f"{path} has {name} of shape {array.shape}: expected ({expected}), as run.json says")
    if array.dtype.kind not in "fiu" or not _is_finite(array):
        raise InputError(f"{path} has entries in {name} that are not finite numbers: the run diverged or was damaged")
    return array


def _is_finite(array: np.ndarray) -> bool:
    # min and max pass NaN and infinity on, and need no array of booleans beside 200 MB of draws
    return array.size == 0 or bool(np.isfinite(array.min()) and np.isfinite(array.max()) and array.min() >= 0)


def _last_phi(path: Path, size: tuple[int, int]) -> np.ndarray:
    theta = _array(path, "theta", size)
    return theta / np.maximum(theta.sum(axis=0), np.finfo(theta.dtype).tiny)


def _history(path: Path) -> dict[str, np.ndarray]:
    columns = ("documents", "single", "averaged")
    reader = csv.DictReader(io.StringIO(_text(path)))
    absent = set(columns) - set(reader.fieldnames or ())
    if absent:
        raise InputError(f"{path} has no column {sorted(absent)[0]!r}: expected {', '.join(columns)}")
    rows = [[_number(path, reader.line_num, row[name]) for name in columns] for row in reader]
    return dict(zip(columns, np.asarray(rows, float).reshape(-1, 3).T, strict=True))


def _number(path: Path, line: int, entry: str | None) -> float:
    try:
        number = float(entry or "nan")
    except ValueError:
        raise InputError(f"{path} has {entry!r} in line {line}: expected a number") from None
    return number if math.isfinite(number) else math.nan


def _shares(path: Path, samples: list[Sample], topics: int) -> np.ndarray | None:
    # Not from the column sums of theta: phi is the same when a topic's theta is scaled, so data say nothing on them.
    if path.exists():
        shares, lengths = _array(path, "shares", (None, topics)), _array(path, "lengths", (None,))
        if len(shares) != len(lengths):
            raise InputError(f"{path} has shares of {len(shares)} documents and {len(lengths)} lengths: it was damaged")
        total = lengths.astype(float) @ shares
    else:
        total = np.sum([sample.shares for sample in samples], axis=0)
    return total / total.sum() if np.sum(total) > 0 else None


def _samples(path: Path, topics: int) -> list[Sample]:
    entries = _json(path)
    if not isinstance(entries, list):
        raise InputError(f"{path} holds {type(entries).__name__}: expected a list of documents")
    return [_sample(f"{path}, document {number},", entry, topics) for number, entry in enumerate(entries, 1)]


def _sample(place: str, entry: Any, topics: int) -> Sample:
    if not isinstance(entry, dict):
        raise InputError(f"{place} is {type(entry).__name__}: expected an object with text or words, and shares")
    shares = _shares_of(place, entry.get("shares"), topics)
    text, words = entry.get("text"), entry.get("words")
    if isinstance(text, str):
        return Sample(text, True, shares)
    if isinstance(words, list) and all(isinstance(word, str) for word in words):
        return Sample(" ".join(words), False, shares)
    raise InputError(f"{place} has neither a text nor a list of words: it was damaged, fit again")


def _shares_of(place: str, entry: Any, topics: int) -> np.ndarray:
    """Numbers that are not negative and not all zero, scaled to sum to one."""
    try:
        shares = np.asarray(entry, float)
    except (TypeError, ValueError):
        shares = np.empty(0)
    if shares.shape != (topics,) or not np.isfinite(shares).all() or shares.min() < 0 or shares.sum() <= 0:
        raise InputError(f"{place} has no shares for {topics} topics: expected {topics} numbers that sum to one")
    return shares / shares.sum()
