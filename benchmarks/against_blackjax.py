"""Steps per second through `eg.sample` beside blackjax in a compiled loop, interleaved in one run.

    python benchmarks/against_blackjax.py [--steps 40000] [--blocks 7] [--json FILE]

Bayesian logistic regression, 100,000 x 54, batches of 500, float32, one chain, every draw kept. blackjax draws random
indices and gathers rows, as its users do; and once more it is fed our windows of a shuffled copy. Each block times both
in turn; ratios are medians over blocks.

Speed and law are judged apart. Each side's means and standard deviations are held against what its own discrete chain
gives on the posterior's Gaussian twin (gaussian_twin.py), in standard errors: the two schemes, and batches drawn in
different ways, have different laws at any step size, so the sides need not agree. How far both are from the posterior,
which at these step sizes is mostly gradient noise, is printed beside it. Exit code 1 if a bound of either is missed.
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
from benchmarks import gaussian_twin, logistic
from benchmarks.gaussian_twin import Moments, Twin

ROWS, BATCH = 100_000, 500
STEP_SIZE = {"SGLD": 2e-6, "SGNHT": 3e-4}
FRICTION = 20.0  # of SGNHT: its thermostat starts there
BOUNDS = {"one product": 2.5, "two products": 2.2, "fed our windows": 1.3}
LAW_BOUND = 5.0  # standard errors, the largest of 108: 6e-5 by chance


def ours(name: str, target: Any, start: np.ndarray, steps: int, seed: int) -> np.ndarray:
    recipe = eg.sgld() if name == "SGLD" else eg.sgnht(diffusion=FRICTION)
    run = eg.sample(
        target,
        recipe,
        start,
        steps=steps,
        step_size=STEP_SIZE[name],
        batch_size=BATCH,
        chains=1,
        seed=seed,
        progress=False,
    )
    return np.asarray(run.posterior[0])


def theirs(name: str, rows: logistic.Data, log_likelihood: Any, has_windows: bool, at: np.ndarray) -> Any:
    """A compiled loop over blackjax's kernel: (key, steps) -> draws."""

    def of_row(weights, row):
        return log_likelihood(weights, jax.tree.map(lambda leaf: leaf[None], row))[0]

    gradient = grad_estimator(logistic.log_prior, of_row, ROWS)
    if name == "SGLD":
        kernel = blackjax.sgld(gradient)
        start = jnp.asarray(at)
    else:
        kernel = blackjax.sgnht(gradient, FRICTION)
        start = kernel.init(jnp.asarray(at), jax.random.key(1), FRICTION)

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


def compare(
    name: str, rows: logistic.Data, log_likelihood: Any, has_windows: bool, start: np.ndarray, options: Any
) -> dict[str, Any]:
    """Steps per second of both, in turns, and the moments of their draws."""
    target = logistic.target(rows, log_likelihood)
    loop = theirs(name, rows, log_likelihood, has_windows, start)
    sides = {"ours": partial(ours, name, target, start, options.steps), "theirs": partial(loop, options.steps)}
    times, draws = {side: [] for side in sides}, {side: [] for side in sides}
    for block in range(options.blocks + 1):
        for side, action in sides.items():
            begin = time.perf_counter()
            made = action(block)
            if block:  # the first one compiles
                times[side].append(time.perf_counter() - begin)
                draws[side].append(made[options.steps // 4 :].astype(np.float64))
    ratio = np.median(np.array(times["theirs"]) / np.array(times["ours"]))
    return {
        "ours": options.steps / float(np.median(times["ours"])),
        "theirs": options.steps / float(np.median(times["theirs"])),
        "ratio": float(ratio),
        "moments": {side: Moments.of_draws(np.stack(made)) for side, made in draws.items()},
    }


class Posterior:
    """Means and standard deviations from all data, and the Gaussian twin."""

    def __init__(self, rows: logistic.Data):
        target = logistic.target(rows)
        mode = eg.find_mode(target, target.init)
        self.start = np.asarray(mode.position)
        covariance = np.asarray(mode.covariance(target), float)
        self.twin = Twin.of(rows, self.start.astype(np.float64), covariance)
        self.laplace = np.sqrt(np.diag(covariance))
        self.mean, self.deviation = logistic.reference(rows, self.twin.mode, covariance)

    def expected(self, name: str, kind: str, steps: int) -> dict[str, Moments]:
        """What the chain of each side should give.

        The posterior is not quite Gaussian. What that changes of mean and standard deviation at temperature 1 is known,
        and grows with the temperature that the noise brings.
        """
        twin = self.twin
        noise = {"ours": twin.shuffled(BATCH), "theirs": twin.gathered(BATCH)}
        if kind == "fed our windows":
            noise["theirs"] = twin.windows(BATCH)
        steppers = {"ours": gaussian_twin.splitting, "theirs": gaussian_twin.euler}
        found = {}
        for side, v in noise.items():
            h = STEP_SIZE[name]
            law = twin.sgld(v, h) if name == "SGLD" else twin.sgnht(steppers[side](FRICTION, h), v, steps)
            temperature = np.exp(2 * law.deviation) / self.laplace**2
            found[side] = law._replace(
                mean=law.mean + temperature * (self.mean - twin.mode),
                deviation=law.deviation + temperature * np.log(self.deviation / self.laplace),
            )
        return found

    def distance(self, found: Moments) -> float:
        """Root mean square over the coordinates, of means in standard deviations and of logarithms of the latter."""
        means = (found.mean - self.mean) / self.deviation
        return float(np.sqrt(np.mean(means**2) + np.mean((found.deviation - np.log(self.deviation)) ** 2)))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=40_000)
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = logistic.data(ROWS)
    posterior, expected = Posterior(rows), {}
    results, slow, off = {}, [], []
    print(f"{'':<26}{'ours':>10}{'blackjax':>10}  steps a second; ratio and its bound; off its law, from the posterior")
    for name in STEP_SIZE:
        for kind, bound in BOUNDS.items():
            likelihood = logistic.two_products if kind == "two products" else logistic.one_product
            if kind != "two products":  # which has the same law as one
                expected = posterior.expected(name, kind, options.steps)
            row = compare(name, rows, likelihood, kind == "fed our windows", posterior.start, options)
            moments = row.pop("moments")
            law = {side: made.off(expected[side]) for side, made in moments.items()}
            far = {side: posterior.distance(made) for side, made in moments.items()}
            results[f"{name}, {kind}"] = row | {"bound": bound, "off_law": law, "from_posterior": far}
            slow += [f"{name}, {kind}"] if row["ratio"] < bound else []
            off += [f"{name}, {kind}: {side}" for side, errors in law.items() if errors > LAW_BOUND]
            print(
                f"{name + ', ' + kind:<26}{row['ours']:>10,.0f}{row['theirs']:>10,.0f}  {row['ratio']:.2f} of {bound}; "
                f"{law['ours']:.1f} and {law['theirs']:.1f} standard errors, {far['ours']:.3f} and {far['theirs']:.3f}",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    print(f"speed: MISSED by {'; '.join(slow)}" if slow else "speed: all bounds met")
    print(f"law: OFF by more than {LAW_BOUND:g}: {'; '.join(off)}" if off else f"law: all within {LAW_BOUND:g}")
    sys.exit(bool(slow or off))


if __name__ == "__main__":
    main()
