"""summary.md: the table of claims, the settings and the date, as Markdown for the documentation."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ergodica.lda.report.text import duration
from ergodica.paper.page.words import flat
from ergodica.paper.record import VERDICTS, Record
from ergodica.paper.store import write_together

NAME = "summary.md"


def write_summary(folder: Path, records: Sequence[Record]) -> Path:
    """The same records give the same bytes."""
    write_together(folder, {NAME: ("\n".join(_lines(records)) + "\n").encode()})
    return folder / NAME


def count_words(records: Sequence[Record]) -> str:
    """12 reproduced; 3 not reproduced, ..."""
    verdicts = [claim.verdict for record in records for claim in record.claims]
    return "; ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in VERDICTS if verdict in verdicts)


def _lines(records: Sequence[Record]) -> Iterator[str]:
    yield "# The paper, reproduced"
    yield ""
    yield "Ma, Chen and Fox, *A Complete Recipe for Stochastic Gradient MCMC* (2015), claim by claim."
    yield "`ergodica reproduce` wrote this page, and every figure in it."
    yield ""
    yield f"{count_words(records)}." if any(record.claims for record in records) else "No claims yet."
    yield ""
    yield "| verdict | claim | what came out | item |"
    yield "| --- | --- | --- | --- |"
    for record in records:
        for claim in record.claims:
            conditions = f" Conditions: {claim.conditions}" if claim.conditions else ""
            source = f" ({claim.source})" if claim.source else ""
            cells = (claim.verdict, f"{claim.statement}{source}", claim.explanation + conditions, f"`{record.name}`")
            yield f"| {' | '.join(map(_cell, cells))} |"
    yield ""
    yield "## Settings"
    yield ""
    yield "| item | mode | seed | corpus | date | took | runs that left the finite numbers |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for record in records:
        told = record.circumstances
        non_finite = ", ".join(f"{name}: {count}" for name, count in record.non_finite.items() if count) or "none"
        cells = (
            f"`{record.name}`", told.mode, str(told.seed), _corpus(told.corpus), told.date, duration(told.seconds),
            non_finite,
        )  # fmt: skip
        yield f"| {' | '.join(map(_cell, cells))} |"
    for corpus in dict.fromkeys(record.circumstances.corpus for record in records if record.circumstances.corpus):
        yield ""
        yield f"{_corpus(corpus)} (names and bytes): {_cell(', '.join(corpus))}."
    # The commands differ in the item alone, unless parts of the report were made at different times.
    commands = [record.circumstances.command.replace(record.name, "ITEM", 1) for record in records]
    for command in dict.fromkeys(commands):
        yield ""
        yield f"One of them again: `{command}`"
    for record in records:
        yield ""
        yield f"### {record.name}"
        yield ""
        for name, value in flat(record.settings):
            yield f"- {_cell(name)}: {_cell(value)}"
    versions = sorted({", ".join(f"{k} {v}" for k, v in record.circumstances.versions.items()) for record in records})
    yield ""
    yield f"Versions: {'; '.join(versions)}."


def _corpus(labels: Sequence[str]) -> str:
    return f"corpus of {len(labels)} file{'s' * (len(labels) > 1)}" if labels else "demo"


def _cell(text: str) -> str:
    """One line that Markdown takes for text: `code` stays as it is."""
    parts = re.sub(r"\s+", " ", text).replace("|", "\\|").strip().split("`")
    parts[::2] = [part.replace("<", "&lt;").replace("*", "\\*") for part in parts[::2]]
    return "`".join(parts)
