"""One look for all pictures: the same colour for a sampler everywhere, safe for the colour-blind."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours (2008), which people with any of the common colour blindnesses can tell apart.
COLOURS = {
    "sgld": "#0072B2",
    "sghmc": "#E69F00",
    "sgrld": "#009E73",
    "sgrhmc": "#CC79A7",
    "gsgrhmc": "#CC79A7",
    "naive_sgrhmc": "#D55E00",
    "naive_sghmc": "#D55E00",
    "sgnht": "#56B4E9",
    "hmc": "#8C6D1F",
    "target": "#555555",
}
# A second channel beside colour.
MARKERS = {"sgld": "o", "sghmc": "s", "sgrld": "^", "sgrhmc": "p", "gsgrhmc": "D", "naive_sgrhmc": "X", "sgnht": "v"}
LABELS = {
    "sgld": "SGLD",
    "sgfs": "SGFS",
    "sgrld": "SGRLD",
    "psgld": "pSGLD",
    "irreversible_langevin": "irreversible Langevin",
    "hmc": "HMC",
    "sghmc": "SGHMC",
    "relativistic_sghmc": "relativistic SGHMC",
    "sgnht": "SGNHT",
    "coordinate_sgnht": "coordinate-wise SGNHT",
    "riemannian_sgnht": "Riemannian SGNHT",
    "sgrhmc": "SGRHMC",
    "gsgrhmc": "gSGRHMC",
    "naive_sghmc": "naive SGHMC",
    "naive_sgrhmc": "naive SGRHMC",
}

_RC: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.axisbelow": True,
    "legend.frameon": False,
}


def house_style() -> AbstractContextManager[None]:
    """In it matplotlib draws as `new_figure` does, legends included."""
    import matplotlib

    return matplotlib.rc_context(_RC)


def new_figure(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (7.0, 4.0), **more: Any
) -> tuple["Figure", Any]:
    """(figure, axes) with the house style, constrained layout, and no display: no pyplot, so no global state."""
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(rows, columns, **more)
    return figure, axes
