"""Time until a posterior is known well enough, against blackjax's samplers and NumPyro's NUTS.

    python benchmarks/time_to_accuracy.py [--rows 100000 1000000] [--designs ...] [--seeds 10] [--json FILE]

Bayesian logistic regression with 54 features, standard normal ones and ill-conditioned ones (eigenvalues of their
covariance over 1e4). The time is the first one after which all 54 means are within 0.1 posterior standard deviations
and all standard deviations within 10 % of a long run on all data, and stay so up to four times that time; the median
over seeds. Everybody starts at the mode; its search and compilation are reported apart. blackjax has its own control
variates and the same number of step sizes, and is stopped at 10 times our time; NUTS, whose time includes warm-up and
compilation, at --limit seconds: both are then reported as "more than".
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.sgmcmc.gradients import control_variates, grad_estimator

import ergodica as eg
from benchmarks import logistic

BATCH = 500
DESIGNS = {"standard normal": 1.0, "ill-conditioned": 1e4}
MEANS, DEVIATIONS, STAYS = 0.1, 0.1, 4.0
OF_STABLE = (0.1, 0.25, 0.5)  # step sizes, as shares of what is stable along the steepest direction
OURS_PER_UNIT = (0.4, 0.7, 1.0)  # of a second-order sampler whose covariance is the identity
NUTS_WARMUP, NUTS_PIECE = 300, 100  # draws
PATIENCE = 10.0  # times ours, after which blackjax's samplers are stopped
PIECES = 400  # of a run, at whose ends the estimates are looked at
BOUNDS = {
    (100_000, "standard normal"): 5.0, (100_000, "ill-conditioned"): 5.0,
    (1_000_000, "standard normal"): 50.0, (1_000_000, "ill-conditioned"): 20.0,
}  # fmt: skip


class Problem(NamedTuple):
    """A regression, its mode and Laplace approximation, and what a long run on all data says."""

    rows: logistic.Data
    target: eg.Posterior
    mode: np.ndarray
    covariance: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    mode_seconds: float
    laplace_seconds: float


class Timing(NamedTuple):
    """Seconds of sampling until accurate, or the limit with is_reached False; and of the first call, which compiles."""

    seconds: float
    is_reached: bool
    compilation: float


Sampler = Callable[[int], Callable[[int], tuple[np.ndarray, float | None]]]
"""steps -> a compiled function seed -> draws, and the seconds spent in the steps; None: all of them."""


def problem(rows: int, spread: float) -> Problem:
    data = logistic.data(rows, spread)
    target = logistic.target(data)
    start = time.perf_counter()
    mode = eg.find_mode(target, target.init)
    mode_seconds = time.perf_counter() - start
    covariance = np.asarray(mode.covariance(target), np.float64)
    laplace_seconds = time.perf_counter() - start
    place = np.asarray(mode.position, np.float64)
    mean, deviation = logistic.reference(data, place, covariance)
    return Problem(data, target, place.astype(np.float32), covariance, mean, deviation, mode_seconds, laplace_seconds)


def accurate_from(draws: np.ndarray, case: Problem) -> float | None:
    """The share of the run from which on the estimates are accurate, up to STAYS times that; None: never."""
    n = len(draws)
    scaled = (np.asarray(draws, np.float64) - case.mean) / case.deviation
    ends = np.unique(np.linspace(1, n, PIECES).astype(int)[1:])
    first, second = np.cumsum(scaled, 0)[ends - 1] / ends[:, None], np.cumsum(scaled**2, 0)[ends - 1] / ends[:, None]
    deviations = np.sqrt(np.maximum(second - first**2, 0))
    fine = (np.abs(first) < MEANS).all(1) & (np.abs(deviations - 1) < DEVIATIONS).all(1)
    for k in np.flatnonzero(fine):
        stays = ends <= STAYS * ends[k]
        if ends[k] * STAYS <= n and fine[k:][stays[k:]].all():
            return float(ends[k] / n)
    return None


def until_accurate(sampler: Sampler, case: Problem, seed: int, limit: float) -> Timing:
    """Runs of doubling length, until one is long enough to tell; what a run spends before its steps counts in full."""
    steps, compilation = 4_000, 0.0
    while True:
        start = time.perf_counter()
        run = sampler(steps)
        compilation = max(compilation, time.perf_counter() - start)
        start = time.perf_counter()
        draws, in_steps = run(seed)
        seconds = time.perf_counter() - start
        share = accurate_from(draws, case)
        if share is not None:
            in_steps = seconds if in_steps is None else in_steps
            return Timing(seconds - (1 - share) * in_steps, True, compilation)
        if seconds > STAYS * limit:
            return Timing(limit, False, compilation)
        # the last run is just long enough to tell whether it is accurate from the limit on
        steps = int(steps * min(4 if seconds < 0.5 else 2, 1.05 * STAYS * limit / seconds))


def ours(case: Problem, step_size: float) -> Sampler:
    """SGHMC with the inverse of Laplace's covariance as mass, control variates around the mode, split."""
    mass = np.linalg.inv(case.covariance).astype(np.float32)
    friction = (1.5 * mass).astype(np.float32)
    estimator = eg.ControlVariates(case.mode)

    def run(steps: int, seed: int) -> tuple[np.ndarray, float]:
        made = eg.sample(
            case.target, eg.sghmc(friction=friction, mass=mass), case.mode, steps=steps, step_size=step_size,
            batch_size=BATCH, chains=1, seed=seed, estimator=estimator, progress=False,
        )  # fmt: skip
        return np.asarray(made.posterior[0]), made.settings["seconds"]

    def compiled(steps: int) -> Any:
        run(100, 0)  # one compilation serves runs of any length
        return partial(run, steps)

    return compiled


def theirs(case: Problem, name: str, step_size: float) -> Sampler:
    """blackjax's sampler of that name with its control variates, in a compiled loop with random indices."""
    rows = jax.tree.map(jnp.asarray, case.rows)
    size, place = len(case.rows.y), jnp.asarray(case.mode)

    def of_row(weights, row):
        return logistic.one_product(weights, jax.tree.map(lambda leaf: leaf[None], row))[0]

    gradient = control_variates(grad_estimator(logistic.log_prior, of_row, size), place, rows)
    kernel = {"sgld": blackjax.sgld, "sghmc": blackjax.sghmc, "sgnht": blackjax.sgnht}[name](gradient)

    def loop(key, rows, steps):
        start = kernel.init(place, key) if name == "sgnht" else place

        def body(state, key):
            batch_key, step_key = jax.random.split(key)
            index = jax.random.randint(batch_key, (BATCH,), 0, size)
            state = kernel.step(step_key, state, jax.tree.map(lambda leaf: leaf[index], rows), step_size)
            return state, state.position if name == "sgnht" else state

        return jax.lax.scan(body, start, jax.random.split(key, steps))[1]

    def compiled(steps: int) -> Any:
        run = jax.jit(loop, static_argnums=2).lower(jax.random.key(0), rows, steps).compile()
        return lambda seed: (np.asarray(run(jax.random.key(seed), rows)), None)

    return compiled


def nuts(case: Problem, spread: float, limit: float) -> Timing:
    """NumPyro's NUTS in a process of its own, which can be stopped in the middle of its warm-up.

    Where it is stopped, all that is known is that it was not accurate from any time on of which it saw STAYS times.
    """
    with tempfile.TemporaryDirectory() as folder:
        known = Path(folder) / "known.npz"
        np.savez(known, mode=case.mode, mean=case.mean, deviation=case.deviation)
        command = [sys.executable, __file__, "--nuts", str(known), str(len(case.rows.y)), str(spread)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        child.stdout.readline()  # its data are there
        try:
            told, _ = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            child.kill()
            told, _ = child.communicate()
            warm = float(told.split()[0]) if told else limit
            return Timing(warm + (limit - warm) / STAYS, False, 0.0)
        if child.returncode:
            raise SystemExit("the process that runs NUTS failed")
        return Timing(float(told.split()[1]), True, 0.0)


def run_nuts(known: Path, rows: int, spread: float) -> None:
    """On all data from the mode, one chain, a dense mass, in pieces until accurate.

    Prints a line when its data are there, the seconds of its warm-up, and those until it was accurate.
    """
    from numpyro.infer import MCMC, NUTS

    found = np.load(known)
    data = logistic.data(rows, spread)
    target = logistic.target(data)
    nothing = np.empty(0)
    case = Problem(data, target, found["mode"], nothing, found["mean"], found["deviation"], 0.0, 0.0)
    sampler = MCMC(
        NUTS(potential_fn=target.potential, dense_mass=True), num_warmup=NUTS_WARMUP, num_samples=NUTS_PIECE,
        progress_bar=False,
    )  # fmt: skip
    print("ready", flush=True)
    begin = time.perf_counter()
    sampler.warmup(jax.random.key(0), init_params=jnp.asarray(case.mode))
    warm = time.perf_counter()
    print(warm - begin, flush=True)
    draws: list[np.ndarray] = []
    share = None
    while share is None:
        sampler.run(sampler.post_warmup_state.rng_key)
        draws.append(np.asarray(sampler.get_samples()))
        sampler.post_warmup_state = sampler.last_state
        share = accurate_from(np.concatenate(draws), case)
    print(warm - begin + share * (time.perf_counter() - warm), flush=True)


def median(run: Callable[[int], Timing], seeds: Sequence[int]) -> Timing:
    """The upper one of two; once so many did not come to their end that it is one of them, no more are tried."""
    made: list[Timing] = []
    for seed in seeds:
        made.append(run(seed))
        lost = [timing for timing in made if not timing.is_reached]
        if len(lost) >= len(seeds) - len(seeds) // 2:
            return max(lost, key=lambda timing: timing.seconds)
    return sorted(made, key=lambda timing: (not timing.is_reached, timing.seconds))[len(made) // 2]


def best(candidates: dict[str, Sampler], case: Problem, seeds: int, limit: float) -> tuple[str, Timing]:
    """The best of the candidates by two seeds, and its median over all."""

    def timed(name: str, tried: Sequence[int]) -> Timing:
        return median(lambda seed: until_accurate(candidates[name], case, seed, limit), tried)

    pilots = {}
    for name in candidates:
        pilots[name] = timed(name, (100, 101))
        print(f"    {name:<24}{words(pilots[name])}", flush=True)
    winner = min(pilots, key=lambda name: (not pilots[name].is_reached, pilots[name].seconds))
    return winner, timed(winner, range(seeds))


def words(timing: Timing) -> str:
    return f"{'' if timing.is_reached else 'more than '}{timing.seconds:.3g} s"


def compare(rows: int, design: str, options: Any) -> dict[str, Any]:
    case = problem(rows, DESIGNS[design])
    errors = [np.abs(case.mode - case.mean) / case.deviation,
              np.abs(np.sqrt(np.diag(case.covariance)) / case.deviation - 1)]  # fmt: skip
    print(
        f"{rows:,} rows, {design}: mode in {case.mode_seconds:.2g} s; Laplace in {case.laplace_seconds:.2g} s, its "
        f"means within {errors[0].max():.2g} standard deviations, those within {100 * errors[1].max():.2g} %",
        flush=True,
    )
    name, ours_time = best(
        {f"ours, step {h}": ours(case, h) for h in OURS_PER_UNIT}, case, options.seeds, options.patience
    )
    print(f"  {name}: {words(ours_time)} (compilation {ours_time.compilation:.2g} s)", flush=True)
    is_small = rows <= 100_000
    if is_small:
        stiff = float(1 / np.linalg.eigvalsh(case.covariance)[0])
        candidates = {}
        for share in OF_STABLE:
            candidates[f"blackjax sgld {share}"] = theirs(case, "sgld", share / stiff)
            candidates[f"blackjax sghmc {share}"] = theirs(case, "sghmc", share**2 / stiff)
            candidates[f"blackjax sgnht {share}"] = theirs(case, "sgnht", share / stiff**0.5)
        peer, theirs_time = best(candidates, case, options.seeds, PATIENCE * ours_time.seconds)
        ours_total, theirs_total = ours_time.seconds, theirs_time.seconds
    else:
        peer, theirs_time = "NUTS", nuts(case, DESIGNS[design], options.limit)
        ours_total, theirs_total = ours_time.seconds + case.mode_seconds, theirs_time.seconds
    ratio, bound = theirs_total / ours_total, BOUNDS.get((rows, design), 1.0)
    more = "" if theirs_time.is_reached else "more than "
    print(f"  {peer}: {words(theirs_time)}; ratio {more}{ratio:.1f}, bound {bound}", flush=True)
    return {
        "rows": rows, "design": design, "mode": case.mode_seconds, "laplace": case.laplace_seconds,
        "laplace_errors": [float(e.max()) for e in errors], "ours": ours_time._asdict(), "our_setting": name,
        "peer": peer, "theirs": theirs_time._asdict(), "ratio": ratio, "bound": bound,
        "passed": ours_time.is_reached and ratio >= bound,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--limit", type=float, default=900.0, help="seconds after which NUTS is stopped")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to accuracy after which ours is")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--nuts", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.nuts:
        run_nuts(Path(options.nuts[0]), int(options.nuts[1]), float(options.nuts[2]))
        return
    results = [compare(rows, design, options) for rows in options.rows for design in options.designs]
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))
    failures = [f"{r['rows']:,} {r['design']}" for r in results if not r["passed"]]
    print(f"FAILED: {'; '.join(failures)}" if failures else "all bounds met")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
