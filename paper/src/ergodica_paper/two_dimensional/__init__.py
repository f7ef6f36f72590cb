"""Figure 2, right: a correlated density in two dimensions, with the numbers that the paper's picture stands for."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from ergodica_paper import best_step
from ergodica_paper.best_step import BOUND, BestStep, NoStep, grid, seeds
from ergodica_paper.result import Ask, PaperItem, Result
from ergodica_paper.two_dimensional import claims, density, pictures
from ergodica_paper.two_dimensional.chains import Arm, arms, compiled
from ergodica_paper.two_dimensional.claims import At, Way
from ergodica_paper.two_dimensional.measured import SEEDS, START, STEIN_DRAWS, MeasuredSampler, discrepancy, measure
from ergodica_paper.two_dimensional.trials import CHAINS, EACH, Sample, attempt

LENGTH = {False: 4000, True: 16_000}  # steps of a chain, quick and full
CALLS = {False: 2, True: 4}  # of the chains that decide, each of `CHAINS`
STEPS = grid(0.0025, 0.16, 12)
PAPERS = 1.0  # the paper's friction
FRICTIONS = {False: (PAPERS, 0.5, 2.0), True: (PAPERS, 0.25, 0.5, 2.0, 4.0)}


@dataclass
class _Bench:
    """One sampler on the bench: its compiled chains, and what was found at each friction."""

    arm: Arm
    sample: Sample
    seeds: Iterator[int]
    calls: int
    found: dict[float, BestStep] = field(default_factory=dict)
    lost: int = 0

    def search(self, frictions: tuple[float, ...]) -> None:
        self.found = best_step.search(
            dict.fromkeys(frictions, STEPS),
            attempt=lambda jobs: attempt(self.sample, jobs, self.seeds),
            confirm=lambda jobs: [self.measure(*job) for job in jobs],
        )
        self.lost += sum(found.lost for found in self.found.values())

    def measure(self, friction: float, step_size: float) -> MeasuredSampler:
        return measure(self.sample, friction, step_size, self.calls, self.seeds)

    def at_best(self, frictions: tuple[float, ...] = (PAPERS,)) -> At | NoStep:
        """At the best step of the friction that was the fastest in the search."""
        found = [self.found[f] for f in frictions]
        first = min((f for f in found if f.best is not None), key=lambda f: f.expected, default=None)
        if first is None or first.best is None:
            return NoStep(all(f.has_none for f in found))
        return At(first.best, first.step_error, first.slope)

    def at_step(self, step_size: float) -> At | NoStep:
        """At this step, which is not larger than the best, if fresh chains do not refuse it."""
        best = self.at_best()
        if isinstance(best, At) and best.measured.step_size == step_size:
            return At(best.measured)
        fresh = self.measure(PAPERS, step_size)
        self.lost += fresh.lost
        return At(fresh) if best_step.is_confirmed(fresh) else NoStep(best_step.is_out(fresh))


def run(ask: Ask) -> Result:
    """Each sampler at its best step of one grid, on the paper's density in two dimensions."""
    new_seeds = seeds(ask.seed, 0x2D)
    benches = {arm: _Bench(arm, compiled(arm, LENGTH[ask.full]), new_seeds, CALLS[ask.full]) for arm in arms()}
    for done, bench in enumerate(benches.values()):
        ask.report(0.9 * done / len(benches), f"{bench.arm.label}, its best step")
        bench.search(FRICTIONS[ask.full] if bench.arm.has_friction else (PAPERS,))
    ask.report(0.9, "all at the same step")
    ways = _ways(benches)
    ask.report(0.93, "Stein discrepancies")
    at_best = {arm: at.measured for arm, bench in benches.items() if isinstance(at := bench.at_best(), At)}
    stein = {arm: discrepancy(m) for arm, m in at_best.items()}
    ask.report(0.97, "pictures")
    drawn = [
        pictures.paths(at_best),
        pictures.times(ways),
        pictures.stein(stein),
        pictures.steps({arm: bench.found[PAPERS].tried for arm, bench in benches.items()}),
    ]
    by_way = {words: {n: stein.get(b.arm) for n, b in chosen.items()} for words, chosen in _integrators(benches)}
    return Result(
        text=_text(benches, ask.full),
        claims=claims.both_sentences(ways, by_way),
        pictures=[picture for picture, _ in drawn],
        tables=[table for _, table in drawn],
        settings=_settings(ask),
        non_finite={bench.arm.label: bench.lost for bench in benches.values()},
    )


def _integrators(benches: dict[Arm, _Bench]) -> list[tuple[str, dict[str, _Bench]]]:
    """Each in words, with the bench of every sampler."""
    euler = {arm.sampler: bench for arm, bench in benches.items() if arm.integrator == "Euler"}
    split = euler | {arm.sampler: bench for arm, bench in benches.items() if arm.integrator == "splitting"}
    return [("Euler's step", euler), ("the library's splitting", split)]


def _ways(benches: dict[Arm, _Bench]) -> list[Way]:
    """Each way of asking: which integrator, whose friction, whose step."""
    ways = []
    for words, chosen in _integrators(benches):
        ways.append(Way(words, {name: bench.at_best() for name, bench in chosen.items()}))
        tuned = {name: bench.at_best(tuple(bench.found)) for name, bench in chosen.items()}
        ways.append(Way(f"{words}, best friction", tuned))
    _, euler = _integrators(benches)[0]
    steps = [at.measured.step_size for at in ways[0].at.values() if isinstance(at, At)]
    if len(steps) == len(euler):
        same = {name: bench.at_step(min(steps)) for name, bench in euler.items()}
        ways.insert(2, Way("Euler's step, one step for all", same))
    return ways


def _text(benches: dict[Arm, _Bench], full: bool) -> list[str]:
    return [
        "U = theta_1^4 / 10 + (4 (theta_2 + 1.2) - theta_1^2)^2 / 2, a curved ridge. The paper shows the first ten "
        "points of three samplers and says that gSGRHMC explores fastest; here is that figure, and a number for it: "
        "the gradient evaluations that one independent draw of the slowest of four functions (both coordinates, "
        "theta_1 squared, U) takes. A step counts only where no mean is off by more than "
        f"{BOUND:g} sds, since any sampler is fast when it may be wrong.",
        "An explicit step can lose a chain to infinity at any step size, the more often the larger the step. A step is "
        f"taken only where fresh chains lose none, here {CALLS[full] * CHAINS:,} of {LENGTH[full]:,} steps each; with "
        "more or longer chains a step that is limited so would be smaller. What limits each, by what the next larger "
        f"step tried did: {'; '.join(map(_limit, benches.values()))}.",
        f"The metric is the paper's, G^-1 = {density.SCALE:g} sqrt|U + {density.OFFSET:g}|; the paper does not say "
        f"what friction SGHMC had here, and {PAPERS:g} is what it says for LDA. Gradients are exact: Gaussian gradient "
        "noise of known variance, subtracted as in the paper, leaves the law of every one of these steps as it is.",
    ]


def _limit(bench: _Bench) -> str:
    """Why the step is no larger, at the paper's friction."""
    found = bench.found[PAPERS]
    if found.best is None:
        return f"{bench.arm.label}: no step was admitted"
    larger, best = found.next_larger, f"{bench.arm.label} has {found.best.step_size:.3g}"
    if larger is None:
        return f"{best}, the largest tried"
    if larger.lost:
        were = "was" if larger.lost == 1 else "were"
        return f"{best}: at {larger.step_size:.3g} {larger.lost:,} of {larger.chains:,} chains {were} lost"
    if abs(larger.bias) > BOUND:
        return f"{best}: at {larger.step_size:.3g} the bias is {abs(larger.bias):.3f} sds"
    return f"{best}: {larger.step_size:.3g} is no faster"


def _settings(ask: Ask) -> dict:
    return {
        "metric scale": density.SCALE,
        "metric offset": density.OFFSET,
        "frictions": FRICTIONS[ask.full],
        "step sizes": [float(f"{x:.4g}") for x in STEPS],
        "chains of a trial": EACH,
        "starts": "drawn from the law, but for the paths",
        "seeds": SEEDS,
        "chains at the best step": CALLS[ask.full] * CHAINS,
        **best_step.search_settings(LENGTH[ask.full]),
        "start of the paths": START,
        "draws for the Stein discrepancy": STEIN_DRAWS,
    }


ITEM = PaperItem(
    name="two-dimensional",
    title="A correlated density in two dimensions",
    source="figure 2, right",
    run=run,
    code=(
        "ergodica_paper/two_dimensional/__init__.py",
        "ergodica_paper/two_dimensional/density.py",
        "ergodica_paper/two_dimensional/chains.py",
        "ergodica_paper/two_dimensional/trials.py",
        "ergodica_paper/two_dimensional/measured.py",
        "ergodica_paper/two_dimensional/claims.py",
        "ergodica_paper/best_step.py",
        "ergodica_paper/ratios.py",
    ),
    seconds=(30, 170),
)
