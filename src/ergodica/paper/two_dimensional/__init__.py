"""Figure 2, right: a correlated density in two dimensions, with the numbers that the paper's picture stands for."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ergodica.paper.result import Ask, Item, Result
from ergodica.paper.style import LABELS
from ergodica.paper.two_dimensional import density, pictures
from ergodica.paper.two_dimensional.chains import Arm, arms, compiled
from ergodica.paper.two_dimensional.contest import BEYOND, Way, claims
from ergodica.paper.two_dimensional.measured import SEEDS, START, STEIN_DRAWS, Measured, measure, stein_floor
from ergodica.paper.two_dimensional.trials import BOUND, CHAINS, Sample, Trial, grid, grid_error, search

LENGTH = {False: 4000, True: 16_000}  # steps of a chain, quick and full
STEPS = {False: grid(12), True: grid(24)}
FRICTIONS = {False: (1.0, 0.5, 2.0), True: (1.0, 0.25, 0.5, 2.0, 4.0)}  # the first is the paper's


@dataclass
class _Bench:
    """One sampler on the bench: its compiled chains, what was tried, what was measured, what was lost."""

    arm: Arm
    sample: Sample
    seeds: Iterator[int]
    trials: dict[float, list[Trial]] = field(default_factory=dict)
    known: dict[tuple[float, float], Measured | None] = field(default_factory=dict)
    lost: int = 0

    def at_best(self, frictions: tuple[float, ...]) -> Measured | None:
        """At the fastest step of these frictions that fresh chains confirm."""
        admitted = [t for f in frictions for t in self.trials[f] if t.is_admitted]
        in_order = map(self.measured, sorted(admitted, key=lambda t: t.time))
        return next((m for m in in_order if m is not None), None)

    def measured(self, trial: Trial) -> Measured | None:
        """At the trial's step; None where fresh chains did not stay finite or within the bound."""
        key = trial.step_size, trial.friction
        if key not in self.known:
            found = measure(self.sample, trial, self.seeds)
            self.known[key] = None if isinstance(found, int) else found
            self.lost += found if isinstance(found, int) else 0
        return self.known[key]

    @property
    def non_finite(self) -> int:
        return self.lost + sum(t.non_finite for found in self.trials.values() for t in found)


def run(ask: Ask) -> Result:
    """Each sampler at its best step of one grid, on the paper's density in two dimensions."""
    seeds = _seeds(ask.seed)
    benches = {arm: _Bench(arm, compiled(arm, LENGTH[ask.full]), seeds) for arm in arms()}
    for done, bench in enumerate(benches.values()):
        frictions = FRICTIONS[ask.full] if bench.arm.has_friction else (1.0,)
        for k, friction in enumerate(frictions):
            ask.report(0.9 * (done + k / len(frictions)) / len(benches), f"{bench.arm.label}, friction {friction:g}")
            bench.trials[friction] = search(bench.sample, STEPS[ask.full], friction, seeds)
        ask.report(0.9 * (done + 0.8) / len(benches), f"{bench.arm.label}, at its best step")
        bench.at_best((1.0,))
        bench.at_best(frictions)
    ask.report(0.93, "all at the same step")
    ways = _ways(benches, grid_error(STEPS[ask.full]))
    at_best = {arm: m for arm, bench in benches.items() if (m := bench.at_best((1.0,))) is not None}
    ask.report(0.97, "pictures")
    drawn = [
        pictures.paths(at_best),
        pictures.times(ways),
        pictures.stein(at_best, stein_floor(np.random.default_rng(next(seeds)))),
        pictures.steps({arm: bench.trials[1.0] for arm, bench in benches.items()}),
    ]
    return Result(
        text=_text(ways),
        claims=claims(ways),
        pictures=[picture for picture, _ in drawn],
        tables=[table for _, table in drawn],
        settings=_settings(ask),
        non_finite={bench.arm.label: bench.non_finite for bench in benches.values()},
    )


def _seeds(seed: int) -> Iterator[int]:
    rng = np.random.default_rng([seed, 0x2D])
    while True:
        yield int(rng.integers(2**32))


def _ways(benches: dict[Arm, _Bench], error: float) -> list[Way]:
    """Each way of asking: which integrator, whose friction, whose step."""
    euler = {arm.sampler: bench for arm, bench in benches.items() if arm.integrator == "Euler"}
    split = euler | {arm.sampler: bench for arm, bench in benches.items() if arm.integrator == "splitting"}
    ways = []
    for words, chosen in (("Euler's step", euler), ("the library's splitting", split)):
        ways.append(Way(words, {name: bench.at_best((1.0,)) for name, bench in chosen.items()}, error))
        tuned = {name: bench.at_best(tuple(bench.trials)) for name, bench in chosen.items()}
        ways.append(Way(f"{words}, best friction", tuned, error))
    if all(ways[0].measured.values()):
        smallest = min(m.step_size for m in ways[0].measured.values() if m is not None)
        same = {n: b.measured(next(t for t in b.trials[1.0] if t.step_size == smallest)) for n, b in euler.items()}
        ways.insert(2, Way("Euler's step, the same for all", same, 0.0))
    return ways


def _text(ways: list[Way]) -> list[str]:
    found = []
    for way in ways:
        order = sorted(way.measured, key=lambda name: np.inf if (m := way.measured[name]) is None else m.times.mean())
        listed = ", ".join(
            f"{LABELS[name]} {'no step' if (m := way.measured[name]) is None else f'{m.times.mean():.0f}'}"
            for name in order
        )
        found.append(f"{way.words}: {listed}")
    return [
        "U = theta_1^4 / 10 + (4 (theta_2 + 1.2) - theta_1^2)^2 / 2, a curved ridge. The paper shows the first ten "
        "points of three samplers and says that gSGRHMC explores fastest; here is that figure, and a number for it: "
        "the gradient evaluations that one independent draw of the slowest of four functions (both coordinates, "
        "theta_1 squared, U) takes. Every sampler has its best step of the same grid, extended where the best lies at "
        f"its end; a step counts only where no mean is off by more than {BOUND:g} sds, since any sampler is fast when "
        "it may be wrong.",
        "Gradient evaluations for one independent draw, fewest first. " + ". ".join(found) + ".",
        f"The metric is the paper's, G^-1 = {density.SCALE:g} sqrt|U + {density.OFFSET:g}|; the paper does not say "
        "what friction SGHMC had here, and 1 is what it says for LDA. Gradients are exact: Gaussian gradient noise "
        "of known variance, subtracted as in the paper, leaves the law of every one of these steps as it is.",
    ]


def _settings(ask: Ask) -> dict:
    return {
        "metric scale": density.SCALE,
        "metric offset": density.OFFSET,
        "frictions": FRICTIONS[ask.full],
        "step sizes": [float(f"{x:.4g}") for x in STEPS[ask.full]],
        "chains at each step size": CHAINS // len(STEPS[ask.full]),
        "steps of a chain": LENGTH[ask.full],
        "seeds": SEEDS,
        "chains of a seed": CHAINS // SEEDS - 1,
        "bound on the bias, sds": BOUND,
        "standard errors that count": BEYOND,
        "start of the paths": START,
        "draws for the Stein discrepancy": STEIN_DRAWS,
        "seed": ask.seed,
    }


ITEM = Item(
    name="two-dimensional",
    title="A correlated density in two dimensions",
    source="figure 2, right",
    run=run,
    code=(
        "ergodica/paper/two_dimensional/__init__.py",
        "ergodica/paper/two_dimensional/chains.py",
        "ergodica/paper/two_dimensional/trials.py",
        "ergodica/paper/two_dimensional/contest.py",
    ),
    seconds=(35, 100),
)
