"""From two sets of figures over seeds to an answer, and from answers to a claim's verdict."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ergodica.paper.result import Claim, Verdict

BEYOND = 3.0  # standard errors of a difference that counts
RATIO = "without it over with it (above 1: it helps)"


class Answer(NamedTuple):
    """One way of asking, and how many times as large the figure is without what is claimed to help.

    Where only one of the two has a step within the bound there is no ratio, and `only` says which: it wins.
    """

    words: str
    ratio: float | None = None
    error: float | None = None
    only: str = ""  # "with it" or "without it"

    @property
    def sigmas(self) -> float | None:
        """By how many standard errors the logarithm of the ratio is above 0."""
        if self.ratio is None or self.error is None:
            return None
        return float(np.log(self.ratio) * self.ratio / self.error)

    @property
    def helps(self) -> bool:
        return self.only == "with it" or (self.sigmas is not None and self.sigmas > BEYOND)

    @property
    def hurts(self) -> bool:
        return self.only == "without it" or (self.sigmas is not None and self.sigmas < -BEYOND)

    def __str__(self) -> str:
        told = f"a step {self.only} alone" if self.ratio is None else f"{self.ratio:.2f} ± {self.error:.2f}"
        return f"{self.words}: {told}"


def compare(words: str, without: np.ndarray | None, with_it: np.ndarray | None, grid_error: float) -> Answer | None:
    """Of positive figures over seeds, smaller is better; None: no step within the bound. Both None: nothing was asked.

    `grid_error` is that of each one's logarithm from its best step being one of a grid.
    """
    if with_it is None and without is None:
        return None
    if with_it is None or without is None:
        return Answer(words, only="with it" if without is None else "without it")
    a, b = np.log(without), np.log(with_it)
    ratio = np.exp(a.mean() - b.mean())
    error = np.sqrt(a.var(ddof=1) / len(a) + b.var(ddof=1) / len(b) + 2 * grid_error**2)
    return Answer(words, float(ratio), float(ratio * error))


def verdict(yes: int, asked: int) -> Verdict:
    """Reproduced where it holds beyond chance in every way of asking, not reproduced where in none."""
    if yes in (0, asked):
        return "reproduced" if yes else "not reproduced"
    return "reproduced under conditions"


def claim(
    name: str, statement: str, source: str, asked: Sequence[Answer | None], noun: str, picture: str, ratio: str = RATIO
) -> Claim:
    """A claim from its answers; `noun` is what was measured, `ratio` what was divided by what."""
    answers = [answer for answer in asked if answer is not None]
    yes = [a.words for a in answers if a.helps]
    outcome = verdict(len(yes), len(answers))
    return Claim(
        name,
        statement,
        source,
        outcome,
        f"It helps by more than {BEYOND:g} standard errors in {len(yes)} of {len(answers)} ways of asking, and hurts "
        f"by as much in {sum(a.hurts for a in answers)}; in the others there is no difference beyond chance. "
        f"{noun} {ratio}: {'; '.join(map(str, answers))}. The errors contain that of a best step which is one of a "
        "grid.",
        {
            a.words: {
                "ratio": a.ratio,
                "standard_error": a.error,
                "standard_errors_from_1": a.sigmas,
                "only": a.only,
            }
            for a in answers
        },
        conditions="; ".join(yes) if outcome == "reproduced under conditions" else "",
        picture=picture,
    )
