"""Pictures of what is printed beside what is right."""

from collections.abc import Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ergodica_paper import style
from ergodica_paper.errata.formula_claims import PRINTED_OFFSET, VALID_OFFSET
from ergodica_paper.errata.samplers import Examined
from ergodica_paper.flat import FLOOR, RESIDUAL
from ergodica_paper.printed.potentials import one_peak, two_peaks
from ergodica_paper.result import Claim, Picture, Table

WRONG, RIGHT = ("X", "#D55E00"), ("o", "#009E73")
FORMULAS = {
    "printed-closed-form": "Q in two dimensions",
    "printed-remark": "remark after Theorem 2",
    "printed-schedule": "first step of the schedule",
    "printed-gibbs": "weights of a token's topic",
    "printed-section-3-updates": "updates of section 3",
    "printed-lda-gradient": "gradient for LDA",
}


def slips(found: Sequence[Examined]) -> Picture:
    rows = [(_name(e.slip.where), e.printed[RESIDUAL].figure, e.right[RESIDUAL].figure) for e in found]
    bound = found[0].right[RESIDUAL].tolerance
    figure = _pairs(rows, bound, "residual over what cancels in it (no unit)")
    for place, e in enumerate(reversed(found)):
        if not e.is_library_right:
            at = max(e.right[RESIDUAL].figure, FLOOR)
            figure.axes[0].text(at, place + 0.15, "the library differs", fontsize=8, color=WRONG[1])
    caption = f"Printed samplers and their right forms by eg.certify_sde; dashed: the bound of rounding, {bound:.1e}."
    return Picture("slips", caption, figure, "slips")


def _name(where: str) -> str:
    """On two lines where it is long."""
    words = where.replace("`", "").replace(", gradient noise N(0, eps^2 V)", "")
    return words.replace(", ", ",\n", 1) if len(words) > 30 else words


def formulas(claims: Sequence[Claim], bound: float) -> tuple[Picture, Table]:
    """How far other formulas are off as printed, and in the right form where that is another."""
    rows = [
        (FORMULAS[c.name], _largest(c.figures["printed_off"]), c.figures.get("right_off"))
        for c in claims
        if c.name in FORMULAS
    ]
    figure = _pairs(rows, bound, "off by, of its size (no unit)")
    caption = (
        f"Printed formulas that are no samplers, and their right forms where these are others; dashed: {bound:g}, "
        f"above which one is wrong. Exactly right ones are drawn at {FLOOR:g}."
    )
    table = Table("formulas", "How far printed formulas are off.", ("formula", "as printed", "right form"), rows)
    return Picture("formulas", caption, figure, "formulas"), table


def _largest(off: float | Mapping) -> float:
    return max(map(_largest, off.values())) if isinstance(off, Mapping) else off


def _pairs(rows: Sequence[tuple[str, float, float | None]], bound: float, words: str):
    """A line for each: as printed, and right."""
    figure, ((axis,),) = style.new_figure(squeeze=False, size=(7.0, 1.2 + 0.36 * len(rows)))
    for place, (_, printed, right) in enumerate(reversed(rows)):
        high = max(printed, FLOOR)
        if right is not None:
            low = max(right, FLOOR)
            axis.plot([low, high], [place, place], color="#CCCCCC", linewidth=1.5, zorder=1)
            axis.plot(low, place, RIGHT[0], color=RIGHT[1], markersize=8, label="right form")
        axis.plot(high, place, WRONG[0], color=WRONG[1], markersize=9, label="as printed")
    axis.axvline(bound, color="#000000", linestyle="--", linewidth=1)
    axis.set(xscale="log", ylim=(-0.6, len(rows) - 0.4), xlabel=words)
    axis.set_yticks(range(len(rows)), [row[0] for row in reversed(rows)])
    labels = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(labels.values(), labels.keys(), loc="outside upper center", ncols=2)
    return figure


def friction(table: Table) -> Picture:
    """Rows of theta, eps theta, and the error of the variance with explicit (None: no law) and with exact friction."""
    figure, ((axis,),) = style.new_figure(squeeze=False, size=(7.0, 3.4))
    explicit = [(theta, abs(off)) for theta, _, off, _ in table.rows if off is not None]
    axis.plot(*np.transpose(explicit), marker=WRONG[0], color=WRONG[1], label="explicit friction")
    exact = [(theta, max(abs(off), FLOOR)) for theta, _, _, off in table.rows]
    axis.plot(*np.transpose(exact), marker=RIGHT[0], color=RIGHT[1], label="exact friction")
    if len(explicit) < len(exact):
        axis.axvspan(explicit[-1][0], exact[-1][0], color="#EEEEEE")
        axis.text(1.1 * explicit[-1][0], 1e-6, "explicit: no law", fontsize=9)
    axis.set(xscale="log", yscale="log", xlabel="friction theta (1 / time)", ylabel="error of the variance (no unit)")
    axis.legend()
    return Picture("friction", "Error of the stationary variance on a Gaussian, by eg.exact_law.", figure, "friction")


def naive_laws(table: Table) -> Picture:
    """Rows of metric, residual, the law found, and its divergence from the target."""
    figure, ((axis,),) = style.new_figure(squeeze=False, size=(7.0, 2.8))
    for place, (_, residual, law, far) in enumerate(reversed(table.rows)):
        axis.plot(residual, place, "X", color=style.COLOURS["naive_sgrhmc"], markersize=9)
        words = f"leaves {law} invariant" if law else "no law found"
        axis.text(1.15, place, words + ("" if far is None else f"\nKL {far:.5f}"), fontsize=8, va="center")
    axis.set(xscale="log", xlim=(0.02, 30), ylim=(-0.6, len(table.rows) - 0.4), xlabel="residual for exp(-H) (no unit)")
    axis.set_xticks([0.1, 1.0])
    axis.set_yticks(range(len(table.rows)), [row[0].replace(": ", ":\n") for row in reversed(table.rows)])
    caption = "Naive SGRHMC by eg.certify_sde: not the law that it was written for, and for most metrics another one."
    return Picture("naive-laws", caption, figure, table.name)


def offsets() -> tuple[Picture, Table]:
    """U + C on both densities, for the printed and the valid C."""
    figure, axes = style.new_figure(1, 2, size=(7.5, 3.2))
    rows = []
    for axis, (name, potential, reach) in zip(
        axes, (("one peak", one_peak, 3.0), ("two peaks", two_peaks, 1.7)), strict=True
    ):
        t = np.linspace(-reach, reach, 201)
        with jax.enable_x64(True):
            u = np.asarray(jax.vmap(potential)(jnp.asarray(t)[:, None]))
        for c, dashes, colour in ((PRINTED_OFFSET, "--", WRONG[1]), (VALID_OFFSET, "-", RIGHT[1])):
            axis.plot(t, u + c, linestyle=dashes, color=colour, label=f"C = {c:g}")
            rows += [(name, c, float(x), float(y)) for x, y in zip(t, u + c, strict=True)]
        axis.fill_between(t, u + PRINTED_OFFSET, 0, where=u + PRINTED_OFFSET < 0, color=WRONG[1], alpha=0.25)
        axis.axhline(0, color="#000000", linewidth=0.8)
        axis.set(xlabel="t", title=name)
    axes[0].set_ylabel("U + C (nats)")
    axes[0].legend()
    caption = "The metric is 1.5 sqrt|U + C|: it has a cusp, and Gamma is infinite, where U + C crosses 0."
    table = Table("offsets", "U + C along t.", ("density", "C", "t", "U + C"), rows)
    return Picture("offsets", caption, figure, "offsets"), table
