"""An item as it is kept in the folder of a report, and as JSON."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, get_args

from ergodica.report import plain
from ergodica_paper.result import Claim, Table, Verdict

FORMAT = 2
FIGURES, DATA = "figures", "data"
VERDICTS: tuple[str, ...] = get_args(Verdict)
# Whose claims they are, in the order of the page.
KINDS: dict[str, str] = {
    "paper": "what the paper says", "print": "formulas as printed", "ours": "what we found",
}  # fmt: skip


def identity_of(
    mode: str, seed: int, corpus: Sequence[str] | None, versions: Mapping[str, str]
) -> dict[str, Any]:  # fmt: skip
    """As it is in JSON."""
    files = None if corpus is None else list(corpus)
    return {"mode": mode, "seed": seed, "corpus": files, "versions": dict(versions)}


@dataclass(frozen=True)
class Circumstances:
    """Under which an item was run: they tell whether a result is the one asked for, and how to have it again.

    Args:
        mode: "quick" or "full".
        corpus: name and size of every file of the documents; empty: the demo corpus; None: the item reads none.
        date: when it was done, UTC.
        command: what to type for the same figures.
    """

    mode: str
    seed: int
    corpus: Sequence[str] | None
    versions: Mapping[str, str]
    date: str
    seconds: float
    command: str

    @property
    def identity(self) -> dict[str, Any]:
        """Two runs with the same one give the same figures."""
        return identity_of(self.mode, self.seed, self.corpus, self.versions)

    @property
    def corpus_words(self) -> str:
        """In a word or two: none, demo, corpus of 6 files."""
        if not self.corpus:
            return "none" if self.corpus is None else "demo"
        return f"corpus of {len(self.corpus)} file{'s' * (len(self.corpus) > 1)}"


@dataclass(frozen=True)
class StoredPicture:
    """A picture in the folder, with the paths of its files."""

    name: str
    caption: str
    table: str
    png: str
    svg: str


@dataclass(frozen=True)
class StoredTable:
    """A table in the folder: its rows are here where it is shown on the page, and always in the CSV file."""

    table: Table
    csv: str


@dataclass(frozen=True)
class Record:
    """An item as it is in the folder."""

    name: str
    title: str
    source: str
    code: tuple[str, ...]
    circumstances: Circumstances
    text: tuple[str, ...]
    claims: tuple[Claim, ...]
    pictures: tuple[StoredPicture, ...]
    tables: tuple[StoredTable, ...]
    settings: Mapping[str, Any]
    non_finite: Mapping[str, int]
    warnings: tuple[str, ...]

    @property
    def files(self) -> set[str]:
        """Paths of all its files but the record itself."""
        drawn = {path for picture in self.pictures for path in (picture.png, picture.svg)}
        return drawn | {tabled.csv for tabled in self.tables}


def by_kind(records: Iterable[Record]) -> dict[str, list[tuple[Record, Claim]]]:
    """Claims with their records by whose they are, in the order of the page; kinds without claims are left out."""
    every = [(record, claim) for record in records for claim in record.claims]
    found = {kind: [(record, claim) for record, claim in every if claim.kind == kind] for kind in KINDS}
    return {kind: claims for kind, claims in found.items() if claims}


def title(kind: str) -> str:
    return KINDS[kind][0].upper() + KINDS[kind][1:]


def counts(claims: Iterable[tuple[Record, Claim]]) -> dict[str, int]:
    """How many have each verdict; verdicts that none has are left out."""
    verdicts = [claim.verdict for _, claim in claims]
    return {verdict: verdicts.count(verdict) for verdict in VERDICTS if verdict in verdicts}


def to_json(record: Record) -> dict[str, Any]:
    told = vars(record) | {
        "circumstances": asdict(record.circumstances),
        "claims": [claim_to_json(claim) for claim in record.claims],
        "pictures": [vars(picture) for picture in record.pictures],
        "tables": [_table(tabled) for tabled in record.tables],
    }
    return {"format": FORMAT} | plain(told)


def claim_to_json(claim: Claim) -> dict[str, Any]:
    return plain(vars(claim) | {"figures": dict(claim.figures)})


def _table(tabled: StoredTable) -> dict[str, Any]:
    table = tabled.table
    return {"csv": tabled.csv, "table": vars(table) | {"rows": table.rows if table.shown else []}}


def from_json(told: Any) -> Record:
    """ValueError, KeyError or TypeError where it is not what `to_json` gave."""
    if not isinstance(told, dict) or told.pop("format", None) != FORMAT:
        raise ValueError(f"expected an object of format {FORMAT}")
    circumstances, corpus = told["circumstances"], told["circumstances"]["corpus"]
    record = Record(
        **told
        | {
            "circumstances": Circumstances(**circumstances | {"corpus": None if corpus is None else tuple(corpus)}),
            "claims": tuple(Claim(**claim) for claim in told["claims"]),
            "pictures": tuple(StoredPicture(**picture) for picture in told["pictures"]),
            "tables": tuple(StoredTable(Table(**tabled["table"]), tabled["csv"]) for tabled in told["tables"]),
            "code": tuple(told["code"]),
            "text": tuple(told["text"]),
            "warnings": tuple(told["warnings"]),
        }
    )
    for path in record.files:  # they are read, and removed when the item is run again: nothing outside the folder is
        if not re.fullmatch(rf"({FIGURES}|{DATA})/[\w-]+\.(png|svg|csv)", path):
            raise ValueError(f"{path!r} is not a file of a report")
    for claim in record.claims:
        if claim.verdict not in VERDICTS:
            raise ValueError(f"{claim.verdict!r} is not a verdict")
        if claim.kind not in KINDS:
            raise ValueError(f"{claim.kind!r} is not a kind of claim")
    return record
