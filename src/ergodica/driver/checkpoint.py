"""Checkpoints: beside `run.nc`, in `run.nc.part`, the draws so far and all that is needed to go on with the same bytes.

    posterior.<name>.bin, sample_stats.<name>.bin     draws and statistics, appended as they come
    checkpoint.npz                                     states, moments, references; how many draws belong to them; and
                                                       the SHA-256 of all of these (host/seal.py)

A checkpoint is written under a temporary name, brought to the disk and renamed; draws that came after it are cut off
when the run is taken up, and made again.
"""

import json
import shlex
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ergodica.driver.pace import now
from ergodica.driver.store import Store
from ergodica.errors import InputError
from ergodica.host import lock, seal
from ergodica.host.atomic_files import remove_folder, write_whole
from ergodica.output.blocks import BlockFile
from ergodica.output.labelled import named

EVERY = 5.0  # seconds
FORMAT = 2  # 1: of version 0.1.0, without checksums
FILE = "checkpoint.npz"
OLDER = (
    "is a finished run of version 0.1.0 of ergodica, which told runs apart by other marks: whether it is the one asked "
    "for cannot be compared, and it is left as it is"
)


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
            "dtypes": [array.dtype.name for array in arrays],
            "columns": {name: column.description() for name, column in self.store.columns().items()},
        }  # fmt: skip
        lasts = [column.last() for column in self.store.columns().values()]
        self._writing = self._thread.submit(self._write, arrays, lasts, manifest, course.step)
        self._last = now()
        if is_last:
            self._writing.result()
            self._writing = None

    def _write(self, arrays: list[np.ndarray], lasts: list[np.ndarray], manifest: dict[str, Any], step: int) -> None:
        for column in self.store.columns().values():
            column.sync()
        # as bytes: NumPy has no name for bfloat16 in a file
        leaves: dict[str, Any] = {
            f"leaf_{i}": array.view(np.uint8) if array.dtype.kind == "V" else array for i, array in enumerate(arrays)
        }
        leaves |= {f"last_{i}": np.frombuffer(array.tobytes(), np.uint8) for i, array in enumerate(lasts)}
        words = json.dumps(seal.sealed(manifest | {"arrays": list(map(seal.of_array, leaves.values()))}))
        write_whole(self.folder / FILE, lambda file: np.savez(file, manifest=np.array(words), **leaves))
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
        remove_folder(self.folder, self.out)


class Saved:
    """A checkpoint that was read."""

    def __init__(self, manifest: dict[str, Any], arrays: list[np.ndarray], lasts: list[np.ndarray]):
        self.manifest, self.arrays = manifest, arrays
        self._lasts = dict(zip(manifest["columns"], lasts, strict=True))

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

    def take_up(self, columns: dict[str, BlockFile]) -> None:
        """Cut the draws to those of the checkpoint; refused, before any is cut, where they are not as they were."""
        described = self.manifest["columns"]
        for name, column in columns.items():
            words = described.get(name, {})
            if (words.get("dtype"), words.get("shape")) != (column.dtype.name, list(column.shape)):
                raise InputError(f"{column.path} has other draws than this run: it is another model")
            column.verify(self.draws, words["sha256"])
        for name, column in columns.items():
            column.go_back(self.draws, self.last(name, column))

    def last(self, name: str, column: BlockFile) -> np.ndarray:
        """The last draw of a column, (1, ...), or none."""
        return self._lasts[name].view(column.dtype).reshape(min(1, self.draws), *column.shape)


def read_checkpoint(folder: Path) -> Saved | None:
    """The checkpoint in a folder; None where there is none."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        # opened here: np.load leaves the file of a damaged archive open
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            manifest = json.loads(str(file["manifest"]))
            arrays, lasts = ([file[n] for n in file.files if n.startswith(kind)] for kind in ("leaf_", "last_"))
    except Exception as error:  # NumPy, zip and JSON raise many kinds for damaged bytes
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise seal.damaged(path, starting_over(folder), f"not a checkpoint, or cut off: {reason}") from error
    manifest = checked(manifest, [*arrays, *lasts], path, folder, FORMAT)
    arrays = [array.view(jnp.dtype(name)) for array, name in zip(arrays, manifest["dtypes"], strict=True)]
    return Saved(manifest, arrays, lasts)


def checked(record: Any, arrays: Sequence[np.ndarray], path: Path, folder: Path, expected: int) -> dict[str, Any]:
    """The record of a checkpoint, if it and the arrays beside it are as they were written, in the format `expected`."""
    found = record.get("format") if isinstance(record, dict) else None
    if found == 1 and seal.SEAL not in record:
        raise InputError(
            f"{path} was written by version 0.1.0 of ergodica, whose unfinished runs this version cannot continue: "
            f"finish it with that version, or {starting_over(folder)}"
        )
    if not isinstance(record, dict):
        raise seal.damaged(path, starting_over(folder))
    inner = seal.unsealed(record, path, starting_over(folder))
    if found != expected:
        raise InputError(f"{path} has format {found} and this ergodica reads {expected}: {starting_over(folder)}")
    if inner.get("arrays") != list(map(seal.of_array, arrays)):
        raise seal.damaged(path, starting_over(folder))
    return inner


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
    """Refuse a folder without a checkpoint, unless it holds no more than a run that was killed before its first."""
    if (folder / FILE).exists():
        return
    for path in folder.iterdir():
        if path.suffix not in (".bin", ".json") and path.name != lock.LOCK_FILE and FILE not in path.name:
            raise InputError(f"{folder} holds {path.name} and no checkpoint: it is not of a run, give another `out`")
        if path.suffix == ".bin" and path.stat().st_size:
            raise InputError(
                f"{folder} holds draws ({path.name}) but no {FILE}, without which they cannot be continued: "
                f"{starting_over(folder)}"
            )


def starting_over(folder: Path) -> str:
    """The command for it."""
    return f"to start over, remove what there is by rm -r {shlex.quote(str(folder))}"


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
