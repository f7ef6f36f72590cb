"""From figures to answers and from answers to a verdict: the one place where it is decided what is beyond chance."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

from ergodica_paper.result import Claim, Figures, Kind, Verdict

SURE = 3.0  # standard errors of a difference that counts
PLACES = 8  # that are named as conditions
Outcome = Literal["yes", "no", "unclear"]


class Measurement(NamedTuple):
    """A figure and its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        return plus_minus(self.value, self.error)

    @classmethod
    def of(cls, values: np.ndarray) -> "Measurement":
        """The mean of independent values."""
        return cls(float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values))))

    def minus(self, other: "Measurement") -> "Measurement":
        """Their difference, where they know nothing of each other."""
        return Measurement(self.value - other.value, math.hypot(self.error, other.error))

    def told(self) -> dict[str, float | None]:
        """For claims.json, which knows no NaN."""
        names = ("value", "standard error")
        return {name: x if math.isfinite(x) else None for name, x in zip(names, self, strict=True)}


class Answer(NamedTuple):
    """One way of asking, in words, and whether what is claimed was seen: "no" is the contrary, beyond chance.

    Args:
        what: asked of what. where: under which circumstances, if it was asked of the same more than once.
    """

    what: str
    outcome: Outcome
    where: str = ""

    @property
    def words(self) -> str:
        return f"{self.what}, {self.where}" if self.where else self.what


def beyond_chance(value: float, error: float, free: float = math.inf) -> Outcome:
    """Whether a value is above 0 (yes) or below (no) by more than `SURE` standard errors; NaN is neither.

    Args:
        free: degrees of freedom of the error, where it is from few values: by Student's t as rarely wrong as `SURE`.
    """
    limit = SURE if math.isinf(free) else float(stats.t.isf(stats.norm.sf(SURE), free))
    if math.isfinite(error) and abs(value) > limit * error:
        return "yes" if value > 0 else "no"
    return "unclear"


def yes_if(holds: bool) -> Outcome:
    """For what is exact, or decided by a bound: there is no chance in it."""
    return "yes" if holds else "no"


def all_of(outcomes: Iterable[Outcome]) -> Outcome:
    """For a question of several parts: yes where all are, no where one is."""
    found = set(outcomes)
    if "no" in found:
        return "no"
    return "unclear" if "unclear" in found else "yes"


def judged(
    name: str,
    statement: str,
    source: str,
    answers: Sequence[Answer],
    explanation: str,
    figures: Figures,
    *,
    rule: str,
    picture: str = "",
    kind: Kind = "paper",
    where: str | None = None,
    is_demo: bool = False,
) -> Claim:
    """A claim with the verdict that follows from its answers.

    Args:
        where: the conditions in words of its own, where it holds under conditions; else the answers that say yes.
        is_demo: on made-up data, which decide nothing.
    """
    found: Verdict = "illustration, no verdict" if is_demo else verdict(answers)
    words = "" if is_demo else conditions(answers)
    if words and where is not None:
        words = where
    return Claim(name, statement, source, found, explanation, figures, words, picture, kind, rule)


def verdict(answers: Sequence[Answer]) -> Verdict:
    """Reproduced where all say yes, not reproduced where none does, else under conditions."""
    if not answers:
        raise ValueError("a verdict needs at least one answer")
    yes = sum(answer.outcome == "yes" for answer in answers)
    if yes == len(answers):
        return "reproduced"
    return "reproduced under conditions" if yes else "not reproduced"


def conditions(answers: Sequence[Answer]) -> str:
    """Where it holds, if in some of the ways of asking, what belongs together in one place; else nothing."""
    if verdict(answers) != "reproduced under conditions":
        return ""
    places = []
    for what in dict.fromkeys(answer.what for answer in answers):
        here = [answer for answer in answers if answer.what == what]
        yes = [answer.where for answer in here if answer.outcome == "yes"]
        if yes:
            places.append(what if len(yes) == len(here) else f"{what} ({'; '.join(yes)})")
    more = len(places) - PLACES
    rest = [f"and {more} more: see the figures"] if more > 0 else []
    return "; ".join(places[:PLACES] + rest)


def counted(answers: Sequence[Answer]) -> str:
    """Of 8 ways of asking it holds in 2, the contrary holds in 4, and 2 show no difference beyond chance."""
    if len(answers) == 1:
        told = {"yes": "holds", "no": "is the other way round", "unclear": "shows no difference beyond chance"}
        return f"It {told[answers[0].outcome]}"
    counts = Counter(answer.outcome for answer in answers)
    if counts["yes"] == len(answers):
        return f"It holds in all {len(answers)} ways of asking"
    parts = [f"it holds in {counts['yes']}"]
    if counts["no"]:
        parts.append(f"the contrary holds in {counts['no']}")
    if counts["unclear"]:
        parts.append(f"{counts['unclear']} show{'s' * (counts['unclear'] == 1)} no difference beyond chance")
    return f"Of {len(answers)} ways of asking {', '.join(parts[:-1])}{' and ' * (len(parts) > 1)}{parts[-1]}"


def plus_minus(value: float, error: float) -> str:
    """1.234 ± 0.056: the error with two digits, the value to the same place; `no figure` where it is not finite."""
    if not (math.isfinite(value) and math.isfinite(error)):
        return "no figure"
    if error == 0:
        return f"{value:.3g}"
    places = 1 - math.floor(math.log10(abs(error)))
    if -4 <= places <= 5:
        return f"{value:,.{max(places, 0)}f} ± {error:,.{max(places, 0)}f}"
    scale = math.floor(math.log10(max(abs(value), abs(error))))
    digits = max(places + scale, 0)
    return f"({value / 10.0**scale:.{digits}f} ± {error / 10.0**scale:.{digits}f})e{scale}"
