"""What an audit returns: a report with the estimates that its words follow from."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from ergodica.report import Report, columns, number
from ergodica.verify.tails import FALSE_ALARM


class Estimate(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, error: float) -> "Estimate":
        return cls(float(value), float(value - 1.96 * error), float(value + 1.96 * error))

    def times(self, factor: float) -> "Estimate":
        return Estimate(*(factor * x for x in self))

    def __str__(self) -> str:
        """As "0.953 (0.948-0.958)": with the digits that the interval leaves."""
        width = self.high - self.low
        digits = 0 if width >= 20 else 1 if width >= 2 else 2
        if 0 < width < 0.02:
            digits = min(int(-math.log10(width)) + 1, 6)
        between = "-" if self.low >= 0 else " to "
        return f"{self.value:.{digits}f} ({self.low:.{digits}f}{between}{self.high:.{digits}f})"


class StepBias(NamedTuple):
    """One row of the table of bias: what the chain samples at one step size, against 1 for what was asked."""

    step_size: float
    temperature: Estimate
    """E[(x - m) dU/dx] over coordinates: the temperature sampled, in the units of `Audit.asked`."""
    variance: Estimate
    """Variance over that of the claimed law, mean over coordinates."""
    worst: Estimate
    """The same for the coordinate that is furthest off."""
    coordinate: str
    """Which coordinate that is."""
    relaxation: int
    """Steps after which the position has forgotten where it was."""

    def cells(self) -> tuple[str, ...]:
        worst = f"{self.worst} {self.coordinate}"
        return number(self.step_size), str(self.temperature), str(self.variance), worst, f"{self.relaxation:,}"


@dataclass(frozen=True)
class Audit(Report):
    """The checks of a black-box step, and what it samples: everything here is also in `figures`.

    Attributes:
        temperature: of the law in the limit of small steps; None where no chain could be run.
        asked: the temperature that was claimed.
        bias: a row per step size, largest first.
        order: p of a bias that falls as step_size^p; None where the bias is too small to tell.
        p_value: of the whole audit: how often a right sampler does as badly.
        false_alarm: how often a right sampler is rejected.
    """

    temperature: Estimate | None = None
    asked: float = 1.0
    bias: tuple[StepBias, ...] = ()
    order: Estimate | None = None
    p_value: float = 1.0
    false_alarm: float = FALSE_ALARM

    @property
    def is_decided(self) -> bool:
        """False where a law that is badly off would not have been seen either."""
        return all(check.passed for check in self.checks if check.name == "decides")

    @property
    def undecided(self) -> bool:
        """True when nothing is wrong, but too little was seen to tell."""
        return [check.name for check in self.checks if not check.passed] == ["decides"]

    def __str__(self) -> str:
        if not self.bias:
            return super().__str__()
        head = ("step size", "temperature", "variance / claimed", "worst coordinate", "steps to relax")
        lines = columns([head, *(row.cells() for row in self.bias)])
        return "\n".join([super().__str__(), "", *(f"  {line}" for line in lines)])
