"""Runs in forks of a process that has imported everything and computed nothing: a start takes a second, not ten."""

import os
import random
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ergodica.errors import InputError

FINE, REFUSED, RAW = 0, 2, 3


class Ended(NamedTuple):
    """How a fork came to its end: its exit code, minus the signal that killed it; and what it said."""

    code: int
    said: str

    @property
    def is_clean(self) -> bool:
        """Done, or refused in one line."""
        return self.code == FINE or (self.code == REFUSED and len(self.said.strip().splitlines()) == 1)


class Fork:
    """A process that calls `function()`; InputError is one line and exit code 2, any other error a traceback and 3."""

    def __init__(self, function: Callable[[], Any], log: Path):
        self.log = log
        sys.stdout.flush()
        sys.stderr.flush()
        self.process = os.fork()
        if self.process == 0:
            os._exit(self._run(function))

    def _run(self, function: Callable[[], Any]) -> int:
        handle = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        warnings.simplefilter("ignore")  # of the law: what is judged is what a refusal says
        try:
            function()
            code = FINE
        except InputError as error:
            print(error)
            code = REFUSED
        except BaseException:
            traceback.print_exc()
            code = RAW
        sys.stdout.flush()
        sys.stderr.flush()
        return code

    def kill_after(self, seconds: float) -> Ended:
        """SIGKILL, unless it has ended by itself."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                return self._ended(status)
            time.sleep(0.002)
        os.kill(self.process, signal.SIGKILL)
        return self.wait()

    def wait(self) -> Ended:
        return self._ended(os.waitpid(self.process, 0)[1])

    def _ended(self, status: int) -> Ended:
        return Ended(os.waitstatus_to_exitcode(status), self.log.read_text(errors="replace"))


def seconds_of(function: Callable[[], Any], log: Path) -> float:
    """How long a fork takes from its start to its end."""
    begin = time.monotonic()
    ended = Fork(function, log).wait()
    if ended.code != FINE:
        raise SystemExit(f"the undisturbed run failed: {ended.said}")
    return time.monotonic() - begin


def moments(seed: int, until: float) -> Callable[[], float]:
    """Random moments of a run."""
    chance = random.Random(seed)
    return lambda: chance.uniform(0.0, until)
