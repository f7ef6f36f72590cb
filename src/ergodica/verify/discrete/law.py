"""What `eg.exact_law` returns: the law of one discrete chain, or a table of laws against step size and batch."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ergodica.errors import InputError
from ergodica.host.extras import require
from ergodica.report import number

ROWS_SHOWN = 12  # coordinates in a printed law
ROUNDING_BIAS = 1e-10  # a bias below this is rounding
LINE_COLOURS = ("#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


@dataclass(frozen=True, eq=False)
class DiscreteLaw:
    """The stationary mean and covariance of a discrete chain, beside those of its target, exp(-H/T).

    Arrays are in the order of ravel_pytree, the phase's slot by slot, position first.

    Args:
        noise: the gradient noise of the chain, in words.
        dim: numbers in the position.
        transition: A of z' = A z + b + noise; None for Metropolis-corrected leapfrog, which has the target's law.
        radius: spectral radius of A.
        cuts: directions in which the gradient noise is more than the noise to inject, which was cut at zero.
        largest_step: the largest step size without a cut, as `eg.sample` reports it.
    """

    step_size: float
    temperature: float
    noise: str
    dim: int
    phase_mean: np.ndarray
    phase_covariance: np.ndarray
    target_phase_mean: np.ndarray
    target_phase_covariance: np.ndarray
    transition: np.ndarray | None
    radius: float
    cuts: int
    largest_step: float

    @property
    def mean(self) -> np.ndarray:
        return self.phase_mean[: self.dim]

    @property
    def covariance(self) -> np.ndarray:
        return self.phase_covariance[: self.dim, : self.dim]

    @property
    def target_mean(self) -> np.ndarray:
        return self.target_phase_mean[: self.dim]

    @property
    def target_covariance(self) -> np.ndarray:
        return self.target_phase_covariance[: self.dim, : self.dim]

    @property
    def bias(self) -> np.ndarray:
        """The relative error of each variance of the position: 0.05 is 5 % too wide."""
        return np.diag(self.covariance) / np.diag(self.target_covariance) - 1

    @property
    def largest_bias(self) -> float:
        """The largest relative error of a variance over all directions of the position, with its sign."""
        root = np.linalg.cholesky(self.target_covariance)
        white = np.linalg.solve(root, np.linalg.solve(root, self.covariance).T)
        errors = np.linalg.eigvalsh((white + white.T) / 2) - 1
        return float(errors[np.argmax(np.abs(errors))])

    @property
    def relaxation(self) -> float:
        """Steps in which the slowest direction forgets all but 1/e of where it was."""
        return -1 / math.log(self.radius) if 0 < self.radius < 1 else 0.0 if self.radius == 0 else math.nan

    def __str__(self) -> str:
        lines = [
            f"exact law of the chain: step size {self.step_size:g}, temperature {self.temperature:g}, {self.noise}"
        ]
        lines.append(f"  {'':>4}{'mean':>12}{'target':>12}{'variance':>12}{'target':>12}{'bias':>11}")
        variances, targets = np.diag(self.covariance), np.diag(self.target_covariance)
        for i in range(min(self.dim, ROWS_SHOWN)):
            cells = "".join(f"{x:>12.5g}" for x in (self.mean[i], self.target_mean[i], variances[i], targets[i]))
            lines.append(f"  {i:>4}{cells}{signed_percent(self.bias[i]):>11}")
        if self.dim > ROWS_SHOWN:
            lines.append(f"  ... and {self.dim - ROWS_SHOWN} more")
        lines.append(f"  largest error of a variance over all directions: {signed_percent(self.largest_bias)}")
        if self.transition is None:
            lines.append("  a Metropolis test makes the chain exact at every step size")
        else:
            lines.append(f"  spectral radius {self.radius:.6g}: forgets in {number(self.relaxation)} steps")
        if self.cuts:
            lines.append(
                f"  noise cut at zero in {self.cuts} directions: the gradient brings more of it than the step injects; "
                + (f"below step size {self.largest_step:.3g} none is" if self.largest_step else "no step avoids it")
            )
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class LawTable:
    """Laws against step size (rows) and batch (columns); None where a chain has no stationary law.

    Args:
        columns: the batches, in words.
        stable_below: by column, the largest stable step size, where one of those asked for was too large.
    """

    step_sizes: tuple[float, ...]
    columns: tuple[str, ...]
    laws: tuple[tuple[DiscreteLaw | None, ...], ...]
    stable_below: tuple[float | None, ...]

    @property
    def bias(self) -> np.ndarray:
        """(step sizes, columns): the largest relative error of a variance over all directions; NaN where unstable."""
        return np.array([[math.nan if law is None else law.largest_bias for law in row] for row in self.laws])

    @property
    def orders(self) -> tuple[float, ...]:
        """By column, the slope of log |bias| against log step size at the two smallest steps; NaN where it is none."""
        order = np.argsort(self.step_sizes)[:2]
        steps, bias = np.asarray(self.step_sizes)[order], np.abs(self.bias[order])
        if len(order) < 2:
            return tuple(math.nan for _ in self.columns)
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = np.log(bias[1] / bias[0]) / np.log(steps[1] / steps[0])
        return tuple(float(s) if b > ROUNDING_BIAS else math.nan for s, b in zip(slopes, bias[0], strict=True))

    def table(self) -> str:
        """The bias as text."""
        width = max(12, *(len(name) + 2 for name in self.columns))
        lines = ["largest relative error of a variance over all directions of the position"]

        def add(head: str, cells: Iterable[str], last: str = "") -> None:
            lines.append(f"{head:>12}" + "".join(f"{cell:>{width}}" for cell in cells) + (last and f"{last:>14}"))

        add("step size", self.columns, "relaxation")
        for size, row in zip(self.step_sizes, self.laws, strict=True):
            bias = (f"{signed_percent(law.largest_bias)}{'*' * bool(law.cuts)}" if law else "unstable" for law in row)
            # a batch adds noise and leaves A as it is: one relaxation for the row
            times = (f"{number(law.relaxation)} steps" for law in row if law is not None and law.relaxation > 0)
            add(f"{size:.4g}", bias, next(times, "-"))
        add("order", ("-" if math.isnan(order) else f"{order:.2f}" for order in self.orders))
        if any(law is None for row in self.laws for law in row):
            add("stable below", ("-" if limit is None else f"{limit:.4g}" for limit in self.stable_below))
        if any(law is not None and law.cuts for row in self.laws for law in row):
            lines.append("* the gradient brings more noise than the step injects: cut at zero")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def plot(self, path: str | Path) -> None:
        """|bias| against step size, one line for each column, both axes logarithmic."""
        if len(self.step_sizes) < 2:
            raise InputError("a picture of the bias needs two step sizes or more: exact_law(..., step_size=[...])")
        require("matplotlib", extra="plot", by="a picture of the bias")
        from matplotlib.figure import Figure

        order = np.argsort(self.step_sizes)
        steps, bias = np.asarray(self.step_sizes)[order], np.abs(self.bias[order])
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot(xscale="log", yscale="log")
        for i, name in enumerate(self.columns):
            is_seen = bias[:, i] > ROUNDING_BIAS
            label = name if np.any(is_seen) else f"{name} (no bias)"
            colour, limit = LINE_COLOURS[i % len(LINE_COLOURS)], self.stable_below[i]
            axes.plot(steps[is_seen], bias[is_seen, i], "o-", ms=3, color=colour, label=label)
            if limit is not None:
                axes.axvline(limit, color=colour, ls=":", lw=1)
        axes.set_xlabel("step size (dotted: the largest stable one)" if any(self.stable_below) else "step size")
        axes.set_ylabel("largest relative error of a variance")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        figure.savefig(path, dpi=110)


def signed_percent(share: float) -> str:
    """With its sign, three digits; as a factor where that is plainer."""
    if abs(share) < ROUNDING_BIAS:
        return "none"
    return f"x {1 + share:.3g}" if share >= 10 else f"{100 * share:+.3g} %"
