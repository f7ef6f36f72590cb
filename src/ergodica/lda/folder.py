"""The folder of a run while it goes on: who writes there, whether it may be gone on with, and what it was made of."""

import json
from pathlib import Path
from typing import Any

from ergodica.driver import lock
from ergodica.driver.checkpoint import check_same
from ergodica.driver.lock import Lock
from ergodica.errors import InputError
from ergodica.lda import checkpoints
from ergodica.lda.checkpoints import Checkpoints, read_checkpoint
from ergodica.lda.stream import Stream
from ergodica.lda.training import Training
from ergodica.output.blocks import could_not


class RunFolder:
    """A folder that one process writes; without a path it does nothing.

    Nothing that is there is overwritten: a folder that holds something is refused, unless it is resumed.
    """

    def __init__(self, path: str | Path | None, resume: bool):
        if path is None and resume:
            raise InputError("resume=True needs the folder of the run: out=...")
        self.path = None if path is None else Path(path)
        self.resume = resume
        self._lock = Lock(self.path)

    def __enter__(self) -> "RunFolder":
        if self.path is None:
            return self
        self._check_free(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise could_not("make", self.path, error) from error
        self._lock.take()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.path is not None:
            there = {entry.name for entry in self.path.iterdir()}
            if "run.json" in there or there == {lock.FILE}:
                (self.path / lock.FILE).unlink(missing_ok=True)
            if there == {lock.FILE}:  # bad input: nothing was learnt
                self.path.rmdir()
        self._lock.__exit__(*error)

    def _check_free(self, path: Path) -> None:
        if not path.exists():
            return
        if not path.is_dir():
            raise InputError(f"{path} is a file: give a folder for the run")
        there = {entry.name for entry in path.iterdir()} - {lock.FILE}
        # theta.npz is the first that is written at the end: a full disk may leave it alone, or half of it
        is_run = there & {"run.json", checkpoints.FOLDER} or any("theta.npz" in name for name in there)
        if there and not is_run:
            raise InputError(f"{path} holds other files and no run: give another folder")
        if there and not self.resume:
            raise InputError(
                f"{path} holds a run: --resume (Python: resume=True) goes on with it, or give another folder"
            )

    def is_finished(self, identity: dict[str, Any]) -> bool:
        """Whether it holds the run that is asked for; InputError if it is another one."""
        if self.path is None or not (self.path / "run.json").exists():
            return False
        try:
            before = json.loads((self.path / "run.json").read_text("utf-8"))["identity"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{self.path / 'run.json'} is damaged ({error}): give another folder") from error
        check_same(before, identity, self.path)
        return True

    def restore(self, training: Training, stream: Stream, identity: dict[str, Any]) -> None:
        """To where the last checkpoint was; the beginning, where there is none."""
        if self.path is None:
            return
        for half in self.path.glob(".*.part"):  # what a run was killed while writing
            half.unlink()
        saved = read_checkpoint(self.path) if self.resume else None
        if saved is None:
            Checkpoints(self.path).remove()  # draws of a run that was killed before its first checkpoint
            return
        check_same(saved.plain["identity"], identity, self.path)
        training.restore(saved)
        stream.corpus.seek(saved.plain["cursor"])
