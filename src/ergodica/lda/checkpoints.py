"""Checkpoints of a model that is learning, in `run/checkpoint`: all that is needed to go on with the same bytes.

    checkpoint.npz      the state, running sums, and as JSON the cursor of the corpus, the history, the settings, and
                        the SHA-256 of all of these and of the draws (host/seal.py)
    draw-<step>.npy     the draws kept so far, each written once

Both are written under a temporary name, brought to the disk and renamed. A draw that is no longer kept is removed after
the checkpoint that does without it is on the disk.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ergodica.driver.checkpoint import starting_over
from ergodica.driver.loop import now
from ergodica.errors import InputError
from ergodica.host import seal
from ergodica.host.atomic_files import write_whole

EVERY = 10.0  # seconds
FORMAT = 2  # 1: of version 0.1.0, without checksums
FOLDER, FILE = "checkpoint", "checkpoint.npz"


class Saved(NamedTuple):
    """What a checkpoint holds."""

    arrays: dict[str, np.ndarray]
    record: dict[str, Any]


class Snapshot(NamedTuple):
    """What a checkpoint shall hold."""

    arrays: dict[str, np.ndarray]
    record: dict[str, Any]
    beside: Any


class Checkpoints:
    """Written in a thread of its own, one at a time."""

    def __init__(self, folder: Path):
        self.folder = folder / FOLDER
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writing: Future | None = None
        self._last = now()

    def save_if_due(self, make: Callable[[], Snapshot], is_urgent: bool = False) -> None:
        """Every few seconds; urgent at once, and not before it is written. `make` may not give what changes later."""
        if self._writing is not None and (self._writing.done() or is_urgent):
            self._wait()
        if not is_urgent and (self._writing is not None or now() - self._last < EVERY):
            return
        self._writing = self._thread.submit(self._write, make())
        self._last = now()
        if is_urgent:
            self._wait()

    def save_if_none(self, make: Callable[[], Snapshot]) -> None:
        """Before the files of the run itself are written: half of them could not be continued."""
        self._wait()
        if not (self.folder / FILE).exists():
            self.save_if_due(make, is_urgent=True)

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write(self, saved: Snapshot) -> None:
        self.folder.mkdir(exist_ok=True)
        if not (self.folder / FILE).exists():
            # draws never lie there without a checkpoint: whoever finds that knows that something is missing
            self._write_record({}, {"is_begun": True, "identity": saved.record.get("identity")}, {})
        sums = saved.beside.write(self.folder)
        self._write_record(saved.arrays, saved.record, sums)
        saved.beside.clean(self.folder)

    def _write_record(self, arrays: dict[str, np.ndarray], plain: dict[str, Any], sums: dict[str, Any]) -> None:
        beside = {"names": sorted(arrays), "arrays": [seal.of_array(arrays[name]) for name in sorted(arrays)]}
        text = json.dumps(seal.sealed({"format": FORMAT, "beside": sums, **beside, **plain}))
        content: dict[str, Any] = {"plain": np.array(text), **arrays}
        write_whole(self.folder / FILE, lambda file: np.savez(file, **content))

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    def remove(self) -> None:
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def read_checkpoint(folder: Path) -> Saved | None:
    """That of a run's folder; None where there is none. Nothing is written, and what was damaged is named."""
    path = folder / FOLDER / FILE
    if not path.exists():
        return None
    with _reading(path, folder), open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
        record = json.loads(str(file["plain"]))
        arrays = {name: file[name] for name in file.files if name != "plain"}
    plain = checked(record, [arrays[name] for name in sorted(arrays)], path, folder, FORMAT)
    if plain["names"] != sorted(arrays):
        raise seal.damaged(path, starting_over(folder))
    return Saved(arrays, plain)


@contextmanager
def _reading(path: Path, folder: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # NumPy, zip and JSON raise many kinds for damaged bytes
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise seal.damaged(path, starting_over(folder), reason) from error
