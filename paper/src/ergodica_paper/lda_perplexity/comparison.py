"""Which of two methods has the lower perplexity, by a stated rule, over runs that are paired by their seeds.

Holm's method (1979): with the p-values of m comparisons in rising order, the i-th (from 0) is multiplied by m - i, and
none may be below the one before it. Those at most 5 % count. Whatever the comparisons have in common, that all of a
claim together contain a false one then has a chance of at most 5 %.

Where runs became non-finite there is no t-test. If all runs of one method did and none of the other, Fisher's
exact test takes its place, else the sign test of the pairs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

from ergodica_paper.lda_runs import LdaRun
from ergodica_paper.verdict import Answer, Measurement, Outcome, counted, plus_minus

METRICS = ("single", "averaged")
LEAST = 0.01  # of the perplexity: less does not matter
ERRING = 0.05  # how often a claim's comparisons may contain a false one
# How a claim is judged, to stand behind a colon.
_TEST = f"in paired t-tests with Holm's correction, so that a claim's comparisons together err in at most {ERRING:.0%}"
_LOST = "A run that became non-finite has lost against one that has not."
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
    first: Sequence[LdaRun]
    second: Sequence[LdaRun]

    def gains(self) -> np.ndarray:
        """log(second / first) of every pair: infinite where one has become non-finite, 0 where both have."""
        ends = [(run.final(self.metric), other.final(self.metric))
                for run, other in zip(self.first, self.second, strict=True)]  # fmt: skip
        return np.array([0.0 if a == b else np.log(b) - np.log(a) for a, b in ends])


@dataclass(frozen=True)
class PerplexityComparison:
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


def judge(questions: Sequence[Question], is_as_good_enough: bool = False) -> list[PerplexityComparison]:
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
        error = Measurement.of(mine).error if np.all(np.isfinite(mine)) else math.nan
        found.append(PerplexityComparison(question, gain, error, float(p), outcome))
    return found


def p_value(gains: np.ndarray) -> float:
    """Two-sided, that their mean is 0; they are infinite for runs that became non-finite."""
    count = len(gains)
    if not np.all(np.isfinite(gains)):
        if not (np.all(gains > 0) or np.all(gains < 0)):
            return 1.0
        return 2 / math.comb(2 * count, count) if np.all(np.isinf(gains)) else 2.0 ** (1 - count)
    mean = Measurement.of(gains)
    if mean.error == 0:
        return float(mean.value == 0)
    return float(2 * stats.t.sf(abs(mean.value) / mean.error, count - 1))


def corrected(p_values: Sequence[float]) -> np.ndarray:
    """By Holm's method."""
    raw = np.asarray(p_values, float)
    order = np.argsort(raw)
    found = np.empty_like(raw)
    found[order] = np.minimum(1.0, np.maximum.accumulate(raw[order] * np.arange(len(raw), 0, -1)))
    return found


def answers(comparisons: Sequence[PerplexityComparison]) -> list[Answer]:
    return [Answer(c.question.what, c.outcome, f"{c.question.where}, {c.question.metric}") for c in comparisons]


def told(comparisons: Sequence[PerplexityComparison]) -> str:
    """How many hold, and the two ends of the figures."""
    worst, best = (pick(comparisons, key=lambda c: np.nan_to_num(c.gain)) for pick in (min, max))
    ends = " to ".join(f"{_gain(c)} ({c.words})" for c in ((worst,) if worst is best else (worst, best)))
    return f"{counted(answers(comparisons))}. The perplexity is {ends}."


def _gain(comparison: PerplexityComparison) -> str:
    if not math.isfinite(comparison.gain):
        return "without a figure, as runs became non-finite,"
    way, value = ("lower", comparison.percent) if comparison.percent >= 0 else ("higher", -comparison.percent)
    return f"{way} by {plus_minus(value, comparison.percent_error)} %"
