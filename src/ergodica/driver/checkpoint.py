"""Checkpoints: beside `run.nc`, in `run.nc.part`, the draws so far and all that is needed to go on with the same bytes.

    posterior.<name>.bin, sample_stats.<name>.bin     draws and statistics, appended as they come
    checkpoint.npz                                     states, moments, references; and how many draws belong to them

A checkpoint is written under a temporary name, brought to the disk and renamed; draws that came after it are cut off
when the run is taken up, and made again.
"""

import json
import os
import shutil
import warnings
import zipfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree

from ergodica.driver.pace import now
from ergodica.driver.store import Store
from ergodica.errors import InputError

EVERY = 5.0  # seconds
FORMAT = 1
FILE = "checkpoint.npz"


def part_folder(out: Path | str) -> Path:
    return Path(f"{out}.part")


class Checkpoint:
    """Writes the checkpoints of a run, in a thread of its own."""

    def __init__(self, out: Path, store: Store, identity: dict[str, Any], describe: dict[str, Any], draws_before: Any):
        self.out, self.folder, self.store = out, part_folder(out), store
        self.identity, self.describe, self._draws_before = identity, describe, draws_before
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writing: Future | None = None
        self._last = now()

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
        arrays = [np.array(leaf) for leaf in jax.tree.leaves(tree)]
        manifest = {
            "format": FORMAT, "course": course.to_dict(), "draws": self._draws_before(course.step), "cursor": cursor,
            "identity": self.identity | {"step_size": chains.sizes.digest(course.step)}, "settings": self.describe,
        }  # fmt: skip
        self._writing = self._thread.submit(self._write, arrays, json.dumps(manifest))
        self._last = now()
        if is_last:
            self._writing.result()
            self._writing = None

    def _write(self, arrays: list[np.ndarray], manifest: str) -> None:
        temporary = self.folder / f".{FILE}.{os.getpid()}"
        try:
            for column in (*self.store.leaves, *self.store.stats.values()):
                column.sync()
            with open(temporary, "wb") as file:
                named = {f"leaf_{i}": array for i, array in enumerate(arrays)}
                np.savez(file, manifest=np.array(manifest), **named)  # type: ignore[arg-type]
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.folder / FILE)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise InputError(f"could not write {self.folder / FILE}: {error.strerror or error}") from error

    def how_to_resume(self) -> str:
        return f"{self.folder} has it all: the same call with resume=True (command line: --resume) goes on from there"

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
    return Saved(manifest, arrays)


def begun_anew(folder: Path) -> None:
    """Remove what a run left that was killed before its first checkpoint; refuse a folder that holds other things."""
    strange = [path.name for path in folder.iterdir() if path.suffix not in (".bin", ".json") and FILE not in path.name]
    if strange:
        raise InputError(f"{folder} holds {strange[0]} and no checkpoint: it is not of a run, give another `out`")
    shutil.rmtree(folder)


def check_same(saved: Saved, identity: dict[str, Any], folder: Path) -> None:
    """Refuse to go on with another run, naming what differs; another version of a library is a warning."""
    before = saved.manifest["identity"]
    ours, theirs = identity["versions"], before["versions"]
    ignored = {"versions"}
    if ours != theirs:
        changed = [f"{name} {theirs.get(name)} -> {ours.get(name)}" for name in ours if ours[name] != theirs.get(name)]
        warnings.warn(
            f"{folder} was made with other versions ({', '.join(changed)}): the run goes on, but not with the bytes "
            "that it would have had, and whether the model is the same cannot be told",
            stacklevel=4,
        )
        ignored.add("model")
    words = {"model": "the model (prior, likelihood, or a field of the recipe)", "data": "the data"}
    words |= {"recipe": "the recipe's numbers", "step_size": "the step size"}
    differing = []
    for name in sorted((set(identity) | set(before)) - ignored):
        old, new = before.get(name), identity.get(name)
        if old != new:
            is_short = all(isinstance(x, int | float | None) or len(str(x)) < 30 for x in (old, new))
            differing.append(words.get(name, f"{name} ({old} there, {new} here)" if is_short else name))
    if differing:
        raise InputError(
            f"{folder} holds another run: {', '.join(differing)} differ{'s' if len(differing) == 1 else ''}; resume "
            "with what it was made with, or give another `out`"
        )


def read_part(folder: Path) -> tuple[PyTree, dict[str, np.ndarray], dict[str, Any]]:
    """The draws and statistics of an unfinished run, up to the last that is whole, and its settings."""
    from urllib.parse import unquote

    from ergodica.output.blocks import BlockFile
    from ergodica.output.names import unnamed

    saved = read_checkpoint(folder)
    if saved is None:
        raise InputError(f"{folder} holds no checkpoint: expected the folder of an unfinished run")
    columns = {}
    for header in sorted(folder.glob("*.json")):
        words = json.loads(header.read_text())
        columns[unquote(header.stem)] = BlockFile.open(folder, unquote(header.stem), words["dtype"], words["shape"])
    count = min(column.count for column in columns.values())
    arrays = {name: np.swapaxes(column.read()[:count], 0, 1) for name, column in columns.items()}
    groups: dict[str, dict[str, np.ndarray]] = {"posterior": {}, "sample_stats": {}}
    for name, array in arrays.items():
        group, _, variable = name.partition(".")
        groups[group][variable] = array
    settings = saved.manifest["settings"] | {"is_finished": False}
    return unnamed(groups["posterior"]) if groups["posterior"] else None, groups["sample_stats"], settings
