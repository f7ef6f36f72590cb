"""What an item of the reproduction gives back: claims with their verdicts, pictures, tables, settings.

An item is a function `run(ask: Ask) -> Result`. It decides nothing about files or pages: `store` writes a result to a
folder, `page` shows what the folders hold.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Verdict = Literal["reproduced", "not reproduced", "reproduced under conditions", "illustration, no verdict"]
# Whose claim it is: a sentence of the paper, a formula as it is printed, or a finding of ours about them.
Kind = Literal["paper", "print", "ours"]
# A plain value, or one with its standard error: what claims.json holds.
Figures = Mapping[str, Any]


@dataclass(frozen=True)
class Ask:
    """What is asked of an item.

    Args:
        full: enough samples that every verdict is beyond chance; else quick, an illustration of the same.
        corpus: paths of the documents for topic models; empty: the demo corpus, and no verdict.
        report: told how far the item has come, as a fraction and a few words: `ask.report(0.3, "SGLD, step 0.01")`.
    """

    full: bool = False
    seed: int = 0
    corpus: tuple[str, ...] = ()
    report: Callable[[float, str], None] = lambda done, words: None


@dataclass(frozen=True)
class Claim:
    """One sentence of the paper (or of its readers), and what came out.

    Args:
        name: a slug, unique over all items.
        statement: the claim in one sentence. source: where the paper makes it.
        explanation: one or two sentences that give the measured figures (made by formatting, never typed in).
        rule: what decides the verdict, in one sentence; it is stated before the figures are known.
        figures: the figures behind the verdict, by name; standard errors beside them.
        conditions: under which the claim holds, where the verdict says so.
        picture: name of the picture of the same item that shows it, or "".
    """

    name: str
    statement: str
    source: str
    verdict: Verdict
    explanation: str
    figures: Figures
    conditions: str = ""
    picture: str = ""
    kind: Kind = "paper"
    rule: str = ""


@dataclass(frozen=True)
class Picture:
    """A figure with the caption that stands under it; its numbers are in the table of the same item named `table`."""

    name: str
    caption: str
    figure: "Figure"
    table: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of plain values: a CSV file under data/, and on the page where `shown`.

    Args:
        quoted: columns whose figures are the paper's own, typed in and marked so.
    """

    name: str
    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    shown: bool = False
    quoted: Sequence[str] = ()


@dataclass(frozen=True)
class Result:
    """All that one item found.

    Args:
        text: paragraphs for the page, made from the figures.
        non_finite: runs that became non-finite, by name: counted and shown, never dropped.
        warnings: what was amiss with what the item was given, such as documents that could not be read.
    """

    text: Sequence[str]
    claims: Sequence[Claim] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    non_finite: Mapping[str, int] = field(default_factory=dict)
    warnings: Sequence[str] = ()


@dataclass(frozen=True)
class PaperItem:
    """One part of the paper: its name on the command line, what the paper shows there, and the function that redoes it.

    Args:
        code: modules that its figures came from, as links for the reader.
        seconds: about how long (quick, full) takes on two cores, for the progress display.
        reads_corpus: whether it looks at the documents: only then do they stand in its command and settings.
    """

    name: str
    title: str
    source: str
    run: Callable[[Ask], Result]
    code: Sequence[str]
    seconds: tuple[float, float]
    reads_corpus: bool = False
