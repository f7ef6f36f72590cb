"""Who is faster, in how many ways of asking: the figures behind the verdicts."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ergodica.paper import best_step, ratios
from ergodica.paper.ratios import Ratio, log_mean, ratio
from ergodica.paper.result import Claim
from ergodica.paper.style import LABELS
from ergodica.paper.two_dimensional.measured import Discrepancy, Measured
from ergodica.paper.verdict import SURE, Answer, Estimate, Outcome, beyond_chance, counted, verdict

TIME, STEIN = "autocorrelation time", "Stein discrepancy"
RULE = (
    f"{best_step.RULE}; gSGRHMC has to beat both, where {ratios.RULE}. Stein discrepancies are compared at the "
    f"gradient counts where both are above those of exact draws by more than {SURE:g} standard errors; one that never "
    "is wins if it is below the other as clearly."
)


class At(NamedTuple):
    """A sampler at one step: its figures, and the standard error of the logarithm of that step."""

    measured: Measured
    step_error: float = 0.0


class Way(NamedTuple):
    """One way of asking: what was done, and each sampler's figures; None where no step is near enough to the law."""

    words: str
    at: Mapping[str, At | None]


class Contest(NamedTuple):
    """gSGRHMC against its rivals in one figure: theirs over its, above 1 where gSGRHMC is better."""

    figure: str
    where: str
    ratios: Mapping[str, Ratio]

    @property
    def outcome(self) -> Outcome:
        """Yes where it beats all rivals, no where one of them beats it."""
        outcomes = {r.outcome for r in self.ratios.values()}
        if "no" in outcomes:
            return "no"
        return "yes" if outcomes == {"yes"} else "unclear"

    @property
    def words(self) -> str:
        return f"{self.figure}, {self.where}"


def time_ratio(way: Way, rival: str) -> Ratio:
    """The rival's autocorrelation time over gSGRHMC's."""
    times = {name: None if at is None else log_mean(at.measured.times, at.step_error) for name, at in way.at.items()}
    return ratio(times[rival], times["gsgrhmc"])


def stein_ratio(way: Way, paths: Mapping[str, Discrepancy | None], rival: str) -> Ratio:
    """The rival's Stein discrepancy over gSGRHMC's, over the looks at which both say something."""
    pairs = [(at, path) for name in (rival, "gsgrhmc") if (at := way.at[name]) and (path := paths[name])]
    if len(pairs) < 2:
        return time_ratio(way, rival)  # no ratio there either: who alone has a step wins
    (_, theirs), (_, mine) = pairs
    looks = is_shown(theirs) & is_shown(mine)
    if not looks.any():
        return _without_ratio(theirs, mine)
    return ratio(*(_logarithm(at, path, looks) for at, path in pairs))


def _logarithm(at: At, path: Discrepancy, looks: np.ndarray) -> Estimate:
    """Its square goes with 1 / (number of independent draws), and that number with the step."""
    square = log_mean(path.squares[:, looks], at.step_error)
    return Estimate(square.value / 2, square.error / 2)


def _without_ratio(rival: Discrepancy, ours: Discrepancy) -> Ratio:
    """Where one is never above that of exact draws: it wins if it is below the other one beyond chance."""
    nothing, looks = Estimate(math.nan, math.nan), is_shown(rival) | is_shown(ours)
    if not looks.any():
        return Ratio(nothing)
    sizes = np.abs(rival.squares.mean(axis=0)) + np.abs(ours.squares.mean(axis=0))
    theirs, mine = (Estimate.of((path.squares / sizes)[:, looks].mean(axis=1)) for path in (rival, ours))
    outcome = beyond_chance(theirs.value - mine.value, math.hypot(theirs.error, mine.error))
    only = {"yes": "with it", "no": "without it", "unclear": ""}[outcome]
    return Ratio(nothing, only, "a discrepancy like that of exact draws")


def is_shown(path: Discrepancy) -> np.ndarray:
    """(look,) where the mean square is above 0, which is what independent exact draws have, beyond chance."""
    error = path.squares.std(axis=0, ddof=1) / math.sqrt(len(path.squares))
    return path.squares.mean(axis=0) > SURE * error


def claims(ways: Sequence[Way], paths: Mapping[str, Mapping[str, Discrepancy | None]]) -> list[Claim]:
    """The paper's two sentences on the figure, each asked in every way.

    Args:
        paths: the discrepancies of the samplers, for those of the ways (by their words) in which they are compared.
    """
    return [
        _claim(
            ways, paths, ("sgld", "sghmc"),
            "gsgrhmc-explores-faster",
            "gSGRHMC explores the correlated density faster than SGLD and SGHMC, per gradient evaluation.",
            "figure 2, right: 'our gSGRHMC most rapidly explores the space relative to SGHMC and SGLD'",
        ),
        _claim(
            ways, paths, ("sgrld", "sghmc"),
            "metric-and-momentum-together",
            "A state-dependent metric and a momentum together are more efficient than either on its own.",
            "section 4.1: 'both a state-dependent preconditioner and Hamiltonian dynamics help'",
        ),
    ]  # fmt: skip


def contests(
    ways: Sequence[Way], paths: Mapping[str, Mapping[str, Discrepancy | None]], rivals: Sequence[str]
) -> list[Contest]:
    """Times in every way, discrepancies in those that have them."""
    times = [Contest(TIME, way.words, {r: time_ratio(way, r) for r in rivals}) for way in ways]
    stein = [
        Contest(STEIN, way.words, {r: stein_ratio(way, paths[way.words], r) for r in rivals})
        for way in ways if way.words in paths
    ]  # fmt: skip
    return times + stein


def _claim(ways, paths, rivals: tuple[str, str], name: str, statement: str, source: str) -> Claim:
    found = contests(ways, paths, rivals)
    answers = [Answer(c.words, c.outcome) for c in found]
    return Claim(
        name,
        statement,
        source,
        verdict(answers),
        explanation=f"{counted(answers)}. Gradient evaluations for a draw, over gSGRHMC's: {_by_integrator(found)}.",
        figures={c.words: {LABELS[r]: x.figures() for r, x in c.ratios.items()} for c in found},
        conditions=ratios.conditions([(c.figure, c.where, c.outcome) for c in found]),
        picture="times",
        rule=RULE,
    )


def _by_integrator(found: Sequence[Contest]) -> str:
    """With Euler's step and with splitting, as the paper has the friction: the first way of each."""
    by_integrator = {c.where.split(",")[0]: c for c in reversed(found) if c.figure == TIME}
    told = []
    for where, c in reversed(by_integrator.items()):
        told.append(f"{' and '.join(f'{x} ({LABELS[r]})' for r, x in c.ratios.items())} with {where}")
    return "; ".join(told)
