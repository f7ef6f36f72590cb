"""Kills, damage, simultaneous starts and a full disk: does a run lose anything, or say anything false?

    python benchmarks/attacks.py [--full] [--only WORD] [--trials N] [--seed 0] [--keep]

Every trial is a process of its own, forked from one that has imported everything. A run survives if what it leaves in
the end is bit for bit what an undisturbed run leaves, and if every refusal on the way was one line.

    kills       SIGKILL at random moments, then resumed, up to three times in a row
    starts      two processes at random offsets into one `out`: one is refused, and nothing is lost
    disk full   files that cannot grow past a random size, then resumed with room
    damage      flipped bits, truncations and zeroed pages in every kind of file: found and named, or without effect
    memory      (--full) a stream from disk: memory at the end is that after one minute plus 10 %

Prints a table of trials and survivors; exit code 1 unless all survive. Ten minutes on two idle cores, and as long again
for the tuned run; --full four times that.
"""

import os

os.environ.setdefault("NPROC", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NUMBA_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ergodica as eg
import tests.unit.driver.runs
import tests.unit.lda.small
import tests.unit.tuning.runs  # noqa: F401 - imported before any fork
from ergodica.lda.run_files import read_unfinished
from tests.attacks import damage, streams
from tests.attacks.forks import FINE, Fork, moments, seconds_of
from tests.attacks.runs import SUBJECTS, Subject, finish

TRIALS = {"kills": 25, "starts": 50, "disk full": 15, "damage": 300}  # of each subject, or kind of file
LONGER = 4  # times as many with --full
IN_A_ROW = 3  # kills of one run
LIMIT = 1 << 15  # bytes: files of these runs are larger than that in the end


class Outcome(NamedTuple):
    """One trial: whether all was there in the end, and if not, what was found."""

    has_survived: bool
    why: str = ""


class Place:
    """A folder for trials, each with an `out` of its own, and an undisturbed run to compare with."""

    def __init__(self, folder: Path, subject: Subject):
        self.folder, self.subject, self.log = folder / subject.name.replace(" ", "-"), subject, folder / "log"
        self.folder.mkdir(exist_ok=True)
        self.reference = self.folder / f"reference-{subject.file}"
        self.first = seconds_of(lambda: subject.start(self.reference, resume=False), self.log)
        warm = self.folder / f"warm-{subject.file}"  # compiled by now
        self.seconds = seconds_of(lambda: subject.start(warm, resume=False), self.log)

    def trial(self, number: int) -> Path:
        folder = self.folder / f"trial-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder / self.subject.file

    def verdict(self, out: Path, ended: list[Any]) -> Outcome:
        """Resumed to its end and compared."""
        unclean = [one for one in ended if not one.is_clean and one.code != -signal.SIGKILL]
        if unclean:
            return Outcome(False, f"{out}: {unclean[0]}")
        last = Fork(lambda: finish(self.subject, out, self.reference), self.log).wait()
        if last.code != FINE:
            return Outcome(False, f"{out}: {last.said.strip()[-600:]}")
        shutil.rmtree(out.parent)
        return Outcome(True)


def kills(place: Place, trials: int, seed: int) -> Iterator[Outcome]:
    moment, chance = moments(seed, place.seconds), random.Random(seed)
    for number in range(trials):
        out = place.trial(number)
        times = chance.randint(1, IN_A_ROW)
        ended = [Fork(lambda out=out: place.subject.start(out), place.log).kill_after(moment()) for _ in range(times)]
        yield place.verdict(out, ended)


def starts(place: Place, trials: int, seed: int) -> Iterator[Outcome]:
    chance = random.Random(seed)
    for number in range(trials):
        out = place.trial(number)
        forks = []
        for which in range(2):
            resume = chance.random() < 0.5
            log = place.log.with_name(f"log-{which}")
            forks.append(Fork(lambda out=out, resume=resume: place.subject.start(out, resume=resume), log))
            time.sleep(chance.uniform(0.0, 0.5 * place.seconds) if which == 0 else 0.0)
        ended = [fork.wait() for fork in forks]
        if all(one.code != FINE for one in ended):
            yield Outcome(False, f"{out}: neither came to its end: {ended}")
        else:
            yield place.verdict(out, ended)


def disk_full(place: Place, trials: int, seed: int) -> Iterator[Outcome]:
    chance = random.Random(seed)
    for number in range(trials):
        out, limit = place.trial(number), int(LIMIT * chance.random() ** 2)

        def cramped(out: Path = out, limit: int = limit) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            place.subject.start(out, resume=False)

        yield place.verdict(out, [Fork(cramped, place.log.with_name("log-full")).wait()])


def damages(folder: Path, trials: int, seed: int) -> dict[str, Callable[[], Iterator[Outcome]]]:
    """Every kind of file, with the function that reads it."""
    readers: dict[str, tuple[Path, Callable[[Path], Any]]] = {
        "run.nc": (folder / "sample" / "reference-run.nc", eg.load),
        "run.nc.part": (folder / "half.nc.part", lambda part: eg.load(str(part).removesuffix(".part"))),
        "lda run": (folder / "lda-fit" / "reference-run", lambda run: vars(eg.lda.LDA.load(run))),
        "lda checkpoint": (folder / "half", read_unfinished),
        "parquet": (folder / "rows.parquet", lambda path: eg.data.parquet(path).read(0, 3000)),
    }

    def attack(name: str) -> Iterator[Outcome]:
        place, read = readers[name]
        log, scratch = folder / f"damage-{name.replace(' ', '-')}", folder / "scratch"
        scratch.mkdir(exist_ok=True)

        def fork() -> None:
            for one in damage.attack(place, read, scratch, trials, seed):
                print("held" if one.has_held else f"NOT {one}".replace("\n", " "))

        ended = Fork(fork, log).wait()
        lines = [line for line in ended.said.splitlines() if line.startswith(("held", "NOT "))]
        yield from (Outcome(line == "held", line) for line in lines)
        yield from (Outcome(False, ended.said[-600:]) for _ in range(trials - len(lines)))

    return {name: lambda name=name: attack(name) for name in readers}


def halfway(folder: Path) -> None:
    """Runs that were killed in the middle, and a table, for the attacks on their files."""
    streams.write_parquet(folder / "rows.parquet")
    names = {"sample": "half.nc", "lda fit": "half"}
    for subject in (one for one in SUBJECTS if one.name in names):
        name = names[subject.name]
        there = folder / ("half.nc.part/checkpoint.npz" if name == "half.nc" else "half/checkpoint/checkpoint.npz")
        fork = Fork(lambda subject=subject, name=name: subject.start(folder / name), folder / "log")
        while not there.exists() and os.waitpid(fork.process, os.WNOHANG)[0] == 0:
            time.sleep(0.001)
        if not there.exists():
            raise SystemExit(f"the run that was to be stopped in its middle has ended: {fork.log.read_text()}")
        time.sleep(0.05)
        fork.kill_after(0.0)


def attacks(folder: Path, is_full: bool, seed: int, trials: int | None) -> dict[str, Callable[[], Iterator[Outcome]]]:
    """All of them by their names, in the order in which they are made."""
    times = LONGER if is_full else 1
    counts = {kind: trials or count * times for kind, count in TRIALS.items()}
    found: dict[str, Callable[[], Iterator[Outcome]]] = {}
    for kind, function in (("kills", kills), ("starts", starts), ("disk full", disk_full)):
        for subject in SUBJECTS:
            place = _places(folder, subject)
            found[f"{kind}, {subject.name}"] = lambda f=function, p=place, k=kind: f(p(), counts[k], seed)
    for name, attack in damages(folder, counts["damage"], seed).items():
        found[f"damage, {name}"] = attack
    if is_full:
        found["memory, a stream from disk"] = lambda: iter([Outcome(*streams.memory_stays(folder))])
    return found


def _places(folder: Path, subject: Subject, made: dict[str, Place] = {}) -> Callable[[], Place]:  # noqa: B006
    def place() -> Place:
        if subject.name not in made:
            made[subject.name] = Place(folder, subject)
        return made[subject.name]

    return place


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--full", action="store_true", help="four times the trials, and memory")
    parser.add_argument("--only", default="", help="attacks with this word in their name")
    parser.add_argument("--trials", type=int, help="of each attack")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="leave the files of all trials")
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    folder = Path(tempfile.mkdtemp(prefix="ergodica-attacks-"))
    jax.config.update("jax_compilation_cache_dir", str(folder / "compiled"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    known = attacks(folder, given.full, given.seed, given.trials)
    chosen = {name: attack for name, attack in known.items() if given.only in name}
    if any("damage" in name for name in chosen):
        for subject in SUBJECTS:
            _places(folder, subject)()
        halfway(folder)
    print(f"{'attack':<28} {'trials':>7} {'survivors':>10} {'seconds':>8}", flush=True)
    lost = 0
    for name, attack in chosen.items():
        begin, outcomes = time.monotonic(), list(attack())
        survivors = sum(one.has_survived for one in outcomes)
        print(f"{name:<28} {len(outcomes):>7} {survivors:>10} {time.monotonic() - begin:>8.0f}", flush=True)
        bad = [one.why for one in outcomes if not one.has_survived]
        for why in bad[:5]:
            print(f"    {why}", file=sys.stderr, flush=True)
        lost += len(bad) + (not outcomes)
    if given.keep or lost:
        print(f"the files are in {folder}", file=sys.stderr)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    print("all survive" if not lost else f"{lost} did not survive")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
