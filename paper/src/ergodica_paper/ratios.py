"""How many times as fast one is as another: ratios of means over seeds, and what a claim says of several of them."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ergodica_paper.best_step import NoStep
from ergodica_paper.verdict import SURE, Answer, Measurement, Outcome, beyond_chance, counted

RULE = (
    f"a ratio counts beyond {SURE:g} standard errors (over seeds, and of the best step), and a side that alone has a "
    "step wins if every step of the other is off by as much beyond that bound, or loses chains"
)


def log_mean(values: np.ndarray, step_error: float = 0.0) -> Measurement:
    """The logarithm of the mean over seeds, with its standard error, that of the best step included.

    Args:
        values: (seed,) or (seed, length of path); of several lengths the logarithms of the means are averaged.
        step_error: of that logarithm, from the step.
    """
    values = values.reshape(len(values), -1)
    means = values.mean(axis=0)
    # d log m = dm / m: what each seed contributes, so that parts of one path may depend on each other
    each = (values / means).mean(axis=1)
    error = each.std(ddof=1) / math.sqrt(len(each))
    return Measurement(float(np.log(means).mean()), math.hypot(float(error), step_error))


class Ratio(NamedTuple):
    """A figure without what is claimed to help over that with it: above 1, it helps.

    Args:
        logarithm: NaN where there is no ratio. only: "with it" or "without it", where that side alone has `what`.
        what: that decides where there is no ratio.
    """

    logarithm: Measurement
    only: str = ""
    what: str = "a step"

    @property
    def outcome(self) -> Outcome:
        if self.only:
            return "yes" if self.only == "with it" else "no"
        return beyond_chance(*self.logarithm)

    @property
    def value(self) -> Measurement:
        ratio = math.exp(self.logarithm.value)
        return Measurement(ratio, ratio * self.logarithm.error)

    def __str__(self) -> str:
        return f"{self.what} {self.only} alone" if self.only else str(self.value)

    def figures(self) -> dict[str, Any]:
        only = f"{self.what} {self.only}" if self.only else ""
        return {**self.value.told(), "only": only, "holds": self.outcome}


def ratio(without: Measurement | NoStep, with_it: Measurement | NoStep) -> Ratio:
    """From the logarithms of two means, smaller is better."""
    nothing = Measurement(math.nan, math.nan)
    if isinstance(without, NoStep):
        alone = without.is_shown and not isinstance(with_it, NoStep)
        return Ratio(nothing, "with it" if alone else "")
    if isinstance(with_it, NoStep):
        return Ratio(nothing, "without it" if with_it.is_shown else "")
    return Ratio(without.minus(with_it))


class RatioComparison(NamedTuple):
    """One way of asking: `what` and `where` in words, and the ratio."""

    what: str
    where: str
    ratio: Ratio

    @property
    def answer(self) -> Answer:
        return Answer(self.what, self.ratio.outcome, self.where)


def told(comparisons: Sequence[RatioComparison]) -> str:
    """How many hold."""
    alone = sum(bool(c.ratio.only) for c in comparisons)
    more = f"; in {alone} only one side has a step" if alone else ""
    return f"{counted([c.answer for c in comparisons])}{more}."


def ends(comparisons: Sequence[RatioComparison], over: str) -> str:
    """The smallest and the largest ratio; `over` says what was divided by what."""
    with_figures = [c for c in comparisons if math.isfinite(c.ratio.logarithm.value)]
    if not with_figures:
        return ""
    low, high = (pick(with_figures, key=lambda c: c.ratio.logarithm.value) for pick in (min, max))
    return f"{over}: {low.ratio} ({low.answer.words}) to {high.ratio} ({high.answer.words})."
