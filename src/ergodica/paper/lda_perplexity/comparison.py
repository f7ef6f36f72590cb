"""Which of two methods has the lower perplexity, by a stated rule, over runs that are paired by their seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

from ergodica.paper.lda_runs import Run
from ergodica.paper.result import Verdict

METRICS = ("single", "averaged")
LEAST = 0.01  # of the perplexity: less does not matter
CONFIDENCE = 0.95
RULE = (
    f"lower perplexity in every run, in the mean by at least {LEAST:.0%} and by more than chance "
    f"(Student's t of the paired differences of log perplexity, {CONFIDENCE:.0%})"
)

Outcome = Literal["yes", "no", "no clear difference"]


@dataclass(frozen=True)
class Comparison:
    """Whether the first is better than the second.

    Attributes:
        what: the two, in words. where: the settings, in words. metric: "single" or "averaged".
        gain: mean of log(second / first), positive where the first is better. error: its standard error.
        outcome: "no" is the same rule the other way round.
    """

    what: str
    where: str
    metric: str
    gain: float
    error: float
    outcome: Outcome

    @property
    def percent(self) -> float:
        """By how much the perplexity of the first is below that of the second."""
        return 100 * (1 - math.exp(-self.gain))


def compare(first: Sequence[Run], second: Sequence[Run], metric: str, what: str, where: str) -> Comparison:
    """Runs of the same seeds in the same order; one that left the finite numbers has lost against one that has not."""
    pairs = [(np.log(a.final(metric)), np.log(b.final(metric))) for a, b in zip(first, second, strict=True)]
    gains = np.array([0.0 if a == b else b - a for a, b in pairs])
    finite = gains[np.isfinite(gains)]
    error = float(np.std(finite, ddof=1) / np.sqrt(len(finite))) if len(finite) > 1 else math.nan
    outcome: Outcome = "no clear difference"
    if _is_beyond_chance(gains, finite, error):
        outcome = "yes"
    elif _is_beyond_chance(-gains, finite, error):
        outcome = "no"
    return Comparison(what, where, metric, float(np.mean(gains)), error, outcome)


def _is_beyond_chance(gains: np.ndarray, finite: np.ndarray, error: float) -> bool:
    if not np.all(gains > 0):
        return False
    if len(finite) < len(gains):
        return True
    edge = stats.t.ppf((1 + CONFIDENCE) / 2, len(gains) - 1)
    return bool(gains.mean() >= -math.log(1 - LEAST) and gains.mean() > edge * error)


def verdict_of(comparisons: Sequence[Comparison], is_demo: bool, is_tie_enough: bool = False) -> tuple[Verdict, str]:
    """(verdict, conditions): reproduced where the first is better in all comparisons, not where it is in none.

    Args:
        is_tie_enough: no clear difference holds under conditions: for a claim that nothing else is better.
    """
    if is_demo:
        return "illustration, no verdict", ""
    outcomes = {c.outcome for c in comparisons}
    if outcomes == {"yes"}:
        return "reproduced", ""
    if "yes" not in outcomes and not (is_tie_enough and "no clear difference" in outcomes):
        return "not reproduced", conditions(comparisons)
    return "reproduced under conditions", conditions(comparisons)


def conditions(comparisons: Sequence[Comparison]) -> str:
    """What holds, what is the other way round, what is not beyond chance."""
    kinds = (
        ("yes", "it holds for"),
        ("no", "it is the other way round for"),
        ("no clear difference", "no clear difference for"),
    )
    parts = []
    for outcome, words in kinds:
        found = [c for c in comparisons if c.outcome == outcome]
        told = []
        for what in dict.fromkeys(c.what for c in found):
            mine, every = ([c for c in some if c.what == what] for some in (found, comparisons))
            told.append(what if len(mine) == len(every) else f"{what} ({'; '.join(_places(mine))})")
        if told:
            parts.append(f"{words} {', '.join(told)}")
    return "; ".join(parts)


def _places(comparisons: Sequence[Comparison]) -> list[str]:
    """Where they are made; metrics are named where it is not all."""
    metrics: dict[str, list[str]] = {}
    for c in comparisons:
        metrics.setdefault(c.where, []).append(c.metric)
    return [where if len(found) == len(METRICS) else f"{where}, {found[0]}" for where, found in metrics.items()]
