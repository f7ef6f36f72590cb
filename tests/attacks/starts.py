"""Two starts into one `out` at the same moment: one does the work, the other is refused in one line, nothing is lost.

    python -m tests.attacks.starts [trials]

Each start is a fork of a process with the imports done, so that what is met is the moment in which files are looked at
and made. The parent itself must not have computed anything with JAX: threads do not survive a fork.
"""

import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import ergodica as eg
from ergodica.errors import InputError
from tests.attacks.damage import fingerprint

LATEST = 0.6  # seconds between the two starts


class Trial(NamedTuple):
    offset: float
    codes: tuple[int, ...]
    said: tuple[str, ...]
    problem: str = ""

    @property
    def has_held(self) -> bool:
        return not self.problem


def sample_trials(trials: int, seed: int = 0) -> list[Trial]:
    """Of eg.sample(..., out=), each with and without resume."""
    return _trials(_sample, "run.nc", _sampled, trials, seed)


def lda_trials(trials: int, seed: int = 0) -> list[Trial]:
    """Of LDA.fit(..., out=)."""
    return _trials(_fit, "run", _learnt, trials, seed)


def _sample(out: Path, resume: bool) -> None:
    from tests.unit.driver.runs import run

    run(out=out, resume=resume)


def _sampled(out: Path) -> Any:
    found = eg.load(out)
    return found.posterior, found.stats


def _fit(out: Path, resume: bool) -> None:
    from tests.unit.lda.small import DOCUMENTS, model

    model().fit(DOCUMENTS, out=out, resume=resume)


def _learnt(out: Path) -> Any:
    names = ("theta.npz", "draws.npz", "shares.npz", "vocabulary.txt", "samples.json", "topics.csv")
    eg.lda.LDA.load(out)
    return [(out / name).read_bytes() for name in names]


def _trials(
    act: Callable[[Path, bool], None], name: str, read: Callable[[Path], Any], trials: int, seed: int
) -> list[Trial]:
    rng, found = np.random.default_rng(seed), []
    with tempfile.TemporaryDirectory() as folder:
        reference = Path(folder) / "reference" / name
        reference.parent.mkdir()
        assert _ended(_started(act, reference, False, 0.0))[0] == 0
        expected = fingerprint(read(reference))
        for number in range(trials):
            out = Path(folder) / str(number) / name
            out.parent.mkdir()
            offset, flags = float(rng.uniform(0, LATEST)), rng.integers(2, size=2).astype(bool)
            both = [_started(act, out, bool(flags[0]), 0.0), _started(act, out, bool(flags[1]), offset)]
            codes, said = zip(*map(_ended, both), strict=True)
            found.append(Trial(offset, codes, said, _problem(out, codes, said, read, expected)))
    return found


def _problem(out: Path, codes: Any, said: Any, read: Callable[[Path], Any], expected: str) -> str:
    if 0 not in codes:
        return "neither came to its end"
    for code, words in zip(codes, said, strict=True):
        if code == 2 and ("\n" in words or out.name not in words):
            return "not refused in one line"
        if code not in (0, 2):
            return "failed"
    if os.listdir(out.parent) != [out.name]:
        return f"left behind: {sorted(os.listdir(out.parent))}"
    return "" if fingerprint(read(out)) == expected else "other draws"


def _started(act: Callable[[Path, bool], None], out: Path, resume: bool, delay: float) -> tuple[int, int]:
    """The number of a new process, and where it says how it ended."""
    inward, outward = os.pipe()
    process = os.fork()
    if process:
        os.close(outward)
        return process, inward
    code, words = 0, ""
    try:
        time.sleep(delay)
        act(out, resume)
    except InputError as error:
        code, words = 2, str(error)
    except BaseException:
        code, words = 1, traceback.format_exc()
    os.write(outward, words.encode()[-4000:])
    os._exit(code)


def _ended(start: tuple[int, int]) -> tuple[int, str]:
    process, inward = start
    with os.fdopen(inward) as file:
        words = file.read()
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), words


def told(trials: list[Trial]) -> str:
    bad = [trial for trial in trials if not trial.has_held]
    refused = sum(2 in trial.codes for trial in trials)
    words = f"{len(trials)} trials, {refused} with a start refused, {len(trials) - len(bad)} held"
    return words + (f"; first that has not: {bad[0]}" if bad else "")


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    print("sample:", told(sample_trials(count)), flush=True)
    print("lda fit:", told(lda_trials(count)), flush=True)
