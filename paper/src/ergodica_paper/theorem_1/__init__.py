"""Theorem 1: any PSD D(z) and skew Q(z) leave exp(-H) invariant; and what becomes of a sampler that has none."""

from ergodica_paper.result import Ask, PaperItem, Result
from ergodica_paper.theorem_1 import admissible, certificates, naive_sghmc


def run(ask: Ask) -> Result:
    named, random = certificates.certify_named(ask), certificates.certify_random(ask)
    moments, steps = naive_sghmc.all_moments(ask), admissible.all_admissible(ask)
    momentum, path = naive_sghmc.pictured(moments)
    claims = (
        certificates.named_claim(named),
        certificates.random_claim(random),
        naive_sghmc.naive_claim(moments, ask.seed),
        naive_sghmc.friction_claim(moments),
        admissible.admissible_claim(steps),
    )
    reached = sum(c.is_reached is True for c in [*named, *random])
    text = (
        f"Theorem 1 says that a drift made from H, a PSD D and a skew Q keeps exp(-H). eg.certify puts it to the test "
        f"in float64 at points where the law lives: {len(named)} samplers of section 3 and {len(random)} random "
        "recipes with state-dependent blocks. That the noise also reaches every direction is a check of its own: it "
        f"does in {reached} of {len(named) + len(random)}, where for D = 0 resampling the momentum counts as noise.",
        "What goes wrong without the theorem is seen without sampling on a Gaussian, where the moments of a chain are "
        "a matrix recursion.",
    )
    return Result(
        text=text,
        claims=claims,
        pictures=(certificates.picture_of([*named, *random]), momentum, admissible.admissible_picture(steps)),
        tables=(
            certificates.table_of([*named, *random]),
            path,
            *naive_sghmc.long_run_tables(moments),
            admissible.admissible_table(steps),
        ),
        settings={
            "random recipes": len(random),
            "points per certificate": certificates.POINTS,
            "phases per largest step": admissible.POINTS,
        },
    )


ITEM = PaperItem(
    name="theorem-1",
    title="Stationarity by construction",
    source="Theorem 1, section 3",
    run=run,
    code=(
        "ergodica_paper/theorem_1/certificates.py",
        "ergodica_paper/random_recipes.py",
        "ergodica_paper/theorem_1/naive_sghmc.py",
        "ergodica_paper/theorem_1/admissible.py",
        "ergodica/verify/certificate/recipe_certificate.py",
    ),
    seconds=(40.0, 180.0),
)
