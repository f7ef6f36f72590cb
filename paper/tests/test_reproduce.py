"""Runs of all items and of one: they resume where they were stopped, and lose nothing."""

import errno
import json
import os
import pty
import subprocess
import sys

import pytest

from ergodica.errors import InputError
from ergodica_paper import store
from ergodica_paper.folder import MARKER
from ergodica_paper.reproduce import Asked, Stopped, corpus_labels, reproduce
from ergodica_paper.result import Ask, Claim, PaperItem, Result
from paper.tests.fakes import fake

NAMES = ("theorem-1", "map", "one-dimensional")


class Counted:
    """Items without pictures that count how often they were run, and do as they are told in between."""

    def __init__(self):
        self.runs: list[tuple[str, Ask]] = []
        self.then = {}

    def __call__(self, *names: str) -> list[PaperItem]:
        return [fake(name, lambda ask, name=name: self.run(name, ask)) for name in names or NAMES]

    def run(self, name: str, ask: Ask) -> Result:
        self.runs.append((name, ask))
        ask.report(0.5, "half of it")
        self.then.get(name, lambda: None)()
        claim = Claim(
            f"{name}-claim", "It holds", "", "reproduced", f"at seed {ask.seed}", {"seed": ask.seed}, rule="so"
        )
        return Result([f"run {len(self.runs)}"], [claim], non_finite={"SGLD": 3})

    def names(self) -> list[str]:
        found = [name for name, _ in self.runs]
        self.runs.clear()
        return found


@pytest.fixture
def items():
    return Counted()


@pytest.fixture
def asked(tmp_path):
    return Asked(tmp_path / "report")


def press():
    raise KeyboardInterrupt


def marker(asked):
    return json.loads((asked.out / MARKER).read_text())


def test_all_items_leave_a_report(items, asked):
    records = reproduce(items(), asked, is_whole=True)
    assert [record.name for record in records] == list(NAMES)
    left = {path.name for path in asked.out.iterdir()}
    assert left == {"index.html", "summary.md", "claims.json", "items", MARKER}
    assert marker(asked)["unfinished"] is None
    claims = json.loads((asked.out / "claims.json").read_text())["claims"]
    assert [claim["item"] for claim in claims] == list(NAMES)
    assert claims[0]["command"] == f"ergodica reproduce theorem-1 --quick --out {asked.out} --seed 0"
    assert "3 runs became non-finite" in (asked.out / "index.html").read_text()
    assert items.names() == list(NAMES)
    reproduce(items(), asked, is_whole=True)  # it had come to its end: nothing to resume
    assert items.names() == list(NAMES)


def test_the_ask_is_handed_on(items, tmp_path):
    corpus = tmp_path / "with space.txt"
    corpus.write_text("a ship in the harbour\n")
    records = reproduce(items("lda-topics"), Asked(tmp_path / "r", True, 5, (str(corpus),)))
    ask = items.runs[0][1]
    assert (ask.full, ask.seed, ask.corpus) == (True, 5, (str(corpus),))
    told = records[0].circumstances
    assert (told.mode, told.seed, told.corpus) == ("full", 5, ("with space.txt 22",))
    assert f"--full --corpus '{corpus}' --out" in told.command
    assert {"ergodica", "jax", "numpy", "python"} <= set(told.versions)


def test_an_item_that_reads_no_corpus_is_not_told_of_it(items, tmp_path):
    corpus = tmp_path / "a.txt"
    corpus.write_text("a ship in the harbour\n")
    asked = Asked(tmp_path / "r", corpus=(str(corpus),))
    records = reproduce(items("map", "lda-topics"), asked, is_whole=True)
    assert [ask.corpus for _, ask in items.runs] == [(), (str(corpus),)]
    assert [record.circumstances.corpus for record in records] == [None, ("a.txt 22",)]
    assert ["--corpus" in record.circumstances.command for record in records] == [False, True]
    items.then["lda-topics"] = press
    for _ in range(2):
        with pytest.raises(Stopped):
            reproduce(items("map", "lda-topics"), asked, is_whole=True)
    assert items.names()[2:] == ["map", "lda-topics", "lda-topics"]  # the stopped run goes on


def test_what_was_amiss_with_the_documents_is_said_and_shown(asked, capsys):
    item = fake("lda-topics", lambda ask: Result(["text"], warnings=["cut.bz2 ends early: 3 <documents> were lost"]))
    reproduce([item], asked)
    assert "ergodica: in lda-topics: cut.bz2 ends early: 3 <documents> were lost\n" in capsys.readouterr().err
    assert "<b>Mind:</b> cut.bz2 ends early: 3 &lt;documents&gt; were lost." in (asked.out / "index.html").read_text()


def test_a_run_that_was_stopped_goes_on_with_the_item_it_was_in(items, asked, capsys):
    items.then["map"] = press
    with pytest.raises(Stopped, match=r"stopped in map; what was finished is in .*report"):
        reproduce(items(), asked, is_whole=True)
    assert items.names() == ["theorem-1", "map"]
    assert "theorem-1-claim" in (asked.out / "index.html").read_text()
    items.then.clear()
    capsys.readouterr()
    records = reproduce(items(), asked, is_whole=True)
    assert items.names() == ["map", "one-dimensional"]
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == ["ergodica: resuming a run that was stopped: 1 of 3 done", "ergodica: map (2 of 3)"]
    assert [record.text[0] for record in records] == ["run 1", "run 1", "run 2"]
    assert marker(asked)["unfinished"] is None


def test_another_seed_or_mode_begins_again(items, asked):
    items.then["map"] = press
    for other in (asked, Asked(asked.out, seed=1), Asked(asked.out, full=True)):
        with pytest.raises(Stopped):
            reproduce(items(), other, is_whole=True)
        assert items.names() == ["theorem-1", "map"]


def test_an_item_that_was_run_otherwise_meanwhile_is_run_again(items, asked):
    items.then["map"] = press
    with pytest.raises(Stopped):
        reproduce(items(), asked, is_whole=True)
    items.then.clear()
    reproduce(items("theorem-1"), Asked(asked.out, seed=9))
    items.names()
    reproduce(items(), asked, is_whole=True)
    assert items.names() == list(NAMES)


def test_one_item_is_run_again_and_the_page_is_made_again(items, asked):
    reproduce(items(), asked, is_whole=True)
    items.names()
    records = reproduce(items("map"), Asked(asked.out, seed=4))
    assert items.names() == ["map"]
    assert [record.circumstances.seed for record in records] == [0, 4, 0]
    page = (asked.out / "index.html").read_text()
    assert "at seed 4" in page
    assert "seed 0, 4" in page


def test_an_item_that_fails_is_named_and_gone_on_with(items, asked):
    def fail():
        raise ZeroDivisionError("nothing to divide by")

    items.then["map"] = fail
    with pytest.raises(RuntimeError, match="item map failed with ZeroDivisionError: nothing to divide by"):
        reproduce(items(), asked, is_whole=True)
    items.then.clear()
    items.names()
    reproduce(items(), asked, is_whole=True)
    assert items.names() == ["map", "one-dimensional"]


def test_somebody_elses_folder_is_refused(items, asked):
    asked.out.mkdir()
    (asked.out / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match=r"holds files that are not of a report, such as thesis\.tex"):
        reproduce(items(), asked)
    assert [path.name for path in asked.out.iterdir()] == ["thesis.tex"]
    assert items.runs == []
    with pytest.raises(InputError, match="is a file"):
        reproduce(items(), Asked(asked.out / "thesis.tex"))


def test_what_is_not_ours_in_our_folder_stays(items, asked):
    asked.out.mkdir()  # one that is empty will do
    reproduce(items("map"), asked)
    (asked.out / "notes.txt").write_text("mine")
    reproduce(items("map"), asked)
    assert (asked.out / "notes.txt").read_text() == "mine"


def test_a_damaged_marker_is_refused(items, asked):
    reproduce(items("map"), asked)
    for text in ("{", '{"format": 99, "unfinished": null}', "[]"):
        (asked.out / MARKER).write_text(text)
        with pytest.raises(InputError, match="damaged"):
            reproduce(items("map"), asked)


def test_a_full_disk_is_one_line_and_what_was_finished_stays(items, asked, monkeypatch):
    sync = os.fsync

    def full(handle):
        if len(items.runs) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"could not write .*: No space left on device"):
        reproduce(items(), asked, is_whole=True)
    assert [record.name for record in store.read_all(asked.out)] == ["theorem-1"]
    monkeypatch.undo()
    items.names()
    reproduce(items(), asked, is_whole=True)
    assert items.names() == ["map", "one-dimensional"]


def test_bad_input_of_an_item_names_it(items, asked):
    def refuse():
        raise InputError("the corpus has 3 documents: expected 100")

    items.then["map"] = refuse
    with pytest.raises(InputError, match="in map: the corpus has 3 documents"):
        reproduce(items("map"), asked)


@pytest.mark.parametrize(
    ("place", "message"),
    [("nowhere.txt", "no file or folder"), ("two words", "no file or folder"), ("-", "only once"), ("empty", "no doc")],
)
def test_a_corpus_that_cannot_be_read_is_said_before_anything_is_run(items, asked, tmp_path, place, message):
    (tmp_path / "empty").write_text("")
    given = place if place == "-" else str(tmp_path / place)
    with pytest.raises(InputError, match=message) as caught:
        reproduce(items(), Asked(asked.out, corpus=(given,)))
    assert "\n" not in str(caught.value)
    assert not asked.out.exists()
    assert items.runs == []


def test_labels_of_a_corpus(tmp_path):
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("some words\n")
    assert corpus_labels([str(tmp_path)]) == ("a.txt 11", "b.txt 11")
    assert corpus_labels([]) == ()


def test_without_a_terminal_there_is_a_line_for_each_item(items, asked, capsys):
    reproduce(items(), asked, is_whole=True)
    assert capsys.readouterr() == (
        "", "".join(f"ergodica: {name} ({place} of 3)\n" for place, name in enumerate(NAMES, 1)),
    )  # fmt: skip


def test_on_a_terminal_a_bar_names_the_item_and_how_far_it_is(tmp_path):
    script = """
import sys, time
from ergodica_paper.result import PaperItem
from ergodica_paper.progress import progress
item = PaperItem("one-dimensional", "", "", lambda ask: None, (), (2.0, 60.0))
with progress([item], 1, False) as begin:
    report = begin(item, 1)
    report(0.25, "SGLD, step 0.01")
    time.sleep(0.3)
    print("above the bar", sys.stderr.isatty())
"""
    near, far = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "120"}
    subprocess.run([sys.executable, "-c", script], stderr=far, stdout=far, check=True, timeout=60, env=environment)
    os.close(far)
    text = b""
    try:
        while part := os.read(near, 65536):
            text += part
    except OSError:  # how a terminal says that it ended
        pass
    os.close(near)
    for words in ("one-dimensional", "1 of 1", "25% of it: SGLD, step 0.01", "above the bar False"):
        assert words in text.decode(), text
