"""Which runs are made: the four samplers at two presets, and those that the smaller claims are about."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ergodica.lda.samplers import PRESETS, SAMPLERS
from ergodica.paper.lda_perplexity.comparison import METRICS
from ergodica.paper.lda_runs import Length, Pool, Run, Setup, run, seeds_of
from ergodica.paper.result import Ask

SHOWN_PRESETS = ("paper", "tuned")
CONSTANT_METRIC, RIEMANNIAN = ("sgld", "sghmc"), ("sgrld", "sgrhmc")
WITH_MOMENTUM = {"sgld": "sghmc", "sgrld": "sgrhmc"}


@dataclass(frozen=True)
class Plan:
    """How much is run.

    Attributes:
        priors: (gamma, alpha) tried for SGLD and SGHMC, beside the paper's.
        steps: constant steps tried for SGRLD, rising; `extended`: how often the best at an end asks for one more.
        resample_every: steps between two resamplings of the momentum.
        presets: at which steps and resampling are tried.
    """

    length: Length
    priors: Sequence[tuple[float, float]]
    steps: Sequence[float]
    extended: int
    resample_every: Sequence[int]
    presets: Sequence[str]


def plan_of(ask: Ask) -> Plan:
    topics = 50 if ask.corpus else 10
    around = [(gamma, alpha) for gamma in (0.01, 0.1, 1.0) for alpha in (0.001, 0.01, 0.1)]
    if ask.full:
        riemannian = PRESETS["paper"]["sgrld"]
        priors = [*around, (riemannian.gamma, riemannian.alpha)]
        return Plan(Length(10_000, topics, looks=10), priors, (0.001, 0.003, 0.01, 0.03), 3, (5, 20), SHOWN_PRESETS)
    beside = [(gamma, alpha) for gamma, alpha in around if (gamma == 0.1) != (alpha == 0.01)]
    return Plan(Length(1_200, topics, looks=6), beside, (0.003, 0.01, 0.03), 0, (10,), ("paper",))


@dataclass
class Runs:
    """Runs made so far, by their setup; each is made once."""

    pool: Pool
    ask: Ask
    plan: Plan
    expected: int
    found: dict[Setup, list[Run]] = field(default_factory=dict)

    def of(self, setup: Setup) -> list[Run]:
        """One for each seed."""
        if setup not in self.found:
            seeds = seeds_of(self.ask.seed)
            self.found[setup] = [run(self.pool, setup, self.plan.length, seed, self._tell(setup, i, len(seeds)))
                                 for i, seed in enumerate(seeds)]  # fmt: skip
        return self.found[setup]

    def _tell(self, setup: Setup, number: int, count: int):
        words = f"{setup.sampler.upper()}, {setup.preset} preset, {named(setup)}, run {number + 1} of {count}"

        def tell(done: float) -> None:
            share = (len(self.found) + (number + done) / count) / self.expected
            self.ask.report(min(0.98, share), words)

        return tell

    def non_finite(self) -> dict[str, int]:
        """Runs that left the finite numbers, by name."""
        counts = {setup: sum(bool(run.stopped) for run in runs) for setup, runs in self.found.items()}
        return {f"{s.sampler.upper()}, {s.preset} preset, {named(s)}": count for s, count in counts.items() if count}


def make(pool: Pool, ask: Ask) -> Runs:
    """All runs of the item."""
    plan = plan_of(ask)
    setups = [Setup(s, preset) for preset in SHOWN_PRESETS for s in SAMPLERS]
    setups += [setup for s in CONSTANT_METRIC for setup in prior_setups(plan, s)]
    setups += [setup for preset in plan.presets for setup in step_setups(plan, preset)]
    setups += [
        s for preset in plan.presets for sampler in WITH_MOMENTUM.values() for s in resampled(plan, sampler, preset)
    ]
    setups = list(dict.fromkeys(setups))
    runs = Runs(pool, ask, plan, len(setups))
    for setup in setups:
        runs.of(setup)
    for preset in plan.presets:
        _extend(runs, preset)
    return runs


def prior_setups(plan: Plan, sampler: str) -> list[Setup]:
    """Of a sampler with a constant metric: the paper's priors first, then the others."""
    own = PRESETS["paper"][sampler]
    others = [pair for pair in plan.priors if pair != (own.gamma, own.alpha)]
    return [Setup(sampler, "paper"), *(Setup(sampler, "paper", (("gamma", g), ("alpha", a))) for g, a in others)]


def step_setups(plan: Plan, preset: str) -> list[Setup]:
    """SGRLD with constant steps."""
    return [_constant(preset, step) for step in plan.steps]


def resampled(plan: Plan, sampler: str, preset: str) -> list[Setup]:
    return [Setup(sampler, preset, resample_every=every) for every in plan.resample_every]


def constants_tried(runs: Runs, preset: str) -> list[tuple[float, list[Run]]]:
    """(step, runs) of SGRLD with a constant step, rising."""
    found = {
        dict(setup.changes)["step_size"]: made
        for setup, made in runs.found.items()
        if setup.preset == preset and "step_size" in dict(setup.changes)
    }
    return sorted(found.items())


def mean(runs: Sequence[Run], metric: str) -> float:
    return sum(run.final(metric) for run in runs) / len(runs)


def named(setup: Setup) -> str:
    """What a setup has of its own, in words."""
    parts = [f"{name.replace('_', ' ')} {value:g}" for name, value in setup.changes]
    if setup.resample_every:
        parts.append(f"momentum resampled every {setup.resample_every} steps")
    return ", ".join(parts) or "as it is"


def _constant(preset: str, step: float) -> Setup:
    return Setup("sgrld", preset, (("step_size", step),))


def _extend(runs: Runs, preset: str) -> None:
    """A best constant step at the end of its grid asks for one more beyond it."""
    for _ in range(runs.plan.extended):
        tried = constants_tried(runs, preset)
        best = {min(tried, key=lambda entry: mean(entry[1], metric))[0] for metric in METRICS}
        beyond = [edge * factor for edge, factor in ((tried[0][0], 1 / 3), (tried[-1][0], 3)) if edge in best]
        if not beyond:
            return
        for step in beyond:
            runs.of(_constant(preset, float(f"{step:.1g}")))
