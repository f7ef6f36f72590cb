"""The page as a whole: facts of the run, the summary of all claims, and the items one after another (page.html.j2)."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ergodica.pages import duration, render
from ergodica_paper.items import MODULES
from ergodica_paper.page import item, words
from ergodica_paper.record import Record, by_kind, counts, title


def page(folder: Path, records: Sequence[Record]) -> str:
    """The page as text; pictures are read from the folder and stand in the page itself."""
    return render(
        "ergodica_paper.page", records=records, facts=_facts(records), kinds_of_claims=by_kind(records), counts=counts,
        is_quick=any(record.circumstances.mode == "quick" for record in records),
        missing=[name for name in MODULES if name not in {record.name for record in records}],
        title=title, signs=words.SIGNS, marked=words.marked, sentence=words.sentence, counted=words.counted,
        first_sentence=words.first_sentence, flat=words.flat, inlined=partial(item.inlined, folder), blocks=item.blocks,
        files_of=item.files_of, non_finite=item.non_finite, settings_of=item.settings_of, kinds=item.kinds,
        shown_table=item.shown_table, in_repository=item.in_repository,
    )  # fmt: skip


def _facts(records: Sequence[Record]) -> list[str]:
    if not records:
        return ["No item has been run yet."]
    told = [record.circumstances for record in records]
    modes = " and ".join(sorted({one.mode for one in told}))
    seeds = ", ".join(map(str, sorted({one.seed for one in told})))
    first, last = min(one.date for one in told)[:10], max(one.date for one in told)[:10]
    return [
        words.counted(len(records), "item"), f"{modes} run", f"seed {seeds}",
        first if first == last else f"{first} to {last}",
        duration(sum(one.seconds for one in told)),
        " or ".join(sorted({f"ergodica {one.versions.get('ergodica', '?')}" for one in told})),
    ]  # fmt: skip
