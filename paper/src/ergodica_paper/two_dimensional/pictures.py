"""The paper's figure with contours and paths, and the numbers behind the comparison as pictures."""

from collections.abc import Mapping, Sequence

import numpy as np

from ergodica_paper.best_step import BOUND, NoStep, is_confirmed
from ergodica_paper.result import Picture, Table
from ergodica_paper.style import COLOURS, LABELS, MARKERS, new_figure
from ergodica_paper.two_dimensional import density
from ergodica_paper.two_dimensional.chains import Arm
from ergodica_paper.two_dimensional.claims import At, Way, is_shown
from ergodica_paper.two_dimensional.measured import SEEDS, START, Discrepancy, MeasuredSampler
from ergodica_paper.two_dimensional.trials import StepTrial
from ergodica_paper.verdict import SURE, Measurement

POINTS = 10  # of a path, as in the paper
APART = 50  # gradient evaluations between them


def _line(arm: Arm) -> dict:
    dashed = arm.integrator == "splitting"
    return {
        "color": COLOURS[arm.sampler],
        "marker": MARKERS[arm.sampler],
        "linestyle": "--" if dashed else "-",
        "markerfacecolor": "white" if dashed else COLOURS[arm.sampler],
        "markersize": 4,
        "label": arm.label,
    }


def paths(measured: Mapping[Arm, MeasuredSampler]) -> tuple[Picture, Table]:
    """Contours, and the first ten points of each sampler at its best step."""
    a, b = np.meshgrid(np.linspace(-2.9, 2.9, 200), np.linspace(-2.1, 1.1, 200))
    levels = np.exp(-density.potential(np.stack([a, b], axis=-1)))
    columns = max(1, (len(measured) + 1) // 2)
    figure, axes = new_figure(2, columns, size=(7.5, 5.0), sharex=True, sharey=True, squeeze=False)
    rows = []
    for axis, (arm, figures) in zip(axes.T.ravel(), measured.items(), strict=False):
        axis.grid(False)
        axis.contour(a, b, levels, levels=np.exp([-4, -2.5, -1.5, -0.8, -0.3]), colors="#999999", linewidths=0.7)
        points = np.concatenate([[START], figures.paths[0, APART - 1 : POINTS * APART : APART]])
        axis.plot(*points.T, color=COLOURS[arm.sampler], marker=MARKERS[arm.sampler], markersize=4, linewidth=1.2)
        axis.plot(*START, marker="*", color="black", markersize=9, linestyle="none")
        axis.set_title(f"{arm.label}\nstep size {figures.step_size:.3g}", fontsize=9)
        rows += [[arm.label, figures.step_size, k * APART, *map(float, p)] for k, p in enumerate(points)]
    for axis in axes.ravel()[len(measured) :]:
        axis.set_visible(False)
    figure.supxlabel("theta 1", fontsize=10)
    figure.supylabel("theta 2", fontsize=10)
    caption = (
        f"Contours of the density and the first {POINTS} points of each sampler, {APART} gradient evaluations apart, "
        "each at its best step size, all from the star."
    )
    table = Table(
        "paths", "The points of the paths.", ["sampler", "step size", "gradients", "theta 1", "theta 2"], rows
    )
    return Picture("paths", caption, figure, "paths"), table


def steps(trials: Mapping[Arm, Sequence[StepTrial]]) -> tuple[Picture, Table]:
    """Autocorrelation time and bias against the step size."""
    figure, (left, right) = new_figure(1, 2, size=(7.5, 4.2))
    rows = []
    for arm, found in trials.items():
        rows += [[arm.label, *t, is_confirmed(t)] for t in found]
        kept = [t for t in found if t.lost == 0 and abs(t.bias) < 3]
        sizes = [t.step_size for t in kept]
        left.errorbar(sizes, [t.time for t in kept], [t.time_error for t in kept], **_line(arm), linewidth=1.1)
        right.errorbar(sizes, [abs(t.bias) for t in kept], [t.bias_error for t in kept], **_line(arm), linewidth=1.1)
    right.axhline(BOUND, color=COLOURS["target"], linestyle=":", linewidth=1.5)
    right.annotate("bound", (0.0026, BOUND), xytext=(0, 3), textcoords="offset points", fontsize=9)
    for axis in (left, right):
        axis.set(xscale="log", yscale="log", xlabel="step size")
    left.set_ylabel("autocorrelation time, gradients")
    right.set(ylabel="largest bias of a mean, sds", ylim=(3e-3, 3))
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    caption = (
        "Left: gradient evaluations for one independent draw of the slowest function. Right: how far the samples are "
        f"from the law; a step counts where the largest bias is at most {BOUND:g} sds. Steps at which a chain "
        "became non-finite are not drawn, and stand in the CSV. Bars: one standard error, between chains."
    )
    columns = [
        "sampler", "step size", "friction", "bias", "bias error", "time", "time error", "lost", "chains",
        "within the bound",
    ]  # fmt: skip
    return Picture("steps", caption, figure, "steps"), Table("steps", "Every step size tried.", columns, rows)


def times(ways: Sequence[Way]) -> tuple[Picture, Table]:
    """Autocorrelation times at the best steps, in every way of asking."""
    figure, ((axis,),) = new_figure(squeeze=False, size=(7.0, 1.2 + 0.75 * len(ways)))
    rows = []
    for place, way in enumerate(ways):
        for k, (sampler, at) in enumerate(way.at.items()):
            rows.append([way.words, LABELS[sampler], *_row(at)])
            if isinstance(at, NoStep):
                continue
            mean, error = Measurement.of(at.measured.times)
            label = LABELS[sampler] if place == 0 else None
            axis.errorbar(
                mean, place + (k - 1.5) * 0.17, xerr=error, color=COLOURS[sampler], marker=MARKERS[sampler],
                linestyle="none", label=label, capsize=2, markersize=6,
            )  # fmt: skip
    axis.set(xscale="log", xlabel="autocorrelation time, gradient evaluations")
    axis.set_yticks(range(len(ways)), [way.words.replace(", ", ",\n", 1) for way in ways])
    axis.invert_yaxis()
    figure.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    caption = (
        "Gradient evaluations for one independent draw of the slowest function, each sampler at its best step size; "
        f"fewer is better. Bars: one standard error over {SEEDS} seeds."
    )
    columns = [
        "how", "sampler", "step size", "error of the step", "friction", "time", "time error", "slowest",
        "time by arviz-stats", "bias", "bias error",
    ]  # fmt: skip
    table = Table("times", "Each sampler at its best step size.", columns, rows, shown=True)
    return Picture("times", caption, figure, "times"), table


def _row(at: At | NoStep) -> list:
    if isinstance(at, NoStep):
        return [None] * 9
    m = at.measured
    step = [m.step_size, m.step_size * at.step_error, m.friction]
    return [*step, *Measurement.of(m.times), m.slowest, m.time_within, m.bias, m.bias_error]


def stein(discrepancies: Mapping[Arm, Discrepancy]) -> tuple[Picture, Table]:
    """The Stein discrepancy of paths against gradient evaluations, where it says something."""
    figure, ((axis,),) = new_figure(squeeze=False, size=(7.0, 4.2))
    rows = []
    for arm, path in discrepancies.items():
        shown = is_shown(path)
        means = path.squares.mean(axis=0)
        errors = path.squares.std(axis=0, ddof=1) / np.sqrt(SEEDS)
        root, line = np.sqrt(means[shown]), _line(arm)
        if not shown.any():
            line["label"] += " (never above 0)"
        axis.errorbar(path.gradients[shown], root, errors[shown] / (2 * root), **line, linewidth=1.2, capsize=2)
        columns = (path.gradients, means, errors, shown)
        rows += [
            [arm.label, int(g), float(x), float(e), bool(s)] for g, x, e, s in zip(*columns, strict=True)
        ]  # fmt: skip
    axis.set(xscale="log", yscale="log", xlabel="gradient evaluations", ylabel="kernel Stein discrepancy")
    axis.minorticks_off()
    axis.set_yticks(ticks := [0.05, 0.1, 0.2, 0.5, 1, 2, 5], [f"{x:g}" for x in ticks])
    heights = [np.sqrt(r[2]) for r in rows if r[4]] or [1.0]
    axis.set_ylim(0.7 * min(heights), 1.4 * max(heights))
    lengths = sorted({r[1] for r in rows})
    axis.set_xticks(lengths, [f"{x:,}" for x in lengths])
    axis.legend(*axis.get_legend_handles_labels(), fontsize=9, ncols=2)
    caption = (
        "Kernel Stein discrepancy of one path's draws against the gradient evaluations spent: the root of a mean over "
        "pairs of different draws, which is 0 for independent exact draws. Each sampler at its best step size, from "
        f"the same start. Bars: one standard error over {SEEDS} seeds. Values within {SURE:g} standard errors of 0 say "
        "nothing and are not drawn; they stand in the CSV."
    )
    columns = ["sampler", "gradients", "squared discrepancy", "error", "above that of exact draws"]
    return Picture("stein", caption, figure, "stein"), Table("stein", "Squared Stein discrepancy.", columns, rows)
