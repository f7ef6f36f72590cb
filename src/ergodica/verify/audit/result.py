"""What an audit returns: a report with the estimates that its words follow from."""

from dataclasses import dataclass
from typing import NamedTuple

from ergodica.verify.report import Report, number

FALSE_ALARM = 1e-4


class Estimate(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, value: float, error: float) -> "Estimate":
        return cls(float(value), float(value - 1.96 * error), float(value + 1.96 * error))

    def __str__(self) -> str:
        """As "0.953 (0.948-0.958)": with the digits that the interval leaves."""
        width = self.high - self.low
        digits = 0 if width >= 20 else 1 if width >= 2 else 2 if width >= 0.02 else 3
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


@dataclass(frozen=True)
class Audit(Report):
    """The checks of a black-box step, and what it samples: everything here is also in `figures`.

    Attributes:
        temperature: of the law in the limit of small steps; None where no chain could be run.
        asked: the temperature that was claimed.
        bias: a row per step size, largest first.
        order: p of a bias that falls as step_size^p; None where the bias is too small to tell.
        p_value: of the whole audit: how often a right sampler does as badly.
        false_alarm: how often a right sampler does not pass.
    """

    temperature: Estimate | None = None
    asked: float = 1.0
    bias: tuple[StepBias, ...] = ()
    order: Estimate | None = None
    p_value: float = 1.0
    false_alarm: float = FALSE_ALARM

    def __str__(self) -> str:
        if not self.bias:
            return super().__str__()
        head = f"  {'step size':>10}  {'temperature':<22}{'variance / claimed':<22}{'worst coordinate':<32}{'steps to relax':>14}"
        lines = [super().__str__(), "", head]
        for row in self.bias:
            worst = f"{row.worst} {row.coordinate}"
            lines.append(
                f"  {number(row.step_size):>10}  {row.temperature!s:<22}{row.variance!s:<22}{worst:<32}{row.relaxation:>14,}"
            )
        return "\n".join(lines)
