"""Checkpoints of a model that is learning, in `run/checkpoint`: all that is needed to go on with the same bytes.

    checkpoint.npz      the state, running sums, and as JSON the cursor of the corpus, the history, the settings
    draw-<step>.npy     the draws kept so far, each written once

Both are written under a temporary name, brought to the disk and renamed. A draw that is no longer kept is removed after
the checkpoint that does without it is on the disk.
"""

import json
import re
import shutil
import zipfile
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ergodica.driver.pace import now
from ergodica.errors import InputError
from ergodica.output.whole import write_whole

EVERY = 10.0  # seconds
FORMAT = 1
FOLDER, FILE = "checkpoint", "checkpoint.npz"


class Saved(NamedTuple):
    """What a checkpoint holds: arrays and plain data, and the draws by their steps."""

    arrays: dict[str, np.ndarray]
    plain: dict[str, Any]
    draws: dict[int, np.ndarray]


class Checkpoints:
    """Written in a thread of its own, one at a time."""

    def __init__(self, folder: Path):
        self.folder = folder / FOLDER
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writing: Future | None = None
        self._last = now()

    def save_if_due(self, make: Callable[[], Saved], is_urgent: bool = False) -> None:
        """Every few seconds; urgent at once, and not before it is written. `make` may not give what changes later."""
        if self._writing is not None and (self._writing.done() or is_urgent):
            self._wait()
        if not is_urgent and (self._writing is not None or now() - self._last < EVERY):
            return
        self._writing = self._thread.submit(self._write, make())
        self._last = now()
        if is_urgent:
            self._wait()

    def _wait(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write(self, saved: Saved) -> None:
        self.folder.mkdir(exist_ok=True)
        there = _draws_in(self.folder)
        for step, phi in saved.draws.items():
            if step not in there:
                write_whole(_draw_path(self.folder, step), lambda file, phi=phi: np.save(file, phi))
        text = json.dumps({"format": FORMAT, "draws": list(saved.draws), **saved.plain})
        arrays: dict[str, Any] = {"plain": np.array(text), **saved.arrays}
        write_whole(self.folder / FILE, lambda file: np.savez(file, **arrays))
        for step in there - set(saved.draws):
            _draw_path(self.folder, step).unlink(missing_ok=True)

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    def remove(self) -> None:
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def read_checkpoint(folder: Path) -> Saved | None:
    """That of a run's folder; None where there is none."""
    path = folder / FOLDER / FILE
    if not path.exists():
        return None
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            plain = json.loads(str(file["plain"]))
            arrays = {name: file[name] for name in file.files if name != "plain"}
        draws = {int(step): np.load(_draw_path(path.parent, int(step)), allow_pickle=False) for step in plain["draws"]}
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{path} is damaged ({reason}): remove {folder} to begin anew") from error
    if plain.get("format") != FORMAT:
        raise InputError(f"{path} is not a checkpoint of format {FORMAT}: remove {folder} to begin anew")
    return Saved(arrays, plain, draws)


def _draw_path(folder: Path, step: int) -> Path:
    return folder / f"draw-{step}.npy"


def _draws_in(folder: Path) -> set[int]:
    found = (re.fullmatch(r"draw-(\d+)\.npy", path.name) for path in folder.iterdir())
    return {int(match[1]) for match in found if match}
