"""Does `eg.audit` cry wolf as rarely as it says, and see what it says it sees?

    python benchmarks/calibrate.py [--nulls 2000] [--seeds 20] [--rough 10] [--power] [--power-seeds 100]
                                   [--only WORD] [--jobs 2] [--json FILE]

Size: p-values of so many cheap audits of an exact sampler are uniform (Kolmogorov and Smirnov's test, level 1e-3), for
the whole audit and for every check; every builder of tests/builders.py passes on so many seeds; right samplers whose
bias falls as the root of the step size (`--rough` seeds) are never rejected. Power (`--power`): a
temperature, a variance, one coordinate's drift off by 5 % in ten dimensions is rejected in at least 95 of 100 seeds;
`eg.certify_sde` names at least 95 % of the random defects of tests/laws/defects.py. Exit code 1 if one of these fails.
About half an hour on two cores, and as long again with `--power`. Progress goes to stderr.
"""

import os

os.environ.setdefault("NPROC", "1")  # a process per core, not a thread
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import json
import math
import multiprocessing
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ergodica as eg
from tests.builders import BUILDERS
from tests.laws import defects

CHEAP = 0.01  # effort of a null audit
BUILDER_EFFORT = 0.15
# less does not decide on every seed
DEAR = {"sgrhmc/fisher": 1.5, "riemannian_sgnht/fisher": 1.0}
DEAR |= dict.fromkeys(("sgrld/fisher", "sghmc/tree", "gsgrhmc/two_peaks"), 0.4)
LEVEL = 1e-3
POWER = 0.95
OFF = 1.05


def exact(key, position, step_size):
    """Ornstein and Uhlenbeck's process over time `step_size`: leaves the standard Gaussian invariant exactly."""
    fade = jnp.exp(-step_size)
    return fade * position + jnp.sqrt(1 - fade**2) * jax.random.normal(key, position.shape, position.dtype)


def same(position):
    return position


def null_audits(job: tuple[int, int, bool]) -> list[dict[str, float]]:
    """p-values of audits of `exact`, by check; with a state of its own, or without."""
    first, last, has_state = job
    functions = {"init": same, "read": same} if has_state else {}
    rows = []
    for seed in range(first, last):
        seed += 10**6 * has_state
        found = eg.audit(exact, eg.gallery.gaussian(3), seed=seed, effort=CHEAP, progress=False, **functions)
        rows.append({"whole": found.p_value} | {c.name: c.p_value for c in found.checks if c.p_value is not None})
    return rows


def kolmogorov(p: np.ndarray) -> float:
    """The p-value of Kolmogorov and Smirnov's test that p is uniform (Stephens 1970's form for finite samples)."""
    n, x = len(p), np.sort(p)
    steps = np.arange(n + 1) / n
    distance = max(np.max(steps[1:] - x), np.max(x - steps[:-1]))
    t = (math.sqrt(n) + 0.12 + 0.11 / math.sqrt(n)) * distance
    return float(np.clip(2 * sum((-1) ** (k - 1) * math.exp(-2 * (k * t) ** 2) for k in range(1, 101)), 0, 1))


def root_noise(key, x, h):
    """Langevin with noise too large by a factor 1 + sqrt(h)."""
    return x - h * x + jnp.sqrt(2 * h * (1 + jnp.sqrt(h))) * jax.random.normal(key, x.shape, x.dtype)


def projected(key, x, h):
    """Langevin on exp(-x), moved back to the wall."""
    return jnp.maximum(x - h + jnp.sqrt(2 * h) * jax.random.normal(key, x.shape, x.dtype), 1e-12)


def exponential() -> eg.Density:
    return eg.Density(jnp.sum, init=np.ones(1), domain=eg.positive)


ROUGH: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    "noise 1 + sqrt(h), d = 3": (root_noise, lambda: eg.gallery.gaussian(3)),
    "projected at a wall, exp(-x)": (projected, exponential),
}


def rough_audits(job: tuple[str, int]) -> tuple[str, list[tuple[bool, float]]]:
    """Of audits at full effort of a right sampler with a bias of order 1/2: rejected, p-value."""
    name, seeds = job
    step, target = ROUGH[name]
    law = target()
    found = [eg.audit(step, law, seed=seed, progress=False) for seed in range(seeds)]
    return name, [(a.verdict == "NOT PASSED", a.p_value) for a in found]


def builder_audits(job: tuple[str, int, int]) -> tuple[str, list[tuple[bool, float, float]]]:
    """Of audits of a builder with one of its integrators, over seeds: passed, p-value, temperature that is seen."""
    name, which, seeds = job
    builder = BUILDERS[name]
    kernel = eg.Kernel(builder.target, builder.recipe, builder.integrators[which])

    def step(key, state, step_size):
        return kernel.step(state, key, step_size)[0]

    def init(key, position):
        return kernel.init(position, key)

    def read(state):
        return state.phase.position

    effort = DEAR.get(name, BUILDER_EFFORT)
    # the same functions for every seed: they are compiled once
    found = [
        eg.audit(step, builder.target, init=init, read=read, seed=seed, effort=effort, progress=False)
        for seed in range(seeds)
    ]
    rows = [(a.passed, a.p_value, a.figures["seen"]["temperature"] if a.bias else math.inf) for a in found]
    return f"{name} {type(builder.integrators[which]).__name__}", rows


def langevin(temperature: float = 1.0, variance: float = 1.0, drift: float = 1.0) -> dict[str, Any]:
    """A Langevin step in ten dimensions; variance and drift: those of one coordinate, times a factor."""
    one = jnp.ones(10)
    scale, pull = jnp.sqrt(one.at[3].set(variance) * 2 * temperature), one.at[3].set(drift)

    def step(key, x, h):
        return x - h * pull.astype(x.dtype) * x + jnp.sqrt(h) * scale.astype(x.dtype) * jax.random.normal(key, x.shape)

    return {"step": step}


def underdamped(temperature: float = 1.0, variance: float = 1.0, drift: float = 1.0) -> dict[str, Any]:
    """The same with momentum and friction 1, split (BAOAB)."""
    one = jnp.ones(10)
    heat, pull = one.at[3].set(variance) * temperature, one.at[3].set(drift)

    def step(key, state, h):
        x, r = state
        fade = jnp.exp(-h)
        r = r - h / 2 * pull * x
        x = x + h / 2 * r
        r = fade * r + jnp.sqrt((1 - fade**2) * heat) * jax.random.normal(key, x.shape)
        x = x + h / 2 * r
        return x, r - h / 2 * pull * x

    def init(key, x):
        return x, jax.random.normal(key, x.shape, x.dtype)

    return {"step": step, "init": init, "read": lambda state: state[0]}


ENOUGH = {"temperature": 0.3}  # where the default effort, 1, is more than it takes: it shows in every coordinate
DEFECTS = {"temperature": {"temperature": OFF}, "variance": {"variance": OFF}, "drift": {"drift": 1 / OFF}}
SAMPLERS: dict[str, Callable[..., dict[str, Any]]] = {"Langevin": langevin, "with momentum": underdamped}


def power_name(sampler: str, defect: str) -> str:
    return f"{sampler}, {defect} off by 5 %"


def defects_name(is_listed: bool) -> str:
    return f"certify_sde, defects {'of' if is_listed else 'outside'} the list"


def power_audits(job: tuple[str, str, int, int]) -> tuple[str, list[bool]]:
    """Whether audits of a sampler with a defect of 5 % reject it, over seeds."""
    sampler, defect, first, last = job
    with jax.enable_x64(True):
        functions = SAMPLERS[sampler](**DEFECTS[defect])
    step, effort = functions.pop("step"), ENOUGH.get(defect, 1.0)
    target = eg.gallery.gaussian(10)
    rejected = [
        not eg.audit(step, target, seed=seed, effort=effort, progress=False, **functions).passed
        for seed in range(first, last)
    ]
    return power_name(sampler, defect), rejected


def named_defects(job: tuple[bool, int, int]) -> tuple[str, int, int]:
    """How many random defects, of the list that `eg.certify_sde` tries or outside of it, are named as such."""
    is_listed, first, last = job
    with jax.enable_x64(True):
        named, _ = defects.power(range(first, last), is_listed)
    return defects_name(is_listed), named, last - first


def chunks(count: int, size: int) -> list[tuple[int, int]]:
    return [(at, min(at + size, count)) for at in range(0, count, size)]


def followed(results: Any, jobs: list[Any], what: str) -> Any:
    """The results of jobs, with a line on stderr for each: how many are done, since when."""
    begin = time.monotonic()
    for k, result in enumerate(results, 1):
        minutes = (time.monotonic() - begin) / 60
        print(f"{what}: {k} of {len(jobs)} jobs, {minutes:.1f} minutes", file=sys.stderr, flush=True)
        yield result


def counted(counts: dict[str, list[bool]], name: str, seen: list[bool]) -> None:
    """`seen` added to what was counted under this name; on stderr, for those who wait."""
    counts.setdefault(name, []).extend(seen)
    print(f"  {name}: {sum(counts[name])} of {len(counts[name])} so far", file=sys.stderr, flush=True)


def report_nulls(pool: Any, count: int) -> dict[str, Any]:
    figures = {}
    for has_state in (False, True):
        jobs = [(first, last, has_state) for first, last in chunks(count // 2, 50)]
        kind = "with a state" if has_state else "position only"
        rows = [row for part in followed(pool.imap(null_audits, jobs), jobs, f"nulls, {kind}") for row in part]
        print(f"{'p-values of null audits':<34}{'audits':>8}{'uniform (KS p)':>16}{'smallest':>12}")
        for check in rows[0]:
            p = np.array([row[check] for row in rows])
            name, row = f"{kind}: {check}", {"audits": len(p), "uniform": kolmogorov(p), "smallest": float(p.min())}
            figures[name] = row
            print(f"{name:<34}{row['audits']:>8}{row['uniform']:>16.3g}{row['smallest']:>12.3g}", flush=True)
    return figures


def report_rough(pool: Any, seeds: int) -> dict[str, Any]:
    jobs = [(name, seeds) for name in ROUGH]
    print(f"\n{'right, with a bias of order 1/2':<44}{'rejected':>10}{'smallest p':>12}")
    figures = {}
    for name, rows in followed(pool.imap(rough_audits, jobs), jobs, "rough"):
        rejected, smallest = sum(row[0] for row in rows), min(row[1] for row in rows)
        figures[name] = {"rejected": rejected, "seeds": seeds, "smallest": smallest}
        print(f"{name:<44}{rejected:>5} of {seeds:<2}{smallest:>12.3g}", flush=True)
    return figures


def report_builders(pool: Any, seeds: int, word: str) -> dict[str, Any]:
    chosen = {name: builder for name, builder in BUILDERS.items() if word in name}
    jobs = [(name, k, seeds) for name, builder in chosen.items() for k in range(len(builder.integrators))]
    print(f"\n{'builders':<44}{'passed':>10}{'smallest p':>12}{'temperature seen':>18}")
    figures = {}
    for name, rows in followed(pool.imap(builder_audits, jobs), jobs, "builders"):
        passed, smallest = sum(row[0] for row in rows), min(row[1] for row in rows)
        seen = float(np.median([row[2] for row in rows]))
        figures[name] = {"passed": passed, "seeds": seeds, "smallest": smallest, "seen": seen}
        print(f"{name:<44}{passed:>5} of {seeds:<2}{smallest:>12.3g}{100 * seen:>16.2g} %", flush=True)
    return figures


def report_power(pool: Any, seeds: int, word: str) -> dict[str, Any]:
    pairs = [(s, d) for s in SAMPLERS for d in DEFECTS if word in power_name(s, d)]
    jobs = [(s, d, first, last) for s, d in pairs for first, last in chunks(seeds, 25)]
    counts: dict[str, list[bool]] = {}
    for name, rejected in followed(pool.imap(power_audits, jobs), jobs, "power"):
        counted(counts, name, rejected)
    lists = [is_listed for is_listed in (True, False) if word in defects_name(is_listed)]
    jobs = [(is_listed, first, last) for is_listed in lists for first, last in chunks(2 * seeds, 50)]
    for name, named, count in followed(pool.imap(named_defects, jobs), jobs, "defects"):
        counted(counts, name, [True] * named + [False] * (count - named))
    print(f"\n{'power':<44}{'seen':>12}")
    for name, seen in counts.items():
        print(f"{name:<44}{sum(seen):>6} of {len(seen)}", flush=True)
    return {name: {"seen": sum(seen), "seeds": len(seen)} for name, seen in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nulls", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--rough", type=int, default=10)
    parser.add_argument("--power", action="store_true")
    parser.add_argument("--power-seeds", type=int, default=100)
    parser.add_argument("--only", default="", metavar="WORD", help="builders, or lines of --power, whose name has it")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        nulls = report_nulls(pool, options.nulls) if options.nulls else {}
        builders = report_builders(pool, options.seeds, options.only) if options.seeds else {}
        rough = report_rough(pool, options.rough) if options.rough else {}
        power = report_power(pool, options.power_seeds, options.only) if options.power else {}
    failures = [name for name, row in nulls.items() if row["uniform"] < LEVEL]
    failures += [name for name, row in builders.items() if row["passed"] < row["seeds"]]
    failures += [name for name, row in rough.items() if row["rejected"]]
    failures += [name for name, row in power.items() if row["seen"] < POWER * row["seeds"]]
    if options.json:
        options.json.write_text(
            json.dumps({"nulls": nulls, "builders": builders, "rough": rough, "power": power}, indent=1)
        )
    print(f"\n{'FAILED: ' + '; '.join(failures) if failures else 'all as stated'}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
