"""How many topics: one reading, the figures of each number, the verdict."""

import math

import pytest

import ergodica as eg
from ergodica.errors import InputError
from ergodica.lda import choice, demo
from ergodica.lda.choice import TopicChoice, TopicNumberRow, choose

DOCUMENTS = demo.documents(400)
WORDS = demo.vocabulary().words
TEXTS = [" ".join(WORDS[number] for number in document) for document in DOCUMENTS]


@pytest.fixture(scope="module")
def found():
    return choose(DOCUMENTS, (10, 2, 10), vocabulary=demo.vocabulary(), passes=20, progress=False)


def test_figures(found):
    assert [row.topics for row in found.rows] == [2, 10]
    two, ten = found.rows
    assert ten.perplexity < two.perplexity < found.unigram
    assert ten.npmi > two.npmi
    assert 0.5 < ten.diversity <= 1
    assert (found.documents, found.held_out, found.words) == (360, 40, 300)
    assert eg.lda.choose is choose


def test_nothing_is_learnt_from_what_is_held_out(found):
    """Figures of a fit by hand that never sees the first documents but to judge them."""
    model = eg.lda.LDA(10, vocabulary=demo.vocabulary(), passes=20, held_out=40, progress=False).fit(DOCUMENTS)
    assert found.rows[1].perplexity == model.figures_["held_out"]["found_perplexity"]
    assert found.rows[1].npmi == pytest.approx(model.coherence(DOCUMENTS.take(range(40))).npmi.mean())


def test_read_once():
    """Texts that can be read only once are enough for two fits."""
    found = choose(iter(TEXTS), (2, 3), vocabulary=WORDS, passes=2, held_out=50, progress=False)
    assert (len(found.rows), found.held_out) == (2, 50)


def test_table_and_verdict(found):
    assert "perplexity is lowest at K = 10; NPMI is highest at 10" in str(found)
    assert "40 held-out documents" in str(found)
    assert found.to_dict()["rows"][0]["topics"] == 2
    rows = [(10, 120.0, 0.1), (50, 100.5, 0.3), (100, 100.0, 0.2), (200, 101.0, math.nan)]
    told = TopicChoice([TopicNumberRow(k, p, npmi, 1.0, 1.0) for k, p, npmi in rows], 200.0, 90, 10, 300, [])
    assert told.verdict == (
        "perplexity is lowest at K = 100; it falls by less than 1 % from 50 on; NPMI is highest at 50"
    )


def test_pandas(found):
    pytest.importorskip("pandas")
    assert found.to_pandas().columns.tolist() == list(TopicNumberRow._fields)


def test_picture(found, tmp_path):
    pytest.importorskip("matplotlib")
    for name, begins in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml")):
        found.picture(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(begins)
    with pytest.raises(InputError, match=r"must end in \.png"):
        found.picture(tmp_path / "a.txt")
    with pytest.raises(InputError, match="there is no folder"):
        choice.check_picture(tmp_path / "nowhere" / "a.png")


def test_mistakes():
    with pytest.raises(InputError, match="expected numbers to try"):
        choose(DOCUMENTS, ())
    with pytest.raises(InputError, match="topics is 0"):
        choose(DOCUMENTS, (0, 2))
    with pytest.raises(InputError, match="held_out is 400 and there are 400 documents"):
        choose(DOCUMENTS, (2,), held_out=400)
