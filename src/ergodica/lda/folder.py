"""The folder of a run while it goes on: who writes there, whether it may be gone on with, and what it was made of."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from ergodica.driver.checkpoint import FINISHED_BY_0_1_0, check_same
from ergodica.errors import InputError
from ergodica.host import lock
from ergodica.host.atomic_files import could_not
from ergodica.host.lock import Lock
from ergodica.lda import checkpoints, files
from ergodica.lda.checkpoints import read_checkpoint
from ergodica.lda.stream import Stream
from ergodica.lda.training import Training


class RunFolder:
    """A folder that one process writes; without a path it does nothing.

    Nothing that is there is overwritten: a folder that holds something is refused, unless it is resumed.
    """

    def __init__(self, path: str | Path | None, resume: bool):
        if path is None and resume:
            raise InputError("resume=True needs the folder of the run: out=...")
        self.path = None if path is None else Path(path)
        self.resume = resume
        self._lock = Lock.within(self.path, self._make)
        self._is_made = False

    def __enter__(self) -> "RunFolder":
        if self.path is None:
            return self
        self._holds_run(self.path)  # a foreign folder is refused before there is a lock in it
        self._lock.__enter__()
        try:
            if self._holds_run(self.path) and not self.resume:
                raise InputError(
                    f"{self.path} holds a run: --resume (Python: resume=True) continues it, or give another folder"
                )
        except InputError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self._lock.unlink()
        if self._is_made and self.path is not None:
            with suppress(OSError):  # unless it is empty: after bad input, when nothing was learnt
                self.path.rmdir()
        self._lock.close()

    def _make(self) -> None:
        assert self.path is not None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.mkdir()
            self._is_made = True
        except FileExistsError:
            pass
        except OSError as error:
            raise could_not("make", self.path, error) from error

    def _holds_run(self, path: Path) -> bool:
        """False for an empty folder; InputError where something else is."""
        try:
            there = {entry.name for entry in path.iterdir()} - {lock.LOCK_FILE}
        except FileNotFoundError:
            return False
        except NotADirectoryError:
            raise InputError(f"{path} is a file: give a folder for the run") from None
        except OSError as error:
            raise could_not("read", path, error) from error
        # theta.npz is the first that is written at the end: a full disk may leave it alone, or half of it
        is_run = bool(there & {"run.json", checkpoints.FOLDER}) or any("theta.npz" in name for name in there)
        if there and not is_run:
            raise InputError(f"{path} holds other files and no run: give another folder")
        return is_run

    def is_finished(self, identity: dict[str, Any]) -> bool:
        """Whether it holds the run that is asked for; InputError if it is another one."""
        if self.path is None or not (self.path / "run.json").exists():
            return False
        figures = files.figures_of(self.path)
        if "files" not in figures:
            raise InputError(f"{self.path} {FINISHED_BY_0_1_0}: give another folder")
        before = figures.get("identity")
        if not isinstance(before, dict) or "versions" not in before:
            raise InputError(f"{self.path} does not say what it was learnt from: give another folder")
        check_same(before, identity, self.path)
        return True

    def restore(self, training: Training, stream: Stream, identity: dict[str, Any]) -> None:
        """To where the last checkpoint was; the beginning, where there is none."""
        if self.path is None:
            return
        saved = read_checkpoint(self.path) if self.resume else None
        for half in self.path.glob(".*.part"):  # what a run was killed while writing
            half.unlink()
        if saved is None:
            return
        check_same(saved.plain["identity"], identity, self.path)
        if not saved.plain.get("is_begun"):
            training.restore(saved)
            stream.corpus.seek(saved.plain["cursor"])
