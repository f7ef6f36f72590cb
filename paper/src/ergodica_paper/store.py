"""The folder of a report: what the items found, as files that outlive the process.

items/<item>.json             all that the page shows of an item; written last, so that it says the others are whole
figures/<item>-<picture>.png  and .svg
data/<item>-<table>.csv       the numbers behind the figures
claims.json                   every claim of every item
"""

import csv
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ergodica.errors import InputError
from ergodica.host.atomic_files import could_not
from ergodica.report import plain
from ergodica_paper.items import ordered
from ergodica_paper.record import (
    DATA,
    FIGURES,
    FORMAT,
    KINDS,
    VERDICTS,
    Circumstances,
    Record,
    StoredPicture,
    StoredTable,
    claim_to_json,
    from_json,
    to_json,
)
from ergodica_paper.result import PaperItem, Result, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ITEMS, CLAIMS = "items", "claims.json"
DOTS = 160  # per inch of a PNG
SALT: Any = {"svg.hashsalt": "ergodica", "svg.fonttype": "path"}  # the same bytes every time, and no font needed


def write(folder: Path, item: PaperItem, result: Result, circumstances: Circumstances) -> None:
    """All files of one item, instead of those it left before; all of them or, where the disk is full, none."""
    for fault in faults(result):
        raise ValueError(f"the result of item {item.name} is not sound: {fault}")
    files: dict[str, bytes] = {}
    pictures, tables = [], []
    for picture in result.pictures:
        stem = f"{FIGURES}/{item.name}-{picture.name}"
        drawn = StoredPicture(picture.name, picture.caption, picture.table, f"{stem}.png", f"{stem}.svg")
        files |= {drawn.png: _image(picture.figure, "png"), drawn.svg: _image(picture.figure, "svg")}
        pictures.append(drawn)
    for table in result.tables:
        tabled = StoredTable(table, f"{DATA}/{item.name}-{table.name}.csv")
        files[tabled.csv] = _csv(table)
        tables.append(tabled)
    record = Record(
        item.name, item.title, item.source, tuple(item.code), circumstances, tuple(result.text), tuple(result.claims),
        tuple(pictures), tuple(tables), dict(result.settings), dict(result.non_finite),
        tuple(result.warnings),
    )  # fmt: skip
    before = earlier(folder, item.name)
    write_together(folder, files | {f"{ITEMS}/{item.name}.json": _json(to_json(record))})
    for left in set() if before is None else before.files - record.files:
        (folder / left).unlink(missing_ok=True)


def faults(result: Result) -> list[str]:
    """What an item did wrong: names that are no names, or that nothing has; rows that do not fit their columns."""
    found = []
    for kind, things in (("claim", result.claims), ("picture", result.pictures), ("table", result.tables)):
        names = [thing.name for thing in things]
        found += [f"two {kind}s are called {name}" for name in sorted(set(names)) if names.count(name) > 1]
        found += [f"{name!r} is no name of a {kind}" for name in names if not re.fullmatch(r"[A-Za-z0-9_-]+", name)]
    pictures, tables = {picture.name for picture in result.pictures}, {table.name for table in result.tables}
    for claim in result.claims:
        if claim.verdict not in VERDICTS:
            found.append(f"claim {claim.name} has the verdict {claim.verdict!r}")
        if claim.kind not in KINDS:
            found.append(f"claim {claim.name} is of the kind {claim.kind!r}")
        if not claim.rule:
            found.append(f"claim {claim.name} has no rule")
        if claim.verdict == "reproduced under conditions" and not claim.conditions:
            found.append(f"claim {claim.name} holds under conditions, and does not say which")
        if claim.picture not in pictures | {""}:
            found.append(f"claim {claim.name} has no picture {claim.picture!r}")
    found += [f"picture {x.name} has no table {x.table!r}" for x in result.pictures if x.table not in tables | {""}]
    own = {name for name in result.settings if name in {field.name for field in fields(Circumstances)}}
    found += [f"a setting is called {name}, as one of the page's own" for name in sorted(own)]
    for table in result.tables:
        if any(len(row) != len(table.columns) for row in table.rows):
            found.append(f"table {table.name} has {len(table.columns)} columns, and a row of another length")
        found += [f"table {table.name} has no column {x!r}" for x in table.quoted if x not in table.columns]
    return found


def read(folder: Path, name: str) -> Record:
    """The record of an item; InputError where there is none, or it is damaged, or one of its files is gone."""
    path = folder / ITEMS / f"{name}.json"
    again = f"`ergodica reproduce {name} --out {folder}` makes it again"
    try:
        record = from_json(json.loads(path.read_text("utf-8")))
    except FileNotFoundError:
        raise InputError(f"there is no {path}: {again}") from None
    except OSError as error:
        raise could_not("read", path, error) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InputError(f"{path} is damaged ({type(error).__name__}: {reason}): {again}") from error
    gone = sorted(file for file in record.files if not (folder / file).is_file())
    if gone or record.name != name:
        raise InputError(f"{path} names {gone[0] if gone else record.name}, which is not there: {again}")
    return record


def earlier(folder: Path, name: str) -> Record | None:
    """The record of an item, if there is a sound one."""
    with suppress(InputError):
        return read(folder, name)
    return None


def read_all(folder: Path) -> list[Record]:
    """The records of all items in the folder, in the order of the page."""
    return [read(folder, name) for name in ordered(path.stem for path in (folder / ITEMS).glob("[!.]*.json"))]


def claims_to_json(records: Sequence[Record]) -> dict[str, Any]:
    """Every claim with its figures and verdict, and with the settings, seed, versions, date and command of its item."""
    claims = [
        {"item": record.name, **claim_to_json(claim), "non_finite": plain(dict(record.non_finite)),
         "settings": plain(dict(record.settings)), **plain(asdict(record.circumstances))}
        for record in records for claim in record.claims
    ]  # fmt: skip
    names = [claim["name"] for claim in claims]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"two items have a claim {name}: run both again, and if that does not help, rename one")
    return {"format": FORMAT, "claims": claims}


def write_claims(folder: Path, records: Sequence[Record]) -> None:
    write_together(folder, {CLAIMS: _json(claims_to_json(records))})


def write_together(folder: Path, files: Mapping[str, bytes]) -> None:
    """All of these files, the last one last: a full disk is noticed before the first of them is replaced."""
    temporary: dict[Path, Path] = {}
    path = folder
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary[path] = path.with_name(f".{path.name}.{os.getpid()}")
            with open(temporary[path], "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        for path, whole in temporary.items():
            os.replace(whole, path)
    except OSError as error:
        raise could_not("write", path, error) from error
    finally:
        for left in temporary.values():
            left.unlink(missing_ok=True)


def _json(told: Any) -> bytes:
    return (json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def _image(figure: "Figure", kind: str) -> bytes:
    import matplotlib

    # no date and no version: the same figures give the same bytes
    metadata: dict[str, Any] = {"Date": None, "Creator": None} if kind == "svg" else {"Software": None}
    content = io.BytesIO()
    with matplotlib.rc_context(SALT):
        figure.savefig(content, format=kind, dpi=DOTS, metadata=metadata, facecolor="white")
    return content.getvalue()


def _csv(table: Table) -> bytes:
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(table.columns)
    lines.writerows(plain(row) for row in table.rows)
    return text.getvalue().encode()
