"""The folder of a run: plain files with names, no pickle.

run.json         settings, versions, figures
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
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ergodica.errors import InputError
from ergodica.lda.checkpoints import write_whole
from ergodica.lda.corpus import Vocabulary
from ergodica.lda.fitted import Fitted
from ergodica.lda.topics import Topic
from ergodica.lda.training import Row
from ergodica.report import plain

FORMAT = 1
LISTED = 30  # words of a topic in topics.csv


def write(folder: Path, fitted: Fitted, topics: list[Topic]) -> None:
    """Into a folder that is there; run.json comes last, and says that the others are whole."""
    state = dict(fitted.state)
    arrays: dict[str, Any] = {"theta": state.pop("position"), **state, "counts": fitted.counts}
    write_whole(folder / "theta.npz", lambda file: np.savez(file, **arrays))
    steps = np.array(list(fitted.draws), np.int64)
    phi = np.stack(list(fitted.draws.values())) if fitted.draws else np.zeros((0, *arrays["theta"].shape), np.float32)
    write_whole(folder / "draws.npz", lambda file: np.savez(file, phi=phi, steps=steps, every=fitted.every))
    write_whole(folder / "shares.npz", lambda file: np.savez(file, shares=fitted.shares, lengths=fitted.lengths))
    _write_text(folder / "vocabulary.txt", "\n".join(fitted.vocabulary.words) + "\n")
    _write_text(folder / "samples.json", json.dumps(plain(fitted.samples)))
    _write_table(folder / "history.csv", Row._fields, fitted.history)
    _write_table(folder / "topics.csv", ("topic", "rank", "word", "probability", "low", "high"), _topic_rows(topics))
    told = {"format": FORMAT, **fitted.figures, "parameters": fitted.parameters}
    _write_text(folder / "run.json", json.dumps(plain(told), indent=1) + "\n")


def read(folder: Path) -> Fitted:
    """What `write` wrote."""
    path = folder / "run.json"
    if not path.exists():
        is_begun = (folder / "checkpoint").is_dir()
        raise InputError(
            f"{folder} is a run that is not finished: go on with it by ergodica lda fit ... --resume"
            if is_begun
            else f"{folder} holds no run.json: expected the folder of a run, as ergodica lda fit --out writes it"
        )
    try:
        figures = json.loads(path.read_text("utf-8"))
        if not isinstance(figures, dict) or figures.pop("format", None) != FORMAT:
            raise InputError(f"{path} is not of format {FORMAT}: it was written by another version")
        state, draws, shares = (_read_arrays(folder / f"{name}.npz") for name in ("theta", "draws", "shares"))
        state["position"] = state.pop("theta")
        with open(folder / "history.csv", newline="", encoding="utf-8") as file:
            history = [
                Row(int(row["documents"]), *(float(row[x]) for x in Row._fields[1:])) for row in csv.DictReader(file)
            ]
        words = (folder / "vocabulary.txt").read_text("utf-8").split("\n")[:-1]
        found = Fitted(
            Vocabulary(words, str(folder / "vocabulary.txt")), figures.pop("parameters"), state, state.pop("counts"),
            dict(zip(draws["steps"].tolist(), draws["phi"], strict=True)), int(draws["every"]), shares["shares"],
            shares["lengths"], json.loads((folder / "samples.json").read_text("utf-8")), history, figures,
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"{folder} is damaged ({type(error).__name__}: {reason})") from error
    if len(found.vocabulary) != len(state["position"]):
        raise InputError(
            f"{folder} has {len(found.vocabulary)} words in vocabulary.txt, {len(state['position'])} in theta"
        )
    return found


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _topic_rows(topics: list[Topic]) -> list[tuple[Any, ...]]:
    return [(topic.number, rank, *word) for topic in topics for rank, word in enumerate(topic.words, 1)]


def _write_table(path: Path, names: tuple[str, ...], rows: list[Any]) -> None:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(names)
    table.writerows(rows)
    _write_text(path, text.getvalue())


def _write_text(path: Path, text: str) -> None:
    write_whole(path, lambda file: file.write(text.encode()))
