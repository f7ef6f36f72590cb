"""Figure 1 from data: the residuals of all processes, and the sets with the processes in them."""

from typing import Any

import numpy as np

from ergodica_paper import style
from ergodica_paper.big_picture.processes import GROUPS, Placed
from ergodica_paper.flat import FLOOR
from ergodica_paper.result import Picture, Table

# Colour and marker by group; samplers of section 3 have their own.
LOOKS = {
    "recipes": ("#332288", "h"),
    "section 3": ("#000000", "o"),
    "other route": ("#117733", "*"),
    "no correction": ("#882255", "P"),
    "random": ("#999999", "o"),
    "printed": ("#8C6D1F", "s"),
    "naive": ("#D55E00", "X"),
}
INNER = (2.0, 1.25)  # half axes of the set of those that keep the law
OUTER = (4.2, 2.5)
CROWD = 100  # processes from which on marks are smaller


def table_of(found: list[Placed]) -> Table:
    rows = [
        (
            GROUPS[p.group].replace("\n", " "),
            p.label,
            p.dim,
            p.residual,
            p.tolerance,
            "inside" if p.is_inside else "outside",
            p.curl.words,
            p.curl.error,
        )
        for p in found
    ]
    columns = (
        "group", "process", "numbers", "residual", "bound of rounding", "place", "recipe", "drift through Q off by",
    )  # fmt: skip
    return Table("processes", "Every process and its place.", columns, rows)


def counts_table(found: list[Placed]) -> Table:
    rows = []
    for group, words in GROUPS.items():
        here = [p for p in found if p.group == group]
        if not here:
            continue
        residuals = [p.residual for p in here]
        inside = sum(p.is_inside for p in here)
        head = (words.replace("\n", " "), len(here), inside, sum(p.is_recipe for p in here))
        rows.append((*head, min(residuals), max(residuals), largest_error(here)))
    columns = (
        "group", "processes", "law kept", "known as recipes", "smallest residual", "largest residual",
        "drift through rebuilt Q off by",
    )  # fmt: skip
    caption = (
        "Processes by group: the law kept by eg.certify_sde, and a recipe either because it was made as one or because "
        "eg.rebuild_curl found its Q. The last column is over the size of the drift."
    )
    return Table("counts", caption, columns, rows, shown=True)


def largest_error(found: list[Placed]) -> float | None:
    """Of the drift through the rebuilt Q; None where none was rebuilt."""
    return max((p.curl.error for p in found if p.curl.error is not None), default=None)


def _look(p: Placed) -> tuple[str, str]:
    colour, marker = LOOKS[p.group]
    return style.COLOURS.get(p.name, colour), style.MARKERS.get(p.name, marker)


def residuals(found: list[Placed], seed: int) -> Picture:
    figure, ((axis,),) = style.new_figure(squeeze=False, size=(7.0, 4.0))
    rng = np.random.default_rng([seed, 6])
    groups = [group for group in reversed(GROUPS) if any(p.group == group for p in found)]
    for row, group in enumerate(groups):
        for p in (p for p in found if p.group == group):
            colour, marker = _look(p)
            height = row + rng.uniform(-0.25, 0.25)
            axis.plot(max(p.residual, FLOOR), height, marker, color=colour, markersize=6, alpha=0.75, mew=0)
    bound = found[0].tolerance
    axis.axvline(bound, color="#000000", linestyle="--", linewidth=1)
    for x, words, side in ((bound / 3, "law kept", "right"), (bound * 3, "law not kept", "left")):
        axis.text(x, len(groups) - 0.45, words, ha=side, va="bottom", fontsize=9)
    axis.set(
        xscale="log",
        xlim=(FLOOR / 3, 3),
        ylim=(-0.6, len(groups) - 0.1),
        xlabel="Fokker-Planck residual over the size of what cancels in it (no unit)",
        yticks=range(len(groups)),
        yticklabels=[GROUPS[group] for group in groups],
    )
    zeros = sum(p.residual == 0 for p in found)
    caption = (
        f"{len(found)} processes by the residual that eg.certify_sde finds; dashed: the bound of rounding, {bound:.1e}."
        + (" There is nothing in between." if _is_gap(found) else "")
        + f" Residuals of exactly zero ({zeros}) are drawn at {FLOOR:g}."
    )
    return Picture("residuals", caption, figure, "processes")


def _is_gap(found: list[Placed]) -> bool:
    """Whether the two sets are ten orders of magnitude apart."""
    inside = [p.residual for p in found if p.is_inside]
    outside = [p.residual for p in found if not p.is_inside]
    return bool(inside and outside) and min(outside) > 1e10 * max(inside)


def sets(found: list[Placed], seed: int) -> Picture:
    """The red set of all processes and the blue one of those with the law, each process where it was found to be."""
    from matplotlib.patches import Ellipse

    figure, ((axis,),) = style.new_figure(squeeze=False, size=(7.0, 4.6))
    outer, inner = ("#D55E00", "#FDF3EC"), ("#0072B2", "#E8F1F8")
    for (a, b), (edge, fill) in ((OUTER, outer), (INNER, inner)):
        axis.add_patch(Ellipse((0, 0), 2 * a, 2 * b, facecolor=fill, edgecolor=edge, linewidth=2))
    rng = np.random.default_rng([seed, 7])
    shown: set[str] = set()
    for p, (x, y) in zip(found, _places(found, rng), strict=True):
        colour, marker = _look(p)
        key = p.label if p.group == "section 3" else GROUPS[p.group].replace("\n", " ")
        edge = {"mec": "#000000", "mew": 0.9} if p.is_recipe else {"mew": 0}
        size = (10 if marker == "*" else 7) * (1.0 if len(found) < CROWD else 0.7)
        axis.plot(x, y, marker, color=colour, markersize=size, label="" if key in shown else key, **edge)
        shown.add(key)
    inside = sum(p.is_inside for p in found)
    axis.text(0, INNER[1] + 0.06, f"keep exp(-H): {inside}", ha="center", va="bottom", color=inner[0], weight="bold")
    axis.text(
        0, OUTER[1] + 0.06, f"all processes: {len(found)}", ha="center", va="bottom", color=outer[0], weight="bold"
    )
    axis.set(xlim=(-OUTER[0] - 0.1, OUTER[0] + 0.1), ylim=(-OUTER[1] - 0.1, OUTER[1] + 0.4), aspect="equal")
    axis.axis("off")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, handletextpad=0.2, columnspacing=1.0)
    rest = sum(p.is_recipe for p in found if not p.is_inside)
    caption = (
        f"Figure 1 from data. Blue: the {inside} of {len(found)} processes that eg.certify_sde finds to leave exp(-H) "
        "invariant. With a black rim: known to be recipes, made as such or with a Q that eg.rebuild_curl found: "
        f"{sum(p.is_recipe for p in found if p.is_inside)} inside and {rest} outside. Outside, the distance from the "
        "blue set grows with the logarithm of the residual; directions mean nothing."
    )
    return Picture("sets", caption, figure, "processes")


def _places(found: list[Placed], rng: np.random.Generator) -> list[tuple[Any, Any]]:
    """Spread over the angles; the radius, as a share of the way to the inner or outer edge, says the rest."""
    outside = [np.log10(p.residual) for p in found if not p.is_inside and np.isfinite(p.residual)]
    low, high = min(outside, default=-1.0), max(outside, default=0.0)
    turn = np.pi * (3 - np.sqrt(5))  # the golden angle, which never comes back to where it was
    places = []
    for i, p in enumerate(found):
        angle = i * turn + rng.uniform(-0.1, 0.1)
        way = np.array([np.cos(angle), np.sin(angle)])
        if p.is_inside:
            places.append(tuple(0.9 * np.sqrt(rng.uniform()) * way * INNER))
        else:
            size = np.log10(p.residual) if np.isfinite(p.residual) else high
            share = 0.12 + 0.8 * (size - low) / max(high - low, 1e-9)
            places.append(tuple(way * (np.array(INNER) + share * (np.array(OUTER) - INNER))))
    return places
