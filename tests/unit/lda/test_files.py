"""The folder of a run: read back as it was, plain, and one clear line where it is damaged."""

import csv
import json

import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.host import seal
from ergodica.lda import LDA, demo
from tests.unit.lda.small import DOCUMENTS, learnt, model


@pytest.fixture
def fitted():
    return learnt()


@pytest.fixture
def folder(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    return tmp_path / "run"


def test_read_back_as_it_was(fitted, folder):
    loaded = LDA.load(folder)
    assert loaded.get_params() | {"vocabulary": None} == fitted.get_params() | {"vocabulary": None}
    assert loaded.vocabulary_.words == fitted.vocabulary_.words
    assert loaded.topics(4) == fitted.topics(4)
    assert loaded.history_ == fitted.history_
    assert loaded.figures_ == json.loads(json.dumps(fitted.figures_))
    np.testing.assert_array_equal(loaded.transform(DOCUMENTS), fitted.transform(DOCUMENTS))
    assert loaded.perplexity(DOCUMENTS) == fitted.perplexity(DOCUMENTS)
    loaded.save(folder.with_name("twin"))
    for path in folder.iterdir():
        assert path.read_bytes() == (folder.with_name("twin") / path.name).read_bytes(), path.name


def test_the_files_are_plain(fitted, folder):
    told = json.loads((folder / "run.json").read_text())
    assert (told["format"], told["topics"], told["words"], told["sampler"]) == (3, 3, 300, "sgrhmc")
    assert set(told) >= {
        "preset",
        "settings",
        "seed",
        "versions",
        "documents",
        "held_out",
        "noise_ratio",
        "band",
        "seconds",
    }
    assert set(told["held_out"]) == {
        "perplexity", "unigram_perplexity", "vocabulary", "documents", "found_perplexity",
    }  # fmt: skip
    with np.load(folder / "draws.npz", allow_pickle=False) as draws:
        assert draws["phi"].shape == (3, 300, 3)
        assert draws["phi"].dtype == np.float32
    with np.load(folder / "theta.npz", allow_pickle=False) as theta:
        assert theta["theta"].shape == (300, 3)
    with open(folder / "topics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["word"] == fitted.topics(1)[0].words[0].word
    assert len(rows) == 90
    assert (folder / "vocabulary.txt").read_text().split() == list(demo.vocabulary().words)
    documents = json.loads((folder / "documents.json").read_text())
    with np.load(folder / "shares.npz", allow_pickle=False) as shares:
        assert len(documents) == len(shares["shares"])
    assert documents[0]["words"][0] in demo.vocabulary().words


def test_an_existing_folder_is_refused(fitted, folder):
    with pytest.raises(InputError, match="exists"):
        fitted.save(folder)


def test_no_run_and_an_unfinished_one(tmp_path):
    with pytest.raises(InputError, match=r"holds no run\.json"):
        LDA.load(tmp_path)
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(InputError, match="not finished"):
        LDA.load(tmp_path)
    (tmp_path / "run.json").write_text(json.dumps(seal.sealed({"format": 9})))
    with pytest.raises(InputError, match="has format 9 and this ergodica reads up to 3"):
        LDA.load(tmp_path)


FILES = ("run.json", "theta.npz", "draws.npz", "shares.npz", "vocabulary.txt", "documents.json", "history.csv")


@pytest.mark.parametrize("name", FILES)
def test_a_changed_file_is_named(folder, name):
    path = folder / name
    content = bytearray(path.read_bytes())
    place = content.find(b"sgrhmc") if name == "run.json" else len(content) // 2
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=rf"{name} is damaged \(its checksum does not match\)") as raised:
        LDA.load(folder)
    assert "\n" not in str(raised.value)


def test_a_table_that_another_program_saved_again_is_a_warning(folder):
    (folder / "topics.csv").write_text("topic;rank\n")
    with pytest.warns(UserWarning, match=r"topics\.csv is not as it was written"):
        LDA.load(folder)


def test_a_folder_of_version_0_1_0_is_read_with_a_note(fitted, folder):
    told = json.loads((folder / "run.json").read_text())
    del told["files"], told["sha256"]
    (folder / "run.json").write_text(json.dumps(told | {"format": 1}))
    with pytest.warns(UserWarning, match=r"version 0\.1\.0 of ergodica, which left no checksums") as said:
        assert LDA.load(folder).topics(4) == fitted.topics(4)
    assert len(said) == 1
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(InputError, match=r"of version 0\.1\.0 .* is unknown.*: give another folder$"):
        model().fit(DOCUMENTS, out=folder, resume=True)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
