"""Every printed equation right or wrong: slips rejected, right forms accepted, and what the library computes."""

from collections.abc import Sequence

from ergodica_paper.errata import formula_claims, lines, pictures, sampler_claims, samplers
from ergodica_paper.errata.formula_claims import CLOSE
from ergodica_paper.result import Ask, Claim, PaperItem, Result, Verdict


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
    (formulas, formula_table), (of_offset, offset_table) = pictures.formulas(every, CLOSE), pictures.offsets()
    named = {table.name: table for table in tables}
    of_naive, of_friction = pictures.naive_laws(named["naive-sgrhmc"]), pictures.friction(named["friction"])
    printed = [e for e in found if e.slip.name != sampler_claims.WITHOUT_2]  # which is our own
    return Result(
        (words_of(every, printed),),
        every,
        (pictures.slips(printed), of_naive, formulas, of_offset, of_friction),
        (lines.lines_table(every), samplers.slips_table(printed), *tables, updates, formula_table, offset_table),
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


ITEM = PaperItem(
    name="errata",
    title="Slips in the print",
    source="all of its formulas; our list is docs/paper/errata.md",
    run=run,
    code=(
        "ergodica_paper/errata/samplers.py",
        "ergodica_paper/errata/sampler_claims.py",
        "ergodica_paper/errata/formulas.py",
        "ergodica_paper/errata/formula_claims.py",
        "ergodica_paper/printed/equations.py",
        "ergodica_paper/printed/matrices.py",
    ),
    seconds=(30.0, 30.0),
)
