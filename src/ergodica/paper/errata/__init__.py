"""Every printed equation right or wrong: slips rejected, right forms accepted, and what the library computes."""

from collections.abc import Sequence

from ergodica.paper import style
from ergodica.paper.errata import formula_claims, lines, sampler_claims, samplers
from ergodica.paper.flat import FLOOR, RESIDUAL
from ergodica.paper.result import Ask, Claim, Item, Picture, Result, Verdict


def picture_of(found: list[samplers.Examined]) -> Picture:
    figure, ((axis,),) = style.new_figure(squeeze=False, size=(7.0, 3.8))
    names = []
    for place, e in enumerate(reversed(found)):
        low, high = (max(report[RESIDUAL].figure, FLOOR) for report in (e.right, e.printed))
        axis.plot([low, high], [place, place], color="#CCCCCC", linewidth=1.5, zorder=1)
        axis.plot(high, place, "X", color="#D55E00", markersize=9, label="as printed" if not place else "")
        axis.plot(low, place, "o", color="#009E73", markersize=8, label="right form" if not place else "")
        if not e.is_library_right:
            axis.text(low, place + 0.15, "the library differs", fontsize=8, color="#D55E00")
        names.append(_name(e.slip.where))
    bound = found[0].right[RESIDUAL].tolerance
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


def _name(where: str) -> str:
    """On two lines where it is long."""
    words = where.replace("`", "").replace(", gradient noise N(0, eps^2 V)", "")
    return words.replace(", ", ",\n", 1) if len(words) > 30 else words


def run(ask: Ask) -> Result:
    found = samplers.examine(ask)
    ask.report(0.65, "the older Gamma")
    of_samplers = (
        *sampler_claims.slip_claims(found),
        *sampler_claims.older_claims(found, ask.seed),
        sampler_claims.right_claim(found),
        *sampler_claims.as_printed_claims(found),
    )
    of_formulas, tables = formula_claims.all_claims(ask)
    ask.report(0.9, "updates as printed")
    of_updates, updates = formula_claims.update_claim(formula_claims.update_gaps(ask.seed))
    every = (*of_samplers, *of_formulas, of_updates, formula_claims.gradient_claim(ask.seed))
    printed = [e for e in found if e.slip.name != sampler_claims.WITHOUT_2]  # which is our own
    return Result(
        (words_of(every, printed),),
        every,
        (picture_of(printed),),
        (lines.lines_table(every), samplers.slips_table(printed), *tables, updates),
        settings={"points per comparison": samplers.POINTS},
    )


def words_of(every: Sequence[Claim], found: list[samplers.Examined]) -> str:
    printed = [claim.verdict for claim in every if claim.kind == "print"]

    def count(verdict: Verdict) -> int:
        return printed.count(verdict)

    return (
        f"{len(printed)} printed formulas, held against the paper's own theorems: {count('reproduced')} are right, "
        f"{count('reproduced under conditions')} under conditions, and {count('not reproduced')} are misprints, which "
        f"say nothing against the theory. Of {len(found)} samplers with a slip eg.certify_sde rejects "
        f"{sum(not e.printed.passed for e in found)} as printed and accepts {sum(e.is_right_accepted for e in found)} "
        f"in the right form; the library computes {sum(e.is_library_right for e in found)} of these. That 2D - eps B "
        "is not always positive semidefinite is in item theorem-1."
    )


ITEM = Item(
    name="errata",
    title="Slips in the print",
    source="all of its formulas; our list is docs/paper/errata.md",
    run=run,
    code=(
        "ergodica/paper/errata/samplers.py",
        "ergodica/paper/errata/sampler_claims.py",
        "ergodica/paper/errata/formulas.py",
        "ergodica/paper/errata/formula_claims.py",
        "ergodica/paper/printed/equations.py",
        "ergodica/paper/printed/matrices.py",
    ),
    seconds=(30.0, 30.0),
)
