"""How many times as fast one is as another: ratios of means over seeds, and what a claim says of several of them."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ergodica.paper.verdict import SURE, Answer, Estimate, Outcome, beyond_chance, counted, verdict

PLACES = 4  # that are named as conditions
RULE = (
    f"a ratio counts beyond {SURE:g} standard errors (over seeds, and of the best step), and a side that alone has a "
    "step wins"
)


def log_mean(values: np.ndarray, step_error: float = 0.0) -> Estimate:
    """The logarithm of the mean over seeds, with its standard error, that of the best step included.

    Args:
        values: (seed,) or (seed, look); of several looks the logarithms of the means are averaged.
        step_error: of the logarithm, from the step.
    """
    values = values.reshape(len(values), -1)
    means = values.mean(axis=0)
    # d log m = dm / m: what each seed contributes, so that looks at one path may depend on each other
    each = (values / means).mean(axis=1)
    error = each.std(ddof=1) / math.sqrt(len(each))
    return Estimate(float(np.log(means).mean()), math.hypot(float(error), step_error))


class Ratio(NamedTuple):
    """A figure without what is claimed to help over that with it: above 1, it helps.

    Args:
        logarithm: NaN where there is no ratio. only: "with it" or "without it", where that side alone has `what`.
        what: that decides where there is no ratio.
    """

    logarithm: Estimate
    only: str = ""
    what: str = "a step"

    @property
    def outcome(self) -> Outcome:
        if self.only:
            return "yes" if self.only == "with it" else "no"
        return beyond_chance(*self.logarithm)

    @property
    def value(self) -> Estimate:
        ratio = math.exp(self.logarithm.value)
        return Estimate(ratio, ratio * self.logarithm.error)

    def __str__(self) -> str:
        return f"{self.what} {self.only} alone" if self.only else str(self.value)

    def figures(self) -> dict[str, Any]:
        only = f"{self.what} {self.only}" if self.only else ""
        return {**self.value.told(), "only": only, "holds": self.outcome}


def ratio(without: Estimate | None, with_it: Estimate | None) -> Ratio:
    """From the logarithms of two means, smaller is better; None: no step within the bound."""
    if without is not None and with_it is not None:
        difference = without.value - with_it.value
        return Ratio(Estimate(difference, math.hypot(without.error, with_it.error)))
    only = "" if without is with_it else "with it" if without is None else "without it"
    return Ratio(Estimate(math.nan, math.nan), only)


class Comparison(NamedTuple):
    """One way of asking: `what` and `where` in words, and the ratio."""

    what: str
    where: str
    ratio: Ratio

    @property
    def words(self) -> str:
        return f"{self.what}, {self.where}"

    @property
    def answer(self) -> Answer:
        return Answer(self.words, self.ratio.outcome)


# What stands in a claim that could not be asked at all.
NOTHING = Comparison("nothing to compare", "no step was admitted", ratio(None, None))


def told(comparisons: Sequence[Comparison], over: str) -> str:
    """How many hold, and the two ends of the ratios; `over` says what was divided by what."""
    text = counted([c.answer for c in comparisons])
    with_figures = [c for c in comparisons if math.isfinite(c.ratio.logarithm.value)]
    alone = sum(bool(c.ratio.only) for c in comparisons)
    more = f"; in {alone} only one side has a step" if alone else ""
    if not with_figures:
        return f"{text}{more}."
    low, high = (pick(with_figures, key=lambda c: c.ratio.logarithm.value) for pick in (min, max))
    return f"{text}{more}. {over}: {low.ratio} ({low.words}) to {high.ratio} ({high.words})."


def conditions(asked: Sequence[tuple[str, str, Outcome]]) -> str:
    """Where it holds, if in some of the ways (what, where, outcome) of asking, what belongs together in one place."""
    if verdict([Answer(what, outcome) for what, _, outcome in asked]) != "reproduced under conditions":
        return ""
    places = []
    for what in dict.fromkeys(what for what, *_ in asked):
        here = [(where, outcome) for name, where, outcome in asked if name == what]
        yes = [where for where, outcome in here if outcome == "yes"]
        if yes:
            places.append(what if len(yes) == len(here) else f"{what} ({'; '.join(yes)})")
    more = len(places) - PLACES
    rest = [f"and {more} more: see the figures"] if more > 0 else []
    return "; ".join(places[:PLACES] + rest)
