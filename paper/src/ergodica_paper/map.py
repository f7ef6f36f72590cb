"""The supplement's cartoon of D x Q space, from the recipe objects: where each builder's D and Q vanish, are constant,
or depend on the state."""

from typing import Any, NamedTuple

import jax
import numpy as np

from ergodica import tree
from ergodica.phase import Point
from ergodica.recipe import Recipe
from ergodica.targets import Target
from ergodica.verify.specimens import SAMPLERS
from ergodica_paper import style
from ergodica_paper.flat import matrices_at, phase_like
from ergodica_paper.printed_samplers import PRINTED, SECTION_3
from ergodica_paper.result import Ask, Claim, PaperItem, Picture, Result, Table
from ergodica_paper.style import LABELS
from ergodica_paper.verdict import Answer, judged, yes_if

KINDS = ("zero", "constant", "state-dependent")
PHASES = 8
ROUNDING = 1e-12
NEW = ("sgrhmc", "gsgrhmc")  # the paper's own
BEFORE = tuple(name for name in SECTION_3 if name not in NEW)

# Section 3.1, "Summary", and 3.2: (D, Q) as the paper says.
SUMMARY = {
    "sgld": ("constant", "zero"),
    "sgrld": ("state-dependent", "zero"),
    "hmc": ("zero", "constant"),
    "sghmc": ("constant", "constant"),
    "sgnht": ("constant", "state-dependent"),
    "sgrhmc": ("state-dependent", "state-dependent"),
    "gsgrhmc": ("state-dependent", "state-dependent"),
}


class MapPlace(NamedTuple):
    """A builder's place in the map: the kind of D and of Q, and of each of their blocks."""

    name: str
    diffusion: str
    curl: str
    blocks: dict[str, str]
    gap: float | None  # to the D and Q that the paper prints for it

    @property
    def cell(self) -> tuple[str, str]:
        return self.diffusion, self.curl


def kind_of(values: np.ndarray) -> str:
    """Of a matrix at several phases."""
    if not np.any(values):
        return "zero"
    change = np.max(np.abs(values - values[0]))
    return "constant" if change <= ROUNDING * np.max(np.abs(values)) else "state-dependent"


def in_words(values: np.ndarray) -> str:
    """The kind of a block, and a multiple of the identity as such."""
    kind = kind_of(values)
    first = values[0]
    is_scalar = kind == "constant" and first.shape[0] == first.shape[1]
    if is_scalar and np.allclose(first, first[0, 0] * np.eye(len(first)), rtol=0, atol=ROUNDING):
        return f"constant, {first[0, 0]:+.3g} I"
    return kind


def place(name: str, seed: int) -> MapPlace:
    build, target = SAMPLERS[name]
    recipe, law = build(), target()
    at = matrices_at(recipe, law, PHASES, seed)
    blocks = {}
    for slot in recipe.diffusion:
        values = at.diffusion[:, at.spans[slot], at.spans[slot]]
        blocks[f"D {slot}"] = in_words(values) + _reads(recipe, law, slot)
    for row, col in recipe.curl:
        values = at.curl[:, at.spans[row], at.spans[col]]
        blocks[f"Q {row}, {col}"] = in_words(values) + _reads(recipe, law, (row, col))
    gap = None
    if name in PRINTED:
        pairs = [PRINTED[name].matrices(z) for z in at.phases]
        printed = [np.array(both) for both in zip(*pairs, strict=True)]
        gap = max(float(np.abs(a - b).max()) for a, b in zip((at.diffusion, at.curl), printed, strict=True))
    return MapPlace(name, kind_of(at.diffusion), kind_of(at.curl), blocks, gap)


def _reads(recipe: Recipe, target: Target, key: Any) -> str:
    """What the block depends on, in words."""
    with jax.enable_x64(True):
        phase = phase_like(recipe, target)
        point = Point(phase, jax.ShapeDtypeStruct((), tree.common_dtype(phase.position)))
        read = sorted(recipe.reads(point, key))
    return f" (of {' and '.join(read)})" if read else ""


# -- claims, table, picture ---------------------------------------------------------------------------


def summary_claim(places: dict[str, MapPlace]) -> Claim:
    """Asked of every sampler that the paper's summary names."""
    answers = [Answer(LABELS[name], yes_if(places[name].cell == cell)) for name, cell in SUMMARY.items()]
    wrong = [places[name] for name, cell in SUMMARY.items() if places[name].cell != cell]
    off = [f"{LABELS[p.name]}: D {p.diffusion}, Q {p.curl}" for p in wrong]
    return judged(
        "map-summary",
        "SGLD and SGRLD take Q = 0, with a constant and an adaptive D; HMC takes D = 0; SGHMC has both; SGNHT makes Q "
        "state-dependent; SGRHMC both.",
        "section 3.1, Summary, and section 3.2",
        answers,
        f"Of {len(SUMMARY)} samplers {len(SUMMARY) - len(off)} have D and Q of the kind that the paper says."
        + (f" Others: {'; '.join(off)}." if off else ""),
        {name: {"D": places[name].diffusion, "Q": places[name].curl} for name in SUMMARY},
        picture="map",
        rule=f"Sampler by sampler: D and Q of the library's recipe at {PHASES} phases are zero, constant (to "
        f"{ROUNDING:g} of their size) or state-dependent as the paper says.",
    )


def printed_claim(places: dict[str, MapPlace]) -> Claim:
    """Asked of every sampler whose D and Q are printed."""
    gaps = {name: p.gap for name, p in places.items() if p.gap is not None}
    answers = [Answer(LABELS[name], yes_if(gap < ROUNDING)) for name, gap in gaps.items()]
    off = [answer.words for answer in answers if answer.outcome == "no"]
    return judged(
        "map-printed-matrices",
        f"D and Q of {', '.join(LABELS[name] for name in PRINTED)} are as printed.",
        "section 3",
        answers,
        f"The recipes' matrices differ from the printed ones by at most {max(gaps.values()):.1e} ({len(gaps)} samplers)"
        + (f"; those of {', '.join(off)} are others." if off else "."),
        {"largest_difference": gaps},
        picture="map",
        kind="print",
        rule=f"Sampler by sampler: D and Q of the library's recipe, which theorem-1 certifies, differ from the printed "
        f"ones by less than {ROUNDING:g} in every entry at {PHASES} phases.",
    )


def new_claim(places: dict[str, MapPlace]) -> Claim:
    """Reproduced if no earlier sampler has a place where the paper's own are."""
    taken = {places[name].cell for name in BEFORE}
    answers = [Answer(LABELS[name], yes_if(places[name].cell not in taken)) for name in NEW]
    cells = {p.cell for p in places.values()}
    shared = [answer.words for answer in answers if answer.outcome == "no"]
    stand = "; ".join(f"{LABELS[name]} stands at D {places[name].diffusion}, Q {places[name].curl}" for name in NEW)
    return judged(
        "map-new-ground",
        "gSGRHMC covers a part of D x Q space that was not explored before.",
        "supplement, figure Compare, and section 3.1, Summary",
        answers,
        f"Of {len(KINDS) ** 2 - 1} places where something moves the {len(BEFORE)} earlier samplers of section 3 take "
        f"{len(taken)}. {stand}: " + (f"{', '.join(shared)} not alone." if shared else "a place of their own."),
        {
            "taken_before": len(taken), "taken_by_the_library": len(cells), "places": len(KINDS) ** 2 - 1,
            "earlier_samplers": [LABELS[name] for name in BEFORE],
        },
        picture="map",
        rule=f"{' and '.join(LABELS[name] for name in NEW)}, each by itself: no earlier sampler of section 3 has D and "
        "Q of the same kinds (zero, constant or state-dependent).",
    )  # fmt: skip


def table_of(places: dict[str, MapPlace]) -> Table:
    rows = []
    for p in places.values():
        blocks = ["; ".join(f"{k[2:]}: {v}" for k, v in p.blocks.items() if k[0] == which) for which in "DQ"]
        rows.append((LABELS[p.name], p.diffusion, p.curl, *(b or "none" for b in blocks), p.gap, p.name in SECTION_3))
    columns = (
        "sampler", "D", "Q", "blocks of D", "blocks of Q (row, column)", "off the print by",
        "in section 3",
    )  # fmt: skip
    caption = f"D and Q of every builder, computed from the recipe at {PHASES} phases; I is the identity."
    return Table("map", caption, columns, rows, shown=True)


def picture_of(places: dict[str, MapPlace]) -> Picture:
    figure, ((axis,),) = style.new_figure(squeeze=False, size=(7.0, 5.0))
    for column, d in enumerate(KINDS):
        for row, q in enumerate(KINDS):
            here = [p for p in places.values() if p.cell == (d, q)]
            shade = "#FFFFFF" if not here else "#F1F4F8"
            axis.add_patch(_patch(column, row, shade))
            for i, p in enumerate(here):
                height = row + 0.5 + 0.15 * ((len(here) - 1) / 2 - i)
                colour = style.COLOURS.get(p.name, "#444444")
                weight = "bold" if p.name in NEW else "normal"
                mark = "" if p.name in SECTION_3 else "*"
                axis.plot(column + 0.1, height, style.MARKERS.get(p.name, "o"), color=colour, markersize=6)
                axis.text(column + 0.16, height, LABELS[p.name] + mark, va="center", weight=weight, fontsize=9)
            if not here:
                words = "nothing moves" if (d, q) == ("zero", "zero") else "(empty)"
                axis.text(column + 0.5, row + 0.5, words, ha="center", va="center", color="#888888", fontsize=9)
    centres = [i + 0.5 for i in range(len(KINDS))]
    axis.set(
        xlim=(0, len(KINDS)),
        ylim=(0, len(KINDS)),
        xticks=centres,
        yticks=centres,
        xticklabels=KINDS,
        yticklabels=KINDS,
        xlabel="diffusion D",
        ylabel="curl Q",
    )
    axis.grid(False)
    axis.tick_params(length=0)
    caption = (
        "D x Q space as the recipes fill it: each builder where its D and Q vanish, are constant, or depend on the "
        "state. Bold: the paper's own; starred: section 3 does not give its D and Q."
    )
    return Picture("map", caption, figure, "map")


def _patch(column: int, row: int, shade: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column, row), 1, 1, facecolor=shade, edgecolor="#BBBBBB", linewidth=0.8)


def run(ask: Ask) -> Result:
    places = {}
    for i, name in enumerate(SAMPLERS):
        ask.report(i / len(SAMPLERS), f"D and Q of {LABELS[name]}")
        places[name] = place(name, ask.seed)
    text = (
        f"Every builder's recipe is asked for its D and Q at {PHASES} phases; what does not change is constant. "
        f"{len(places)} builders stand in {len({p.cell for p in places.values()})} of {len(KINDS) ** 2} places.",
    )
    claims = (summary_claim(places), printed_claim(places), new_claim(places))
    return Result(text, claims, (picture_of(places),), (table_of(places),), settings={"phases": PHASES})


ITEM = PaperItem(
    name="map",
    title="The map of D and Q",
    source="supplement, figure Compare",
    run=run,
    code=(
        "ergodica_paper/map.py",
        "ergodica/verify/specimens.py",
        "ergodica_paper/flat.py",
        "ergodica_paper/printed_samplers.py",
        "ergodica_paper/printed/matrices.py",
    ),
    seconds=(6.0, 6.0),
)
