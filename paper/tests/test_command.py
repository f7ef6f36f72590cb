"""`ergodica reproduce`: what is typed, what is said, exit codes."""

import json

import pytest

from ergodica_paper import items
from paper.tests.test_reproduce import Counted
from tests.cli import command


@pytest.fixture
def counted(monkeypatch):
    counted = Counted()
    monkeypatch.setattr(items, "load", lambda name: counted(name)[0])
    return counted


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("the ship left the harbour\n")
    return tmp_path


def call(*arguments):
    return command.call("reproduce", *arguments)


def complaint(capsys, monkeypatch, *arguments):
    return command.complaint(capsys, monkeypatch, "reproduce", *arguments)


def test_all_items_by_default(counted, here):
    result = call()
    assert result.exit_code == 0, result.output
    assert counted.names() == list(items.MODULES)
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["reproduced", "theorem-1", "It", "holds"]
    assert lines[-2:] == ["what the paper says: 11 reproduced", "report/index.html"]
    assert (here / "report" / "index.html").exists()


def test_an_item_by_name_tells_of_its_own_claims(counted, here):
    call("map", "--out", "r")
    lines = call("errata", "--out", "r").stdout.splitlines()
    assert [line.split()[1] for line in lines[:-2]] == ["errata"]
    assert lines[-2] == "what the paper says: 2 reproduced"


def test_json(counted, here):
    told = json.loads(call("map", "--json", "--out", "r").stdout)
    assert told["page"] == "r/index.html"
    assert [(claim["name"], claim["seed"]) for claim in told["claims"]] == [("map-claim", 0)]


@pytest.mark.parametrize(
    ("arguments", "names", "corpus"),
    [
        (["--corpus", "a.txt", "b.txt", "--seed", "3", "lda-topics"], ["lda-topics"], ("a.txt", "b.txt")),
        (["--corpus", "a.txt", "b.txt", "lda-topics", "--seed", "3"], ["lda-topics"], ("a.txt", "b.txt")),
        (
            ["lda-topics", "lda-runtime", "--seed=3", "--corpus=a.txt", "--corpus", "b.txt"],
            ["lda-runtime", "lda-topics"],
            ("a.txt", "b.txt"),
        ),
        (["lda-topics", "--seed", "3"], ["lda-topics"], ()),
    ],
)
def test_a_corpus_of_many_paths(counted, here, arguments, names, corpus):
    result = call(*arguments, "--full", "--out", "r")
    assert result.exit_code == 0, result.output
    assert [name for name, _ in counted.runs] == names
    assert {(ask.corpus, ask.full, ask.seed) for _, ask in counted.runs} == {(corpus, True, 3)}


def test_an_unknown_item(capsys, monkeypatch, here):
    said = complaint(capsys, monkeypatch, "one-dimension")
    assert "did you mean one-dimensional?" in said
    assert all(name in said for name in items.MODULES)
    assert not (here / "report").exists()


@pytest.mark.usefixtures("counted")
def test_a_corpus_that_cannot_be_read(capsys, monkeypatch, here):
    assert "no file or folder 'nowhere'" in complaint(capsys, monkeypatch, "map", "--corpus", "nowhere", "a.txt")
    (here / "z.zip").write_bytes(b"PK\x03\x04 and more")
    assert "zip archive" in complaint(capsys, monkeypatch, "map", "--corpus", "z.zip")
    assert not (here / "report").exists()


@pytest.mark.usefixtures("counted")
def test_somebody_elses_folder(capsys, monkeypatch, here):
    assert "holds files that are not of a report" in complaint(capsys, monkeypatch, "map", "--out", str(here))
    assert "is a file" in complaint(capsys, monkeypatch, "map", "--out", "a.txt")
    assert "could not make" in complaint(capsys, monkeypatch, "map", "--out", "a.txt/report")


def test_corpus_without_a_path_and_a_bad_seed(here):
    assert call("map", "--corpus").exit_code == 2
    assert call("map", "--seed", "-1").exit_code == 2


def test_ctrl_c_is_one_line(counted, here):
    def press():
        raise KeyboardInterrupt

    counted.then["errata"] = press
    result = call()
    assert result.exit_code == 130
    assert "ergodica: stopped in errata; what was finished is in report, the same command resumes it" in result.stderr
    counted.then.clear()
    counted.names()
    assert call().exit_code == 0
    assert counted.names() == list(items.MODULES)[3:]
