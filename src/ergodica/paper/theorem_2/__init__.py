"""Theorem 2: every process with the law exp(-H) is a recipe, and its Q can be computed from its drift."""

from ergodica.paper.result import Ask, Item, Result
from ergodica.paper.samplers import LABELS
from ergodica.paper.theorem_2 import pictures, rebuilt


def run(ask: Ask) -> Result:
    found = rebuilt.rebuild_named(ask)
    others = rebuilt.rebuild_random(ask)
    ask.report(0.96, "a current that is not integrable")
    claims = (rebuilt.named_claim(found), rebuilt.random_claim(others), rebuilt.condition_claim(ask.seed))
    drawn = [*(pictures.pictured(r) for r in found if isinstance(r, rebuilt.Rebuilt)), pictures.shells()]
    names = ", ".join(LABELS[r.name] for r in found)
    text = (
        f"eg.rebuild_curl computes the skew Q of a process from its drift, D and H by the Fourier construction of the "
        f"supplement. For {names} the drift comes from the library's recipe, whose Q it is not told. {len(others)} "
        "random processes are made without a recipe, from a stream function that gives them their law.",
    )
    return Result(
        text=text,
        claims=claims,
        pictures=tuple(picture for picture, _ in drawn),
        tables=(rebuilt.errors_table(found, others), *(table for _, table in drawn)),
        settings={
            "points a side": {f"{d} dimensions": n for d, n in rebuilt.RESOLUTION.items()},
            "random": len(others),
        },
    )


ITEM = Item(
    name="theorem-2",
    title="Completeness",
    source="Theorem 2, section 2.2, supplement",
    run=run,
    code=(
        "ergodica/paper/theorem_2/processes.py",
        "ergodica/paper/theorem_2/rebuilt.py",
        "ergodica/verify/completeness/rebuild.py",
    ),
    seconds=(20.0, 60.0),
)
