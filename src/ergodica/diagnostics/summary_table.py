"""The table of a run: one line for each number of the position."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import PyTree

from ergodica.diagnostics.columns import Named, columns, correlation_of, effective
from ergodica.errors import InputError
from ergodica.output.labelled import named

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, repr=False)
class Summary:
    """Figures of each number, `table["R-hat"]` those of all; printed as a table.

    Attributes:
        names: of the numbers, as `w[0, 2]`.
        figures: arrays by title.
        words: which numbers these are.
    """

    names: list[str]
    figures: dict[str, np.ndarray]
    words: str

    def __getitem__(self, title: str) -> np.ndarray:
        return self.figures[title]

    def to_dataset(self) -> "xr.Dataset":
        """Labelled by `number`; `.to_dataframe()` of that is a pandas table."""
        import xarray as xr

        return xr.Dataset({title: ("number", x) for title, x in self.figures.items()}, {"number": self.names})

    def __str__(self) -> str:
        width = max(len(name) for name in self.names)
        lines = [" " * width + "".join(f"{title:>11}" for title in self.figures)]
        for i, name in enumerate(self.names):
            cells = (_cell(title, x[i]) for title, x in self.figures.items())
            lines.append(f"{name:<{width}}" + "".join(f"{cell:>11}" for cell in cells))
        return "\n".join([*lines, self.words[0].upper() + self.words[1:] + "."])

    __repr__ = __str__


def summary(
    posterior: PyTree,
    stats: Named | None = None,
    settings: Named | None = None,
    moments: Any = None,
    halved: Any = None,
    seed: int = 0,
) -> Summary:
    """Mean, sd, 5 % and 95 % quantiles, Monte Carlo errors of mean and sd, effective sample sizes and R-hat.

    Takes what `diagnose` takes; of that it needs the draws, and `chain_correlation` of the settings. Of a large
    position it has the numbers that `columns` picks.
    """
    if posterior is None:
        raise InputError("this run kept no draws, only moments: they are in run.moments")
    chosen = columns(named(posterior), seed)
    found = effective(chosen, correlation_of(settings or {}))
    figures = {
        "mean": found.mean, "sd": found.sd, "5%": found.low, "95%": found.high, "mean error": found.mean_error,
        "sd error": found.sd_error, "bulk ESS": found.bulk, "tail ESS": found.tail, "R-hat": found.r_hat,
    }  # fmt: skip
    return Summary(found.names, figures, chosen.words)


def _cell(title: str, value: float) -> str:
    if not np.isfinite(value):
        return "-"
    if "ESS" in title:
        return f"{value:.0f}"
    if "error" in title:
        return f"{value:.2g}"
    return f"{value:.3f}" if title == "R-hat" else f"{value:.4g}"
