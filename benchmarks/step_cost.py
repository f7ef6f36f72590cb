"""What a step costs beside the same step written by hand (tests/cost/twins.py), and the twin beside blackjax's kernel.

    python benchmarks/step_cost.py [--json FILE] [--blocks 30]

Ratios library / twin, float32. Operations and bytes are XLA's counts for the compiled programs. Times are medians over
interleaved blocks, with the 95 % interval of the median; in a block the two take turns call by call, and its ratio is
that of their fastest calls, because what other processes take is only ever added. Exit code 1 if a bound is missed.
"""

import os

# One thread each, unless told otherwise: with two, the hand-off between threads is most of the noise.
os.environ.setdefault("NPROC", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.cost.pairs import (
    FEATURES,
    PAIRS,
    Both,
    Call,
    Pair,
    cost,
    potential_of,
    regression,
    separable,
    update,
    whole_step,
)

SIZE = 400_000
WHOLE = 40_000  # numbers of a whole step: random numbers cost most of it, and short calls interleave finely
SCALARS = 1e-4  # numbers, as against arrays, in a count of bytes or operations: a few in so many
STEPS = 50  # of the logistic regression in one call, as in a run: a call by itself would measure Python
CALLS = {"update": 9, "whole": 9, "batch": 9}  # in a block, of each of the two

BOUNDS = {
    "operations of a whole step": 1.01,
    "operations of a step on a batch": 1.01,
    "bytes of the update": 1 + SCALARS,
    "time of the update": 1.10,
    "time of a whole step": 1.10,
    "time of a step on a batch": 1.10,
    "twin / blackjax operations": 1 + SCALARS,
}


# -- seconds ------------------------------------------------------------------------------------------


def repeated(call: Call, steps: int) -> Call:
    """The step `steps` times over, its phase carried along and its key folded."""
    state_at, key_at = 1, 2

    def run(*arguments):
        def body(carried, i):
            given = list(arguments)
            given[state_at] = carried
            given[key_at] = jax.random.fold_in(arguments[key_at], i)
            phase = call.function(*given)
            # the library's phase lives in a state, the twin's is the carried tuple itself
            return (carried._replace(phase=phase) if hasattr(carried, "phase") else phase), None

        return jax.lax.scan(body, arguments[state_at], jnp.arange(steps))[0]

    return Call(run, call.arguments)


def flat(call: Call) -> Call:
    """From flat arrays to flat arrays: a run does not take modules apart at every step."""
    leaves, structure = jax.tree.flatten(call.arguments)

    def function(*leaves):
        return jax.tree.leaves(call.function(*jax.tree.unflatten(structure, leaves)))

    return Call(jax.jit(function), tuple(leaves))


def placed(calls: list[Call]) -> list[tuple]:
    """Fresh copies of the arguments, one for both where both take the same array: where it lies changes the time."""
    copies = {id(leaf): jnp.array(leaf, copy=True) for call in calls for leaf in call.arguments}
    return [tuple(copies[id(leaf)] for leaf in call.arguments) for call in calls]


def seconds(function: Callable, arguments: tuple) -> float:
    start = time.perf_counter()
    jax.block_until_ready(function(*arguments))
    return time.perf_counter() - start


def time_ratio(both: Both, blocks: int, calls: int) -> tuple[float, float, float]:
    """The median over blocks of library / twin, and its 95 % interval by order statistics."""
    sides = [flat(call) for call in both]
    for call in sides:
        seconds(*call)  # compiles
    ratios = []
    for block in range(blocks):
        arguments, taken = placed(sides), ([], [])
        for turn in range(calls):
            for side in (0, 1) if (block + turn) % 2 == 0 else (1, 0):
                taken[side].append(seconds(sides[side].function, arguments[side]))
        ratios.append(min(taken[0]) / min(taken[1]))
    # a binomial(n, 1/2) count of blocks below the median lies within 0.98 sqrt(n) of n/2
    low = max(0, int(np.floor(blocks / 2 - 0.98 * np.sqrt(blocks))))
    ordered = np.sort(ratios)
    return float(np.median(ratios)), float(ordered[low]), float(ordered[blocks - 1 - low])


# -- blackjax -----------------------------------------------------------------------------------------


def blackjax_step(pair_name: str, target: Any, size: int) -> Call | None:
    """blackjax's step with the same gradient, parameters traced as the twin's are; None where it has no kernel."""
    from blackjax.sgmcmc import diffusions

    slope = jax.grad(lambda position: -potential_of(target)(position, None))

    def sgld(key, position, step_size, temperature):
        return diffusions.overdamped_langevin()(key, position, slope(position), step_size, temperature)

    def sghmc(key, position, momentum, friction, step_size, temperature):
        return diffusions.sghmc(friction)(key, position, momentum, slope(position), step_size, temperature)

    def sgnht(key, position, momentum, thermostat, diffusion, step_size, temperature):
        step = diffusions.sgnht(diffusion)
        return step(key, position, momentum, thermostat, slope(position), step_size, temperature)

    key, array, number = jax.random.key(2), np.ones(size, np.float32), np.float32(1.0)
    return {
        "sgld/euler": Call(sgld, (key, array, number, number)),
        "sghmc/euler": Call(sghmc, (key, array, array, number, number, number)),
        "sgnht/euler": Call(sgnht, (key, array, array, number, number, number, number)),
    }.get(pair_name)


# -- the table ----------------------------------------------------------------------------------------


def operations_ratio(first: Call, second: Call) -> float:
    return cost(first).operations / cost(second).operations


def measured(name: str, pair: Pair, blocks: int, with_blackjax: bool) -> dict[str, Any]:
    """The figures of one pair: a ratio, or (median, low, high) for times."""
    target = separable(pair)
    alone = update(pair, target, SIZE, np.float32)
    row: dict[str, Any] = {"bytes of the update": cost(alone.library).bytes / cost(alone.twin).bytes}
    row["time of the update"] = time_ratio(alone, blocks, CALLS["update"])
    if not pair.is_crossed:
        whole = whole_step(pair, target, WHOLE, np.float32)
        row["operations of a whole step"] = operations_ratio(*whole)
        row["time of a whole step"] = time_ratio(whole, blocks, CALLS["whole"])
        peer = blackjax_step(name, target, WHOLE) if with_blackjax else None
        if peer is not None:
            row["twin / blackjax operations"] = operations_ratio(whole.twin, peer)
    if not pair.is_whole_data:
        batch = whole_step(pair, regression(pair, np.float32), FEATURES, np.float32, step_size=1e-4)
        row["operations of a step on a batch"] = operations_ratio(*batch)
        many = Both(*(repeated(call, STEPS) for call in batch))
        row["time of a step on a batch"] = time_ratio(many, blocks, CALLS["batch"])
    return row


def missed(row: dict[str, Any]) -> list[str]:
    return [what for what, value in row.items() if (value if np.isscalar(value) else value[0]) > BOUNDS[what]]


def printed(name: str, row: dict[str, Any]) -> str:
    def cell(what: str) -> str:
        if what not in row:
            return "-"
        value = row[what]
        mark = "!" if what in missed(row) else ""
        return f"{value:.4f}{mark}" if np.isscalar(value) else f"{value[0]:.3f}{mark} [{value[1]:.3f}, {value[2]:.3f}]"

    columns = [f"{cell(what):>25}" if "time" in what else f"{cell(what):>10}" for what in BOUNDS]
    return f"{name:24}" + " ".join(columns)


def heading() -> str:
    short = {
        "operations of a whole step": "ops whole",
        "operations of a step on a batch": "ops batch",
        "bytes of the update": "bytes upd.",
        "twin / blackjax operations": "twin/bjax",
    }
    titles = [f"{what:>25}" if "time" in what else f"{short[what]:>10}" for what in BOUNDS]
    return f"{'library / twin':24}" + " ".join(titles)


def machine() -> dict[str, Any]:
    model = next((x.split(":")[1].strip() for x in _lines("/proc/cpuinfo") if x.startswith("model name")), "unknown")
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "threads (NPROC)": os.environ["NPROC"],
        "load before": [round(x, 2) for x in os.getloadavg()],
        "python": platform.python_version(),
        "jax": jax.__version__,
        "dtype": "float32",
        "position": f"{SIZE} numbers for the update, {WHOLE} for a whole step",
        "batch": f"500 rows of {FEATURES} features, {STEPS} steps a call",
    }


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--blocks", type=int, default=30, help="interleaved blocks behind every time (30)")
    arguments = parser.parse_args()
    try:
        import blackjax  # noqa: F401

        with_blackjax = True
    except ImportError:
        with_blackjax = False
        print("blackjax is not installed (`make bench` installs it): the twins are not compared with it")
    settings = machine()
    print("; ".join(f"{key}: {value}" for key, value in settings.items()))
    print(heading())
    rows = {}
    for name, pair in PAIRS.items():
        rows[name] = measured(name, pair, arguments.blocks, with_blackjax)
        print(printed(name, rows[name]), flush=True)
    failures = [f"{name}: {what}, bound {BOUNDS[what]:g}" for name, row in rows.items() for what in missed(row)]
    print("all bounds met" if not failures else "bounds missed (!):\n  " + "\n  ".join(failures))
    if arguments.json is not None:
        report = {"machine": settings, "bounds": BOUNDS, "ratios": rows, "missed": failures}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
