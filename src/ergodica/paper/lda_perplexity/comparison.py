"""Which of two methods has the lower perplexity, by a stated rule, over runs that are paired by their seeds.

Holm's method (1979): with the p-values of m comparisons in rising order, the i-th (from 0) is multiplied by m - i, and
none may be below the one before it. Those at most 5 % count. Whatever the comparisons have in common, that all of a
claim together contain a false one then has a chance of at most 5 %.

Where runs left the finite numbers there is no t-test: a method that is ahead in every pair is better, else it is open.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from ergodica.paper.lda_runs import Run
from ergodica.paper.result import Verdict
from ergodica.paper.verdict import Answer, Outcome, counted, plus_minus, verdict

METRICS = ("single", "averaged")
LEAST = 0.01  # of the perplexity: less does not matter
ERRING = 0.05  # how often a claim's comparisons may contain a false one
PLACES = 5  # that are named as conditions
# How a claim is judged, to stand behind a colon.
_TEST = f"in paired t-tests with Holm's correction, so that a claim's comparisons together err in at most {ERRING:.0%}"
_LOST = "A run that left the finite numbers has lost against one that has not."
RULE = f"what should be better has a mean perplexity lower by {LEAST:.0%} or more, beyond chance {_TEST}. {_LOST}"
AS_GOOD = f"that what should be best has a mean perplexity higher by {LEAST:.0%} or more is ruled out {_TEST}. {_LOST}"
_MARGIN = -math.log(1 - LEAST)


class Question(NamedTuple):
    """Whether the first is better than the second: runs of the same seeds in the same order.

    Args:
        what: the two, in words. where: the settings, in words. metric: "single" or "averaged".
    """

    what: str
    where: str
    metric: str
    first: Sequence[Run]
    second: Sequence[Run]

    def gains(self) -> np.ndarray:
        """log(second / first) of every pair: infinite where one has left the finite numbers, 0 where both have."""
        ends = [(run.final(self.metric), other.final(self.metric))
                for run, other in zip(self.first, self.second, strict=True)]  # fmt: skip
        return np.array([0.0 if a == b else np.log(b) - np.log(a) for a, b in ends])


@dataclass(frozen=True)
class Comparison:
    """The answer to a question.

    Attributes:
        gain: mean of log(second / first), positive where the first is better. error: its standard error.
        p_value: corrected for the number of comparisons of the claim.
    """

    question: Question
    gain: float
    error: float
    p_value: float
    outcome: Outcome

    @property
    def percent(self) -> float:
        """By how much the perplexity of the first is below that of the second."""
        return 100 * (1 - math.exp(-self.gain))

    @property
    def percent_error(self) -> float:
        return 100 * math.exp(-self.gain) * self.error

    @property
    def words(self) -> str:
        return f"{self.question.what}, {self.question.where}, {self.question.metric}"


def judge(questions: Sequence[Question], is_as_good_enough: bool = False) -> list[Comparison]:
    """All comparisons of one claim, by `RULE`.

    Args:
        is_as_good_enough: by `AS_GOOD` instead, for a claim that nothing else is better.
    """
    gains = [question.gains() for question in questions]
    margin = _MARGIN if is_as_good_enough else 0.0
    p_values = corrected([p_value(mine + margin) for mine in gains])
    found = []
    for question, mine, p in zip(questions, gains, p_values, strict=True):
        outcome: Outcome = "unclear"
        with np.errstate(invalid="ignore"):  # infinite gains on both sides: their mean is no number
            gain = float(np.mean(mine))
        if p <= ERRING and (is_as_good_enough or abs(gain) >= _MARGIN):
            outcome = "yes" if gain + margin > 0 else "no"
        error = float(np.std(mine, ddof=1) / math.sqrt(len(mine))) if np.all(np.isfinite(mine)) else math.nan
        found.append(Comparison(question, gain, error, float(p), outcome))
    return found


def p_value(gains: np.ndarray) -> float:
    """Two-sided, that their mean is 0; with runs that left the finite numbers 0 if all have one sign, else 1."""
    if not np.all(np.isfinite(gains)):
        return float(not (np.all(gains > 0) or np.all(gains < 0)))
    error = np.std(gains, ddof=1) / math.sqrt(len(gains))
    if error == 0:
        return float(np.mean(gains) == 0)
    return float(2 * stats.t.sf(abs(np.mean(gains)) / error, len(gains) - 1))


def corrected(p_values: Sequence[float]) -> np.ndarray:
    """By Holm's method."""
    raw = np.asarray(p_values, float)
    order = np.argsort(raw)
    found = np.empty_like(raw)
    found[order] = np.minimum(1.0, np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1)))
    return found


def verdict_of(comparisons: Sequence[Comparison], is_demo: bool) -> tuple[Verdict, str]:
    """(verdict, conditions)."""
    if is_demo:
        return "illustration, no verdict", ""
    found = verdict(answers(comparisons))
    return found, conditions(comparisons) if found == "reproduced under conditions" else ""


def answers(comparisons: Sequence[Comparison]) -> list[Answer]:
    return [Answer(c.words, c.outcome) for c in comparisons]


def told(comparisons: Sequence[Comparison]) -> str:
    """How many hold, and the two ends of the figures."""
    worst, best = (pick(comparisons, key=lambda c: np.nan_to_num(c.gain)) for pick in (min, max))
    return (
        f"{counted(answers(comparisons))}. The perplexity is lower by {_gain(worst)} ({worst.words}) to {_gain(best)} "
        f"({best.words})."
    )


def _gain(comparison: Comparison) -> str:
    if not math.isfinite(comparison.gain):
        return "no figure, as runs left the finite numbers"
    return f"{plus_minus(comparison.percent, comparison.percent_error)} %"


def conditions(comparisons: Sequence[Comparison]) -> str:
    """Where it holds, what belongs together in one place."""
    places = []
    for what in dict.fromkeys(c.question.what for c in comparisons):
        every = [c for c in comparisons if c.question.what == what]
        mine = [c.question for c in every if c.outcome == "yes"]
        if len(mine) == len(every):
            places.append(what)
            continue
        for where in dict.fromkeys(question.where for question in mine):
            metrics = [question.metric for question in mine if question.where == where]
            places.append(f"{what}, {where}" + ("" if len(metrics) == len(METRICS) else f", {metrics[0]}"))
    more = len(places) - PLACES
    rest = [f"and {more} more: see the figures"] if more > 0 else []
    return "; ".join(places[:PLACES] + rest)
