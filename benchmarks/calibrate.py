"""Does `eg.audit` cry wolf as rarely as it says, and see what it says it sees?

    python benchmarks/calibrate.py [--nulls 2000] [--seeds 20] [--power] [--power-seeds 100] [--jobs 2] [--json FILE]

Size: p-values of so many cheap audits of an exact sampler are uniform (Kolmogorov and Smirnov's test, level 1e-3), for
the whole audit and for every check; every builder of tests/builders.py passes on so many seeds. Power (`--power`): a
temperature, a variance, one coordinate's drift off by 5 % in ten dimensions is rejected in at least 95 of 100 seeds.
Exit code 1 if one of these fails. About an hour on two cores; `--power` takes about as long again.
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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import ergodica as eg
from tests.builders import BUILDERS

CHEAP = 0.01  # effort of a null audit
BUILDER_EFFORT = 0.2
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


def builder_audits(job: tuple[str, int, int]) -> tuple[str, list[float]]:
    """p-values of audits of a builder with one of its integrators, over seeds."""
    name, which, seeds = job
    builder = BUILDERS[name]
    kernel = eg.Kernel(builder.target, builder.recipe, builder.integrators[which])

    def step(key, state, step_size):
        return kernel.step(state, key, step_size)[0]

    def init(key, position):
        return kernel.init(position, key)

    p_values = [
        eg.audit(
            step, builder.target, init=init, read=lambda state: state.phase.position,
            seed=seed, effort=BUILDER_EFFORT, progress=False,
        ).p_value
        for seed in range(seeds)
    ]  # fmt: skip
    return f"{name} {type(builder.integrators[which]).__name__}", p_values


def langevin(temperature: float = 1.0, variance: float = 1.0, drift: float = 1.0) -> dict[str, Any]:
    """A Langevin step in ten dimensions; variance and drift: those of one coordinate, times a factor."""
    one = jnp.ones(10).at[3].set(1.0)
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


DEFECTS = {"temperature": {"temperature": OFF}, "variance": {"variance": OFF}, "drift": {"drift": 1 / OFF}}
SAMPLERS: dict[str, Callable[..., dict[str, Any]]] = {"Langevin": langevin, "with momentum": underdamped}


def power_audits(job: tuple[str, str, int, int]) -> tuple[str, list[bool]]:
    """Whether audits of a sampler with a defect of 5 % reject it, over seeds."""
    sampler, defect, first, last = job
    with jax.enable_x64(True):
        functions = SAMPLERS[sampler](**DEFECTS[defect])
    step = functions.pop("step")
    target = eg.gallery.gaussian(10)
    rejected = [
        not eg.audit(step, target, seed=seed, progress=False, **functions).passed for seed in range(first, last)
    ]
    return f"{sampler}, {defect} off by 5 %", rejected


def chunks(count: int, size: int) -> list[tuple[int, int]]:
    return [(at, min(at + size, count)) for at in range(0, count, size)]


def report_nulls(pool: Any, count: int) -> dict[str, Any]:
    figures = {}
    for has_state in (False, True):
        jobs = [(first, last, has_state) for first, last in chunks(count // 2, 50)]
        rows = [row for part in pool.imap(null_audits, jobs) for row in part]
        kind = "with a state" if has_state else "position only"
        for name in rows[0]:
            p = np.array([row[name] for row in rows])
            figures[f"{kind}: {name}"] = {"audits": len(p), "uniform": kolmogorov(p), "smallest": float(p.min())}
    print(f"{'p-values of null audits':<34}{'audits':>8}{'uniform (KS p)':>16}{'smallest':>12}")
    for name, row in figures.items():
        print(f"{name:<34}{row['audits']:>8}{row['uniform']:>16.3g}{row['smallest']:>12.3g}", flush=True)
    return figures


def report_builders(pool: Any, seeds: int) -> dict[str, Any]:
    jobs = [(name, k, seeds) for name, builder in BUILDERS.items() for k in range(len(builder.integrators))]
    print(f"\n{'builders':<44}{'passed':>10}{'smallest p':>12}")
    figures = {}
    for name, p_values in pool.imap(builder_audits, jobs):
        passed = sum(p >= 1e-4 for p in p_values)
        figures[name] = {"passed": passed, "seeds": seeds, "smallest": min(p_values)}
        print(f"{name:<44}{passed:>5} of {seeds:<2}{min(p_values):>12.3g}", flush=True)
    return figures


def report_power(pool: Any, seeds: int) -> dict[str, Any]:
    jobs = [(s, d, first, last) for s in SAMPLERS for d in DEFECTS for first, last in chunks(seeds, 25)]
    counts: dict[str, list[bool]] = {}
    for name, rejected in pool.imap(power_audits, jobs):
        counts.setdefault(name, []).extend(rejected)
    print(f"\n{'power':<44}{'rejected':>12}")
    for name, rejected in counts.items():
        print(f"{name:<44}{sum(rejected):>6} of {len(rejected)}", flush=True)
    return {name: {"rejected": sum(rejected), "seeds": len(rejected)} for name, rejected in counts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nulls", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--power", action="store_true")
    parser.add_argument("--power-seeds", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        nulls = report_nulls(pool, options.nulls) if options.nulls else {}
        builders = report_builders(pool, options.seeds) if options.seeds else {}
        power = report_power(pool, options.power_seeds) if options.power else {}
    failures = [name for name, row in nulls.items() if row["uniform"] < LEVEL]
    failures += [name for name, row in builders.items() if row["passed"] < row["seeds"]]
    failures += [name for name, row in power.items() if row["rejected"] < POWER * row["seeds"]]
    if options.json:
        options.json.write_text(json.dumps({"nulls": nulls, "builders": builders, "power": power}, indent=1))
    print(f"\n{'FAILED: ' + '; '.join(failures) if failures else 'all as stated'}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
