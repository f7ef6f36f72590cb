"""Checkpoints: all that is needed to resume a run, bit for bit as if it had not been stopped.

    checkpoint.npz      arrays (states, moments, references, running sums), and as JSON a record: how far the run is,
                        what it is made of (`identity`), the cursor of its data; sealed by its own SHA-256, it holds
                        that of every array and of every file beside it (host/seal.py)

Beside it lie the files that grow as a run goes on: of `eg.sample`, in `run.nc.part`, `posterior.<name>.bin` and
`sample_stats.<name>.bin`, to which draws are appended; of a topic model, in `FOLDER/checkpoint`, `draw-<step>.npy`.

A checkpoint is written under a temporary name, brought to the disk and renamed. What came after it is cut off when the
run is resumed, and made again.
"""

import json
import shlex
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np

from ergodica.errors import InputError
from ergodica.host import seal
from ergodica.host.atomic_files import remove_folder, write_whole

SAVE_EVERY = 5.0  # seconds
CHECKPOINT_FORMAT = 3  # 1: of version 0.1.0, without checksums; 2: of development versions
CHECKPOINT_FILE = "checkpoint.npz"
RECORD = "record"
FINISHED_BY_0_1_0 = (
    "is a finished run of version 0.1.0 of ergodica, which told runs apart by other marks: whether it is the requested "
    "one is unknown, and it is left as it is"
)


class SideFiles(Protocol):
    """The files beside checkpoint.npz."""

    def write(self, folder: Path) -> dict[str, Any]:
        """Bring to the disk what belongs to the snapshot, in the checkpoint's thread; what the record says of it."""
        ...

    def clean(self, folder: Path) -> None:
        """Remove what the checkpoint, which is on the disk now, does without."""
        ...


class Snapshot(NamedTuple):
    """What a checkpoint holds; nothing in it may change later."""

    arrays: dict[str, np.ndarray]
    record: dict[str, Any]
    """As JSON holds it; `identity` says what the run is made of, `step` how far it is."""
    beside: SideFiles


class CouldNotWrite(InputError):
    """A full disk: what is there is worth keeping."""


class Checkpoint:
    """Writes the checkpoints of a run into `folder`, in a thread of its own, one at a time."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._thread = ThreadPoolExecutor(max_workers=1)
        self._writing: Future | None = None
        self._last = time.monotonic()
        self.step: int | None = None
        """Of the last one that was written here."""

    def is_due(self) -> bool:
        """Whether it is time, and the one before is written."""
        return (self._writing is None or self._writing.done()) and time.monotonic() - self._last >= SAVE_EVERY

    def save(self, snapshot: Snapshot, wait: bool = False) -> None:
        """Write this one, after the one before; an error of that one is raised here."""
        self._finish()
        self._writing = self._thread.submit(self._write, snapshot)
        self._last = time.monotonic()
        if wait:
            self._finish()

    def _finish(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _write(self, snapshot: Snapshot) -> None:
        told = snapshot.beside.write(self.folder)
        arrays = {name: _plain(array) for name, array in snapshot.arrays.items()}
        record = snapshot.record | {
            "format": CHECKPOINT_FORMAT, "beside": told,
            "arrays": {
                name: {"sha256": seal.of_array(arrays[name]), "dtype": array.dtype.name, "shape": list(array.shape)}
                for name, array in snapshot.arrays.items()
            },
        }  # fmt: skip
        text = json.dumps(seal.sealed(record))
        content: dict[str, Any] = {RECORD: np.array(text), **arrays}
        write_whole(self.folder / CHECKPOINT_FILE, lambda file: np.savez(file, **content))
        snapshot.beside.clean(self.folder)
        self.step = snapshot.record.get("step")

    def how_to_resume(self) -> str:
        return f"the same call with resume=True (command line: --resume) resumes what {self.folder} holds"

    @contextmanager
    def advising(self) -> Iterator[None]:
        """What cannot be written, with what to do then: what is there stays."""
        try:
            yield
        except InputError as error:
            raise CouldNotWrite(f"{error}; {self.how_to_resume()}") from error

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    def remove(self, beside: Path) -> None:
        """The folder, as what was to become of it is whole, or never will be; `beside`: a name in the same folder."""
        self.close()
        remove_folder(self.folder, beside)


def _plain(array: np.ndarray) -> np.ndarray:
    """As bytes where NumPy has no name for the dtype in a file: bfloat16."""
    return np.frombuffer(array.tobytes(), np.uint8) if array.dtype.kind == "V" else array


class Saved(NamedTuple):
    """A checkpoint that was read and verified; of the files beside it, only what the record says of them."""

    arrays: dict[str, np.ndarray]
    record: dict[str, Any]

    @property
    def beside(self) -> dict[str, Any]:
        return self.record["beside"]


def read_checkpoint(folder: Path) -> Saved | None:
    """The checkpoint in a folder; None where there is none. Nothing is written, and what is damaged is named."""
    path = folder / CHECKPOINT_FILE
    if not path.exists():
        return None
    with reading(path, folder):
        # opened here: np.load leaves the file of a damaged archive open
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        # "manifest" and "plain": the records of runs and of topic models in earlier formats
        name = next(name for name in (RECORD, "manifest", "plain") if name in arrays)
        record = json.loads(str(arrays.pop(name)))
    record = _checked(record, arrays, path, folder)
    views = {}
    for name, array in arrays.items():
        told = record["arrays"][name]
        views[name] = array.view(jnp.dtype(told["dtype"])).reshape(told["shape"])
    return Saved(views, record)


@contextmanager
def reading(path: Path, folder: Path) -> Iterator[None]:
    """Whatever a damaged file raises, as one line that names it."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:  # NumPy, zip and JSON raise many kinds for damaged bytes
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise seal.damaged(path, starting_over(folder), f"not a checkpoint, or cut off: {reason}") from error


def _checked(record: Any, arrays: dict[str, np.ndarray], path: Path, folder: Path) -> dict[str, Any]:
    """The record, if it and the arrays beside it are as they were written, in this format."""
    if not isinstance(record, dict):
        raise seal.damaged(path, starting_over(folder))
    found = record.get("format")
    if found == 1 and seal.SEAL not in record:
        raise InputError(
            f"{path} was written by version 0.1.0 of ergodica, whose unfinished runs this version cannot continue: "
            f"finish it with that version, or {starting_over(folder)}"
        )
    inner = seal.unsealed(record, path, starting_over(folder))
    if found != CHECKPOINT_FORMAT:
        raise InputError(
            f"{path} has format {found} and this ergodica reads {CHECKPOINT_FORMAT}: finish it with the version that "
            f"wrote it, or {starting_over(folder)}"
        )
    told = inner["arrays"]
    if set(told) != set(arrays) or any(told[name]["sha256"] != seal.of_array(arrays[name]) for name in arrays):
        raise seal.damaged(path, starting_over(folder))
    return inner


def starting_over(folder: Path) -> str:
    """The command for it."""
    return f"to start over, remove what there is by rm -r {shlex.quote(str(folder))}"


def check_same(before: dict[str, Any], identity: dict[str, Any], where: Path) -> None:
    """Refuse to resume another run, naming what differs; another version of a library is a warning."""
    ours, theirs = identity["versions"], before["versions"]
    ignored = {"versions"}
    if ours != theirs:
        changed = [f"{name} {theirs.get(name)} -> {ours.get(name)}" for name in ours if ours[name] != theirs.get(name)]
        warnings.warn(
            f"{where} was made with other versions ({', '.join(changed)}): its bytes may not be those that these would "
            "give, and whether the model is the same is unknown",
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
