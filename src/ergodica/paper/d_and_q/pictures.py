"""Escape and crossing times against the size of D and Q, with their tables."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from ergodica.paper.d_and_q.chains import Choice
from ergodica.paper.d_and_q.trials import SEEDS, Figures
from ergodica.paper.result import Picture, Table
from ergodica.paper.style import COLOURS, MARKERS, new_figure

Best = Mapping[Choice, Figures | None]

# (D grows, Q grows): label, colour, marker. Those that are named samplers have their sampler's colour.
KINDS = {
    (False, False): ("D, Q constant (SGHMC)", COLOURS["sghmc"], MARKERS["sghmc"]),
    (True, False): ("D grows with U", "#000000", "v"),
    (False, True): ("Q grows with U", "#999999", "P"),
    (True, True): ("D, Q grow with U (gSGRHMC)", COLOURS["gsgrhmc"], MARKERS["gsgrhmc"]),
}
NO_CURL = {
    False: ("D constant, no Q (SGLD)", COLOURS["sgld"], "--"),
    True: ("D grows with U, no Q (SGRLD)", COLOURS["sgrld"], ":"),
}


def error(x: np.ndarray) -> float:
    return float(x.std(ddof=1) / np.sqrt(len(x)))


def times(best: Best, heights: Sequence[float], figure_name: str, ylabel: str, caption: str) -> Picture:
    """One figure of `Figures` against the size of D, a panel for each height of the barrier."""
    figure, axes = new_figure(1, len(heights), size=(7.5, 4.4), squeeze=False)
    for axis, height in zip(axes[0], heights, strict=True):
        for grows, (label, colour, dash) in NO_CURL.items():
            for f in (f for c, f in best.items() if f and c[:3] == (height, 1.0, grows) and not c.has_momentum):
                x = getattr(f, figure_name)
                axis.axhline(x.mean(), color=colour, linestyle=dash, linewidth=1.5, label=label)
                axis.axhspan(x.mean() - error(x), x.mean() + error(x), color=colour, alpha=0.2, linewidth=0)
        for kind, (label, colour, marker) in KINDS.items():
            line = {c.size: f for c, f in best.items() if f and c == Choice(height, c.size, *kind)}
            sizes, values = list(line), [getattr(f, figure_name) for f in line.values()]
            axis.errorbar(
                sizes, [x.mean() for x in values], [error(x) for x in values],
                color=colour, marker=marker, markersize=5, linewidth=1.2, capsize=2, label=label,
            )  # fmt: skip
        axis.set(xscale="log", yscale="log", xlabel="mean of D over mean of Q")
        axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        axis.set_xticks(sizes := sorted({c.size for c in best}), [f"{x:g}" for x in sizes])
        axis.set_title(f"barrier {height:g}", fontsize=10)
    axes[0][0].set_ylabel(ylabel)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9)
    return Picture(figure_name, f"{caption} Bars: one standard error over {SEEDS} seeds.", figure, "choices")


def resampling(best: Best, choices: Sequence[Choice], words: Callable[[Choice], str]) -> Picture:
    """Escape times against the interval between momentum resamplings."""
    heights = sorted({c.height for c in choices})
    figure, axes = new_figure(1, len(heights), size=(7.5, 4.0), squeeze=False)
    styles = dict(zip(sorted({c.size for c in choices}), ("-", "--", ":"), strict=True))
    intervals = sorted({c.every for c in best if c.every})
    never_at = 3 * intervals[-1]  # drawn at the right end, apart from the others
    for axis, height in zip(axes[0], heights, strict=True):
        for never in (c for c in choices if c.height == height):
            drawn = {e: f for e in (*intervals, 0) if (f := best.get(never._replace(every=e)))}
            _, colour, marker = KINDS[never.diffusion_grows, never.curl_grows]
            axis.errorbar(
                [e or never_at for e in drawn], [f.escape.mean() for f in drawn.values()],
                [error(f.escape) for f in drawn.values()], color=colour, marker=marker, markersize=5, linewidth=1.2,
                linestyle=styles[never.size], capsize=2, label=words(never).rsplit(", ", 1)[0],
            )  # fmt: skip
        axis.set(xscale="log", yscale="log", xlabel="steps between momentum resamplings")
        axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        axis.set_xticks([*intervals, never_at], [*map(str, intervals), "never"])
        axis.set_title(f"barrier {height:g}", fontsize=10)
    axes[0][0].set_ylabel("escape time, gradient evaluations")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9)
    caption = (
        "Gradient evaluations from well to well when the momentum is drawn anew every so many steps, for three sizes "
        f"of D, Q of mean 1, each at its best step size. Bars: one standard error over {SEEDS} seeds."
    )
    return Picture("resampling", caption, figure, "choices")


def accuracy(pairs: Mapping[str, tuple[Figures, Figures]]) -> tuple[Picture, Table]:
    """Bias near the modes with a constant and a growing D."""
    figure, ((axis,),) = new_figure(squeeze=False, size=(7.0, 3.4))
    rows = []
    for place, (words, both) in enumerate(pairs.items()):
        for k, (f, label) in enumerate(zip(both, ("D constant", "D grows with U"), strict=True)):
            colour, marker = (COLOURS["sgld"], "o") if k == 0 else (COLOURS["sgrld"], "^")
            mean = f.near_mode.mean()
            axis.errorbar(
                mean, place + 0.2 * (k - 0.5), xerr=error(f.near_mode), color=colour, marker=marker, capsize=2,
                linestyle="none", label=label if place == 0 else None,
            )  # fmt: skip
            rows.append([words, label, f.step_size, float(mean), error(f.near_mode), f.bias, f.bias_error])
    axis.axvline(0, color=COLOURS["target"], linewidth=1)
    axis.set_yticks(range(len(pairs)), list(pairs))
    axis.invert_yaxis()
    axis.set_xlabel("bias of the mean of U in the more probable half, sds")
    figure.legend(loc="outside lower center", ncols=2)
    caption = (
        "How far the samples are from the law near its modes, with a constant D and with one that grows with U and has "
        f"the same mean, at the same step size. Bars: one standard error over {SEEDS} seeds."
    )
    columns = ["how", "D", "step size", "bias near the modes", "error", "largest bias", "its error"]
    return Picture("accuracy", caption, figure, "accuracy"), Table("accuracy", "Bias near the modes.", columns, rows)


def table(best: Best) -> Table:
    """All choices of D and Q at their best steps."""
    rows = []
    for c, f in best.items():
        row = [c.height, c.size, c.diffusion_grows, c.has_momentum, c.curl_grows, c.every or "never"]
        if f is None:
            rows.append([*row, *[None] * 7])
            continue
        figures = [f.escape.mean(), error(f.escape), f.crossing.mean(), error(f.crossing)]
        rows.append([*row, f.step_size, *map(float, figures), f.bias, f.bias_error])
    columns = [
        "barrier", "mean of D", "D grows", "has Q", "Q grows", "resampled every", "step size", "escape time",
        "escape error", "crossing time", "crossing error", "bias", "bias error",
    ]  # fmt: skip
    return Table("choices", "Every choice of D and Q at its best step size.", columns, rows)
