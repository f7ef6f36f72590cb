"""Which runs are made: the four samplers at two presets, and those that the smaller claims are about.

The best of several (constant steps, priors) is chosen on the first runs, and judged on later ones: fresh seeds for both
sides, so that the choice is no part of what is judged.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ergodica.lda.samplers import LDA_PRESETS, PAPER_SAMPLERS
from ergodica_paper.lda_perplexity.comparison import METRICS
from ergodica_paper.lda_runs import RUNS, SHOWN_PRESETS, TOPICS, DocumentPool, LdaRun, Length, Setup, run, seeds_of
from ergodica_paper.result import Ask
from ergodica_paper.style import LABELS

CONSTANT_METRIC, RIEMANNIAN = ("sgld", "sghmc"), ("sgrld", "sgrhmc")
WITH_MOMENTUM = {"sgld": "sghmc", "sgrld": "sgrhmc"}


@dataclass(frozen=True)
class PerplexityPlan:
    """How much is run.

    Attributes:
        priors: (gamma, alpha) tried for SGLD and SGHMC, beside the paper's.
        steps: constant steps tried for SGRLD, rising; `extended`: how often the best at an end asks for one more.
        resample_every: steps between two resamplings of the momentum.
        presets: at which steps and resampling are tried.
        choosing: of the runs, how many the best prior and the best constant step are chosen on; the others judge.
        runs: of a method that is judged.
    """

    length: Length
    priors: Sequence[tuple[float, float]]
    steps: Sequence[float]
    extended: int
    resample_every: Sequence[int]
    presets: Sequence[str]
    choosing: int
    runs: int


def plan_of(ask: Ask) -> PerplexityPlan:
    topics = TOPICS if ask.corpus else 10
    around = [(gamma, alpha) for gamma in (0.01, 0.1, 1.0) for alpha in (0.001, 0.01, 0.1)]
    if ask.full:
        riemannian = LDA_PRESETS["paper"]["sgrld"]
        priors = [*around, (riemannian.gamma, riemannian.alpha)]
        length = Length(10_000, topics, evaluations=10)
        return PerplexityPlan(
            length, priors, (0.001, 0.003, 0.01, 0.03), 3, (5, 20), SHOWN_PRESETS, choosing=2, runs=14
        )
    beside = [(gamma, alpha) for gamma, alpha in around if (gamma == 0.1) != (alpha == 0.01)]
    return PerplexityPlan(
        Length(1_200, topics, evaluations=6), beside, (0.003, 0.01, 0.03), 0, (10,), ("paper",), choosing=1, runs=4
    )


@dataclass
class Runs:
    """Runs made so far, by their setup and number; each is made once."""

    pool: DocumentPool
    ask: Ask
    plan: PerplexityPlan
    expected: int
    found: dict[Setup, dict[int, LdaRun]] = field(default_factory=dict)

    def every(self, setup: Setup) -> list[LdaRun]:
        """For methods that are judged without a choice."""
        return self._of(setup, range(self.plan.runs))

    def shown(self, setup: Setup) -> list[LdaRun]:
        """As many as the paper has."""
        return self._of(setup, range(RUNS))

    def choosing(self, setup: Setup) -> list[LdaRun]:
        return self._of(setup, range(self.plan.choosing))

    def judging(self, setup: Setup) -> list[LdaRun]:
        """Those that had no part in a choice."""
        return self._of(setup, range(self.plan.choosing, self.plan.runs))

    def made(self, setup: Setup) -> list[LdaRun]:
        return list(self.found[setup].values())

    def _of(self, setup: Setup, numbers: range) -> list[LdaRun]:
        made, seeds = self.found.setdefault(setup, {}), seeds_of(self.ask.seed, self.plan.runs)
        for number in numbers:
            if number not in made:
                made[number] = run(self.pool, setup, self.plan.length, seeds[number], self._tell(setup, number))
        return [made[number] for number in numbers]

    def _tell(self, setup: Setup, number: int):
        words = f"{LABELS[setup.sampler]}, {setup.preset} preset, {named(setup)}, run {number + 1}"
        before = sum(map(len, self.found.values()))

        def tell(done: float) -> None:
            self.ask.report(min(0.98, (before + done) / self.expected), words)

        return tell

    def non_finite(self) -> dict[str, int]:
        """Runs that became non-finite, by name."""
        counts = {setup: sum(bool(run.stopped) for run in made.values()) for setup, made in self.found.items()}
        return {f"{LABELS[s.sampler]}, {s.preset} preset, {named(s)}": count for s, count in counts.items() if count}


def make(pool: DocumentPool, ask: Ask, plan: PerplexityPlan) -> Runs:
    """All runs of the item."""
    judged = [Setup(s, preset) for preset in SHOWN_PRESETS for s in PAPER_SAMPLERS]
    judged += [
        s for preset in plan.presets for sampler in WITH_MOMENTUM.values() for s in resampled(plan, sampler, preset)
    ]
    tried = [setup for s in CONSTANT_METRIC for setup in other_priors(plan, s)]
    tried += [constant(preset, step) for preset in plan.presets for step in plan.steps]
    chosen = len(METRICS) * (len(CONSTANT_METRIC) + len(plan.presets))
    expected = len(judged) * plan.runs + len(tried) * plan.choosing + chosen * (plan.runs - plan.choosing)
    runs = Runs(pool, ask, plan, expected)
    for setup in judged:
        runs.every(setup)
    for setup in tried:
        runs.choosing(setup)
    for preset in plan.presets:
        _extend(runs, preset)
    for metric in METRICS:
        for setup in [best_prior(runs, s, metric) for s in CONSTANT_METRIC] + [
            best_constant(runs, preset, metric) for preset in plan.presets
        ]:
            runs.judging(setup)
    return runs


def other_priors(plan: PerplexityPlan, sampler: str) -> list[Setup]:
    """Of a sampler with a constant metric: all but the paper's."""
    own = LDA_PRESETS["paper"][sampler]
    others = [pair for pair in plan.priors if pair != (own.gamma, own.alpha)]
    return [Setup(sampler, "paper", (("gamma", gamma), ("alpha", alpha))) for gamma, alpha in others]


def constant(preset: str, step: float) -> Setup:
    """SGRLD with a constant step."""
    return Setup("sgrld", preset, (("step_size", step),))


def resampled(plan: PerplexityPlan, sampler: str, preset: str) -> list[Setup]:
    return [Setup(sampler, preset, resample_every=every) for every in plan.resample_every]


def constants_tried(runs: Runs, preset: str) -> list[float]:
    """Constant steps of SGRLD, rising."""
    return sorted(
        dict(setup.changes)["step_size"]
        for setup in runs.found
        if setup.preset == preset and "step_size" in dict(setup.changes)
    )


def best_constant(runs: Runs, preset: str, metric: str) -> Setup:
    """In the runs for choosing."""
    return _best(runs, [constant(preset, step) for step in constants_tried(runs, preset)], metric)


def best_prior(runs: Runs, sampler: str, metric: str) -> Setup:
    """In the runs for choosing: of all but the paper's."""
    return _best(runs, other_priors(runs.plan, sampler), metric)


def _best(runs: Runs, setups: Sequence[Setup], metric: str) -> Setup:
    return min(setups, key=lambda setup: mean(runs.choosing(setup), metric))


def mean(runs: Sequence[LdaRun], metric: str) -> float:
    return sum(run.final(metric) for run in runs) / len(runs)


def named(setup: Setup) -> str:
    """What a setup has of its own, in words."""
    parts = [f"{name.replace('_', ' ')} {value:g}" for name, value in setup.changes]
    if setup.resample_every:
        parts.append(f"momentum resampled every {setup.resample_every} steps")
    return ", ".join(parts) or "as it is"


def _extend(runs: Runs, preset: str) -> None:
    """A best constant step at the end of its grid asks for one more beyond it."""
    for _ in range(runs.plan.extended):
        tried = constants_tried(runs, preset)
        best = {dict(best_constant(runs, preset, metric).changes)["step_size"] for metric in METRICS}
        beyond = [edge * factor for edge, factor in ((tried[0], 1 / 3), (tried[-1], 3)) if edge in best]
        if not beyond:
            return
        for step in beyond:
            runs.choosing(constant(preset, float(f"{step:.1g}")))
