"""summary.md: the table of claims, the settings and the date, as Markdown for the documentation."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ergodica.pages import duration
from ergodica_paper.page.words import flat, sentence
from ergodica_paper.record import KINDS, Record, by_kind, counts, title
from ergodica_paper.result import Claim
from ergodica_paper.store import write_together

NAME = "summary.md"


def write_summary(folder: Path, records: Sequence[Record]) -> Path:
    """The same records give the same bytes."""
    write_together(folder, {NAME: ("\n".join(_lines(records)) + "\n").encode()})
    return folder / NAME


def count_words(records: Sequence[Record]) -> str:
    """what the paper says: 12 reproduced, 3 not reproduced; formulas as printed: ..."""
    return "; ".join(
        f"{KINDS[kind]}: {', '.join(f'{count} {verdict}' for verdict, count in counts(claims).items())}"
        for kind, claims in by_kind(records).items()
    )


def _lines(records: Sequence[Record]) -> Iterator[str]:
    yield "# The paper, reproduced"
    yield ""
    yield "Ma, Chen and Fox, *A Complete Recipe for Stochastic Gradient MCMC* (2015), claim by claim."
    yield "`ergodica reproduce` wrote this page, and every figure in it."
    yield ""
    yield f"Counted by verdict, {count_words(records)}." if by_kind(records) else "No claims yet."
    yield "A formula that is not reproduced is a misprint: the theory holds with the right form."
    for kind, claims in by_kind(records).items():
        yield from ("", f"## {title(kind)}", "")
        yield from _claims(claims)
    yield from ("", "## Settings", "")
    yield from _circumstances(records)
    yield from _commands(records)
    for record in records:
        yield from ("", f"### {record.name}", "")
        yield from (f"- {_cell(name)}: {_cell(value)}" for name, value in flat(record.settings))
    versions = sorted({", ".join(f"{k} {v}" for k, v in record.circumstances.versions.items()) for record in records})
    yield from ("", f"Versions: {'; '.join(versions)}.")


def _claims(claims: Sequence[tuple[Record, Claim]]) -> Iterator[str]:
    yield "| verdict | claim | what came out, and by which rule | item |"
    yield "| --- | --- | --- | --- |"
    for record, claim in claims:
        conditions = f" Conditions: {sentence(claim.conditions)}" if claim.conditions else ""
        source = f" ({claim.source})" if claim.source else ""
        out = f"{claim.explanation}{conditions} Reproduced if: {claim.rule}"
        yield _row(claim.verdict, f"{claim.statement}{source}", out, f"`{record.name}`")


def _circumstances(records: Sequence[Record]) -> Iterator[str]:
    yield "| item | mode | seed | corpus | date | took | runs that became non-finite |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for record in records:
        told = record.circumstances
        lost = ", ".join(f"{name}: {count}" for name, count in record.non_finite.items() if count) or "none"
        start = (f"`{record.name}`", told.mode, str(told.seed), told.corpus_words)
        yield _row(*start, told.date, duration(told.seconds), lost)
    for told in {tuple(record.circumstances.corpus or ()): record.circumstances for record in records}.values():
        if told.corpus:
            yield from ("", f"The {told.corpus_words} (names and bytes): {_cell(', '.join(told.corpus))}.")


def _commands(records: Sequence[Record]) -> Iterator[str]:
    """They differ in the item, and in the corpus where an item reads none."""
    commands = {record.name: record.circumstances.command.replace(record.name, "ITEM", 1) for record in records}
    for command in dict.fromkeys(commands.values()):
        names = ", ".join(f"`{name}`" for name, own in commands.items() if own == command)
        yield from ("", f"One of {names} again: `{command}`")


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """One line that Markdown takes for text: `code` stays as it is."""
    parts = re.sub(r"\s+", " ", text).replace("|", "\\|").strip().split("`")
    parts[::2] = [part.replace("<", "&lt;").replace("*", "\\*") for part in parts[::2]]
    return "`".join(parts)
