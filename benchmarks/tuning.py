"""`eg.sample(target)` without settings: is the accuracy reached and true, and what does it cost?

    python benchmarks/tuning.py [ITEM ...] [--seeds N] [--json FILE]

    forms        the closed forms of tuning/law.py against eg.exact_law
    predicted    sds at twice the step, predicted and measured
    logistic     100,000 x 54, well and ill conditioned: passes over the data, CPU seconds
    million      the same with 1,000,000 rows, beside NumPyro's NUTS
    posteriordb  the six shared posteriors
    gradients    the same, beside NUTS with a dense mass and the settings of benchmarks/posteriordb.py, at equal error
    a9a          features in few rows: the sds of their weights
    coverage     how often "reached" is said, and how often it is true, where the posterior is known
    never        several modes, a funnel, no width: "reached" must not be said
    first        CPU seconds of a fresh process until eight schools is answered

Accuracy: means 0.1 sd, sds 5 %, all numbers together with 95 %. Passes over the data count everything: searches for
modes, second derivatives, gradient noise, pilots, witness, warm-up. Costs are counted, or CPU time: wall clocks of busy
machines say nothing. A bar that is missed is printed as such, and the exit code is 1. `gradients` and `million` need
NumPyro (make bench installs it).
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from benchmarks import posteriordb
from benchmarks import tuning_cases as cases
from ergodica.diagnostics.accuracy import measured
from ergodica.tuning import law

ACCURACY = eg.Accuracy()
RATIO_RARE = (0.98, 1.03)
NUTS_DRAWS = 1_000  # of each chain, and as many of warm-up
NUTS_TIMES = 50.0  # our CPU time, after which it is stopped at a million rows


class Bar(NamedTuple):
    """A figure and what it should be."""

    name: str
    figure: str
    bound: str
    passed: bool

    def __str__(self) -> str:
        return f"| {self.name} | {self.figure} | {self.bound} | {'yes' if self.passed else 'NO'} |"


class Answer(NamedTuple):
    """A tuned run: what it says, what is true, what it took."""

    run: eg.Run
    mean_off: float
    sd_off: float
    cpu: float

    @property
    def is_reached(self) -> bool:
        assert self.run.tuning is not None
        return self.run.tuning.reached

    @property
    def is_true(self) -> bool:
        return self.mean_off <= ACCURACY.mean and self.sd_off <= ACCURACY.sd

    @property
    def passes(self) -> float:
        assert self.run.tuning is not None
        return sum(self.run.tuning.spent.values())

    @property
    def error(self) -> float:
        """The worst Monte Carlo error of an sd, relatively."""
        return float(np.max(measured(self.run.posterior).sd_error))

    def words(self) -> str:
        verdict = "reached" if self.is_reached else "NOT reached"
        off = f"mean off {self.mean_off:.3f} sd, sd {self.sd_off:.1%}"
        return f"{verdict}, {off}, {self.passes:,.0f} passes, {self.cpu:.1f} CPU s"


def answers(known: cases.Known, seeds: int, first: int = 0) -> Iterator[Answer]:
    """The same target with other seeds: all but the first find their programs compiled."""
    for seed in range(first, first + seeds):
        before = time.process_time()
        run = eg.sample(known.target, keep=known.keep, seed=seed, progress=False)
        answer = Answer(run, *known.off(run), time.process_time() - before)
        print(f"  {known.name}, seed {seed}: {answer.words()}", flush=True)
        yield answer


def forms(_: int) -> Iterator[Bar]:
    """As tests/laws/test_tuning_law.py asks."""
    from tests.laws import test_tuning_law as laws

    worst = 0.0
    for (step, friction), whole in laws.NOISY.items():
        stated = law.variance_bias(laws.NOISE, step, law.coth_of_friction(friction, step))
        worst = max(worst, float(np.max(np.abs(stated / whole.bias - 1) * np.minimum(1, whole.bias / 1e-3))))
    yield Bar("bias by constant noise against eg.exact_law", f"{worst:.0e}", "1e-10", worst < 1e-10)
    worst, largest = 0.0, 0.0
    for step, friction in ((0.2, 1.0), (0.7, 3.0), (0.7, 1.0), (1.0, 2.0), (1.4, 2.0)):
        noise, true = laws.noise_and_bias(laws.drawn_features(is_rare=False), 20, step, friction)
        stated = law.variance_bias_with_control(noise, step, law.coth_of_friction(friction, step))
        worst, largest = max(worst, float(np.max(np.abs(stated / true - 1)))), max(largest, float(true.max()))
    figure = f"{worst:.2%} of biases up to {largest:.0%}"
    yield Bar("bias by control variates against eg.exact_law", figure, "1 %", worst <= 0.01)


def predicted(_: int) -> Iterator[Bar]:
    for known in (cases.regression(100_000, 1.0), cases.student_regression()):
        (answer,) = answers(known, 1)
        assert answer.run.tuning is not None
        settings, witness = answer.run.tuning.settings, answer.run.witness
        if witness is None:
            yield Bar(f"{known.name}: sds at twice the step", "no witness", "1.5 points", False)
            continue
        there = cases.flat(witness.posterior).std(axis=0) / known.sd - 1
        expected = np.broadcast_to(settings.bias(settings.way.doubled()), there.shape)
        off = abs(float(there.mean() - expected.mean()))
        figure = f"{there.mean():+.1%} measured, {expected.mean():+.1%} predicted"
        yield Bar(f"{known.name}: sds at twice the step", figure, "1.5 points", off <= 0.015)


def logistic_runs(seeds: int) -> Iterator[Bar]:
    for spread, name in ((1.0, "well conditioned"), (1e4, "ill conditioned")):
        met = list(answers(cases.regression(100_000, spread), seeds))
        good = sum(answer.is_reached and answer.is_true for answer in met)
        third = sum(len(answer.run.tuning.rungs) > 2 for answer in met if answer.run.tuning is not None)
        passes, cpu = max(answer.passes for answer in met), max(answer.cpu for answer in met[1:] or met)
        label = f"logistic 100,000 x 54, {name}"
        yield Bar(f"{label}: reached and true", f"{good} of {seeds}", "19 of 20", good >= 0.95 * seeds)
        yield Bar(f"{label}: passes, most", f"{passes:,.0f}", "700", passes <= 700)
        yield Bar(f"{label}: CPU s warm, most", f"{cpu:.1f}", "7", cpu <= 7)
        yield Bar(f"{label}: runs with a third rung", f"{third}", "1", third <= 1)


def million(_: int) -> Iterator[Bar]:
    known = cases.regression(1_000_000, 1.0)
    (answer,) = answers(known, 1)
    yield Bar("logistic 1,000,000 x 54", answer.words(), "reached", answer.is_reached and answer.is_true)
    from benchmarks.tuning_nuts import cpu_to_error

    words, ratio = cpu_to_error(known, answer.error, NUTS_TIMES * answer.cpu)
    yield Bar("the same: CPU time of NUTS over ours", words, f"{NUTS_TIMES:.0f}", ratio / answer.cpu >= NUTS_TIMES)


def shared(seeds: int) -> Iterator[Bar]:
    total = 0
    for name in posteriordb.POSTERIORS:
        met = list(answers(cases.shared_posterior(name), seeds))
        good = sum(answer.is_reached and answer.is_true for answer in met)
        total += good
        passes = [answer.passes for answer in met]
        words = f"{good} of {seeds}; gradients {min(passes):,.0f} to {max(passes):,.0f}"
        yield Bar(f"{name}: reached and true", words, "", True)
    whole = seeds * len(posteriordb.POSTERIORS)
    yield Bar("the six: reached and true", f"{total} of {whole}", "57 of 60", total >= 0.95 * whole)


def gradients(seeds: int) -> Iterator[Bar]:
    """Each side's sampling scaled to the error of ours; what comes before it counts as it is."""
    from benchmarks.tuning_nuts import counted

    seeds, ratios, by_hand = min(seeds, 3), {}, {}
    for name in posteriordb.POSTERIORS:
        jax.clear_caches()  # NUTS compiles for each chain, and the maps of memory run out
        known = cases.shared_posterior(name)
        met = list(answers(known, seeds))
        nuts = [counted(known, seed, NUTS_DRAWS) for seed in range(seeds)]
        hand = [_by_hand(name, known, seed) for seed in range(seeds)]
        ours, error = float(np.mean([a.passes for a in met])), float(np.mean([a.error for a in met]))
        for found, others in ((ratios, nuts), (by_hand, hand)):
            price = np.mean([before + steps * (their / error) ** 2 for before, steps, their in others])
            found[name] = ours / float(price)
        print(f"  {name}: ours / NUTS {ratios[name]:.2f}, ours / by hand {by_hand[name]:.2f}", flush=True)
    mean, worst = float(np.exp(np.mean(np.log(list(ratios.values()))))), max(ratios.values())
    each = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
    yield Bar("gradients over those of NUTS, dense mass", f"{mean:.2f} ({each})", "0.7", mean <= 0.7)
    yield Bar("the same, the worst", f"{worst:.2f}", "1.2", worst <= 1.2)
    worst, each = max(by_hand.values()), ", ".join(f"{name} {ratio:.2f}" for name, ratio in by_hand.items())
    yield Bar("gradients over those of settings by hand, the worst", f"{worst:.2f} ({each})", "2.5", worst <= 2.5)


def _by_hand(name: str, known: cases.Known, seed: int) -> tuple[float, float, float]:
    """Gradients before the sampling, of the sampling, and the worst error of an sd."""
    settings = posteriordb.POSTERIORS[name].settings
    model = posteriordb.Model(known.target, known.keep)
    draws = posteriordb.sampled(model, settings, seed)
    found = eg.find_mode(known.target)
    a_step = settings.chains * (1.0 if settings.batch_size is None else 2 * settings.batch_size / known.target.size)
    before = found.evaluations + len(np.ravel(known.target.init)) + a_step * settings.warmup
    return before, a_step * settings.steps, float(np.max(measured(draws).sd_error))


def rare(seeds: int) -> Iterator[Bar]:
    known, is_rare = cases.a9a()
    mean, sd = cases.long_run(known.target, 4_000)
    for answer in answers(known, min(seeds, 3)):
        draws = cases.flat(answer.run.posterior)
        ratio = draws.std(axis=0)[is_rare] / sd[is_rare]
        off = float(np.max(np.abs(draws.mean(axis=0) - mean) / sd)), float(np.max(np.abs(draws.std(axis=0) / sd - 1)))
        is_true = answer.is_true and off[0] <= ACCURACY.mean and off[1] <= ACCURACY.sd
        words = f"{answer.words()}; against a long run of eg.hmc mean off {off[0]:.3f} sd, sd {off[1]:.1%}"
        yield Bar("a9a", words, "reached and true", answer.is_reached and is_true)
        words = f"{ratio.mean():.3f}, each {ratio.min():.3f} to {ratio.max():.3f}"
        is_right = RATIO_RARE[0] <= ratio.mean() <= RATIO_RARE[1] and ratio.min() >= 0.9 and ratio.max() <= 1.1
        yield Bar("a9a: sds of the 37 rare features over a long run's", words, "0.98 to 1.03, 0.9 to 1.1", is_right)
        yield Bar("a9a: CPU s", f"{answer.cpu:.1f}", "60", answer.cpu <= 60)


def coverage(seeds: int) -> Iterator[Bar]:
    seeds *= 5
    for known in (cases.rare_regression(200_000), cases.gaussian(), cases.earnings()):
        met = list(answers(known, seeds, first=100))
        reached = [answer for answer in met if answer.is_reached]
        good = sum(answer.is_true for answer in reached)
        method = met[0].run.tuning.settings.method if met[0].run.tuning is not None else ""
        words = f"{good} of {seeds}; true given reached {good / max(1, len(reached)):.3f}"
        yield Bar(f"{known.name} by {method}: reached and true", words, "93 %", good >= 0.93 * seeds)


def never(seeds: int) -> Iterator[Bar]:
    seeds = min(seeds, 10)
    for name, build in cases.HARD.items():
        met = [_verdict(build(), seed) for seed in range(seeds)]
        counts = ", ".join(f"{met.count(word)} {word}" for word in sorted(set(met)))
        yield Bar(name, counts, "never reached", "reached" not in met)
    run = eg.sample(cases.unseen_mode(), progress=False)
    words = str(run.tuning)
    yield Bar("a pair 50 sds apart", "named" if "no search found" in words else "silent", "named", "no search" in words)


def _verdict(target: eg.Density, seed: int) -> str:
    try:
        run = eg.sample(target, seed=seed, progress=False)
    except eg.InputError:
        return "refused"
    assert run.tuning is not None
    return "reached" if run.tuning.reached else "not reached"


FIRST = """
import json, sys, time
sys.path.insert(0, {root!r})
import jax
jax.config.update("jax_enable_x64", True)
from benchmarks import tuning_cases
import ergodica as eg
known = tuning_cases.shared_posterior("eight_schools")
run = eg.sample(known.target, keep=known.keep, progress=False)
assert run.tuning.reached
print(time.process_time())
"""


def first(_: int) -> Iterator[Bar]:
    """Imports included."""
    root = str(Path(__file__).resolve().parents[1])
    with tempfile.TemporaryDirectory() as cache:
        for name, bound in (("an empty cache of programs", 12.0), ("a cache", 5.0)):
            command = [sys.executable, "-c", FIRST.format(root=root)]
            environment = os.environ | {"ERGODICA_CACHE": cache, "NPROC": "1"}
            done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
            seconds = float(done.stdout.split()[-1])
            label = f"eight schools in a fresh process, with {name}: CPU s"
            yield Bar(label, f"{seconds:.1f}", f"{bound:g}", seconds <= bound)


ITEMS: dict[str, tuple[Callable[[int], Iterator[Bar]], bool]] = {  # and whether in 64 bits
    "forms": (forms, True), "predicted": (predicted, False), "logistic": (logistic_runs, False),
    "million": (million, False), "posteriordb": (shared, True), "gradients": (gradients, True), "a9a": (rare, False),
    "coverage": (coverage, True), "never": (never, False), "first": (first, False),
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("items", nargs="*", help=f"some of {', '.join(ITEMS)}; all by default")
    parser.add_argument("--seeds", type=int, help="10, of logistic 20, of coverage five times as many")
    parser.add_argument("--json", type=Path, help="where to write every figure")
    options = parser.parse_args()
    unknown = [name for name in options.items if name not in ITEMS]
    if unknown:
        print(f"tuning: no item {unknown[0]!r}: expected some of {', '.join(ITEMS)}", file=sys.stderr)
        return 2
    bars: list[Bar] = []
    for name in options.items or ITEMS:
        item, is_double = ITEMS[name]
        jax.config.update("jax_enable_x64", is_double)
        print(f"== {name}", flush=True)
        for bar in item(options.seeds or (20 if name in ("logistic", "coverage") else 10)):
            bars.append(bar)
            print(bar, flush=True)
    print("\n| what | measured | bar | met |\n|---|---|---|---|", *bars, sep="\n")
    if options.json:
        options.json.write_text(json.dumps([bar._asdict() for bar in bars], indent=1, default=bool))
    return 0 if all(bar.passed for bar in bars) else 1


if __name__ == "__main__":
    jnp.zeros(())  # JAX is ready before a clock is looked at
    sys.exit(main())
