"""The folder of a report while it is written: whose it is, who writes, and which run was not finished."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ergodica.errors import InputError
from ergodica.host import lock
from ergodica.host.atomic_files import could_not
from ergodica.host.lock import Lock
from ergodica_paper.store import earlier, write_together

MARKER = "ergodica-report.json"
FORMAT = 1
# what a process that was killed at its very beginning leaves
OWN = frozenset({lock.LOCK_FILE})


class ReportFolder:
    """A folder that one process writes. Somebody else's, with files in it, is refused."""

    def __init__(self, path: Path):
        self.path = path
        self._lock = Lock.within(path, self._make)
        self._marked: dict[str, Any] = {}

    def __enter__(self) -> "ReportFolder":
        self._check_own()  # a foreign folder is refused before there is a lock in it
        self._lock.__enter__()
        try:
            self._marked = self._read_marker()
        except InputError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self._lock.unlink()
        if not any(self.path.iterdir()):  # nothing came of it
            self.path.rmdir()
        self._lock.close()

    def _make(self) -> None:
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise could_not("make", self.path, error) from error

    def finished(self, identity: dict[str, Any], own: Mapping[str, dict[str, Any]]) -> set[str]:
        """Items that are done of a run of the same identity that was stopped; `own`: the identity of each item."""
        run = self._marked.get("unfinished")
        if run is None or run["identity"] != identity:
            return set()
        records = [earlier(self.path, name) for name in run["done"]]  # since then one may have been run by itself
        return {record.name for record in records if record and record.circumstances.identity == own.get(record.name)}

    def note(self, identity: dict[str, Any] | None, done: set[str]) -> None:
        """That the folder is a report's and, with an identity, which items are done of a run of all that goes on."""
        run = self._marked.get("unfinished") if identity is None else {"identity": identity, "done": sorted(done)}
        self._mark(run)

    def note_end(self) -> None:
        """That the run of all items is finished."""
        self._mark(None)

    def _mark(self, unfinished: dict[str, Any] | None) -> None:
        self._marked = {"format": FORMAT, "made_by": "ergodica reproduce", "unfinished": unfinished}
        write_together(self.path, {MARKER: (json.dumps(self._marked, indent=1) + "\n").encode()})

    def _check_own(self) -> None:
        try:
            if not self.path.exists():
                return
            if not self.path.is_dir():
                raise InputError(f"{self.path} is a file: give a folder for the report")
            there = [x for x in self.path.iterdir() if x.name not in OWN and not x.name.startswith(f".{MARKER}")]
        except OSError as error:
            raise could_not("read", self.path, error) from error
        if there and not (self.path / MARKER).is_file():
            raise InputError(
                f"{self.path} holds files that are not of a report, such as {min(x.name for x in there)}: "
                "give another folder with --out"
            )

    def _read_marker(self) -> dict[str, Any]:
        path = self.path / MARKER
        if not path.exists():
            return {}
        try:
            marked = json.loads(path.read_text("utf-8"))
            run = marked["unfinished"]
            if marked["format"] != FORMAT or not (run is None or (run["identity"] and isinstance(run["done"], list))):
                raise ValueError(f"expected format {FORMAT}")
        except OSError as error:
            raise could_not("read", path, error) from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is damaged, or of another version: give another folder with --out") from error
        return marked
