"""What the driver costs: a call, more chains, more rows, data on disk, checkpoints, and the import of the package.

    python benchmarks/driver.py [ITEM...] [--blocks 5] [--gigabytes 4] [--folder DIR] [--json FILE]

Items: calls, chains, rows, disk, checkpoints, import; all of them if none is named. Bayesian logistic regression with
54 features, batches of 500, float32, SGLD. What is compared is timed in turns, and ratios are medians over blocks.
Data on disk are written to --folder (a temporary one), sampled from a warm cache in a process of its own, whose peak
resident memory is looked at, and once more under a limit of 1.5 GB on what it may allocate. Exit code 1 if a bound is
missed.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import ergodica as eg
from benchmarks import logistic

BATCH = 500
LIMIT = 1_500_000_000  # bytes that the process with data on disk may allocate
DISK_STEPS = 40_000
ROWS_AT_A_TIME = 500_000


class Row(NamedTuple):
    """One line of the table; `figure` may be at most `bound`."""

    name: str
    figure: float
    bound: float
    unit: str = "times"

    @property
    def is_met(self) -> bool:
        return self.figure <= self.bound

    def __str__(self) -> str:
        verdict = "" if self.is_met else "   MISSED"
        return f"{self.name:<62}{self.figure:>8.2f} of {self.bound:g} {self.unit}{verdict}"


def sampled(target: Any, steps: int, **settings: Any) -> Any:
    settings = {"chains": 1, "step_size": 1e-6, "batch_size": BATCH, "progress": False} | settings
    return eg.sample(target, eg.sgld(), steps=steps, **settings)


def in_turns(actions: dict[str, Callable[[], float]], blocks: int) -> dict[str, np.ndarray]:
    """Seconds of each action in each block; the first block compiles and is left out."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for block in range(blocks + 1):
        for name, action in actions.items():
            seconds = action()
            if block:
                times[name].append(seconds)
    return {name: np.array(seconds) for name, seconds in times.items()}


def of_call(action: Callable[[], Any]) -> Callable[[], float]:
    """Seconds of the whole call."""

    def timed() -> float:
        begin = time.perf_counter()
        action()
        return time.perf_counter() - begin

    return timed


def of_steps(action: Callable[[], Any]) -> Callable[[], float]:
    """Seconds that the run spent in its steps, without shuffling and starting."""
    return lambda: action().settings["seconds"]


def ratio(times: dict[str, np.ndarray], name: str, base: str) -> float:
    return float(np.median(times[name] / times[base]))


def chains(options: Any) -> list[Row]:
    target = logistic.target(logistic.data(100_000))
    kinds = {"1": (1, False), "4": (4, False), "64": (64, False), "64 shared": (64, True)}
    actions = {
        name: of_call(
            lambda count=count, is_shared=is_shared: sampled(target, 20_000, chains=count, share_batches=is_shared)
        )
        for name, (count, is_shared) in kinds.items()
    }
    times = in_turns(actions, options.blocks)
    return [
        Row("4 chains, own batches, against one", ratio(times, "4", "1"), 2.5),
        Row("64 chains, own batches, against one", ratio(times, "64", "1"), 36.0),
        Row("64 chains on the same batches, against one", ratio(times, "64 shared", "1"), 12.0),
    ]


def rows(options: Any) -> list[Row]:
    targets = {count: logistic.target(logistic.data(count)) for count in (10_000, 100_000, 1_000_000)}
    actions = {
        f"{n:,}": of_steps(lambda target=target: sampled(target, 40_000, batches="windows"))
        for n, target in targets.items()
    }
    times = in_turns(actions, options.blocks)
    return [
        Row("a step at 1,000,000 rows, against 100,000", ratio(times, "1,000,000", "100,000"), 1.3),
        Row("a step at 1,000,000 rows, against 10,000", ratio(times, "1,000,000", "10,000"), 1.7),
    ]


def write_rows(folder: Path, count: int) -> None:
    """Features and labels as .npy files of `count` rows: the same half million again and again."""
    some = logistic.data(min(ROWS_AT_A_TIME, count))
    for name, part in some._asdict().items():
        whole = np.lib.format.open_memmap(folder / f"{name}.npy", "w+", np.float32, (count, *part.shape[1:]))
        for start in range(0, count, len(part)):
            whole[start : start + len(part)] = part[: count - start]
        whole.flush()


def sample_from_disk(folder: Path) -> dict[str, float]:
    """In a process of its own: seconds in the steps, and by how many bytes the peak of resident memory rose."""
    before = peak()
    data = eg.data.npy({"x": folder / "x.npy", "y": folder / "y.npy"})

    def log_likelihood(weights: Any, batch: dict[str, Any]) -> Any:
        return logistic.one_product(weights, logistic.Data(**batch))

    target = eg.Posterior(logistic.log_prior, log_likelihood, data, init=np.zeros(logistic.FEATURES, np.float32))
    sampled(target, 2_000)
    seconds = sampled(target, DISK_STEPS).settings["seconds"]
    return {"seconds": seconds, "risen": peak() - before}


def peak() -> int:
    """VmHWM in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


def child(folder: Path, limit: int | None) -> dict[str, float] | None:
    """`sample_from_disk` in a process of its own; None if it did not come to its end."""

    def limited() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    command = [sys.executable, __file__, "--from-disk", str(folder)]
    made = subprocess.run(command, preexec_fn=limited, stdout=subprocess.PIPE, text=True)
    return json.loads(made.stdout) if made.returncode == 0 else None


def disk(options: Any) -> list[Row]:
    in_memory = logistic.target(logistic.data(1_000_000))
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        write_rows(folder, int(options.gigabytes * 1e9 / (4 * (logistic.FEATURES + 1))))
        for path in folder.iterdir():  # into the cache
            with path.open("rb", buffering=0) as file:
                while file.read(2**24):
                    pass
        ratios, risen = [], []
        sampled(in_memory, 2_000)
        for _ in range(max(options.blocks // 2, 1)):
            found = child(folder, None)
            if found is None:
                raise SystemExit("the process that samples from disk failed")
            memory = sampled(in_memory, DISK_STEPS).settings["seconds"]
            ratios.append(found["seconds"] / memory)
            risen.append(found["risen"])
        is_done = child(folder, LIMIT) is not None
    size = f"{options.gigabytes:g} GB on disk"
    return [
        Row(f"a step with {size}, against 1,000,000 rows in memory", float(np.median(ratios)), 2.0),
        Row(f"peak of resident memory above the start, {size}", max(risen) / 1e9, 1.0, "GB"),
        Row(f"unfinished under a limit of {LIMIT / 1e9} GB, {size}", float(not is_done), 0.0, "runs"),
    ]


def checkpoints(options: Any) -> list[Row]:
    """Four chains for some ten seconds, every draw kept: with a file, whose checkpoints come every few seconds."""
    target = logistic.target(logistic.data(100_000))
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        out = Path(folder) / "run.nc"

        def with_file() -> float:
            begin = time.perf_counter()
            sampled(target, 100_000, chains=4, thin=10, out=out)
            out.unlink()
            return time.perf_counter() - begin

        times = in_turns(
            {"file": with_file, "none": of_call(lambda: sampled(target, 100_000, chains=4, thin=10))}, options.blocks
        )
    return [Row("a run with checkpoints and its file, against one without", ratio(times, "file", "none"), 1.03)]


def imports(options: Any) -> list[Row]:
    def of_import(name: str) -> Callable[[], float]:
        return of_call(lambda: subprocess.run([sys.executable, "-c", f"import {name}"], check=True))

    times = in_turns({"jax": of_import("jax"), "ergodica": of_import("ergodica")}, 3 * options.blocks)
    return [Row("import ergodica, against import jax", ratio(times, "ergodica", "jax"), 1.3)]


FIRST_CALL = """
import time
from benchmarks import driver, logistic
target = logistic.target(logistic.data(80_000))
begin = time.perf_counter()
driver.sampled(target, 4_000, batch_size=400)
print(time.perf_counter() - begin)
"""


def calls(options: Any) -> list[Row]:
    """What a call takes beside its steps, twice the time of 4,000 less that of 8,000; and the first of a process."""
    target = logistic.target(logistic.data(80_000))
    actions = {
        str(steps): of_call(lambda steps=steps: sampled(target, steps, batch_size=400)) for steps in (4_000, 8_000)
    }
    times = in_turns(actions, 6 * options.blocks)
    beside = 1e3 * float(np.median(2 * times["4000"] - times["8000"]))
    return [
        Row("a call like one before, beside its steps", beside, 8.0, "ms"),
        Row("the first call of a second process", _first_call(options), 2.0, "seconds"),
    ]


def _first_call(options: Any) -> float:
    """Of processes that find what one before them has compiled."""
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        environment = os.environ | {"ERGODICA_CACHE": folder, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
        seconds = [
            float(subprocess.run(
                [sys.executable, "-c", FIRST_CALL], env=environment, check=True, capture_output=True, text=True
            ).stdout)
            for _ in range(1 + options.blocks)
        ]  # fmt: skip
    return float(np.median(seconds[1:]))


ITEMS = {"calls": calls, "chains": chains, "rows": rows, "disk": disk, "checkpoints": checkpoints, "import": imports}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("items", nargs="*", metavar="ITEM", help=", ".join(ITEMS))
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--folder", type=Path, help="for the data on disk")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--from-disk", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.from_disk is not None:
        print(json.dumps(sample_from_disk(options.from_disk)))
        return
    if unknown := set(options.items) - set(ITEMS):
        parser.error(f"no item {', '.join(sorted(unknown))}: there are {', '.join(ITEMS)}")
    results = []
    for name in options.items or ITEMS:
        for row in ITEMS[name](options):
            print(row, flush=True)
            results.append(row)
    if options.json:
        options.json.write_text(json.dumps([row._asdict() for row in results], indent=1))
    failures = [row.name for row in results if not row.is_met]
    print(f"MISSED: {'; '.join(failures)}" if failures else "all bounds met")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
