"""One item on the page: what it says, its claims, pictures and tables, and how to have them again."""

import base64
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ergodica.host.atomic_files import could_not
from ergodica.pages import duration
from ergodica_paper.page.words import badge, cell, counted, escaped, first_sentence, flat, is_number, marked, sentence
from ergodica_paper.record import Record, StoredPicture, StoredTable
from ergodica_paper.result import Claim

LARGEST_SVG = 300_000  # bytes in the page; above that the PNG is
PIXELS, WIDTH = 4 / 3, 700  # of a point; of a picture that does not say how wide it is
LONG = 28  # characters of a cell that needs room
ROWS = 400  # of a table that are shown
SOURCES = {"ergodica": "src", "ergodica_paper": "paper/src"}  # where the packages are in the repository


def item_section(folder: Path, record: Record) -> str:
    """The section of an item; its name is its anchor."""
    return "\n".join(
        [
            f'<section class="item" id="{record.name}">',
            f"<h2>{marked(record.title)}</h2>",
            f'<p class="facts"><code>{escaped(record.name)}</code> · the paper: {marked(record.source)}</p>',
            *(f"<p>{marked(paragraph)}</p>" for paragraph in record.text),
            *(f'<div class="non-finite"><b>Mind:</b> {marked(sentence(words))}</div>' for words in record.warnings),
            *_non_finite(record),
            *_claims_and_pictures(folder, record),
            *(_table(tabled) for tabled in record.tables if tabled.table.shown),
            _again(record),
            "</section>",
        ]
    )


def _non_finite(record: Record) -> Iterator[str]:
    found = {name: count for name, count in record.non_finite.items() if count}
    if found:
        total = counted(sum(found.values()), "run")
        details = _details("Which", found)
        yield f'<div class="non-finite"><b>{total} became non-finite</b>{details}</div>'


def _claims_and_pictures(folder: Path, record: Record) -> Iterator[str]:
    """Each picture under the first claim that it shows, above the others; those that show none come last."""
    pictures = {picture.name: picture for picture in record.pictures}
    for name in dict.fromkeys([*(claim.picture for claim in record.claims), *pictures]):
        parts = [_claim(record, claim) for claim in record.claims if claim.picture == name]
        if name:
            parts.insert(1, _picture(folder, record, pictures[name]))
        yield from parts


def _claim(record: Record, claim: Claim) -> str:
    conditions = f"<p><b>Conditions:</b> {marked(claim.conditions)}</p>\n" if claim.conditions else ""
    where = f" · source: {marked(claim.source)}" if claim.source else ""
    shown = f' · <a href="#{record.name}-{claim.picture}">figure</a>' if claim.picture else ""
    return f"""<article class="claim" id="claim-{claim.name}">
<h3>{badge(claim.verdict)} {marked(claim.statement)}</h3>
<p>{marked(claim.explanation)}</p>
{conditions}<p class="facts"><b>Reproduced if:</b> {marked(claim.rule)}</p>
<p class="facts"><a href="#claim-{claim.name}">{escaped(claim.name)}</a>{where}{shown}</p>
{_details("The figures behind it", claim.figures)}
</article>"""


def _picture(folder: Path, record: Record, picture: StoredPicture) -> str:
    files = [(picture.svg, "SVG"), (picture.png, "PNG")]
    files += [(tabled.csv, "its numbers, CSV") for tabled in record.tables if tabled.table.name == picture.table]
    about = escaped(first_sentence(picture.caption))
    source, width = _inlined(folder, picture)
    return f"""<figure id="{record.name}-{picture.name}">
<button type="button" class="frame" aria-pressed="false" title="Larger or smaller">
<img src="{source}" width="{width}" alt="{about}"></button>
<figcaption>{marked(sentence(picture.caption))} <span class="files">{_links(files)}</span></figcaption>
</figure>"""


def _inlined(folder: Path, picture: StoredPicture) -> tuple[str, int]:
    """The picture as an address of its own, and its width in pixels at the size it was drawn for."""
    try:
        vector = (folder / picture.svg).read_bytes()
        points = re.search(rb'<svg[^>]*? width="([\d.]+)pt"', vector)
        width = round(float(points[1]) * PIXELS) if points else WIDTH
        if len(vector) <= LARGEST_SVG:
            return f"data:image/svg+xml;base64,{base64.b64encode(vector).decode()}", width
        return f"data:image/png;base64,{base64.b64encode((folder / picture.png).read_bytes()).decode()}", width
    except OSError as error:
        raise could_not("read", folder / picture.svg, error) from error


def _links(files: list[tuple[str, str]]) -> str:
    return " · ".join(f'<a href="{escaped(path)}">{escaped(words)}</a>' for path, words in files)


def _table(tabled: StoredTable) -> str:
    table = tabled.table
    quoted = [column in table.quoted for column in table.columns]
    numbers = [any(is_number(row[i]) for row in table.rows) for i in range(len(quoted))]
    head = "".join(map(_head, table.columns, numbers, quoted))
    rows = "\n".join("<tr>" + "".join(map(_cell, row, numbers, quoted)) + "</tr>" for row in table.rows[:ROWS])
    more = len(table.rows) - ROWS
    rest = f" The first {ROWS:,} rows of {len(table.rows):,}." if more > 0 else ""
    mark = " Shaded: the paper’s own figures." if any(quoted) else ""
    files = _links([(tabled.csv, "CSV")])
    return f"""<figure class="table">
<div class="scroll" tabindex="0"><table>
<thead><tr>{head}</tr></thead>
<tbody>
{rows}
</tbody></table></div>
<figcaption>{marked(sentence(table.caption))}{mark}{rest} <span class="files">{files}</span></figcaption>
</figure>"""


def _head(column: str, is_numeric: bool, is_quoted: bool) -> str:
    mark = " <small>the paper’s</small>" if is_quoted else ""
    return f"<th{_kinds(is_numeric, is_quoted)}>{marked(column)}{mark}</th>"


def _cell(value: Any, is_numeric: bool, is_quoted: bool) -> str:
    text = cell(value)
    return f"<td{_kinds(is_numeric, is_quoted, len(text) > LONG)}>{marked(text)}</td>"


def _kinds(is_numeric: bool, is_quoted: bool, is_long: bool = False) -> str:
    kinds = ["number"] * is_numeric + ["quoted"] * is_quoted + ["long"] * is_long
    return f' class="{" ".join(kinds)}"' if kinds else ""


def _again(record: Record) -> str:
    told = record.circumstances
    code = "".join(f"<li><code>{escaped(in_repository(path))}</code></li>" for path in record.code)
    data = _links([(tabled.csv, tabled.csv.removeprefix("data/")) for tabled in record.tables])
    settings = dict(record.settings) | {
        "mode": told.mode, "seed": str(told.seed), "corpus": list(told.corpus or [told.corpus_words]),
        "date": told.date, "took": duration(told.seconds), "versions": dict(told.versions),
    }  # fmt: skip
    return f"""<div class="again">
<p class="facts">{escaped(told.mode)} run, seed {told.seed}, {escaped(told.date[:10])}, {duration(told.seconds)}.
To run it again:</p>
<pre class="scroll" tabindex="0"><code>{escaped(told.command)}</code></pre>
{_details("Settings, seed and versions", settings)}
<p class="facts">Code:</p><ul class="code">{code}</ul>
{f'<p class="facts">Data: {data}</p>' if data else ""}
</div>"""


def in_repository(path: str) -> str:
    """The path of a module, as `ergodica/samplers/langevin.py`, from the root of a checkout."""
    package = path.partition("/")[0]
    return f"{SOURCES[package]}/{path}" if package in SOURCES else path


def _details(title: str, values: Mapping[str, Any]) -> str:
    rows = "\n".join(f"<tr><th>{marked(str(name))}</th><td>{marked(value)}</td></tr>" for name, value in flat(values))
    if not rows:
        return ""
    return f"""<details><summary>{title}</summary>
<div class="scroll" tabindex="0"><table>
{rows}
</table></div></details>"""
