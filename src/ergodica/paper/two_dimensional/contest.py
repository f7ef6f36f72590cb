"""Who is faster, in how many ways of asking: the figures behind the verdicts."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ergodica.paper.result import Claim, Verdict
from ergodica.paper.style import LABELS
from ergodica.paper.two_dimensional.measured import Measured

BEYOND = 3.0  # standard errors of a difference that counts


class Way(NamedTuple):
    """One way of asking: what was done, and each sampler's figures; None where no step is near enough to the law."""

    words: str
    measured: Mapping[str, Measured | None]
    grid_error: float
    """Standard error of each one's log time from its step being one of a grid; 0 where all have the same step."""


class Contest(NamedTuple):
    """The rival's autocorrelation time over gSGRHMC's, and its Stein discrepancy over gSGRHMC's along the path."""

    rival: str
    times: tuple[float, float] | None
    """(ratio, its standard error), above 1 where the rival is slower; None where one of the two has no step."""
    stein: tuple[float, float] | None

    def figures(self, figure: str) -> dict[str, float | None]:
        """The ratio, its standard error, and by how many of them its logarithm is above 0."""
        names = ("ratio", "standard_error", "standard_errors_from_1")
        if (pair := getattr(self, figure)) is None:
            return dict.fromkeys(names)
        return dict(zip(names, (*pair, float(np.log(pair[0]) * pair[0] / pair[1])), strict=True))

    def sigmas(self, figure: str) -> float:
        return self.figures(figure)["standard_errors_from_1"] or 0.0


def contest(way: Way, rival: str) -> Contest:
    """gSGRHMC against its rival."""
    first, second = way.measured["gsgrhmc"], way.measured[rival]
    if first is None or second is None:
        return Contest(rival, None, None)
    along = [np.log(m.stein).mean(axis=1) for m in (first, second)]
    times = [np.log(m.times) for m in (first, second)]
    return Contest(rival, ratio(times[0], times[1], way.grid_error), ratio(along[0], along[1], way.grid_error))


def ratio(first: np.ndarray, second: np.ndarray, grid_error: float) -> tuple[float, float]:
    """exp of the difference of two means over seeds, of logarithms, and its standard error."""
    error = np.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second) + 2 * grid_error**2)
    value = np.exp(second.mean() - first.mean())
    return float(value), float(value * error)


def claims(ways: Sequence[Way]) -> list[Claim]:
    """The paper's two sentences on the figure, each asked in every way."""
    return [
        _claim(
            ways,
            ("sgld", "sghmc"),
            "gsgrhmc-explores-faster",
            "gSGRHMC explores the correlated density faster than SGLD and SGHMC, per gradient evaluation.",
            "figure 2, right: 'our gSGRHMC most rapidly explores the space relative to SGHMC and SGLD'",
        ),
        _claim(
            ways,
            ("sgrld", "sghmc"),
            "metric-and-momentum-together",
            "A state-dependent metric and a momentum together are more efficient than either on its own.",
            "section 4.1: 'both a state-dependent preconditioner and Hamiltonian dynamics help'",
        ),
    ]


def _claim(ways: Sequence[Way], rivals: tuple[str, str], name: str, statement: str, source: str) -> Claim:
    answers = list(_answers(ways, rivals))
    yes = [words for words, _, holds in answers if holds]
    verdict: Verdict = "reproduced under conditions"
    if len(yes) in (0, len(answers)):
        verdict = "reproduced" if yes else "not reproduced"
    return Claim(
        name,
        statement,
        source,
        verdict,
        explanation=_explanation(answers, rivals),
        figures={
            words: {LABELS[c.rival]: c.figures(figure) for c, figure in contests} for words, contests, _ in answers
        },
        conditions="; ".join(yes) if verdict == "reproduced under conditions" else "",
        picture="times",
    )


def _answers(ways: Sequence[Way], rivals: Sequence[str]) -> Iterator[tuple[str, list[tuple[Contest, str]], bool]]:
    """(words, contests with the figure looked at, whether gSGRHMC beats all rivals beyond chance), for every way."""
    for figure, words in (("times", "autocorrelation time"), ("stein", "Stein discrepancy")):
        for way in ways:
            found = [(contest(way, r), figure) for r in rivals]
            yield f"{words}, {way.words}", found, all(c.sigmas(figure) > BEYOND for c, _ in found)


def _explanation(answers: Sequence[Any], rivals: Sequence[str]) -> str:
    words, contests, _ = answers[0]
    first = " and ".join(
        f"{'no step for' if c.times is None else f'{c.times[0]:.2f} ± {c.times[1]:.2f} times as many for'} "
        f"{LABELS[c.rival]}"
        for c, _ in contests
    )
    holds = sum(holds for *_, holds in answers)
    fails = sum(any(c.sigmas(f) < -BEYOND for c, f in contests) for _, contests, _ in answers)
    return (
        f"Asked in {len(answers)} ways, gSGRHMC is faster than both {' and '.join(LABELS[r] for r in rivals)} by more "
        f"than {BEYOND:g} standard errors in {holds}, and at least one of them is faster than gSGRHMC by as much in "
        f"{fails}; in the others there is no difference beyond chance. Gradient evaluations beside gSGRHMC's ({words}, "
        f"each at its best step): {first}. A step at which a chain leaves the finite numbers is not taken; the "
        "errors contain that of a best step which is one of a grid."
    )
