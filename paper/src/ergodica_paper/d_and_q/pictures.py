"""Escape and crossing times against the size of D and Q, with their tables."""

import math
import re
from collections.abc import Callable, Mapping, Sequence

from ergodica_paper.best_step import BestStep
from ergodica_paper.d_and_q.chains import Choice
from ergodica_paper.d_and_q.claims import Pairs
from ergodica_paper.d_and_q.trials import SEEDS, Figures
from ergodica_paper.result import Claim, Picture, Table
from ergodica_paper.style import COLOURS, MARKERS, new_figure
from ergodica_paper.verdict import Measurement

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


_READING = (
    f"No point: no step of the grid is within the bound on the bias. Bars: one standard error over {SEEDS} seeds."
)


def times(best: Best, heights: Sequence[float], figure_name: str, ylabel: str, caption: str) -> Picture:
    """One figure of `Figures` against the size of D, a panel for each height of the barrier."""
    figure, axes = new_figure(1, len(heights), size=(7.5, 4.4), squeeze=False)
    for axis, height in zip(axes[0], heights, strict=True):
        for grows, (label, colour, dash) in NO_CURL.items():
            for f in (f for c, f in best.items() if f and c[:3] == (height, 1.0, grows) and not c.has_momentum):
                mean, error = getattr(f, figure_name).value
                if not math.isfinite(mean):
                    continue
                axis.axhline(mean, color=colour, linestyle=dash, linewidth=1.5, label=label)
                axis.axhspan(mean - error, mean + error, color=colour, alpha=0.2, linewidth=0)
        for kind, (label, colour, marker) in KINDS.items():
            line = {c.size: f for c, f in best.items() if f and c == Choice(height, c.size, *kind)}
            values = {size: getattr(f, figure_name).value for size, f in line.items()}
            axis.errorbar(
                *_drawn(values),
                color=colour, marker=marker, markersize=5, linewidth=1.2, capsize=2, label=label,
            )  # fmt: skip
        axis.set(xscale="log", yscale="log", xlabel="mean of D over mean of Q")
        axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        axis.set_xticks(sizes := sorted({c.size for c in best}), [f"{x:g}" for x in sizes])
        axis.set_title(f"barrier {height:g}", fontsize=10)
    axes[0][0].set_ylabel(ylabel)
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9)
    return Picture(figure_name, f"{caption} {_READING}", figure, "choices")


def _drawn(values: Mapping[float, Measurement]) -> tuple[list[float], list[float], list[float]]:
    """Places, values, errors; a time that is infinite, as none was met, can't be drawn and stands in the table."""
    finite = {place: x for place, x in values.items() if math.isfinite(x.value)}
    return list(finite), [x.value for x in finite.values()], [x.error for x in finite.values()]


def resampling(best: Best, choices: Sequence[Choice], words: Callable[[Choice], tuple[str, str]]) -> Picture:
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
                *_drawn({e or never_at: f.escape.value for e, f in drawn.items()}),
                color=colour, marker=marker, markersize=5, linewidth=1.2, linestyle=styles[never.size], capsize=2,
                label=words(never)[0],
            )  # fmt: skip
        axis.set(xscale="log", yscale="log", xlabel="steps between momentum resamplings")
        axis.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
        axis.set_xticks([*intervals, never_at], [*map(str, intervals), "never"])
        axis.set_title(f"barrier {height:g}", fontsize=10)
    axes[0][0].set_ylabel("escape time, gradient evaluations")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=9)
    caption = (
        "Gradient evaluations from well to well when the momentum is redrawn every so many steps, for three sizes "
        f"of D, Q of mean 1, both constant or growing with U, each at its best step size. {_READING}"
    )
    return Picture("resampling", caption, figure, "choices")


OUTCOMES = {"yes": ("helps", COLOURS["sgld"]), "no": ("hurts", COLOURS["naive_sgrhmc"])}
UNCLEAR = ("no difference beyond chance", "#999999")


def ratios(claims: Sequence[Claim]) -> tuple[Picture, Table]:
    """Every ratio of these claims, a section for each of them."""
    rows = [(claim.name, words, *figures.values()) for claim in claims for words, figures in claim.figures.items()]
    figure, ((axis,),) = new_figure(squeeze=False, size=(7.5, 1.2 + 0.21 * (len(rows) + 1.5 * len(claims))))
    place, ticks = 0.0, {}
    for claim in claims:
        axis.annotate(
            re.sub(r" \([^)]*\)\.$|\.$", "", claim.statement),
            (0.01, place),
            xycoords=("figure fraction", "data"),
            fontsize=8.5,
            weight="bold",
            va="center",
            annotation_clip=False,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
        )
        place += 1
        for words, x in claim.figures.items():
            ticks[place] = words
            label, colour = OUTCOMES.get(x["holds"], UNCLEAR)
            if x["value"] is None:
                told = f" {x['only']} alone" if x["only"] else " no figure"
                axis.text(1, place, told, color=colour, fontsize=8, va="center")
            else:
                axis.errorbar(
                    x["value"], place, xerr=x["standard error"], color=colour, marker="o", markersize=4, capsize=2,
                    linestyle="none", label=label,
                )  # fmt: skip
            place += 1
        place += 0.5
    axis.axvline(1, color=COLOURS["target"], linewidth=1)
    axis.set(xscale="log", xlabel="ratio (above 1: it helps)")
    axis.set_yticks(list(ticks), list(ticks.values()), fontsize=8)
    axis.set_ylim(place, -1)
    labels = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(labels.values(), labels.keys(), loc="outside lower center", ncols=3, fontsize=9)
    caption = (
        "How many times as many gradient evaluations it takes without what a claim says helps. Bars: one standard "
        f"error, over {SEEDS} seeds and of the best step."
    )
    columns = ["claim", "how", "ratio", "error", "only", "holds"]
    return Picture("ratios", caption, figure, "ratios"), Table("ratios", "Every ratio of the claims.", columns, rows)


def accuracy(pairs: Pairs) -> tuple[Picture, Table]:
    """Bias near the modes with a constant and a growing D."""
    figure, ((axis,),) = new_figure(squeeze=False, size=(7.0, 3.4))
    rows, known = [], {", ".join(words): both for words, both in pairs.items() if both is not None}
    for place, (words, both) in enumerate(known.items()):
        for k, (f, label) in enumerate(zip(both, ("D constant", "D grows with U"), strict=True)):
            colour, marker = ("#555555", "o") if k == 0 else ("#000000", "^")
            mean, error = Measurement.of(f.near_mode)
            axis.errorbar(
                mean, place + 0.2 * (k - 0.5), xerr=error, color=colour, marker=marker, capsize=2,
                linestyle="none", label=label if place == 0 else None,
            )  # fmt: skip
            rows.append([words, label, f.step_size, mean, error, f.bias, f.bias_error])
    axis.axvline(0, color=COLOURS["target"], linewidth=1)
    axis.set_yticks(range(len(known)), list(known))
    axis.invert_yaxis()
    axis.set_xlabel("bias of the mean of U in the more probable half, sds")
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    caption = (
        "How far the samples are from the law near its modes, with a constant D and with one that grows with U and has "
        f"the same mean, at the same step size. Bars: one standard error over {SEEDS} seeds."
    )
    columns = ["how", "D", "step size", "bias near the modes", "error", "largest bias", "its error"]
    return Picture("accuracy", caption, figure, "accuracy"), Table("accuracy", "Bias near the modes.", columns, rows)


def table(found: Mapping[Choice, BestStep[Figures]]) -> Table:
    """All choices of D and Q at their best steps."""
    rows = []
    for c, f in found.items():
        row = [c.height, c.size, c.diffusion_grows, c.has_momentum, c.curl_grows, c.every or "never", f.lost]
        if (best := f.best) is None:
            rows.append([*row, *[None] * 8])
            continue
        step = [best.step_size, best.step_size * f.step_error]
        times = [x for time in (best.escape, best.crossing) for x in time.value.told().values()]
        rows.append([*row, *step, *times, best.bias, best.bias_error])
    columns = [
        "barrier", "mean of D", "D grows", "has Q", "Q grows", "resampled every", "chains lost in the search",
        "step size", "error of the step", "escape time", "escape error", "crossing time", "crossing error", "bias",
        "bias error",
    ]  # fmt: skip
    return Table("choices", "Every choice of D and Q at its best step size.", columns, rows)
