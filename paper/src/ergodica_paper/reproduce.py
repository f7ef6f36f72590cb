"""Run items of the paper and leave a report: figures, data, claims.json, summary.md and the page."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from ergodica.driver.loop import now
from ergodica.errors import InputError, NonFiniteError
from ergodica.host import tracing
from ergodica_paper import store
from ergodica_paper.folder import ReportFolder
from ergodica_paper.page import write_page
from ergodica_paper.progress import Report, progress
from ergodica_paper.record import Circumstances, Record, identity_of
from ergodica_paper.result import Ask, PaperItem
from ergodica_paper.style import house_style
from ergodica_paper.summary import write_summary


class Stopped(Exception):
    """A run was stopped by hand; the message says what is there and how to resume it."""


@dataclass(frozen=True)
class Asked:
    """What a person asked for.

    Args:
        out: the folder of the report.
        corpus: paths of documents, as they were typed.
    """

    out: Path
    full: bool = False
    seed: int = 0
    corpus: tuple[str, ...] = ()

    def command(self, item: PaperItem) -> str:
        """What to type for the same of one item."""
        corpus = ["--corpus", *self.corpus] if self.corpus and item.reads_corpus else []
        mode = "--full" if self.full else "--quick"
        return shlex.join(
            ["ergodica", "reproduce", item.name, mode, *corpus, "--out", str(self.out), "--seed", str(self.seed)]
        )


def reproduce(items: Sequence[PaperItem], asked: Asked, is_whole: bool = False) -> list[Record]:
    """Run these items and write the page again from all that is in the folder; gives all records there.

    Args:
        is_whole: these are all items; where such a run was stopped, the same one resumes with the item it was in.
    """
    identity = _identity(asked)
    own = {item.name: identity if item.reads_corpus else identity | {"corpus": None} for item in items}
    records: list[Record] = []
    with ReportFolder(asked.out) as folder:
        done = folder.finished(identity, own) if is_whole else set()
        folder.note(identity if is_whole else None, done)
        if done:
            print(f"ergodica: resuming a run that was stopped: {len(done)} of {len(items)} done", file=sys.stderr)
        left = [(place, item) for place, item in enumerate(items, 1) if item.name not in done]
        with progress([item for _, item in left], len(items), asked.full) as begin:
            for place, item in left:
                try:
                    _run(item, asked, own[item.name], begin(item, place))
                    done.add(item.name)
                    folder.note(identity if is_whole else None, done)
                    records = _publish(asked.out)
                except KeyboardInterrupt:
                    again = "resumes it" if is_whole else "runs it again"
                    raise Stopped(
                        f"stopped in {item.name}; what was finished is in {asked.out}, the same command {again}"
                    ) from None
        if not left:
            records = _publish(asked.out)
        if is_whole:
            folder.note_end()
    return records


def corpus_labels(corpus: Sequence[str]) -> tuple[str, ...]:
    """Name and size of every file of a corpus; InputError where a path has no documents that can be read."""
    if not corpus:
        return ()  # nothing of topic models is loaded for an item that does not read documents
    from ergodica.lda.corpus.opening import STANDARD_INPUT
    from ergodica.lda.corpus.reading import texts
    from ergodica.lda.corpus.sources import sources_of

    labels = []
    for place in corpus:
        if place == STANDARD_INPUT:
            raise InputError("--corpus - can be read only once, and several items need it: save it to a file first")
        labels += [source.label for source in sources_of(place)]
        if not any(text.strip() for text in texts(place)):
            raise InputError(f"--corpus {place} has no documents in it")
    return tuple(labels)


def _identity(asked: Asked) -> dict[str, Any]:
    # numba is named for every item, though only topic models use it: a report has one list of versions
    versions = tracing.versions() | {"numba": metadata.version("numba")}
    return identity_of("full" if asked.full else "quick", asked.seed, corpus_labels(asked.corpus), versions)


def _run(item: PaperItem, asked: Asked, identity: dict[str, Any], report: Report) -> None:
    start = now()
    try:
        with house_style():
            result = item.run(Ask(asked.full, asked.seed, asked.corpus if item.reads_corpus else (), report))
    except (InputError, NonFiniteError, OSError) as error:
        raise type(error)(f"in {item.name}: {error}") from error
    except Exception as error:
        raise RuntimeError(f"item {item.name} failed with {type(error).__name__}: {error}") from error
    date = datetime.now(UTC).isoformat(timespec="seconds")
    circumstances = Circumstances(**identity, date=date, seconds=round(now() - start, 2), command=asked.command(item))
    store.write(asked.out, item, result, circumstances)
    for words in result.warnings:
        print(f"ergodica: in {item.name}: {words}", file=sys.stderr)


def _publish(out: Path) -> list[Record]:
    records = store.read_all(out)
    store.write_claims(out, records)
    write_summary(out, records)
    write_page(out, records)
    return records
