"""Figure 1 from data: which processes leave exp(-H) invariant, and which are recipes."""

from ergodica_paper.big_picture.pictures import counts_table, largest_error, residuals, sets, table_of
from ergodica_paper.big_picture.processes import GROUPS, RECIPES, SINGULAR, Placed, all_processes
from ergodica_paper.result import Ask, Claim, PaperItem, Result
from ergodica_paper.verdict import Answer, judged, yes_if


def equal_claim(found: list[Placed]) -> Claim:
    """Both inclusions: every recipe keeps its law, and whatever keeps its law is a recipe."""
    made, other = ([p for p in found if (p.group in RECIPES) == is_made] for is_made in (True, False))
    route = [p for p in other if p.group == "other route"]
    inside = [p for p in other if p.is_inside]
    lost = [p for p in made if not p.is_inside]
    gap = [p for p in inside if not p.is_recipe]
    missed = [p for p in route if not p.is_inside]
    answers = [
        Answer("every recipe has the law", yes_if(bool(made) and not lost)),
        Answer("every process with the law is a recipe", yes_if(bool(route) and not gap and not missed)),
    ]
    error = largest_error(inside)
    words = (
        f"{len(made) - len(lost)} of {len(made)} recipes have the law. Of all others {len(inside)} have it, and "
        f"{len(inside) - len(gap)} of these are recipes too"
        + ("" if error is None else f", their drift through the rebuilt Q off by {error:.1e} of its size at most")
        + "."
    )
    words += _listed("Without the law", [*lost, *missed]) + _listed("No Q found", gap)
    return judged(
        "figure-1",
        "The processes given by some D and Q are those with the law exp(-H): neither set has more than the other.",
        "figure 1 (BigPic), Theorems 1 and 2",
        answers,
        words,
        {
            "recipes": len(made),
            "recipes_with_the_law": len(made) - len(lost),
            "largest_residual_of_a_recipe": max((p.residual for p in made), default=None),
            "by_another_route": len(route),
            "by_another_route_with_the_law": len(route) - len(missed),
            "not_made_as_recipes_with_the_law": len(inside),
            "of_these_recipes": len(inside) - len(gap),
            "largest_error_of_the_drift_through_Q": error,
        },
        picture="sets",
        rule="Every recipe passes eg.certify_sde; and every process that passes, however it was made, is a recipe: "
        "made as one, or eg.rebuild_curl finds a Q through which its drift comes back.",
    )


def _listed(words: str, some: list[Placed]) -> str:
    return f" {words}: {', '.join(p.label for p in some[:8])}." if some else ""


def small_claim(found: list[Placed]) -> Claim:
    """Random processes do not have the law by chance."""
    chance = [p for p in found if p.group in ("random", "no correction")]
    lucky = [p for p in chance if p.is_inside]
    answers = [
        Answer(GROUPS[group].replace("\n", " "), yes_if(not any(p.group == group for p in lucky)))
        for group in dict.fromkeys(p.group for p in chance)
    ]
    return judged(
        "figure-1-small",
        "The processes with the law exp(-H) are a part of all: one drawn at random is not among them.",
        "figure 1 (BigPic)",
        answers,
        f"Of {len(chance)} processes with a random drift, or with a recipe's drift less Γ, {len(lucky)} have the law; "
        f"the smallest residual is {min(p.residual for p in chance):.2g}, the bound of rounding "
        f"{chance[0].tolerance:.1e}.",
        {
            "processes": len(chance),
            "with_the_law": len(lucky),
            "smallest_residual": min(p.residual for p in chance),
            "bound_of_rounding": chance[0].tolerance,
        },
        picture="residuals",
        kind="ours",
        rule="No process of a group passes eg.certify_sde.",
    )


def naive_claim(found: list[Placed]) -> Claim:
    """No naive sampler keeps the law it was written for."""
    naive = [p for p in found if p.group == "naive"]
    answers = [Answer(p.label, yes_if(not p.is_inside)) for p in naive]
    return judged(
        "naive-outside",
        "The naive forms of SGHMC and SGRHMC do not have the law that they were written for.",
        "sections 3.1 and 3.2",
        answers,
        "Residuals: "
        + "; ".join(f"{p.label} {p.residual:.2g}" for p in naive)
        + f". Rounding is below {naive[0].tolerance:.1e}.",
        {p.name: p.residual for p in naive},
        picture="residuals",
        rule="eg.certify_sde rejects every one of them.",
    )


def run(ask: Ask) -> Result:
    found = all_processes(ask)
    counts = {group: n for group in GROUPS if (n := sum(p.group == group for p in found))}
    linear = [p.name for p in found if p.name.startswith("linear")]
    text = (
        "The paper draws its Figure 1 by hand: all continuous Markov processes (red), those with the law exp(-H) "
        f"(blue), and the recipes (black), which it says are the blue ones. Here {len(found)} processes are placed by "
        "eg.certify_sde, which is reported drift, D and H and nothing else.",
        f"Those by another route are given no Q: {len(linear)} linear ones have their law from a Lyapunov equation "
        f"({linear.count(SINGULAR)} with a direction without noise), the others from a current along a stream "
        "function. eg.rebuild_curl then looks for their Q.",
    )
    return Result(
        text,
        (equal_claim(found), small_claim(found), naive_claim(found)),
        (sets(found, ask.seed), residuals(found, ask.seed)),
        (counts_table(found), table_of(found)),
        settings={"processes": {GROUPS[group].replace("\n", " "): n for group, n in counts.items()}},
    )


ITEM = PaperItem(
    name="big-picture",
    title="The big picture",
    source="figure 1",
    run=run,
    code=(
        "ergodica_paper/big_picture/processes.py",
        "ergodica_paper/processes.py",
        "ergodica_paper/random_recipes.py",
        "ergodica/verify/certificate/sde_certificate.py",
        "ergodica/verify/completeness/rebuild.py",
    ),
    seconds=(40.0, 240.0),
)
