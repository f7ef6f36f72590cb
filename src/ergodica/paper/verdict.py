"""From figures to answers and from answers to a verdict: the one place where it is decided what is beyond chance."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from ergodica.paper.result import Verdict

SURE = 3.0  # standard errors of a difference that counts
Outcome = Literal["yes", "no", "unclear"]


class Estimate(NamedTuple):
    """A figure and its standard error."""

    value: float
    error: float

    def __str__(self) -> str:
        return plus_minus(self.value, self.error)

    @classmethod
    def of(cls, values: np.ndarray) -> "Estimate":
        """The mean of independent values."""
        return cls(float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values))))

    def told(self) -> dict[str, float | None]:
        """For claims.json, which knows no NaN."""
        names = ("value", "standard error")
        return {name: x if math.isfinite(x) else None for name, x in zip(names, self, strict=True)}


class Answer(NamedTuple):
    """One way of asking, in words, and whether what is claimed was seen: "no" is the contrary, beyond chance."""

    words: str
    outcome: Outcome


def beyond_chance(value: float, error: float) -> Outcome:
    """Whether a value is above 0 (yes) or below (no) by more than `SURE` standard errors; NaN is neither."""
    if math.isfinite(error) and abs(value) > SURE * error:
        return "yes" if value > 0 else "no"
    return "unclear"


def yes_if(holds: bool) -> Outcome:
    """For what is exact, or decided by a bound: there is no chance in it."""
    return "yes" if holds else "no"


def verdict(answers: Sequence[Answer]) -> Verdict:
    """Reproduced where all say yes, not reproduced where none does, else under conditions."""
    if not answers:
        raise ValueError("a verdict needs at least one answer")
    yes = sum(answer.outcome == "yes" for answer in answers)
    if yes == len(answers):
        return "reproduced"
    return "reproduced under conditions" if yes else "not reproduced"


def conditions(answers: Sequence[Answer]) -> str:
    """Where it holds, if in some of the ways of asking; else nothing."""
    if verdict(answers) != "reproduced under conditions":
        return ""
    return "; ".join(answer.words for answer in answers if answer.outcome == "yes")


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
