"""A small run: same shapes everywhere, so that its step is compiled once; and what must be the same in two."""

import csv
from functools import cache
from pathlib import Path

from ergodica.driver import checkpoint
from ergodica.lda import LDA, chains, demo

DOCUMENTS = demo.documents(160)
FILES = ("theta.npz", "draws.npz", "shares.npz", "topics.csv", "vocabulary.txt", "documents.json")


def model(**changes):
    given = {"batch_size": 20, "passes": 3, "held_out": 40, "sweeps": 6, "burn_in": 2, "draws": 3, "progress": False}
    return LDA(3, "sgrhmc", seed=4, **({"vocabulary": demo.vocabulary()} | given | changes))


@cache
def learnt():
    """The model, fitted once for all tests of a process: they may not change it."""
    return model().fit(DOCUMENTS)


def evaluate_often(patch):
    """On the held-out documents, and write a checkpoint after every batch."""
    patch.setattr(chains, "FIRST_EVALUATION", 40)
    patch.setattr(chains, "EVALUATION_GAP", 1)
    patch.setattr(checkpoint, "SAVE_EVERY", 0.0)


def assert_same_bytes(one: Path, other: Path):
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert _history(one) == _history(other)
    assert len(_history(one)) > 2


def _history(folder):
    with open(folder / "history.csv", newline="") as file:
        return [{k: v for k, v in row.items() if k != "seconds"} for row in csv.DictReader(file)]
