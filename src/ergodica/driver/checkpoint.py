"""Checkpoints: beside `run.nc`, in `run.nc.part`, the draws so far and all that is needed to go on with the same bytes.

    posterior.<name>.bin, sample_stats.<name>.bin     draws and statistics, appended as they come
    checkpoint.npz                                     states, moments, references; and how many draws belong to them
    ergodica.lock                                      held by the process that writes (driver/lock.py)

A checkpoint is written under a temporary name, brought to the disk and renamed; draws that came after it are cut off
when the run is taken up, and made again.
"""

import json
import shutil
import warnings
import zipfile
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.driver import lock
from ergodica.driver.pace import now
from ergodica.driver.store import Store
from ergodica.errors import InputError
from ergodica.output.names import named
from ergodica.output.whole import write_whole

EVERY = 5.0  # seconds
FORMAT = 1
FILE = "checkpoint.npz"


def part_folder(out: Path | str) -> Path:
    return Path(f"{out}.part")


class CouldNotWrite(InputError):
    """A full disk: what is there is worth keeping."""


class Checkpoint:
    """Writes the checkpoints of a run, in a thread of its own."""

    def __init__(self, out: Path, store: Store, identity: dict[str, Any], describe: dict[str, Any], draws_before: Any):
        self.out, self.folder, self.store = out, part_folder(out), store
        self.identity, self.describe, self._draws_before = identity, describe, draws_before
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writing: Future | None = None
        self._last = now()
        self.step: int | None = None
        """Of the last one that was written here."""

    def save_if_due(self, chains: Any, course: Any, is_urgent: bool = False) -> None:
        """Every few seconds; urgent or at the end at once, and not before it is written."""
        is_last = is_urgent or course.step == course.total
        if self._writing is not None and (self._writing.done() or is_last):
            self._writing.result()
            self._writing = None
        if not is_last and (self._writing is not None or now() - self._last < EVERY):
            return
        tree, cursor = chains.saved()
        # copies: the chains go on while this is written
        leaves, structure = jax.tree.flatten(tree)
        arrays = [np.array(leaf) for leaf in leaves]
        manifest = {
            "format": FORMAT, "course": course.to_dict(), "draws": self._draws_before(course.step), "cursor": cursor,
            "identity": self.identity | {"step_size": chains.sizes.digest(course.step)}, "settings": self.describe,
            "moments": moment_places(jax.tree.unflatten(structure, range(len(leaves)))),
        }  # fmt: skip
        self._writing = self._thread.submit(self._write, arrays, json.dumps(manifest), course.step)
        self._last = now()
        if is_last:
            self._writing.result()
            self._writing = None

    def _write(self, arrays: list[np.ndarray], manifest: str, step: int) -> None:
        for column in (*self.store.leaves, *self.store.stats.values()):
            column.sync()
        leaves: dict[str, Any] = {f"leaf_{i}": array for i, array in enumerate(arrays)}
        write_whole(self.folder / FILE, lambda file: np.savez(file, manifest=np.array(manifest), **leaves))
        self.step = step

    def how_to_resume(self) -> str:
        return f"the same call with resume=True (command line: --resume) goes on from what {self.folder} holds"

    @contextmanager
    def advising(self) -> Iterator[None]:
        """What cannot be written, with what to do then: what is there stays."""
        try:
            yield
        except InputError as error:
            raise CouldNotWrite(f"{error}; {self.how_to_resume()}") from error

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    def remove(self) -> None:
        self.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Saved:
    """A checkpoint that was read."""

    def __init__(self, manifest: dict[str, Any], arrays: list[np.ndarray]):
        self.manifest, self.arrays = manifest, arrays

    @property
    def draws(self) -> int:
        return int(self.manifest["draws"])

    def into(self, like: PyTree, path: Path) -> PyTree:
        """The arrays in the tree of a run that has just begun."""
        leaves, structure = jax.tree.flatten(like)
        expected = [(np.shape(leaf), np.asarray(leaf).dtype) for leaf in leaves]
        got = [(array.shape, array.dtype) for array in self.arrays]
        if got != expected:
            raise InputError(f"the chains in {path} have other shapes or dtypes than this run's: it is another model")
        return jax.tree.unflatten(structure, self.arrays)


def read_checkpoint(folder: Path) -> Saved | None:
    """The checkpoint in a folder; None where there is none."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        # opened here: np.load leaves the file of a damaged archive open
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            manifest = json.loads(str(file["manifest"]))
            arrays = [file[f"leaf_{i}"] for i in range(len(file.files) - 1)]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(
            f"{path} is not a checkpoint, or is cut off ({reason}): remove {folder} to begin anew"
        ) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise InputError(f"{path} is not a checkpoint of format {FORMAT}: remove {folder} to begin anew")
    damaged = _damaged(manifest)
    if damaged is not None:
        raise InputError(f"{path} is damaged (its {damaged} cannot be read): remove {folder} to begin anew")
    return Saved(manifest, arrays)


def _damaged(manifest: dict[str, Any]) -> str | None:
    """The first entry that is not what it must be."""
    parts = {"course": {"step": int, "frozen": list}, "identity": {"versions": dict}, "settings": {"started": str}}
    for name, entries in parts.items():
        found = manifest.get(name)
        if not isinstance(found, dict) or not all(isinstance(found.get(key), kind) for key, kind in entries.items()):
            return name
    return None if isinstance(manifest.get("draws"), int) else "draws"


def moment_places(numbered: PyTree) -> Any:
    """Where the moments are in the list of arrays: of each chain those merged, and those not yet; None without any.

    `numbered`: what a checkpoint holds (`Engine.saved`), with the arrays' numbers in their place.
    """
    chains, totals = numbered[:2]
    if totals is None:
        return None
    pairs = [(total, chain.moments) for total, chain in zip(totals, chains, strict=True)]
    return [
        [(part.number, named(part.mean), named(part.spread)) for part in pair if part is not None] for pair in pairs
    ]


def check_ours(folder: Path) -> None:
    """Refuse a folder without a checkpoint that holds other things than a run leaves which was killed before it."""
    if (folder / FILE).exists():
        return
    for path in folder.iterdir():
        if path.suffix not in (".bin", ".json") and path.name != lock.FILE and FILE not in path.name:
            raise InputError(f"{folder} holds {path.name} and no checkpoint: it is not of a run, give another `out`")


def begun_anew(folder: Path) -> None:
    """Remove what a run left that was killed before its first checkpoint."""
    for path in folder.iterdir():
        if path.name != lock.FILE:
            path.unlink()


def check_same(before: dict[str, Any], identity: dict[str, Any], where: Path) -> None:
    """Refuse to go on with another run, naming what differs; another version of a library is a warning."""
    ours, theirs = identity["versions"], before["versions"]
    ignored = {"versions"}
    if ours != theirs:
        changed = [f"{name} {theirs.get(name)} -> {ours.get(name)}" for name in ours if ours[name] != theirs.get(name)]
        warnings.warn(
            f"{where} was made with other versions ({', '.join(changed)}): its bytes may not be those that these would "
            "give, and whether the model is the same cannot be told",
            stacklevel=4,
        )
        ignored.add("model")
    words = {"model": "the model (prior, likelihood, or a field of the recipe)", "data": "the data"}
    words |= {"recipe": "the recipe's numbers", "step_size": "the step size", "corpus": "the corpus or its order"}
    differing = []
    for name in sorted((set(identity) | set(before)) - ignored):
        old, new = before.get(name), identity.get(name)
        if old != new:
            is_short = all(isinstance(x, int | float | None) or len(str(x)) < 30 for x in (old, new))
            differing.append(words.get(name, f"{name} ({old} there, {new} here)" if is_short else name))
    if differing:
        raise InputError(
            f"{where} holds another run: {', '.join(differing)} differ{'s' if len(differing) == 1 else ''}; resume "
            "with what it was made with, or give another `out`"
        )
