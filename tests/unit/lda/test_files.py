"""The folder of a run: read back as it was, plain, and one clear line where it is damaged."""

import csv
import json

import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.lda import LDA, demo
from tests.unit.lda.small import DOCUMENTS, model


@pytest.fixture(scope="module")
def fitted():
    return model().fit(DOCUMENTS)


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
    assert (told["format"], told["topics"], told["words"], told["sampler"]) == (1, 3, 300, "sgrhmc")
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
    assert set(told["held_out"]) == {"perplexity", "unigram_perplexity", "vocabulary", "documents"}
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
    samples = json.loads((folder / "samples.json").read_text())
    assert len(samples) == 12
    assert len(samples[0]["shares"]) == 3
    assert samples[0]["words"][0] in demo.vocabulary().words


def test_an_existing_folder_is_refused(fitted, folder):
    with pytest.raises(InputError, match="exists"):
        fitted.save(folder)


def test_no_run_and_an_unfinished_one(tmp_path):
    with pytest.raises(InputError, match=r"holds no run\.json"):
        LDA.load(tmp_path)
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(InputError, match="not finished"):
        LDA.load(tmp_path)
    (tmp_path / "run.json").write_text('{"format": 9}')
    with pytest.raises(InputError, match="not of format 1"):
        LDA.load(tmp_path)
