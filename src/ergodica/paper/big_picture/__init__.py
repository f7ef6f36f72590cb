"""Figure 1 from data: which processes leave exp(-H) invariant, and which are recipes."""

from ergodica.paper.big_picture.pictures import counts_table, residuals, sets, table_of
from ergodica.paper.big_picture.processes import GROUPS, RECIPES, Placed, all_processes
from ergodica.paper.result import Ask, Claim, Item, Result


def inside_claim(found: list[Placed]) -> Claim:
    """Reproduced if every recipe keeps its law, and no random process that is not one does."""
    made = [p for p in found if p.group in RECIPES]
    lost = [p for p in made if not p.is_inside]
    chance = [p for p in found if p.group == "random"]
    lucky = [p for p in chance if p.is_inside]
    words = (
        f"{len(made) - len(lost)} of {len(made)} recipes keep their law (largest residual "
        f"{max(p.residual for p in made):.1e}); of {len(chance)} SDEs with a random drift, D and H {len(lucky)} do "
        f"(smallest residual {min(p.residual for p in chance):.1e}). Rounding is below {found[0].tolerance:.1e}."
    )
    if lost:
        words += f" Recipes that do not: {', '.join(p.label for p in lost[:8])}."
    return Claim(
        "figure-1",
        "The processes given by some D and Q are those with the law exp(-H), a small part of all processes.",
        "figure 1 (BigPic), Theorems 1 and 2",
        "reproduced" if not lost and not lucky else "not reproduced",
        words,
        {
            "recipes": len(made),
            "recipes_inside": len(made) - len(lost),
            "random_sdes": len(chance),
            "random_sdes_inside": len(lucky),
            "largest_residual_of_a_recipe": max(p.residual for p in made),
            "smallest_residual_of_a_random_sde": min(p.residual for p in chance),
        },
        picture="sets",
    )


def outside_claim(found: list[Placed]) -> Claim:
    """Reproduced if no naive sampler keeps the law it was written for."""
    naive = [p for p in found if p.group == "naive"]
    inside = [p.label for p in naive if p.is_inside]
    return Claim(
        "naive-outside",
        "The naive forms of SGHMC and SGRHMC do not have the law that they were written for.",
        "sections 3.1 and 3.2",
        "not reproduced" if inside else "reproduced",
        "Residuals: " + ", ".join(f"{p.label} {p.residual:.2g}" for p in naive) + ".",
        {p.name: p.residual for p in naive},
        picture="residuals",
    )


def run(ask: Ask) -> Result:
    found = all_processes(ask)
    counts = {group: n for group in GROUPS if (n := sum(p.group == group for p in found))}
    listed = ", ".join(f"{n} {GROUPS[group].replace(chr(10), ' ')}" for group, n in counts.items())
    text = (
        "The paper draws its Figure 1 by hand: all continuous Markov processes, those with the law exp(-H), and those "
        f"that are recipes. Here {len(found)} processes ({listed}) are placed by eg.certify_sde, which is told drift, "
        "D and H and nothing else. That the sets of the law and of the recipes are one is Theorem 2, which is item "
        "theorem-2.",
    )
    return Result(
        text,
        (inside_claim(found), outside_claim(found)),
        (sets(found, ask.seed), residuals(found, ask.seed)),
        (counts_table(found), table_of(found)),
        settings={"processes": counts},
    )


ITEM = Item(
    name="big-picture",
    title="The big picture",
    source="figure 1",
    run=run,
    code=("ergodica/paper/big_picture/processes.py", "ergodica/verify/certificate/handwritten.py"),
    seconds=(40.0, 240.0),
)
