"""The folder of a run: plain files with names, no pickle.

run.json         settings, versions, figures, and the SHA-256 of every file, its own included (host/seal.py)
theta.npz        theta (words, topics) and the rest of the chain's state; counts of the words seen
draws.npz        phi (draw, words, topics) of the draws kept, and their steps
vocabulary.txt   one word a line, in the order of the rows
topics.csv       topic, rank, word, probability, low, high
history.csv      documents, seconds, single, averaged
shares.npz       topic shares of the sample documents, and their lengths; samples.json: the words of some
"""

import csv
import io
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ergodica.errors import InputError
from ergodica.host import seal
from ergodica.host.atomic_files import write_whole
from ergodica.lda.corpus import Vocabulary
from ergodica.lda.fitted import Fitted
from ergodica.lda.topics import Topic
from ergodica.lda.training import Row
from ergodica.report import plain

FORMAT = 2  # 1: of version 0.1.0, without checksums
AGAIN = "fit again, or restore it from a copy"
LISTED = 30  # words of a topic in topics.csv
FOR_PEOPLE = "topics.csv"  # never read here: another program may have saved it again
KINDS = {
    "topics": int, "words": int, "documents": int, "sampler": str, "preset": str, "band": str, "settings": dict,
    "seconds": dict, "parameters": dict,
}  # fmt: skip


def write(folder: Path, fitted: Fitted, topics: list[Topic]) -> None:
    """Into a folder that is there; run.json comes last, and says that the others are whole."""
    state = dict(fitted.state)
    arrays: dict[str, Any] = {"theta": state.pop("position"), **state, "counts": fitted.counts}
    sums = {"theta.npz": write_whole(folder / "theta.npz", lambda file: np.savez(file, **arrays))}
    steps = np.array(list(fitted.draws), np.int64)
    phi = np.stack(list(fitted.draws.values())) if fitted.draws else np.zeros((0, *arrays["theta"].shape), np.float32)
    drawn, shared = {"phi": phi, "steps": steps, "every": fitted.every}, (fitted.shares, fitted.lengths)
    sums["draws.npz"] = write_whole(folder / "draws.npz", lambda file: np.savez(file, **drawn))
    shares = dict(zip(("shares", "lengths"), shared, strict=True))
    sums["shares.npz"] = write_whole(folder / "shares.npz", lambda file: np.savez(file, **shares))
    columns = ("topic", "rank", "word", "probability", "low", "high")
    texts = {
        "vocabulary.txt": "\n".join(fitted.vocabulary.words) + "\n",
        "samples.json": json.dumps(plain(fitted.samples)),
        "history.csv": _table(Row._fields, fitted.history),
        FOR_PEOPLE: _table(columns, _topic_rows(topics)),
    }
    sums |= {name: _write_text(folder / name, text) for name, text in texts.items()}
    told = {"format": FORMAT, **fitted.figures, "parameters": fitted.parameters, "files": sums}
    _write_text(folder / "run.json", json.dumps(seal.sealed(plain(told)), indent=1) + "\n")


def read(folder: Path) -> Fitted:
    """What `write` wrote; every complaint is one line that names the file."""
    figures = figures_of(folder)
    _check_files(folder, figures.pop("files", None))
    words, topics = figures["words"], figures["topics"]
    state = _arrays(folder / "theta.npz", theta=(words, topics), counts=(words,))
    state["position"] = state.pop("theta")
    draws = _arrays(folder / "draws.npz", phi=(None, words, topics), steps=(None,), every=())
    shares = _arrays(folder / "shares.npz", shares=(None, topics), lengths=(None,))
    return Fitted(
        _vocabulary(folder / "vocabulary.txt", words), figures.pop("parameters"), state, state.pop("counts"),
        dict(zip(draws["steps"].tolist(), draws["phi"], strict=True)), int(draws["every"]), shares["shares"],
        shares["lengths"], _samples(folder / "samples.json", topics), _history(folder / "history.csv"), figures,
    )  # fmt: skip


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path} is missing: the folder is not that of a finished run, fit it again") from None
    except Exception as error:  # NumPy, zip, CSV and JSON raise many kinds for damaged bytes
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise seal.damaged(path, AGAIN, reason) from error


def _check_files(folder: Path, sums: dict[str, str] | None) -> None:
    if sums is None:
        warnings.warn(
            f"{folder} was written by version 0.1.0 of ergodica, which left no checksums: whether it was damaged since "
            "is not known",
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
                raise seal.damaged(path, AGAIN)


def figures_of(folder: Path) -> dict[str, Any]:
    """What run.json says."""
    path = folder / "run.json"
    if not path.exists():
        if (folder / "checkpoint").is_dir():
            raise InputError(f"{folder} is a run that is not finished: go on with it by ergodica lda fit ... --resume")
        what = "holds no run.json" if folder.is_dir() else "is not a folder" if folder.exists() else "does not exist"
        raise InputError(f"{folder} {what}: expected the folder of a run, as ergodica lda fit --out writes it")
    with _reading(path):
        figures = json.loads(path.read_text("utf-8"))
        version = figures.get("format")
        if version != 1 or seal.SEAL in figures:
            figures = seal.unsealed(figures, path, AGAIN)
            if version != FORMAT:
                raise InputError(f"{path} has format {version} and this ergodica reads up to {FORMAT}: install another")
        del figures["format"]
        for name, kind in KINDS.items():
            if type(figures.get(name)) is not kind:
                raise seal.damaged(path, AGAIN, f"{name} is {str(figures.get(name))[:40]!r}")
        held = figures["held_out"]
        # whatever is looked at later, be it "nan"
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


def _vocabulary(path: Path, size: int) -> Vocabulary:
    with _reading(path):
        words = path.read_text("utf-8").split("\n")[:-1]
    if len(words) != size:
        raise InputError(f"{path} has {len(words):,} words: run.json says {size:,}, so one of them was changed")
    return Vocabulary(words, str(path))


def _history(path: Path) -> list[Row]:
    with _reading(path), open(path, newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        if tuple(rows.fieldnames or ()) != Row._fields:
            raise InputError(f"{path} has the columns {rows.fieldnames}: expected {', '.join(Row._fields)}")
        return [Row(int(row["documents"]), *(float(row[name]) for name in Row._fields[1:])) for row in rows]


def _samples(path: Path, topics: int) -> list[dict[str, Any]]:
    with _reading(path):
        samples = json.loads(path.read_text("utf-8"))
        for number, sample in enumerate(samples, 1):
            shares = np.asarray(sample["shares"], float)
            if shares.shape != (topics,) or not (shares.min() >= 0 and abs(shares.sum() - 1) < 1e-3):
                raise InputError(f"{path}, document {number}: expected shares of {topics} topics that sum to one")
            if not all(isinstance(word, str) for word in sample["words"]):
                raise InputError(f"{path}, document {number}: expected a list of words")
    return samples


def _topic_rows(topics: list[Topic]) -> list[tuple[Any, ...]]:
    return [(topic.number, rank, *word) for topic in topics for rank, word in enumerate(topic.words, 1)]


def _table(names: tuple[str, ...], rows: list[Any]) -> str:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(names)
    table.writerows(rows)
    return text.getvalue()


def _write_text(path: Path, text: str) -> str:
    return write_whole(path, lambda file: file.write(text.encode()))
