"""Who is faster, in how many ways of asking: the figures behind the verdicts."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ergodica_paper import best_step, ratios
from ergodica_paper.best_step import NoStep
from ergodica_paper.ratios import Ratio, log_mean, ratio
from ergodica_paper.result import Claim
from ergodica_paper.style import LABELS
from ergodica_paper.two_dimensional.measured import Discrepancy, MeasuredSampler
from ergodica_paper.verdict import SURE, Answer, Measurement, all_of, beyond_chance, counted, judged

TIME, STEIN = "autocorrelation time", "Stein discrepancy"
RULE = (
    f"{best_step.RULE}; gSGRHMC has to beat both, where {ratios.RULE}. Stein discrepancies are compared at the "
    f"gradient counts where both are above those of exact draws by more than {SURE:g} standard errors; one that never "
    "is wins if it is below the other as clearly."
)


class At(NamedTuple):
    """A sampler at one step: its figures, the standard error of the logarithm of that step, how times fall with it."""

    measured: MeasuredSampler
    step_error: float = 0.0
    slope: float = 1.0

    @property
    def time_error(self) -> float:
        """Of the logarithm of a time, from the step."""
        return self.slope * self.step_error


class Way(NamedTuple):
    """One way of asking: what was done, and each sampler's figures, where it has a step near enough to the law."""

    words: str
    at: Mapping[str, At | NoStep]


class Contest(NamedTuple):
    """gSGRHMC against its rivals in one figure: theirs over its, above 1 where gSGRHMC is better."""

    figure: str
    where: str
    ratios: Mapping[str, Ratio]

    @property
    def answer(self) -> Answer:
        """Yes where it beats all rivals, no where one of them beats it."""
        return Answer(self.figure, all_of(r.outcome for r in self.ratios.values()), self.where)


def time_ratio(way: Way, rival: str) -> Ratio:
    """The rival's autocorrelation time over gSGRHMC's."""
    theirs, mine = (
        at if isinstance(at, NoStep) else log_mean(at.measured.times, at.time_error)
        for at in (way.at[rival], way.at["gsgrhmc"])
    )  # fmt: skip
    return ratio(theirs, mine)


def stein_ratio(way: Way, paths: Mapping[str, Discrepancy | None], rival: str) -> Ratio:
    """The rival's Stein discrepancy over gSGRHMC's, over the lengths of path at which both say something."""
    pairs = [
        (at, path) for name in (rival, "gsgrhmc")
        if not isinstance(at := way.at[name], NoStep) and (path := paths[name])
    ]  # fmt: skip
    if len(pairs) < 2:
        return time_ratio(way, rival)  # no ratio there either
    (_, theirs), (_, mine) = pairs
    lengths = is_shown(theirs) & is_shown(mine)
    if not lengths.any():
        return _without_ratio(theirs, mine)
    return ratio(*(_logarithm(at, path, lengths) for at, path in pairs))


def _logarithm(at: At, path: Discrepancy, lengths: np.ndarray) -> Measurement:
    """Its square goes with 1 / (number of independent draws), and that number with the step."""
    square = log_mean(path.squares[:, lengths], at.time_error)
    return Measurement(square.value / 2, square.error / 2)


def _without_ratio(rival: Discrepancy, ours: Discrepancy) -> Ratio:
    """Where one is never above that of exact draws: it wins if it is below the other one beyond chance."""
    nothing, lengths = Measurement(math.nan, math.nan), is_shown(rival) | is_shown(ours)
    if not lengths.any():
        return Ratio(nothing)
    sizes = np.abs(rival.squares.mean(axis=0)) + np.abs(ours.squares.mean(axis=0))
    theirs, mine = (Measurement.of((path.squares / sizes)[:, lengths].mean(axis=1)) for path in (rival, ours))
    only = {"yes": "with it", "no": "without it", "unclear": ""}[beyond_chance(*theirs.minus(mine))]
    return Ratio(nothing, only, "a discrepancy like that of exact draws")


def is_shown(path: Discrepancy) -> np.ndarray:
    """(length,) where the mean square is above 0, which is what independent exact draws have, beyond chance."""
    error = path.squares.std(axis=0, ddof=1) / math.sqrt(len(path.squares))
    return path.squares.mean(axis=0) > SURE * error


def both_sentences(ways: Sequence[Way], paths: Mapping[str, Mapping[str, Discrepancy | None]]) -> list[Claim]:
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
    answers = [c.answer for c in found]
    return judged(
        name,
        statement,
        source,
        answers,
        explanation=f"{counted(answers)}. Gradient evaluations for a draw, over gSGRHMC's: {_by_integrator(found)}.",
        figures={c.answer.words: {LABELS[r]: x.figures() for r, x in c.ratios.items()} for c in found},
        rule=RULE,
        picture="times",
    )


def _by_integrator(found: Sequence[Contest]) -> str:
    """With Euler's step and with splitting, as the paper has the friction: the first way of each."""
    by_integrator = {c.where.split(",")[0]: c for c in reversed(found) if c.figure == TIME}
    told = []
    for where, c in reversed(by_integrator.items()):
        told.append(f"{' and '.join(f'{x} ({LABELS[r]})' for r, x in c.ratios.items())} with {where}")
    return "; ".join(told)
