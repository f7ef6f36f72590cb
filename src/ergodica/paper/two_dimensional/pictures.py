"""The paper's figure with contours and paths, and the numbers behind the comparison as pictures."""

from collections.abc import Mapping, Sequence

import numpy as np

from ergodica.paper.result import Picture, Table
from ergodica.paper.style import COLOURS, LABELS, MARKERS, new_figure
from ergodica.paper.two_dimensional import density
from ergodica.paper.two_dimensional.chains import Arm
from ergodica.paper.two_dimensional.contest import Way
from ergodica.paper.two_dimensional.measured import SEEDS, START, Measured
from ergodica.paper.two_dimensional.trials import BOUND, Trial

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


def paths(measured: Mapping[Arm, Measured]) -> tuple[Picture, Table]:
    """Contours, and the first ten points of each sampler at its best step."""
    a, b = np.meshgrid(np.linspace(-2.9, 2.9, 200), np.linspace(-2.1, 1.1, 200))
    levels = np.exp(-density.potential(np.stack([a, b], axis=-1)))
    columns = (len(measured) + 1) // 2
    figure, axes = new_figure(2, columns, size=(7.5, 5.0), sharex=True, sharey=True, squeeze=False)
    rows = []
    for axis, (arm, figures) in zip(axes.T.ravel(), measured.items(), strict=False):
        axis.grid(False)
        axis.contour(a, b, levels, levels=np.exp([-4, -2.5, -1.5, -0.8, -0.3]), colors="#999999", linewidths=0.7)
        points = np.concatenate([[START], figures.path[APART - 1 : POINTS * APART : APART]])
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


def steps(trials: Mapping[Arm, Sequence[Trial]]) -> tuple[Picture, Table]:
    """Autocorrelation time and bias against the step size."""
    figure, (left, right) = new_figure(1, 2, size=(7.5, 4.2))
    rows = []
    for arm, found in trials.items():
        rows += [[arm.label, *t, t.is_admitted] for t in found]
        kept = [t for t in found if t.non_finite == 0 and t.bias < 3]
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
        f"from the law; a step counts where the largest bias is at most {BOUND:g} sds. Steps at which a chain left the "
        "finite numbers are not drawn, and stand in the table. Bars: one standard error, between chains."
    )
    columns = ["sampler", "step size", "friction", "bias", "bias error", "time", "time error", "non-finite", "admitted"]
    return Picture("steps", caption, figure, "steps"), Table("steps", "Every step size tried.", columns, rows)


def times(ways: Sequence[Way]) -> tuple[Picture, Table]:
    """Autocorrelation times at the best steps, in every way of asking."""
    figure, ((axis,),) = new_figure(squeeze=False, size=(7.0, 1.2 + 0.75 * len(ways)))
    rows = []
    for place, way in enumerate(ways):
        for k, (sampler, m) in enumerate(way.measured.items()):
            rows.append([way.words, LABELS[sampler], *_row(m)])
            if m is None:
                continue
            mean, error = m.times.mean(), m.times.std(ddof=1) / np.sqrt(SEEDS)
            label = LABELS[sampler] if place == 0 else None
            axis.errorbar(
                mean, place + (k - 1.5) * 0.17, xerr=error, color=COLOURS[sampler], marker=MARKERS[sampler],
                linestyle="none", label=label, capsize=2, markersize=6,
            )  # fmt: skip
    axis.set(xscale="log", xlabel="autocorrelation time, gradient evaluations")
    axis.set_yticks(range(len(ways)), [way.words.replace(", ", ",\n", 1) for way in ways])
    axis.invert_yaxis()
    figure.legend(loc="outside lower center", ncols=4)
    caption = (
        "Gradient evaluations for one independent draw of the slowest function, each sampler at its best step size; "
        f"fewer is better. Bars: one standard error over {SEEDS} seeds."
    )
    columns = [
        "how", "sampler", "step size", "friction", "time", "time error", "slowest", "time by arviz-stats", "bias",
        "bias error", "Stein discrepancy", "Stein error",
    ]  # fmt: skip
    table = Table("times", "Each sampler at its best step size.", columns, rows, shown=True)
    return Picture("times", caption, figure, "times"), table


def _row(m: Measured | None) -> list:
    if m is None:
        return [None] * 10
    error = [float(x.std(ddof=1) / np.sqrt(SEEDS)) for x in (m.times, m.stein[:, -1])]
    time = [float(m.times.mean()), error[0], m.slowest, m.time_within]
    return [m.step_size, m.friction, *time, m.bias, m.bias_error, float(m.stein[:, -1].mean()), error[1]]


def stein(measured: Mapping[Arm, Measured], floor: float) -> tuple[Picture, Table]:
    """The Stein discrepancy of paths against gradient evaluations."""
    figure, ((axis,),) = new_figure(squeeze=False, size=(7.0, 4.2))
    rows = []
    for arm, m in measured.items():
        mean, error = m.stein.mean(axis=0), m.stein.std(axis=0, ddof=1) / np.sqrt(SEEDS)
        axis.errorbar(m.gradients, mean, error, **_line(arm), linewidth=1.2, capsize=2)
        rows += [[arm.label, int(g), float(x), float(e)] for g, x, e in zip(m.gradients, mean, error, strict=True)]
    axis.axhline(floor, color=COLOURS["target"], linestyle=":", linewidth=1.5, label="independent draws")
    axis.set(xscale="log", yscale="log", xlabel="gradient evaluations", ylabel="kernel Stein discrepancy")
    axis.minorticks_off()
    axis.set_yticks(ticks := [0.1, 0.2, 0.5, 1, 2, 5], [f"{x:g}" for x in ticks])
    axis.set_ylim(0.8 * min([floor, *(r[2] for r in rows)]), 1.3 * max(r[2] for r in rows))
    looks = sorted({r[1] for r in rows})
    axis.set_xticks(looks, [f"{x:,}" for x in looks])
    axis.legend(fontsize=9, ncols=2)
    rows.append(["independent draws", None, floor, None])
    caption = (
        "Kernel Stein discrepancy of one path's draws, evenly spaced, against the gradient evaluations spent; each "
        f"sampler at its best step size, from the same start. Bars: one standard error over {SEEDS} seeds. Dotted: as "
        "many independent exact draws."
    )
    columns = ["sampler", "gradients", "discrepancy", "error"]
    return Picture("stein", caption, figure, "stein"), Table("stein", "Stein discrepancy.", columns, rows)
