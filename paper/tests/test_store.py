"""The folder of a report: what is written is read back, whole or not at all."""

import csv
import dataclasses
import errno
import json
import math
import os

import pytest

from ergodica.errors import InputError
from ergodica_paper import store
from ergodica_paper.record import Circumstances
from ergodica_paper.result import Ask, Claim, Result, Table
from paper.tests.fakes import fake, found

QUICK = Circumstances("quick", 0, (), {"ergodica": "0.1.0"}, "2026-11-16T12:00:00+00:00", 1.5, "ergodica reproduce map")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """With one item in it."""
    folder = tmp_path_factory.mktemp("report")
    store.write(folder, fake("map"), found("map", Ask()), QUICK)
    return folder


def files_in(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_is_written_is_read_back(folder):
    given, record = found("map", Ask()), store.read(folder, "map")
    assert (record.name, record.title, record.circumstances) == ("map", "The title of map", QUICK)
    assert record.text == tuple(given.text)
    assert [claim.name for claim in record.claims] == [claim.name for claim in given.claims]
    assert record.claims[0].figures["by sampler"] == {"SGLD": [0.1, "nan"], "runs": 123456}
    assert record.non_finite == {"naive gSGRHMC at step 0.04": 2, "SGLD": 0}
    assert record.settings == {"step sizes": [0.04, 0.02, 0.01], "samples": 300_000}
    assert [len(tabled.table.rows) for tabled in record.tables] == [0, 2]  # only what the page shows
    assert set(files_in(folder)) == record.files | {"items/map.json"}


def test_figures_and_data(folder):
    assert (folder / "figures/map-bias.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (folder / "figures/map-bias.svg").read_bytes()
    with open(folder / "data/map-bias.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[:2] == [["sampler", "step size", "bias (nats)"], ["sgld", "0.04", "0.04"]]
    assert (folder / "data/map-times.csv").read_text().splitlines()[2].startswith("SGLD,nan,,h")


def test_the_same_figures_are_the_same_bytes(folder, tmp_path):
    store.write(tmp_path, fake("map"), found("map", Ask()), QUICK)
    assert files_in(tmp_path) == files_in(folder)


def test_files_of_an_earlier_run_go(tmp_path):
    store.write(tmp_path, fake("map"), Result(["before"], tables=[Table("old", "", ["a"], [[1]])]), QUICK)
    store.write(tmp_path, fake("map"), Result(["after"], tables=[Table("new", "", ["a"], [[1]])]), QUICK)
    assert store.read(tmp_path, "map").text == ("after",)
    assert set(files_in(tmp_path)) == {"items/map.json", "data/map-new.csv"}


def test_a_full_disk_is_one_line_and_changes_nothing(folder, monkeypatch):
    before, sync = files_in(folder), os.fsync
    calls = []

    def full(handle):
        calls.append(handle)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InputError, match=r"could not write .*: No space left on device"):
        store.write(folder, fake("map"), found("map", Ask(seed=3)), QUICK)
    assert files_in(folder) == before


def test_claims_json(folder):
    told = store.claims_to_json([store.read(folder, "map")])
    assert [claim["verdict"] for claim in told["claims"]][:2] == ["reproduced", "not reproduced"]
    expected = {"item", "name", "statement", "figures", "settings", "seed", "versions", "mode", "corpus", "non_finite"}
    assert expected <= set(told["claims"][0])
    with pytest.raises(ValueError, match="two items have a claim map-0"):
        store.claims_to_json([store.read(folder, "map")] * 2)


CLAIM = Claim("a", "s", "", "reproduced", "e", {}, rule="r")


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        (Result([], [CLAIM, CLAIM]), "two claims are called a"),
        (Result([], [dataclasses.replace(CLAIM, name="a b")]), "'a b' is no name of a claim"),
        (Result([], [dataclasses.replace(CLAIM, picture="none")]), "no picture 'none'"),
        (Result([], [dataclasses.replace(CLAIM, verdict="so so")]), "verdict 'so so'"),  # pyright: ignore
        (Result([], [dataclasses.replace(CLAIM, verdict="reproduced under conditions")]), "does not say which"),
        (Result([], [dataclasses.replace(CLAIM, kind="theirs")]), "kind 'theirs'"),  # pyright: ignore
        (Result([], [dataclasses.replace(CLAIM, rule="")]), "has no rule"),
        (Result([], settings={"seed": 1}), "a setting is called seed"),
        (Result([], tables=[Table("t", "", ["a", "b"], [[1]])]), "a row of another length"),
        (Result([], tables=[Table("t", "", ["a"], [[1]], quoted=["b"])]), "no column 'b'"),
    ],
)
def test_what_is_not_sound_is_not_written(tmp_path, result, fault):
    with pytest.raises(ValueError, match=fault):
        store.write(tmp_path, fake("map"), result, QUICK)
    assert not list(tmp_path.iterdir())


def damage(told, name):
    if name == "verdict":
        told["claims"][0]["verdict"] = "so so"
    elif name == "kind":
        told["claims"][0]["kind"] = "theirs"
    elif name == "path":
        told["pictures"][0]["png"] = "../../elsewhere.png"
    elif name == "missing":
        del told["claims"]
    elif name == "format":
        told["format"] = 99
    elif name == "file":
        told["tables"][0]["csv"] = "data/gone.csv"
    return told


@pytest.mark.parametrize("name", ["verdict", "kind", "path", "missing", "format", "file"])
def test_damage_is_one_line_with_the_command_that_mends_it(folder, tmp_path, name):
    (tmp_path / "items").mkdir()
    told = json.loads((folder / "items/map.json").read_text())
    (tmp_path / "items/map.json").write_text(json.dumps(damage(told, name)))
    with pytest.raises(InputError, match="ergodica reproduce map --out") as caught:
        store.read(tmp_path, "map")
    assert "\n" not in str(caught.value)


def test_a_record_that_is_not_there_or_cut_off(tmp_path):
    with pytest.raises(InputError, match="there is no"):
        store.read(tmp_path, "map")
    (tmp_path / "items").mkdir()
    (tmp_path / "items/map.json").write_text('{"format": 1, "na')
    with pytest.raises(InputError, match="is damaged"):
        store.read(tmp_path, "map")
    assert store.earlier(tmp_path, "map") is None


def test_numbers_that_json_does_not_have(tmp_path):
    result = Result(["t"], [dataclasses.replace(CLAIM, figures={"x": math.inf})], settings={"y": -math.inf})
    store.write(tmp_path, fake("map"), result, QUICK)
    record = store.read(tmp_path, "map")
    assert (record.claims[0].figures, record.settings) == ({"x": "inf"}, {"y": "-inf"})
