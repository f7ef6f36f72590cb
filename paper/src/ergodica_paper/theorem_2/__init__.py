"""Theorem 2: every process with the law exp(-H) is a recipe, and its Q can be computed from its drift."""

from ergodica_paper.result import Ask, PaperItem, Result
from ergodica_paper.style import LABELS
from ergodica_paper.theorem_2 import pictures, random_processes, rebuilt, tables


def run(ask: Ask) -> Result:
    found = rebuilt.rebuild_named(ask)
    others = random_processes.rebuild_random(ask)
    ask.report(0.96, "a current that is not integrable")
    claims = (rebuilt.named_claim(found), random_processes.random_claim(others), rebuilt.condition_claim(ask.seed))
    drawn = [*(pictures.pictured(r) for r in found if isinstance(r, rebuilt.Rebuilt)), pictures.shells()]
    return Result(
        text=_text(found, others),
        claims=claims,
        pictures=(*(picture for picture, _ in drawn), pictures.errors_of(others)),
        tables=(
            tables.summary_table(found, others),
            tables.random_table(others),
            *(table for _, table in drawn),
        ),
        settings={
            "points a side": {f"{d} dimensions": n for d, n in rebuilt.RESOLUTION.items()},
            "random processes": {s.kind.name: s.made for s in random_processes.summaries(others)},
            "points per random process": random_processes.POINTS,
        },
        non_finite={"random processes": sum(not (r.is_finite or r.refused) for r in others)},
    )


def _text(found: list, others: list) -> tuple[str, ...]:
    names = ", ".join(LABELS[r.name] for r in found)
    made = "; ".join(f"{s.made} by {s.kind.name} ({s.kind.words})" for s in random_processes.summaries(others))
    return (
        "eg.rebuild_curl computes the skew Q of a process from its drift, D and H by the Fourier construction of the "
        f"supplement. For {names} the drift comes from the library's recipe, whose Q it is not told. Random processes "
        f"are made without a recipe: {made}.",
    )


ITEM = PaperItem(
    name="theorem-2",
    title="Completeness",
    source="Theorem 2, section 2.2, supplement",
    run=run,
    code=(
        "ergodica_paper/processes.py",
        "ergodica_paper/theorem_2/processes.py",
        "ergodica_paper/theorem_2/random_processes.py",
        "ergodica_paper/theorem_2/rebuilt.py",
        "ergodica/verify/completeness/rebuild.py",
    ),
    seconds=(20.0, 120.0),
)
