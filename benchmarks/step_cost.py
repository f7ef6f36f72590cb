"""What a step from (H, D, Q) costs beside the same step written by hand, and that beside blackjax's.

    python benchmarks/step_cost.py [--json FILE] [--blocks 30]

Operations and bytes are XLA's counts for the compiled program. Times are ratios library / twin: both run in turn in
short blocks in this one process, and the median over the blocks is given with the interval of its 95 % order
statistics, for timings drift by more than what is measured. A whole step is timed inside a compiled loop, as in a run.
Exit code 1 where a bound is missed: operations of a whole step 1.01, bytes of the update 1.00 (but for a few scalars),
times 1.10.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.cost.pairs import FEATURES, PAIRS, Call, cost, regression, separable, update, whole_step

SIZE = 400_000
OPERATIONS, SPARE_BYTES, TIME = 1.01, 200, 1.10


def seconds(program, arguments, repeats):
    start = time.perf_counter()
    for _ in range(repeats):
        jax.block_until_ready(program(*arguments))
    return (time.perf_counter() - start) / repeats


def in_a_loop(call, steps):
    """The call repeated in one compiled loop, each step from where the last one went, with a key of its own."""

    def run(numbers, start, key, *rest):
        def body(i, state):
            phase = call.function(numbers, state, jax.random.fold_in(key, i), *rest)
            return state._replace(phase=phase) if hasattr(state, "phase") else phase

        return jax.lax.fori_loop(0, steps, body, start)

    return Call(run, call.arguments)


def time_ratio(both, blocks):
    """Median ratio library / twin over interleaved blocks, with the 95 % interval of the median."""
    programs = [(call.compiled(), call.arguments) for call in both]
    repeats = max(1, int(0.03 / seconds(*programs[1], 3)))
    ratios = []
    for block in range(blocks):
        order = programs if block % 2 else programs[::-1]  # who goes first takes turns
        times = {id(program): seconds(program, arguments, repeats) for program, arguments in order}
        ratios.append(times[id(programs[0][0])] / times[id(programs[1][0])])
    low, middle, high = np.quantile(ratios, [0.5 - 0.98 / blocks**0.5, 0.5, 0.5 + 0.98 / blocks**0.5])
    return {"median": float(middle), "low": float(low), "high": float(high)}


def measure(name, blocks):
    pair = PAIRS[name]
    step = (
        whole_step(pair, separable(pair), SIZE, np.float32)
        if pair.is_whole_data
        else whole_step(pair, regression(pair, np.float32), FEATURES, np.float32)
    )
    alone = update(pair, separable(pair), SIZE, np.float32)
    library, twin = (cost(call) for call in alone)
    return {
        "operations": cost(step.library).operations / cost(step.twin).operations,
        "bytes": library.bytes / twin.bytes,
        "spare_bytes": library.bytes - twin.bytes,
        "time_step": time_ratio([in_a_loop(call, 5 if pair.is_whole_data else 200) for call in step], blocks),
        "time_update": time_ratio(alone, blocks),
    }


def missed(row):
    return (
        row["operations"] > OPERATIONS
        or row["spare_bytes"] > SPARE_BYTES
        or row["time_step"]["low"] > TIME
        or row["time_update"]["low"] > TIME
    )


def blackjax_operations():
    """Operations of our twins over those of blackjax's kernels: one Euler step, the same gradient, 400,000 numbers."""
    from blackjax.sgmcmc import diffusions

    from tests.cost import twins

    def operations(step, *arguments):
        found = jax.jit(step).lower(*arguments).compile().cost_analysis()
        return found["flops"] + found.get("transcendentals", 0.0)

    q = r = g = jnp.linspace(0.5, 1.5, SIZE, dtype=jnp.float32)
    key, eps, heat, xi, c = jax.random.key(0), *(jnp.float32(x) for x in (0.01, 1.0, 0.9, 0.8))

    def by_hand(twin, *numbers):
        def step(phase, g, key, eps, heat, *numbers):
            return twin(phase, lambda q: (None, g), jax.random.normal(key, q.shape, q.dtype), eps, heat, *numbers)

        return lambda phase: operations(step, phase, g, key, eps, heat, *numbers)

    langevin = diffusions.overdamped_langevin()
    ours = {
        "sgld": by_hand(twins.sgld, jnp.float32(1.0))((q,)),
        "sghmc": by_hand(twins.sghmc_euler, c, jnp.float32(1.0))((q, r)),
        "sgnht": by_hand(twins.sgnht_euler, c)((q, r, xi)),
    }
    theirs = {
        "sgld": operations(lambda key, q, g, eps, heat: langevin(key, q, g, eps, heat), key, q, g, eps, heat),
        "sghmc": operations(
            lambda key, q, r, g, eps, heat, c: diffusions.sghmc(c, 0.0)(key, q, r, g, eps, heat),
            key, q, r, g, eps, heat, c,
        ),
        "sgnht": operations(
            lambda key, q, r, xi, g, eps, heat, c: diffusions.sgnht(c, 0.0)(key, q, r, xi, g, eps, heat),
            key, q, r, xi, g, eps, heat, c,
        ),
    }  # fmt: skip
    return {name: ours[name] / theirs[name] for name in ours}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--blocks", type=int, default=30)
    options = parser.parse_args()
    print(f"{'library / twin':24}{'operations':>12}{'bytes':>8}{'time of a step':>24}{'time of the update':>24}")
    rows = {}
    for name in PAIRS:
        row = rows[name] = measure(name, options.blocks)
        times = [f"{t['median']:.3f} [{t['low']:.3f}, {t['high']:.3f}]" for t in (row["time_step"], row["time_update"])]
        mark = "  MISSED" if missed(row) else ""
        print(f"{name:24}{row['operations']:12.4f}{row['bytes']:8.4f}{times[0]:>24}{times[1]:>24}{mark}", flush=True)
    try:
        peers = blackjax_operations()
    except ImportError:
        peers = {}
        print("twin / blackjax: not measured, blackjax is not installed (pip install -e '.[bench]')")
    for name, figure in peers.items():
        mark = "  MISSED" if figure > 1.001 else ""
        print(f"{name:24}{figure:12.4f}  twin / blackjax, operations of an Euler step{mark}")
    if options.json:
        options.json.write_text(json.dumps({"ratios": rows, "twin_over_blackjax": peers}, indent=1))
    return int(any(missed(row) for row in rows.values()) or any(figure > 1.001 for figure in peers.values()))


if __name__ == "__main__":
    sys.exit(main())
