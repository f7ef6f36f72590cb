"""The pictures of the one-dimensional item, and the tables of their numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ergodica_paper import style
from ergodica_paper.one_dimensional.batches import BATCH, ROWS, Shift
from ergodica_paper.one_dimensional.chains import PRINTED_OFFSET
from ergodica_paper.one_dimensional.claims import DENSITIES, at_zero, curve, naive_limit
from ergodica_paper.one_dimensional.densities import BINS, TWO_PEAKS, Peaks
from ergodica_paper.one_dimensional.sweep import SAMPLERS, Curve
from ergodica_paper.result import Picture, Table
from ergodica_paper.verdict import Measurement

FLOOR = 1e-5  # below this KL is only marked: an unbiased estimate of 0 is negative half of the time
EDGE = FLOOR / 1.3  # of its axis, with room for the marks


def all_pictures(curves: Sequence[Curve], shifts: Sequence[Shift]) -> list[Picture]:
    return [_bars(curves), _lines(curves), _densities(curves), _own_batch(shifts)]


def all_tables(curves: Sequence[Curve], shifts: Sequence[Shift]) -> list[Table]:
    return [_limits(curves), _offsets(curves), _points(curves), _shares(curves), _shift_table(shifts)]


def _bars(curves: Sequence[Curve]) -> Picture:
    figure, axes = style.new_figure(1, 2, size=(8.4, 3.8), sharey=True)
    steps = [p.step_size for p in curves[0].points]
    shown = [0, len(steps) // 2, len(steps) - 1]
    for axis, peaks in zip(axes, DENSITIES, strict=True):
        for number, sampler in enumerate(SAMPLERS):
            found = curve(curves, peaks, sampler)
            values = [found.points[i].kl for i in shown] + [at_zero(found)]
            places = np.arange(len(values)) + 0.2 * (number - 1.5)
            colour = style.COLOURS[sampler]
            heights = [v.value - EDGE if v.value >= FLOOR else 0 for v in values]
            bars = axis.bar(places, heights, 0.19, bottom=EDGE, color=colour, label=style.LABELS[sampler])
            for bar, i in zip(bars, shown, strict=False):
                bar.set_hatch("///" if found.points[i].non_finite else None)
                bar.set(edgecolor="white", linewidth=0)
            _errors(axis, places, values, color="#333333", linestyle="none")
            _mark_low(axis, places, values, colour)
        axis.set_xticks(range(len(shown) + 1), [*(f"{steps[i]:g}" for i in shown), "limit 0"])
        _panel(axis, peaks, "step size (time)")
        axis.grid(visible=False, axis="x")
    _kl_axis(axes[0])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    caption = (
        f"KL(samples ‖ target) in nats on {BINS} bins of equal mass, gradient noise of variance 1 subtracted, Euler's "
        "step, after figure 2 (left) of the paper; bars with one standard error. 'limit 0' is the extrapolation to "
        f"step 0. {_READING} Hatched: chains were lost."
    )
    return Picture("kl-bars", caption, figure, "kl")


def _lines(curves: Sequence[Curve]) -> Picture:
    figure, axes = style.new_figure(1, 2, size=(8.4, 4.2), sharey=True)
    for axis, peaks in zip(axes, DENSITIES, strict=True):
        for sampler in SAMPLERS:
            for compensated in (True, False):
                _line(axis, curve(curves, peaks, sampler, compensated=compensated), "-" if compensated else "--")
        _line(axis, curve(curves, peaks, "sghmc", splitting=True), ":")
        exact = naive_limit(peaks, peaks.offset)
        axis.axhline(exact, color=style.COLOURS["naive_sgrhmc"], linewidth=0.8, alpha=0.7)
        axis.set_xscale("log")
        steps = [p.step_size for p in curves[0].points]
        axis.set_xticks(steps, [f"{s:g}" for s in steps])
        axis.set_xticks([], minor=True)
        _panel(axis, peaks, "step size (time)")
    _kl_axis(axes[0])
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=5, fontsize=9)
    caption = (
        "KL against the step size. Solid: the gradient's variance subtracted; dashed: not; dotted: SGHMC "
        "with the library's splitting instead of Euler's step. The thin line is the naive sampler's limit in closed "
        "form. Bars: one standard error; points are moved a little sideways to show them. "
        f"{_READING} Hollow markers: chains were lost."
    )
    return Picture("kl-steps", caption, figure, "kl")


def _line(axis, found: Curve, dashes: str) -> None:
    sampler = found.case.sampler
    colour, marker, size = style.COLOURS[sampler], style.MARKERS[sampler], 5 if dashes == "-" else 3.5
    label = style.LABELS[sampler] if dashes == "-" else "SGHMC, splitting" if dashes == ":" else None
    aside = 1.045 ** (SAMPLERS.index(sampler) - 1.5) * {"-": 0.99, "--": 1.01, ":": 1.03}[dashes]
    steps, values = [aside * p.step_size for p in found.points], [p.kl for p in found.points]
    look = {"color": colour, "marker": marker, "markersize": size, "linestyle": dashes, "linewidth": 1.3}
    _errors(axis, steps, values, label=label, **look)
    _mark_low(axis, steps, values, colour)
    lost = [p for p in found.points if p.non_finite and p.kl.value > FLOOR]
    axis.plot(
        [aside * p.step_size for p in lost], [p.kl.value for p in lost], marker, color=colour, markersize=size + 1,
        markerfacecolor="white", zorder=5,
    )  # fmt: skip


def _errors(axis, places, values: Sequence[Measurement], **look: Any) -> None:
    """With bars of one standard error that end at the edge of the axis; what is below it has its upper half."""
    value, error = np.array(values, float).T
    at = np.where(value < FLOOR, FLOOR, value)
    lower = np.where(value < FLOOR, 0, np.minimum(error, at - EDGE))
    upper = np.maximum(value + error - at, 0)
    axis.errorbar(places, at, [lower, upper], capsize=2, elinewidth=1.2, **look)


def _mark_low(axis, places, values: Sequence[Measurement], colour: str) -> None:
    low = [place for place, v in zip(places, values, strict=True) if v.value < FLOOR]
    axis.plot(low, [FLOOR] * len(low), "v", color=colour, markersize=7, markerfacecolor="white", zorder=6)


_READING = (
    f"A hollow triangle marks an estimate below {FLOOR:g}: what is added by chance is subtracted, so "
    "that an estimate of 0 may be negative."
)


def _kl_axis(axis) -> None:
    axis.set_yscale("log")
    axis.set_ylim(bottom=EDGE)
    axis.set_ylabel("KL(samples ‖ target) (nats)")


def _panel(axis, peaks: Peaks, words: str) -> None:
    axis.set_xlabel(words)
    axis.set_title(f"{peaks.name}, U = {peaks.formula}", fontsize=10)


def _densities(curves: Sequence[Curve]) -> Picture:
    figure, axes = style.new_figure(1, 3, size=(10.0, 3.8))
    panels = [(peaks, False) for peaks in DENSITIES] + [(TWO_PEAKS, True)]
    for axis, (peaks, printed) in zip(axes, panels, strict=True):
        low, high = peaks.quantile(np.array([0.0005, 0.9995]))
        at = np.linspace(low, high, 801)
        axis.plot(at, peaks.density(at), color="black", linewidth=2.2, label="target", zorder=1)
        offset = PRINTED_OFFSET if printed else peaks.offset
        axis.plot(at, peaks.naive_density(at, offset), color="black", linewidth=1, linestyle=":", label="naive law")
        for sampler in SAMPLERS[2:] if printed else SAMPLERS:
            found = curve(curves, peaks, sampler, printed=printed)
            middles, heights = _heights(peaks, found.points[-1].divergence.shares)
            axis.plot(middles, heights, color=style.COLOURS[sampler], linewidth=1.1, label=style.LABELS[sampler])
        axis.set_ylim(0, 1.6 * float(peaks.density(at).max()))
        _panel(axis, peaks, "t")
        axis.set_title(f"{axis.get_title()}\nmetric with offset {offset:g}", fontsize=10)
    axes[0].set_ylabel("density (1/unit of t)")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=6)
    step = curves[0].points[-1].step_size
    caption = (
        f"Densities as in the supplement, from the same {BINS} bins, at step {step:g} with the gradient's variance "
        "subtracted. Dotted: the law exp(-U) G^1/2 that the naive sampler has in the limit. Right: the printed metric "
        f"with |U + {PRINTED_OFFSET:g}|, whose Gamma is infinite where U = -{PRINTED_OFFSET:g}."
    )
    return Picture("densities", caption, figure, "densities")


def _heights(peaks: Peaks, shares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the inner bins, which have two edges."""
    edges = peaks.edges.astype(float)
    return (edges[1:] + edges[:-1]) / 2, shares[1:-1] / np.diff(edges)


def _own_batch(shifts: Sequence[Shift]) -> Picture:
    figure, axis = style.new_figure(size=(6.0, 3.4))  # one axis, not an array of them
    axis: Any
    series = (("own", "the gradient's own batch", "X", "--"), ("crossed", "two halves, crossed", "^", "-"))
    for name, label, marker, dashes in series:
        values: list[Measurement] = [getattr(s, name) for s in shifts]
        axis.errorbar(
            [s.step_size for s in shifts],
            [v.value for v in values],
            [v.error for v in values],
            color=style.COLOURS["sgrld"],
            marker=marker,
            linestyle=dashes,
            capsize=3,
            label=label,
        )
    axis.axhline(0, color=style.COLOURS["target"], linewidth=0.8)
    axis.set_xscale("log")
    axis.set_xticks([s.step_size for s in shifts], [f"{s.step_size:g}" for s in shifts])
    axis.set_xticks([], minor=True)
    axis.set_xlabel("step size (posterior's forgetting times)")
    axis.set_ylabel("shift of the mean (posterior sd)")
    axis.legend()
    caption = (
        f"SGRLD with D ~ sqrt(U~), {ROWS} data, batches of {BATCH}: how far the mean of the chains is from the "
        "posterior's, when the metric reads the gradient's own batch and when each half's potential meets the other "
        "half's gradient (what the library does). Bars: one standard error."
    )
    return Picture("own-batch", caption, figure, "own-batch")


def _limits(curves: Sequence[Curve]) -> Table:
    columns = ("sampler and density", "limit of KL", "standard error", "exact, 100 bins", "misfit", "steps fitted")
    rows = []
    for found in curves:
        naive = found.case.sampler == "naive_sgrhmc"
        exact = naive_limit(found.case.peaks, found.case.offset) if naive else 0.0
        fit = found.limit
        rows.append((found.name, *((None, None) if fit is None else fit.at_zero), exact))
        rows[-1] += (None, None) if fit is None else (fit.misfit, len(found.settled))
    caption = (
        "KL extrapolated to step 0: a weighted polynomial in the step, without a linear term where the limit should be "
        "the target (KL has its minimum there), with one for the naive sampler. Steps at which chains became "
        "non-finite have no stationary law and are not fitted; nor is the printed metric, whose cusp makes KL no "
        "polynomial in the step. The misfit is a chi-squared with one degree of freedom."
    )
    return Table("limits", caption, columns, rows, shown=True)


def _points(curves: Sequence[Curve]) -> Table:
    columns = (
        *("density", "sampler", "offset", "integrator", "variance subtracted", "step size"),
        *("KL (nats)", "standard error", "effective sample size", "effective sample size of the KL"),
        "non-finite chains",
    )
    rows = [
        (
            c.case.peaks.name,
            style.LABELS[c.case.sampler],
            c.case.offset if c.case.has_metric else None,
            "splitting" if c.case.splitting else "Euler",
            c.case.compensated,
            p.step_size,
            *p.kl,
            None if p.non_finite else p.effective,
            p.divergence.effective,
            p.non_finite,
        )
        for c in curves
        for p in c.points
    ]
    caption = "KL(samples ‖ target) at every point; where chains are lost there is no effective sample size."
    return Table("kl", caption, columns, rows)


def _offsets(curves: Sequence[Curve]) -> Table:
    """What the printed offset does to gSGRHMC with two peaks."""
    both = [(c.case.offset, c.points) for c in (curve(curves, TWO_PEAKS, "gsgrhmc", printed=p) for p in (True, False))]
    columns = ["step size"]
    for offset, _ in both:
        columns += [f"KL, offset {offset:g}", f"standard error, offset {offset:g}", f"lost chains, offset {offset:g}"]
    rows = [
        (row[0].step_size, *(x for p in row for x in (*p.kl, p.non_finite)))
        for row in zip(*(points for _, points in both), strict=True)
    ]
    return Table("offsets", "gSGRHMC with two peaks: the printed offset and a valid one.", columns, rows, shown=True)


def _shares(curves: Sequence[Curve]) -> Table:
    columns = ("density", "offset", "sampler", "bin", "lower edge", "upper edge", "share of samples", "target's share")
    rows = []
    for found in curves:
        if not found.case.compensated or found.case.splitting:
            continue
        peaks = found.case.peaks
        edges = [-np.inf, *peaks.edges.astype(float), np.inf]
        for number, share in enumerate(found.points[-1].divergence.shares):
            offset = found.case.offset if found.case.has_metric else None
            ends = [float(e) if np.isfinite(e) else None for e in edges[number : number + 2]]
            sampler = style.LABELS[found.case.sampler]
            rows.append((peaks.name, offset, sampler, number, *ends, float(share), float(peaks.masses[number])))
    return Table("densities", "Shares of the samples in the bins, at the smallest step.", columns, rows)


def _shift_table(shifts: Sequence[Shift]) -> Table:
    columns = ("step size", "own batch: shift (sd)", "standard error", "crossed: shift (sd)", "standard error, crossed")
    return Table(
        "own-batch",
        "Shift of the mean by a metric that reads the minibatch's potential, in posterior standard deviations.",
        columns,
        [(s.step_size, *s.own, *s.crossed) for s in shifts],
        shown=True,
    )
