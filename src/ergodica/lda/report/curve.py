"""The perplexity curve: single and averaged against documents read, the unigram's as a line."""

import io
import math
import re

import numpy as np
from markupsafe import Markup

from ergodica.host.extras import require
from ergodica.lda.report.content import Content

MOST_POINTS = 400  # of a curve; more cannot be seen
MARKED_POINTS = 40  # up to which each is a dot
LABEL_GAP = 14.0  # between the names at the ends of the curves
LOGARITHMIC_FROM = 5.0  # largest over smallest
# for the picture; the page replaces them by the colours of its scheme, light or dark
STAND_IN_COLOURS = {"single": "#010101", "averaged": "#020202", "soft": "#030303", "rule": "#040404"}


def curve_svg(content: Content, size: tuple[int, int], name: str) -> Markup | None:
    """The curves on a canvas of this size in pixels, as a part of the page; None where nothing was measured."""
    curves = {label: points for label in ("single", "averaged") if len(points := _points(content, label))}
    if not curves:
        return None
    matplotlib = require("matplotlib", extra="plot", by="the page of a run")
    from matplotlib.figure import Figure

    wide, high = size
    colour, unigram = STAND_IN_COLOURS, content.perplexity["unigram"]
    ends = {label: float(points[-1, 1]) for label, points in curves.items()}
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.size": 12, "path.simplify": False}):
        figure = Figure((wide / 72, high / 72), dpi=72)  # a point is a pixel
        axes = figure.add_axes((52 / wide, 42 / high, 1 - 126 / wide, 1 - 74 / high))
        for label, points in curves.items():
            axes.plot(
                *points.T, color=colour[label], linewidth=2, linestyle="--" if label == "single" else "-",
                marker="o" if len(points) <= MARKED_POINTS else "", markersize=5,
            )  # fmt: skip
        if not math.isnan(unigram):
            axes.axhline(unigram, color=colour["soft"], linewidth=1.5, linestyle=":")
            ends["unigram"] = unigram
        _draw_axes(axes, [*ends.values(), *np.concatenate(list(curves.values()))[:, 1]], is_wide=wide > 500)
        _name_ends(axes, ends)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    return _inlined(file.getvalue(), f"curve {name}")


def _points(content: Content, label: str) -> np.ndarray:
    points = np.column_stack([content.history["documents"], content.history[label]])
    points = points[np.isfinite(points).all(axis=1)]
    if len(points) > MOST_POINTS:
        points = points[np.linspace(0, len(points) - 1, MOST_POINTS).round().astype(int)]
    return points


def _draw_axes(axes, values: list[float], is_wide: bool) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

    soft, rule = STAND_IN_COLOURS["soft"], STAND_IN_COLOURS["rule"]
    is_logarithmic = min(values) > 0 and max(values) > LOGARITHMIC_FROM * min(values)
    if is_logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=8))
        axes.yaxis.set_minor_formatter(NullFormatter())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_locator(MaxNLocator(5 if is_wide else 3, steps=[1, 2, 5, 10]))
    axes.set_xlim(left=0)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(StrMethodFormatter("{x:,.5g}" if max(values) < 100 else "{x:,.0f}"))
    axes.tick_params(colors=soft, labelcolor=soft, left=False, which="both")
    axes.grid(axis="y", color=rule, linewidth=1)
    axes.set_axisbelow(True)
    axes.spines[["left", "right", "top"]].set_visible(False)
    axes.spines["bottom"].set_color(soft)
    axes.set_title("perplexity per word (lower is better)", loc="left", color=soft, fontsize=12)
    axes.set_xlabel("documents read", color=soft)


def _name_ends(axes, ends: dict[str, float]) -> None:
    """The name of every curve beside its end, in its order and apart."""
    from matplotlib.transforms import IdentityTransform

    (_, foot), (right, _) = axes.transAxes.transform([(0, 0), (1, 0)])
    places = {label: axes.transData.transform((0, value))[1] for label, value in ends.items()}
    height = foot - LABEL_GAP
    for label in sorted(places, key=lambda label: places[label]):
        height = max(places[label], height + LABEL_GAP)
        axes.text(
            right + 6, height, label, color=STAND_IN_COLOURS.get(label, STAND_IN_COLOURS["soft"]), va="center",
            transform=IdentityTransform(),
        )  # fmt: skip


def _inlined(svg: str, kind: str) -> Markup:
    """A picture as an element: the page's policy allows no `style`, its fonts and colours are those of the page."""
    svg = re.sub(r"<(metadata|style)\b.*?</\1>|<!--.*?-->|^.*?(?=<svg)", "", svg, flags=re.DOTALL)
    box = re.search(r'viewBox="([^"]+)"', svg)
    assert box is not None
    svg = re.sub(r'style="([^"]*)"', lambda found: _attributes(found[1]), svg)
    # nothing lies outside of the axes, and names of groups would stand in both pictures of the page
    svg = re.sub(r' id="[\w.]+_\d+"| clip-path="[^"]*"|<clipPath.*?</clipPath>', "", svg, flags=re.DOTALL)
    svg = svg.replace("xlink:href", "href")
    for name, colour in STAND_IN_COLOURS.items():
        svg = svg.replace(colour, f"var(--{name})")
    opening = f'<svg class="{kind}" viewBox="{box[1]}" role="img" aria-label="Perplexity against documents read">'
    return Markup(re.sub(r"<svg\b[^>]*>", opening, svg, count=1).strip())


def _attributes(style: str) -> str:
    """What a style says, as attributes; fonts are left to the page."""
    pairs = (part.split(":", 1) for part in style.split(";") if part.strip())
    return " ".join(f'{name.strip()}="{value.strip()}"' for name, value in pairs if not name.strip().startswith("font"))
