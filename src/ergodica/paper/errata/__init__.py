"""Every printed equation right or wrong: slips rejected, right forms accepted, and what the library computes."""

from ergodica.paper import style
from ergodica.paper.errata import others, samplers
from ergodica.paper.result import Ask, Item, Picture, Result

FLOOR = 1e-18  # a residual of exactly zero is drawn here


def picture_of(found: list[samplers.Examined]) -> Picture:
    figure, ((axis,),) = style.new_figure(squeeze=False, size=(7.0, 3.8))
    names = []
    for place, e in enumerate(reversed(found)):
        low, high = (max(report[samplers.RESIDUAL].figure, FLOOR) for report in (e.right, e.printed))
        axis.plot([low, high], [place, place], color="#CCCCCC", linewidth=1.5, zorder=1)
        axis.plot(high, place, "X", color="#D55E00", markersize=9, label="as printed" if not place else "")
        axis.plot(low, place, "o", color="#009E73", markersize=8, label="right form" if not place else "")
        if not e.is_library_right:
            axis.text(low, place + 0.15, "the library differs", fontsize=8, color="#D55E00")
        names.append(e.slip.where.replace("`", "").replace(", gradient noise N(0, eps^2 V)", ""))
    bound = found[0].right[samplers.RESIDUAL].tolerance
    axis.axvline(bound, color="#000000", linestyle="--", linewidth=1)
    axis.set(
        xscale="log",
        ylim=(-0.6, len(found) - 0.4),
        xlabel="residual over what cancels in it (no unit)",
        yticks=range(len(found)),
        yticklabels=names,
    )
    axis.legend(loc="lower center", ncols=2, bbox_to_anchor=(0.5, 1.0))
    caption = f"Printed samplers and their right forms by eg.certify_sde; dashed: the bound of rounding, {bound:.1e}."
    return Picture("slips", caption, figure, "slips")


def run(ask: Ask) -> Result:
    found = samplers.examine(ask)
    more, tables = others.all_claims(ask)
    rejected = sum(not e.printed.passed for e in found)
    claims = (
        *samplers.slip_claims(found),
        samplers.right_claim(found),
        *samplers.as_printed_claims(found),
        *more,
    )
    wrong = sum(claim.verdict == "not reproduced" for claim in claims)
    partly = sum(claim.verdict == "reproduced under conditions" for claim in claims)
    text = (
        f"The printed formulas, held against the paper's own theorems: {len(claims)} claims, of which {wrong} do not "
        f"hold as printed and {partly} hold under conditions. Of {len(found)} printed samplers eg.certify_sde rejects "
        f"{rejected}; of their right forms it accepts {sum(e.is_right_accepted for e in found)}, and the library's "
        f"recipes compute {sum(e.is_library_right for e in found)} of them. A claim 'not reproduced' here is a slip of "
        "the print, not of the theory. That 2D - eps B is not always PSD is in item theorem-1.",
    )
    return Result(
        text,
        claims,
        (picture_of(found),),
        (samplers.slips_table(found), *tables),
        settings={"points per comparison": samplers.POINTS},
    )


ITEM = Item(
    name="errata",
    title="Slips in the print",
    source="docs/paper/errata.md",
    run=run,
    code=(
        "ergodica/paper/errata/samplers.py",
        "ergodica/paper/errata/others.py",
        "ergodica/paper/errata/formulas.py",
        "ergodica/paper/printed/equations.py",
    ),
    seconds=(30.0, 30.0),
)
