"""Bayesian networks on UCI regression: are the predictions good, and is the law the one that was asked for?

    python benchmarks/networks_uci.py [--sets yacht,energy,concrete] [--splits 20] [--validate]

Data and published figures: ../shared/data/uci (or ERGODICA_DATA). One hidden layer of 50 tanh units; weights and the sd
of the noise are sampled with `eg.sghmc` from all data: no batches, no gradient noise, temperature 1. Inputs and target
are standardised by the training rows. For each set, over its splits:

    log likelihood  of test rows, by the averaged predictive density, per row, in the target's own units
    RMSE            of the posterior mean of the prediction
    temperature     the mean of `kinetic_temperature`, of the split that is furthest from 1
    R-hat           of the prediction of a test row, over 4 chains with starts of their own: the worst row of any split
                    (a split whose chains do not agree is run once more, four times as long)
    half the step   what a second run with half the step size changes in the log likelihood, on average

Test rows were not used for any choice. Activation, prior, step, friction and lengths were chosen by `--validate`: on
splits 0 to 4 a tenth of the training rows is held out and takes the part of the test rows, which are not read. The
search and its figures are in docs/explanation/networks.md. A bar that is missed is printed as such, and the exit code
is 1.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import math
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

import ergodica as eg

DATA = Path(os.environ.get("ERGODICA_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")) / "uci"
UNITS = 50
CHAINS = 4
FOUND = 2_000  # steps of Adam
WIDEST_NOISE = 2.0  # sds of the target
VALIDATED = 5  # splits
HELD_OUT = 0.1  # of the training rows
R_HAT, HEAT = 1.05, 0.02
LONGER = 4  # times, where chains do not agree


class Setting(NamedTuple):
    """What was chosen for a set, and the published figures to beat.

    Attributes:
        log_likelihood: the better of MC dropout's and scale-adapted SGHMC's.
        rmse: of probabilistic backpropagation.
        output: prior sd of an output weight; of an input weight it is 0.5, of a bias 1.
        noise: (least, at the start), sds of the target: the prior of the noise begins at the first.
        width: of log noise, in units of the step: how fast it moves beside an input weight.
    """

    log_likelihood: float
    rmse: float
    output: float
    noise: tuple[float, float]
    width: float
    step_size: float
    friction: float
    settle: int
    steps: int


SETS = {
    "yacht": Setting(-1.11, 1.02, 0.35, (0.04, 0.045), 5.0, 0.0017, 1.5, 5_000, 50_000),
    "energy": Setting(-1.99, 1.80, 0.35, (0.1, 0.11), 5.0, 0.002, 1.5, 6_000, 20_000),
    "concrete": Setting(-3.04, 5.67, 0.2, (0.04, 0.25), 1.0, 0.0055, 1.0, 8_000, 70_000),
}
THIN = 20


class Rows(NamedTuple):
    """Standardised, float32."""

    x: np.ndarray
    y: np.ndarray


class Split(NamedTuple):
    """Of a set."""

    train: Rows
    test: Rows
    unit: float
    """What 1 is in the target's own units."""


class Figures(NamedTuple):
    """Of one split."""

    log_likelihood: float
    rmse: float
    temperature: float
    r_hat: float
    halved: float
    length: int
    """1, or `LONGER`."""


# -- data -----------------------------------------------------------------------------------------------


def split_of(name: str, number: int, is_validated: bool) -> Split:
    """A published split; to validate, a part of its training rows instead of the test rows."""
    train, test = (_indices(name, f"index_{part}_{number}") for part in ("train", "test"))
    if is_validated:
        order = np.random.default_rng(number).permutation(train)
        test, train = np.split(order, [round(HELD_OUT * len(train))])
    table = np.loadtxt(DATA / name / "data.txt")
    x, y = table[:, _indices(name, "index_features")], table[:, _indices(name, "index_target")[0]]
    shift, scale = x[train].mean(0), x[train].std(0)
    scale[scale == 0] = 1.0
    middle, unit = y[train].mean(), y[train].std()

    def standardised(rows: np.ndarray) -> Rows:
        return Rows(((x[rows] - shift) / scale).astype(np.float32), ((y[rows] - middle) / unit).astype(np.float32))

    return Split(standardised(train), standardised(test), float(unit))


def _indices(name: str, file: str) -> np.ndarray:
    return np.atleast_1d(np.loadtxt(DATA / name / f"{file}.txt")).astype(int)


# -- model ----------------------------------------------------------------------------------------------


def predicted(network: dict[str, Any], x: Any) -> Any:
    hidden = jnp.tanh(x @ network["input"] + network["bias"])
    return hidden @ network["output"] + network["shift"]


def log_likelihood(network: dict[str, Any], rows: Rows) -> Any:
    off = (rows.y - predicted(network, rows.x)) / network["noise"]
    return -0.5 * off**2 - jnp.log(network["noise"]) - 0.5 * math.log(2 * math.pi)


class Model(NamedTuple):
    """The functions of a set: made once, so that its splits share their programs."""

    log_prior: Callable[[Any], Any]
    start: Callable[[Any], Any]
    transform: dict[str, Any]
    recipe: Callable[[float], eg.Recipe]


@cache
def model(name: str) -> Model:
    setting, features = SETS[name], len(_indices(name, "index_features"))
    sds = {"input": 0.5, "bias": 1.0, "output": setting.output, "shift": 1.0}
    least, begun = setting.noise

    def log_prior(network: dict[str, Any]) -> Any:
        weights = sum(-0.5 * jnp.sum((network[leaf] / sd) ** 2) for leaf, sd in sds.items())
        log_noise = jnp.log(network["noise"])
        return weights - 0.5 * (log_noise - math.log(0.2)) ** 2 - log_noise  # log-normal, cut at its least

    def start(key: Any) -> dict[str, Any]:
        """A draw of the prior, but for the noise."""
        shapes = {"input": (features, UNITS), "bias": (UNITS,), "output": (UNITS,), "shift": ()}
        keys = jax.random.split(key, len(shapes))
        drawn = {leaf: sds[leaf] * jax.random.normal(k, shapes[leaf]) for k, leaf in zip(keys, shapes, strict=True)}
        return drawn | {"noise": jnp.full((), begun)}

    def recipe(friction: float) -> eg.Recipe:
        # units can be swapped, so all of a layer have the same law: one scale a layer, 1 / sqrt(mean squared gradient)
        # of a pilot, in units of that of an input weight
        widths = {"input": 1.0, "bias": 1.0, "output": 0.25, "shift": 0.2, "noise": setting.width}
        like = start(jax.random.key(0))
        return eg.sghmc(friction, scale={leaf: jnp.full_like(like[leaf], width) for leaf, width in widths.items()})

    return Model(log_prior, start, {"noise": eg.transforms.interval(least, WIDEST_NOISE)}, recipe)


def optimised(settle: int) -> eg.Optimise:
    """Adam, for the weights: at the best fit the noise would be the least that is allowed."""
    parts: dict[Any, Any] = {
        "weights": optax.adam(optax.cosine_decay_schedule(0.01, FOUND)),
        "noise": optax.set_to_zero(),
    }
    labels = dict.fromkeys(("input", "bias", "output", "shift"), "weights") | {"noise": "noise"}
    return eg.Optimise(optax.multi_transform(parts, labels), steps=FOUND, settle=settle)


# -- runs -----------------------------------------------------------------------------------------------


def sampled(name: str, split: Split, seed: int, halvings: int = 0, length: int = 1) -> eg.Run:
    """With the step size halved so many times: it settles for as long, and draws half as many."""
    setting, its = SETS[name], model(name)
    target = eg.Posterior(
        its.log_prior, log_likelihood, split.train, its.start(jax.random.key(0)), transform=its.transform
    )
    keep = {"test": eg.mean(predicted, split.test.x), "held out": eg.score(log_likelihood, split.test)}
    times = 2**halvings
    return eg.sample(
        target, its.recipe(setting.friction), its.start, steps=length * setting.steps // times,
        step_size=setting.step_size / times, warmup=optimised(settle=times * setting.settle), thin=THIN, chains=CHAINS,
        seed=2 * seed + halvings, keep=keep, progress=False,
    )  # fmt: skip


def measured(name: str, number: int, is_validated: bool) -> Figures:
    split = split_of(name, number, is_validated)
    run, halved = (sampled(name, split, number, halvings) for halvings in (0, 1))
    length = 1
    if np.max(run.kept["test"].r_hat) >= R_HAT:
        length = LONGER
        run = sampled(name, split, number, length=length)
    test, log_unit = run.kept["test"], math.log(split.unit)
    rmse = split.unit * float(np.sqrt(np.mean((test.mean - split.test.y) ** 2)))
    temperature = float(np.mean(run.stats["kinetic_temperature"]))
    scores = [one.kept["held out"].score - log_unit for one in (run, halved)]
    return Figures(scores[0], rmse, temperature, float(np.max(test.r_hat)), scores[1], length)


def judged(name: str, met: list[Figures]) -> bool:
    """Prints one line: each figure, its bound, and MISSED where it is."""
    setting, columns = SETS[name], dict(zip(Figures._fields, np.array(met).T, strict=True))

    def error(values: Any) -> float:
        return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.inf

    likelihood, rmse = float(np.mean(columns["log_likelihood"])), float(np.mean(columns["rmse"]))
    heat = columns["temperature"][np.argmax(np.abs(columns["temperature"] - 1))]
    r_hat, move = float(np.max(columns["r_hat"])), float(np.mean(columns["halved"] - columns["log_likelihood"]))
    spread = error(columns["log_likelihood"])
    over, again = int(np.sum(columns["r_hat"] >= R_HAT)), int(np.sum(columns["length"] > 1))
    bars = [
        (f"log likelihood {likelihood:.3f} ± {spread:.3f} (above {setting.log_likelihood})",
         likelihood > setting.log_likelihood),
        (f"RMSE {rmse:.3f} ± {error(columns['rmse']):.3f} (below {setting.rmse})", rmse < setting.rmse),
        (f"temperature {heat:.4f} (1 ± {HEAT})", abs(heat - 1) < HEAT),
        (f"worst R-hat {r_hat:.3f}, {over} splits over, {again} run longer (below {R_HAT})", r_hat < R_HAT),
        (f"half the step {move:+.3f} (within ± {spread:.3f})", abs(move) < spread),
    ]  # fmt: skip
    print(f"{name}, {len(met)} splits: " + "; ".join(text + ("" if ok else " MISSED") for text, ok in bars), flush=True)
    return all(ok for _, ok in bars)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", default=",".join(SETS), help="names with commas between")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--validate", action="store_true", help="on training rows of splits 0 to 4")
    options = parser.parse_args()
    names = options.sets.split(",")
    unknown = [name for name in names if name not in SETS]
    if unknown or not 1 <= options.splits <= 20:
        print(f"networks_uci: expected sets of {', '.join(SETS)} and 1 to 20 splits", file=sys.stderr)
        return 2
    if not DATA.is_dir():
        print(f"networks_uci: there is no {DATA}: set ERGODICA_DATA to the folder that holds uci/", file=sys.stderr)
        return 2
    count, passed = min(options.splits, VALIDATED) if options.validate else options.splits, []
    for name in names:
        met, before = [], time.process_time()
        for number in range(count):
            met.append(measured(name, number, options.validate))
            figures = ", ".join(f"{field} {value:.4g}" for field, value in met[-1]._asdict().items())
            print(f"  {name} {number}: {figures}; {time.process_time() - before:.0f} CPU s", flush=True)
        passed.append(judged(name, met))
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
