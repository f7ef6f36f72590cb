"""Steps per second through `eg.sample` beside blackjax in a compiled loop, interleaved in one run.

    python benchmarks/against_blackjax.py [--steps 40000] [--blocks 7] [--json FILE]

Bayesian logistic regression, 100,000 x 54, batches of 500, float32, one chain, every draw kept. blackjax draws random
indices and gathers rows, as its users do; and once more it is fed our windows of a shuffled copy. Each block times both
in turn; ratios are medians over blocks. Exit code 1 if a bound is missed, or if our means and standard deviations are
neither equal to blackjax's within Monte Carlo error nor closer to a long run on all data.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.sgmcmc.gradients import grad_estimator

import ergodica as eg
from benchmarks import logistic

ROWS, BATCH = 100_000, 500
STEP_SIZE = {"SGLD": 2e-6, "SGNHT": 3e-4}
FRICTION = 20.0  # of SGNHT: its thermostat starts there
BOUNDS = {"one product": 2.5, "two products": 2.2, "fed our windows": 1.3}


def ours(name: str, target: Any, steps: int, seed: int) -> np.ndarray:
    recipe = eg.sgld() if name == "SGLD" else eg.sgnht(diffusion=FRICTION)
    run = eg.sample(
        target, recipe, steps=steps, step_size=STEP_SIZE[name], batch_size=BATCH, chains=1, seed=seed, progress=False
    )
    return np.asarray(run.posterior[0])


def theirs(name: str, rows: logistic.Data, log_likelihood: Any, has_windows: bool) -> Any:
    """A compiled loop over blackjax's kernel: (key, steps) -> draws."""

    def of_row(weights, row):
        return log_likelihood(weights, jax.tree.map(lambda leaf: leaf[None], row))[0]

    gradient = grad_estimator(logistic.log_prior, of_row, ROWS)
    if name == "SGLD":
        kernel = blackjax.sgld(gradient)
        start = jnp.zeros(logistic.FEATURES)
    else:
        kernel = blackjax.sgnht(gradient, FRICTION)
        start = kernel.init(jnp.zeros(logistic.FEATURES), jax.random.key(1), FRICTION)

    def batch(key, rows):
        if not has_windows:
            index = jax.random.randint(key, (BATCH,), 0, ROWS)
            return jax.tree.map(lambda leaf: leaf[index], rows)
        offset = jax.random.randint(key, (), 0, ROWS)
        return jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, offset, BATCH), rows)

    def loop(key, rows, steps):
        def body(state, key):
            batch_key, step_key = jax.random.split(key)
            state = kernel.step(step_key, state, batch(batch_key, rows), STEP_SIZE[name])
            return state, state if name == "SGLD" else state.position

        return jax.lax.scan(body, start, jax.random.split(key, steps))[1]

    if has_windows:
        rows = jax.tree.map(lambda leaf: np.concatenate([leaf, leaf[:BATCH]]), rows)
    on_device = jax.tree.map(jnp.asarray, rows)
    compiled = jax.jit(loop, static_argnums=2)
    return lambda steps, seed: np.asarray(compiled(jax.random.key(seed), on_device, steps))


def compare(name: str, rows: logistic.Data, log_likelihood: Any, has_windows: bool, options: Any) -> dict[str, Any]:
    """Steps per second of both, in turns, and their draws joined."""
    target = logistic.target(rows, log_likelihood)
    loop = theirs(name, rows, log_likelihood, has_windows)
    sides = {"ours": partial(ours, name, target, options.steps), "theirs": partial(loop, options.steps)}
    times, draws = {side: [] for side in sides}, {side: [] for side in sides}
    for block in range(options.blocks + 1):
        for side, action in sides.items():
            start = time.perf_counter()
            made = action(block)
            if block:  # the first one compiles
                times[side].append(time.perf_counter() - start)
                draws[side].append(made[options.steps // 4 :])
    ratio = np.median(np.array(times["theirs"]) / np.array(times["ours"]))
    return {
        "ours": options.steps / float(np.median(times["ours"])),
        "theirs": options.steps / float(np.median(times["theirs"])),
        "ratio": float(ratio),
        "moments": {side: moments(np.stack(made)) for side, made in draws.items()},
    }


def moments(draws: np.ndarray) -> dict[str, np.ndarray]:
    """Means and standard deviations (log) over runs (run, draw, 54), with standard errors over the runs."""
    means, deviations = draws.mean(1), np.log(draws.std(1))
    error = np.sqrt(len(draws))
    return {
        "mean": means.mean(0), "mean_error": means.std(0, ddof=1) / error,
        "deviation": deviations.mean(0), "deviation_error": deviations.std(0, ddof=1) / error,
    }  # fmt: skip


def reference(rows: logistic.Data) -> tuple[np.ndarray, np.ndarray]:
    """Means and standard deviations from all data."""
    target = logistic.target(rows)
    mode = eg.find_mode(target, target.init)
    return logistic.reference(rows, np.asarray(mode.position, np.float64), np.asarray(mode.covariance(target), float))


def agreement(found: dict[str, Any], truth: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """Largest difference of the two in standard errors, and root mean square distances of both to the truth."""
    a, b = found["ours"], found["theirs"]
    scores = [
        np.abs(a[what] - b[what]) / np.hypot(a[f"{what}_error"], b[f"{what}_error"]) for what in ("mean", "deviation")
    ]

    def distance(x: dict[str, np.ndarray]) -> float:
        means = (x["mean"] - truth[0]) / truth[1]
        return float(np.sqrt(np.mean(means**2) + np.mean((x["deviation"] - np.log(truth[1])) ** 2)))

    apart, bound = float(max(s.max() for s in scores)), 6.0  # 108 comparisons by Student's t with a few degrees
    close = {"ours": distance(a), "theirs": distance(b)}
    return {"apart": apart, **close, "fine": apart < bound or close["ours"] <= close["theirs"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = logistic.data(ROWS)
    truth = reference(rows)
    results, failures = {}, []
    print(f"{'':<26}{'ours':>10}{'blackjax':>10}  steps a second; ratio and its bound; law")
    for name in STEP_SIZE:
        for kind, bound in BOUNDS.items():
            likelihood = logistic.two_products if kind == "two products" else logistic.one_product
            row = compare(name, rows, likelihood, kind == "fed our windows", options)
            law = agreement(row.pop("moments"), truth)
            results[f"{name}, {kind}"] = row | {"bound": bound, "law": law}
            if row["ratio"] < bound or not law["fine"]:
                failures.append(f"{name}, {kind}")
            print(
                f"{name + ', ' + kind:<26}{row['ours']:>10,.0f}{row['theirs']:>10,.0f}  {row['ratio']:.2f} of {bound}; "
                f"{law['apart']:.1f} standard errors apart, from the truth {law['ours']:.3f} and {law['theirs']:.3f}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    print(f"FAILED: {'; '.join(failures)}" if failures else "all bounds met")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
