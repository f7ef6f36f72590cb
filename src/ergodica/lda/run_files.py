"""The folder of a run: plain files with names, no pickle.

run.json         settings, versions, figures, and the SHA-256 of every file, its own included (host/seal.py)
theta.npz        theta (words, topics) and the rest of the chain's state; counts of the words seen
draws.npz        phi (draw, words, topics) of the draws kept, and their steps
vocabulary.txt   one word a line, in the order of the rows
topics.csv       topic, rank, word, probability, low, high
history.csv      documents, seconds, single, averaged
shares.npz       topic shares of the sample documents, and their lengths
documents.json   id, title, url, date and the first words of each of them (format 2: samples.json, words of some)
found.npz        phi (words, topics) as averaged counts found it, where they did

Until it is finished it holds checkpoint/checkpoint.npz (driver/checkpoint.py), with the draws kept so far beside it,
each as draw-<step>.npy.
"""

import csv
import io
import json
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ergodica.driver.checkpoint import FINISHED_BY_0_1_0, Saved, check_same, read_checkpoint, starting_over
from ergodica.errors import InputError
from ergodica.host import lock, seal
from ergodica.host.atomic_files import could_not, write_whole
from ergodica.lda.corpus import Vocabulary
from ergodica.lda.corpus.tokenizing import tokenizer_called
from ergodica.lda.expanded_mean import phi_of
from ergodica.lda.perplexity import HistoryRow
from ergodica.lda.topics import Topic
from ergodica.report import plain

CHECKPOINT_FOLDER = "checkpoint"
RUN_FORMAT = 3  # 1: of version 0.1.0, without checksums; 2: words of twelve documents in samples.json
FIT_AGAIN = "fit again, or restore it from a copy"
WORDS_LISTED = 30  # words of a topic in topics.csv
FOR_PEOPLE = "topics.csv"  # never read here: another program may have saved it again
DOCUMENT_FIELDS = ("id", "title", "url", "date")
FIGURE_KINDS = {
    "topics": int, "words": int, "documents": int, "sampler": str, "preset": str, "band": str, "settings": dict,
    "seconds": dict, "parameters": dict,
}  # fmt: skip


@dataclass
class Fitted:
    """The end of a run.

    Attributes:
        parameters: of the estimator, but for the vocabulary.
        state: the chain, as `Learner.saved` gives it: position (theta), steps, and momentum where there is one.
        counts: (words,) how often each was seen.
        draws: phi by step; `every`: how many steps lie between two.
        shares, lengths: of the sample documents; `documents`: their id, title, url, date ("" where unknown) and words.
        found: (words, topics) phi as averaged counts found it, where they did.
        figures: settings, versions, perplexities, timings: run.json.
    """

    vocabulary: Vocabulary
    parameters: dict[str, Any]
    state: dict[str, np.ndarray]
    counts: np.ndarray
    draws: dict[int, np.ndarray]
    every: int
    shares: np.ndarray
    lengths: np.ndarray
    documents: list[dict[str, Any]]
    history: list[HistoryRow]
    figures: dict[str, Any]
    found: np.ndarray | None = None

    @property
    def gamma(self) -> float | np.ndarray:
        """The prior of a document's topics: one for each, or a number."""
        priors = self.figures.get("priors")
        return float(self.figures["settings"]["gamma"]) if priors is None else np.asarray(priors["gamma"], np.float32)

    @cached_property
    def phi(self) -> np.ndarray:
        """(words, topics) of the last step."""
        return phi_of(np.ascontiguousarray(self.state["position"]))

    @cached_property
    def mean(self) -> np.ndarray:
        """(words, topics): phi averaged over the draws; where there are none as found, or of the last step."""
        if not self.draws:
            return self.phi if self.found is None else self.found
        total = np.zeros(self.phi.shape)
        for phi in self.draws.values():
            total += phi
        return (total / len(self.draws)).astype(np.float32)

    def topic_shares(self) -> np.ndarray | None:
        """(topics,): of all words of the sample documents."""
        total = self.lengths.sum()
        return None if total == 0 else self.lengths @ self.shares / total


def write_run(folder: Path, fitted: Fitted, topics: list[Topic]) -> None:
    """Into a folder that is there; run.json comes last, and says that the others are whole."""
    state, phi = dict(fitted.state), list(fitted.draws.values())
    theta = state.pop("position")
    arrays: dict[str, dict[str, Any]] = {
        "theta.npz": {"theta": theta, **state, "counts": fitted.counts},
        "draws.npz": {
            "phi": np.stack(phi) if phi else np.zeros((0, *theta.shape), np.float32),
            "steps": np.array(list(fitted.draws), np.int64), "every": fitted.every,
        },
        "shares.npz": {"shares": fitted.shares, "lengths": fitted.lengths},
    }  # fmt: skip
    if fitted.found is not None:
        arrays["found.npz"] = {"phi": fitted.found}
    words = [(topic.number, rank, *word) for topic in topics for rank, word in enumerate(topic.words, 1)]
    texts = {
        "vocabulary.txt": "\n".join(fitted.vocabulary.words) + "\n",
        "documents.json": json.dumps(plain(fitted.documents)),
        "history.csv": _table(HistoryRow._fields, fitted.history),
        FOR_PEOPLE: _table(("topic", "rank", "word", "probability", "low", "high"), words),
    }
    sums = {}
    for name, content in arrays.items():
        sums[name] = write_whole(folder / name, lambda file, content=content: np.savez(file, **content))
    sums |= {name: _write_text(folder / name, text) for name, text in texts.items()}
    told = {"format": RUN_FORMAT, **fitted.figures, "parameters": fitted.parameters, "files": sums}
    _write_text(folder / "run.json", json.dumps(seal.sealed(plain(told)), indent=1) + "\n")


def read_run(folder: Path) -> Fitted:
    """What `write_run` wrote; every complaint is one line that names the file."""
    figures = figures_of(folder)
    _check_files(folder, figures.pop("files", None))
    words, topics = figures["words"], figures["topics"]
    state = _arrays(folder / "theta.npz", theta=(words, topics), counts=(words,))
    state["position"] = state.pop("theta")
    draws = _arrays(folder / "draws.npz", phi=(None, words, topics), steps=(None,), every=())
    shares = _arrays(folder / "shares.npz", shares=(None, topics), lengths=(None,))
    found = _arrays(folder / "found.npz", phi=(words, topics))["phi"] if (folder / "found.npz").exists() else None
    return Fitted(
        _vocabulary(folder / "vocabulary.txt", words, figures.get("tokenizer")), figures.pop("parameters"), state,
        state.pop("counts"), dict(zip(draws["steps"].tolist(), draws["phi"], strict=True)), int(draws["every"]),
        shares["shares"], shares["lengths"], _documents(folder, len(shares["shares"])),
        _history(folder / "history.csv"), figures, found,
    )  # fmt: skip


@contextmanager
def _reading(path: Path, advice: str | None = None) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        advice = advice or "the folder is not that of a finished run, fit it again"
        raise InputError(f"{path} is missing: {advice}") from None
    except Exception as error:  # NumPy, zip, CSV and JSON raise many kinds for damaged bytes
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise seal.damaged(path, advice or FIT_AGAIN, reason) from error


def _check_files(folder: Path, sums: dict[str, str] | None) -> None:
    if sums is None:
        warnings.warn(
            f"{folder} was written by version 0.1.0 of ergodica, which left no checksums: whether it was damaged since "
            "is unknown",
            stacklevel=4,
        )
        return
    for name, sha256 in sums.items():
        path = folder / name
        if name == FOR_PEOPLE:
            if path.exists() and seal.of_file(path) != sha256:
                warnings.warn(f"{path} is not as it was written: its checksum does not match", stacklevel=4)
            continue
        with _reading(path):
            if seal.of_file(path) != sha256:
                raise seal.damaged(path, FIT_AGAIN)


def figures_of(folder: Path) -> dict[str, Any]:
    """What run.json says."""
    path = folder / "run.json"
    if not path.exists():
        if (folder / "checkpoint").is_dir():
            raise InputError(f"{folder} is a run that is not finished: resume it by ergodica lda fit ... --resume")
        what = "holds no run.json" if folder.is_dir() else "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {what}: expected the folder of a run, as ergodica lda fit --out writes it")
    with _reading(path):
        figures = json.loads(path.read_text("utf-8"))
        version = figures.get("format")
        if version != 1 or seal.SEAL in figures:
            figures = seal.unsealed(figures, path, FIT_AGAIN)
            if version not in (2, RUN_FORMAT):
                raise InputError(
                    f"{path} has format {version} and this ergodica reads up to {RUN_FORMAT}: install another"
                )
        del figures["format"]
        for name, kind in FIGURE_KINDS.items():
            if type(figures.get(name)) is not kind:
                raise seal.damaged(path, FIT_AGAIN, f"{name} is {str(figures.get(name))[:40]!r}")
        held = figures["held_out"]
        # whatever is read later, even "nan"
        numbers = [] if held is None else [held["documents"], held["unigram_perplexity"], *held["perplexity"].values()]
        for number in (figures["noise_ratio"], figures["settings"]["gamma"], *figures["seconds"].values(), *numbers):
            float(number)
    return figures


def _arrays(path: Path, **shapes: tuple[int | None, ...]) -> dict[str, np.ndarray]:
    """All arrays of a file, which must be finite; those named not negative and of these shapes, None one length."""
    with _reading(path):
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
        length = len(found[next(iter(shapes))])
        for name, shape in shapes.items():
            expected = tuple(length if size is None else size for size in shape)
            if found[name].shape != expected:
                raise InputError(f"{path} has {name} of shape {found[name].shape}: expected {expected}")
        for name, array in found.items():
            # min and max pass NaN and infinity on, and need no array of booleans beside 200 MB of draws
            low, high = (array.min(), array.max()) if array.size else (0, 0)
            if not np.isfinite(low) or not np.isfinite(high) or (name in shapes and low < 0):
                raise InputError(f"{path} has numbers in {name} that cannot be: the run diverged, or was damaged")
    return found


def _vocabulary(path: Path, size: int, tokenizer: str | None) -> Vocabulary:
    with _reading(path):
        words = path.read_text("utf-8").split("\n")[:-1]
    if len(words) != size:
        raise InputError(f"{path} has {len(words):,} words: run.json says {size:,}, so one of them was changed")
    # runs up to format 2 had one tokeniser
    return Vocabulary(words, str(path), tokenizer=tokenizer_called(tokenizer or "hoffman"))


def _history(path: Path) -> list[HistoryRow]:
    with _reading(path), open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        if tuple(rows.fieldnames or ()) != HistoryRow._fields:
            raise InputError(f"{path} has the columns {rows.fieldnames}: expected {', '.join(HistoryRow._fields)}")
        return [
            HistoryRow(int(row["documents"]), *(float(row[name]) for name in HistoryRow._fields[1:])) for row in rows
        ]


def _documents(folder: Path, count: int) -> list[dict[str, Any]]:
    """Of the first rows of the shares, at most `count`; a run of format 2 or 1 has words only, in samples.json."""
    path, old = folder / "documents.json", folder / "samples.json"
    path = old if old.exists() and not path.exists() else path
    with _reading(path):
        documents = [dict.fromkeys(DOCUMENT_FIELDS, "") | row for row in json.loads(path.read_text("utf-8"))]
        for number, row in enumerate(documents, 1):
            if not all(isinstance(text, str) for text in (*(row[name] for name in DOCUMENT_FIELDS), *row["words"])):
                raise InputError(f"{path}, document {number}: expected texts, and a list of words")
        if len(documents) > count:
            raise InputError(f"{path} has {len(documents):,} documents: shares.npz has {count:,}")
    return documents


def _table(names: tuple[str, ...], rows: list[Any]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(names)
    table.writerows(rows)
    return text.getvalue()


def _write_text(path: Path, text: str) -> str:
    return write_whole(path, lambda file: file.write(text.encode()))


@contextmanager
def run_folder(path: Path, resume: bool) -> Iterator[None]:
    """A folder that one process writes, while the `with` statement lasts.

    Nothing that is there is overwritten: a folder that holds something is refused, unless it is resumed.
    """
    was_there = path.exists()
    _holds_run(path)  # a foreign folder is refused before there is a lock in it
    with lock.Lock.within(path, lambda: _make(path)) as held:
        try:
            if _holds_run(path) and not resume:
                raise InputError(
                    f"{path} holds a run: --resume (Python: resume=True) continues it, or give another folder"
                )
            _check_no_draws(path)
            for half in path.glob(".*.part"):  # of a run that was killed while it wrote, or removed its checkpoint
                shutil.rmtree(half) if half.is_dir() else half.unlink()
            yield
        finally:
            held.unlink()
            if not was_there:
                with suppress(OSError):  # unless it is empty: after bad input, when nothing was learnt
                    path.rmdir()


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise could_not("make", path, error) from error


def is_finished(path: Path, identity: dict[str, Any]) -> bool:
    """Whether the folder holds the run that is asked for; InputError if it is another one."""
    if not (path / "run.json").exists():
        return False
    figures = figures_of(path)
    if "files" not in figures:
        raise InputError(f"{path} {FINISHED_BY_0_1_0}: give another folder")
    before = figures.get("identity")
    if not isinstance(before, dict) or "versions" not in before:
        raise InputError(f"{path} does not say what it was learnt from: give another folder")
    check_same(before, identity, path)
    return True


def _holds_run(path: Path) -> bool:
    """False for an empty folder; InputError where something else is."""
    try:
        there = {entry.name for entry in path.iterdir()} - {lock.LOCK_FILE}
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        raise InputError(f"{path} is a file: give a folder for the run") from None
    except OSError as error:
        raise could_not("read", path, error) from error
    # theta.npz is the first that is written at the end: a full disk may leave it alone, or half of it
    is_run = bool(there & {"run.json", CHECKPOINT_FOLDER}) or any("theta.npz" in name for name in there)
    if there and not is_run:
        raise InputError(f"{path} holds other files and no run: give another folder")
    return is_run


def _check_no_draws(folder: Path) -> None:
    """Refuse what was drawn and has no checkpoint: it cannot be continued, and is not ours to remove."""
    checkpoint = folder / CHECKPOINT_FOLDER
    drawn = [*sorted(checkpoint.glob("draw-*.npy")), *folder.glob("draws.npz")]
    if drawn and not (folder / "run.json").exists() and not (checkpoint / "checkpoint.npz").exists():
        what = drawn[0].relative_to(folder)
        raise InputError(
            f"{folder} holds draws ({what}) but no {CHECKPOINT_FOLDER}/checkpoint.npz, without which they cannot be "
            f"continued: {starting_over(folder)}"
        )


class TopicDrawFiles:
    """The draws kept so far, beside a checkpoint; each is written once, and removed when no checkpoint needs it.

    Args:
        draws: by step.
        written: the SHA-256 of those that are there already, by step.
    """

    def __init__(self, draws: dict[int, np.ndarray], written: dict[int, str]):
        self._draws, self._written = draws, written

    def write(self, folder: Path) -> dict[str, str]:
        """Bring them to disk; the SHA-256 of each, by step."""
        folder.mkdir(exist_ok=True)
        for step, phi in self._draws.items():
            if step not in self._written:
                self._written[step] = write_whole(_draw_path(folder, step), lambda file, phi=phi: np.save(file, phi))
        return {str(step): self._written[step] for step in self._draws}

    def clean(self, folder: Path) -> None:
        for path in folder.glob("draw-*.npy"):
            step = re.fullmatch(r"draw-(\d+)\.npy", path.name)
            if step and int(step[1]) not in self._draws:
                path.unlink(missing_ok=True)


def read_unfinished(folder: Path) -> tuple[Saved, dict[int, np.ndarray]] | None:
    """The checkpoint of a run, and the draws beside it by step; None where there is none."""
    place, advice = folder / CHECKPOINT_FOLDER, starting_over(folder)
    saved = read_checkpoint(place)
    if saved is None:
        return None
    draws = {}
    for step, sha256 in saved.beside.items():
        path = _draw_path(place, int(step))
        with _reading(path, advice):
            if seal.of_file(path) != sha256:
                raise seal.damaged(path, advice)
            draws[int(step)] = np.load(path, allow_pickle=False)
    return saved, draws


def _draw_path(folder: Path, step: int) -> Path:
    return folder / f"draw-{step}.npy"
