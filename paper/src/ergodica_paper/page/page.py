"""The page as a whole: its head, the summary of all claims, and the items one after another."""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from ergodica.pages import duration, render
from ergodica_paper.items import MODULES
from ergodica_paper.page.item import item_section
from ergodica_paper.page.words import badge, counted, escaped, marked
from ergodica_paper.record import Record, by_kind, counts, title
from ergodica_paper.result import Claim


def page(folder: Path, records: Sequence[Record]) -> str:
    """The page as text; pictures are read from the folder and stand in the page itself."""
    sections = [item_section(folder, record) for record in records]
    main = "\n".join([_claims(records), *sections, _missing(records)])
    return render("ergodica_paper.page", header=Markup(_header(records)), main=Markup(main))


def _header(records: Sequence[Record]) -> str:
    links = "\n".join(f'<a href="#{record.name}">{escaped(record.name)}</a>' for record in records)
    return f"""<h1>The paper, reproduced claim by claim</h1>
<p class="facts">Ma, Chen and Fox, <cite>A Complete Recipe for Stochastic Gradient MCMC</cite> (2015)<br>
{_facts(records)}</p>
<dl class="counts">{_counts(records)}</dl>
<nav aria-label="Items">{links}</nav>"""


def _counts(records: Sequence[Record]) -> str:
    """Counts of verdicts, a row for each kind of claims."""
    rows = []
    for kind, claims in by_kind(records).items():
        badges = " ".join(badge(verdict, count) for verdict, count in counts(claims).items())
        rows.append(f'<div><dt><a href="#kind-{kind}">{title(kind)}</a></dt><dd>{badges}</dd></div>')
    return "\n".join(rows)


def _facts(records: Sequence[Record]) -> str:
    if not records:
        return "No item has been run yet."
    told = [record.circumstances for record in records]
    modes = " and ".join(sorted({one.mode for one in told}))
    seeds = ", ".join(map(str, sorted({one.seed for one in told})))
    first, last = min(one.date for one in told)[:10], max(one.date for one in told)[:10]
    facts = [
        counted(len(records), "item"), f"{modes} run", f"seed {seeds}",
        first if first == last else f"{first} to {last}",
        duration(sum(one.seconds for one in told)),
        " or ".join(sorted({f"ergodica {one.versions.get('ergodica', '?')}" for one in told})),
    ]  # fmt: skip
    return " · ".join(escaped(fact) for fact in facts)


def _claims(records: Sequence[Record]) -> str:
    found = by_kind(records)
    if not found:
        return ""
    tables = "\n".join(_claims_of(kind, claims) for kind, claims in found.items())
    return f"""<section id="claims">
<h2>Claims</h2>
{_reading(records)}
{tables}
</section>"""


def _claims_of(kind: str, claims: Sequence[tuple[Record, Claim]]) -> str:
    rows = "\n".join(
        f'<tr><td>{badge(claim.verdict)}</td><td><a href="#claim-{claim.name}">{marked(claim.statement)}</a></td>'
        f'<td><a href="#{record.name}">{escaped(record.name)}</a></td></tr>'
        for record, claim in claims
    )
    return f"""<h3 class="kind" id="kind-{kind}">{title(kind)}</h3>
<div class="scroll"><table class="claims">
<thead><tr><th>verdict</th><th>claim</th><th>item</th></tr></thead>
<tbody>
{rows}
</tbody></table></div>"""


def _reading(records: Sequence[Record]) -> str:
    """What a verdict means, and what a quick one does not."""
    words = (
        "A claim is judged by a rule that stands beside it. Under conditions: it holds in some of the ways of asking, "
        "which are named, and not in others. Not reproduced: it was not seen, or the contrary was; the explanation "
        "says which. A formula that is not reproduced is a misprint: the theory holds with the right form."
    )
    if any(record.circumstances.mode == "quick" for record in records):
        words += " A quick run has few samples, so that a difference may only be too small for it: `--full` decides."
    return f"<p>{marked(words)}</p>"


def _missing(records: Sequence[Record]) -> str:
    names = [name for name in MODULES if name not in {record.name for record in records}]
    if not names:
        return ""
    listed = ", ".join(f"<code>{name}</code>" for name in names)
    return f"""<section id="missing">
<h2>Not run yet</h2>
<p>{listed}: <code>ergodica reproduce</code> runs them.</p>
</section>"""
