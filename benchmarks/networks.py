"""Large positions: time and memory of a network's step, and what its posterior predicts; each figure with its bound.

    python benchmarks/networks.py [steps] [compile] [factorisation] [memory] [fashion] [choose] [--turns 7]

steps            784-400-400-10 network, 478,410 numbers in float32, batches of 100 of 60,000 made-up rows: a step of
                 `eg.sample` (a long run less a short one) beside plain SGD and blackjax's samplers in compiled loops
factorisation    28,875 numbers, 80,000 made-up ratings, batches of 1,000, beside gradient, noise and update alone
compile          the first 5 steps of the network in a new process with an empty cache
memory           of a run that averages predictions, 200 steps and 2,000
fashion          Fashion-MNIST: test log likelihood and calibration error with equal gradients (_fashion.py; needs
                 Debian's package dataset-fashion-mnist); `choose`: settings, on a part of the training set, and only
                 where named

All of a group are timed in turns in one process; figures are medians over turns, of wall and of processor time; bounds
are on wall time. Exit code 1 where a bound is missed.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jax
import jax.numpy as jnp
import numpy as np
import optax

import ergodica as eg
from benchmarks import _fashion
from benchmarks._fashion import Rows, log_likelihood, log_prior, network, probabilities

ROWS, BATCH = 60_000, 100
STEP_SIZE = {"SGLD": 1e-7, "SGHMC": 1e-4}
RECIPES = {"SGLD": eg.sgld, "SGHMC": eg.sghmc}
SHORT, LONG, THIN = 100, 2_100, 50
FASTER_THAN_BLACKJAX, OF_SGD, OF_GRADIENT_AND_NOISE = 1.5, 1.9, 1.5
COMPILE_SECONDS, GROWTH = 6.0, 0.05
USERS, ITEMS, FACTORS, RATINGS, RATED_AT_A_TIME = 943, 1_682, 10, 80_000, 1_000

Loop = Callable[[int], Any]
"""So many steps; returns when they are done."""


def told(name: str, value: float, bound: float, is_most: bool, words: str) -> bool:
    """Print a figure with its bound; whether it is met."""
    is_met = value <= bound if is_most else value >= bound
    kind = "at most" if is_most else "at least"
    print(f"{name:<34}{value:>8.2f}  {kind} {bound:<5g}{'' if is_met else 'MISSED'}  {words}", flush=True)
    return is_met


def timed(loops: dict[str, tuple[Loop, float]], turns: int) -> dict[str, np.ndarray]:
    """Milliseconds (turn, [wall, processor]) of a step of each: a long loop less a short one, all in turns. The number
    beside a loop is how many gradients a step of it has."""
    for loop, _ in loops.values():
        loop(SHORT)
    times: dict[str, list[Any]] = {name: [] for name in loops}
    for _ in range(turns):
        for name, (loop, gradients) in loops.items():
            spent = []
            for steps in (SHORT, LONG):
                begin = np.array([time.perf_counter(), time.process_time()])
                loop(round(steps / gradients))
                spent.append(np.array([time.perf_counter(), time.process_time()]) - begin)
            times[name].append((spent[1] - spent[0]) / (LONG - SHORT) * 1e3)
    return {name: np.array(one) for name, one in times.items()}


def shown(times: dict[str, np.ndarray]) -> None:
    for name, one in times.items():
        wall, cpu = np.median(one, axis=0)
        print(f"{name:<34}{wall:>8.2f}  ms a gradient; processor {cpu:.2f}", flush=True)


def ratio(times: dict[str, np.ndarray], above: str, below: str) -> tuple[float, str]:
    """The median over turns of the ratio of wall times; and in words that of processor times."""
    wall, cpu = np.median(times[above] / times[below], axis=0)
    return float(wall), f"(processor {cpu:.2f})"


# -- the network ----------------------------------------------------------------------------------------


def made_up() -> Rows:
    rng = np.random.default_rng(0)
    return Rows(rng.normal(size=(ROWS, 784)).astype(np.float32), rng.integers(0, 10, ROWS).astype(np.int32))


def ours(target: Any, start: Any, name: str, keep: Any, steps: int, thin: int = THIN, batch_size: int = BATCH) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of chains that are too short to be judged
        return eg.sample(
            target, RECIPES[name](), eg.same(start), steps=steps, step_size=STEP_SIZE[name], batch_size=batch_size,
            chains=1, thin=thin, keep=keep, progress=False,
        )  # fmt: skip


def windows(rows: Any, size: int, i: Any) -> Any:
    count = len(jax.tree.leaves(rows)[0])
    at = (i * size) % (count - size)
    return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, at, size), rows)


def compiled_loop(step: Callable[..., Any], start: Any, rows: Any) -> Loop:
    """Of step(i, carry, rows)."""
    run = jax.jit(lambda carry, rows, n: jax.lax.fori_loop(0, n, lambda i, carry: step(i, carry, rows), carry))
    return lambda steps: jax.block_until_ready(run(start, rows, steps))


def peers(target: Any, start: Any, rows: Any) -> dict[str, tuple[Loop, float]]:
    import blackjax

    key, on_device = jax.random.key(1), jax.tree.map(jnp.asarray, rows)

    def gradient(layers: Any, batch: Any) -> Any:
        return jax.tree.map(jnp.negative, target.evaluate(layers, batch)[1])

    optimiser = optax.sgd(1e-6)

    def sgd(i: Any, carry: Any, rows: Any) -> Any:
        layers, state = carry
        descent = jax.tree.map(jnp.negative, gradient(layers, windows(rows, BATCH, i)))
        updates, state = optimiser.update(descent, state)
        return optax.apply_updates(layers, updates), state

    def theirs(kernel: Any, step_size: float) -> Loop:
        def step(i: Any, layers: Any, rows: Any) -> Any:
            return kernel.step(jax.random.fold_in(key, i), layers, windows(rows, BATCH, i), step_size)

        return compiled_loop(step, start, on_device)

    return {
        "plain SGD": (compiled_loop(sgd, (start, optimiser.init(start)), on_device), 1),
        "blackjax's SGLD": (theirs(blackjax.sgld(gradient), STEP_SIZE["SGLD"]), 1),
        "blackjax's SGHMC": (theirs(blackjax.sghmc(gradient), 1e-6), 10),  # its default: 10 gradients a step
    }


def posterior(rows: Rows) -> tuple[Any, Any]:
    start = network(jax.random.key(0))
    return eg.Posterior(partial(log_prior, 1.0), log_likelihood, rows, init=start), start


def steps(turns: int) -> bool:
    rows = made_up()
    target, start = posterior(rows)
    keep = {"test": eg.mean(probabilities, rows.x[:100])}
    loops = {name: (partial(ours, target, start, name, keep), 1.0) for name in RECIPES}
    times = timed(loops | peers(target, start, rows), turns)
    shown(times)
    is_met = True
    for name in RECIPES:
        value, words = ratio(times, f"blackjax's {name}", name)
        is_met &= told(f"{name}: blackjax's / ours", value, FASTER_THAN_BLACKJAX, False, words)
        value, words = ratio(times, name, "plain SGD")
        is_met &= told(f"{name}: ours / plain SGD", value, OF_SGD, True, words)
    return is_met


# -- factorisation --------------------------------------------------------------------------------------


def rating_log_likelihood(tables: dict[str, Any], rows: dict[str, Any]) -> Any:
    user, item = tables["user"][rows["user"]], tables["item"][rows["item"]]
    centre = tables["user bias"][rows["user"]] + tables["item bias"][rows["item"]]
    return -2.0 * (rows["rating"] - centre - jnp.sum(user * item, 1)) ** 2


def rating_log_prior(tables: dict[str, Any]) -> Any:
    return -2.0 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(tables))


def ratings() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Made-up rows in MovieLens' shape, some users and items far more often than others; and random tables."""
    rng = np.random.default_rng(0)
    shapes = {"user": (USERS, FACTORS), "item": (ITEMS, FACTORS), "user bias": (USERS,), "item bias": (ITEMS,)}
    truth = {name: (0.5 * rng.normal(size=shape)).astype(np.float32) for name, shape in shapes.items()}
    places = {
        name: np.minimum(rng.exponential(count / 4, RATINGS), count - 1).astype(np.int32)
        for name, count in (("user", USERS), ("item", ITEMS))
    }
    centre = truth["user bias"][places["user"]] + truth["item bias"][places["item"]]
    product = np.sum(truth["user"][places["user"]] * truth["item"][places["item"]], 1)
    rating = (centre + product + 0.5 * rng.normal(size=RATINGS)).astype(np.float32)
    return places | {"rating": rating}, {name: 0.1 * value for name, value in truth.items()}


def factorisation(turns: int) -> bool:
    rows, start = ratings()
    target, key = eg.Posterior(rating_log_prior, rating_log_likelihood, rows, init=start), jax.random.key(1)

    def by_hand(i: Any, tables: Any, rows: Any) -> Any:
        """Gradient, noise and update: the least that a sampler does."""
        batch = windows(rows, RATED_AT_A_TIME, i)
        _, gradient = target.evaluate(tables, batch)
        leaves, structure = jax.tree.flatten(tables)
        keys = jax.random.split(jax.random.fold_in(key, i), len(leaves))
        noise = [jax.random.normal(k, leaf.shape, leaf.dtype) for k, leaf in zip(keys, leaves, strict=True)]
        noise = jax.tree.unflatten(structure, noise)
        h = STEP_SIZE["SGLD"]
        return jax.tree.map(lambda x, g, xi: x - h * g + jnp.sqrt(2 * h) * xi, tables, gradient, noise)

    run = partial(ours, target, start, batch_size=RATED_AT_A_TIME)
    loops: dict[str, tuple[Loop, float]] = {name: (partial(run, name, "moments"), 1.0) for name in RECIPES}
    on_device = jax.tree.map(jnp.asarray, rows)
    bare = compiled_loop(by_hand, jax.tree.map(jnp.asarray, start), on_device)
    times = timed(loops | {"gradient and noise": (bare, 1)}, turns)
    shown(times)
    is_met = True
    for name in RECIPES:
        value, words = ratio(times, name, "gradient and noise")
        is_met &= told(f"{name}: ours / gradient and noise", value, OF_GRADIENT_AND_NOISE, True, words)
    return is_met


# -- in processes of their own ---------------------------------------------------------------------------


def in_new_process(*arguments: str) -> list[float]:
    """The numbers that this file prints when it is called so, with an empty cache of programs."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, *arguments]
        done = subprocess.run(command, env=os.environ | {"ERGODICA_CACHE": folder}, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    return [float(word) for word in done.stdout.split()]


def first_steps(name: str) -> None:
    target, start = posterior(made_up())
    jax.block_until_ready(start)
    begin = np.array([time.process_time(), time.perf_counter()])
    ours(target, start, name, "moments", 5, thin=1)
    print(*np.array([time.process_time(), time.perf_counter()]) - begin)


def compile_time(_: int) -> bool:
    is_met = True
    for name in RECIPES:
        cpu, wall = in_new_process("--first-steps", name)
        is_met &= told(f"{name}: compile and 5 steps", cpu, COMPILE_SECONDS, True, f"processor s (wall {wall:.1f})")
    return is_met


def peak(count: int) -> None:
    rows = made_up()
    target, start = posterior(rows)
    ours(target, start, "SGHMC", {"test": eg.mean(probabilities, rows.x[:1_000])}, count, thin=10)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)  # MB on Linux


def memory(_: int) -> bool:
    short, long, longer = (in_new_process("--peak", str(count))[0] for count in (200, 2_000, 8_000))
    draws = (8_000 - 2_000) // 10 * 478_410 * 4 / 2**20
    words = (
        f"% from 2,000 to 8,000 steps, thin=10: {long:.0f} to {longer:.0f} MB, and {short:.0f} after 200; the draws of "
        f"these steps would be {draws:.0f} MB"
    )
    return told("growth of peak memory", (longer / long - 1) * 100, GROWTH * 100, True, words)


GROUPS = {
    "steps": steps,
    "compile": compile_time,
    "factorisation": factorisation,
    "memory": memory,
    "fashion": _fashion.fashion,
    "choose": _fashion.choose,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("groups", nargs="*", metavar="|".join(GROUPS))
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--first-steps", metavar="SAMPLER", help=argparse.SUPPRESS)
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first_steps:
        first_steps(options.first_steps)
        return 0
    if options.peak:
        peak(options.peak)
        return 0
    unknown = [name for name in options.groups if name not in GROUPS]
    if unknown:
        parser.error(f"no group {unknown[0]!r}: there are {', '.join(GROUPS)}")
    return int(not all([GROUPS[name](options.turns) for name in options.groups or [*GROUPS][:-1]]))


if __name__ == "__main__":
    sys.exit(main())
