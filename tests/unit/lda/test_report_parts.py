"""What the page of a run is made of: words by relevance, typical documents, dates, and runs that lack something."""

import json
import math
import sys

import numpy as np
import pytest

from ergodica.host import seal
from ergodica.lda.report import DETAIL_LEVELS, LARGEST_PAGE, page_of, write_report
from ergodica.lda.report.content import data_of, gather
from ergodica.lda.report.documents import begin_of, documents_of, timeline_of, typical
from ergodica.lda.report.words import MOST_CANDIDATES, SLIDER_GRID, WORDS_SHOWN, candidates, relevance
from ergodica.lda.run_files import read_run
from tests.unit.lda.report_runs import write_run


def test_relevance_is_that_of_sievert_and_shirley():
    phi, p = np.array([0.2, 0.01]), np.array([0.1, 0.0001])
    for weight in (0.0, 0.3, 1.0):
        expected = weight * np.log(phi) + (1 - weight) * np.log(phi / p)
        np.testing.assert_allclose(relevance(phi, p, weight), expected)
    assert relevance(phi, p, 1.0).argmax() == 0
    assert relevance(phi, p, 0.0).argmax() == 1


def test_the_candidates_hold_what_comes_first_wherever_the_slider_stands():
    rng = np.random.default_rng(5)
    phi, p = rng.dirichlet(np.full(3000, 0.3)) + 1e-9, rng.dirichlet(np.full(3000, 5.0))
    found = candidates(phi, p)
    assert len(found) <= MOST_CANDIDATES
    assert len(set(found.tolist())) == len(found)
    assert (np.diff(phi[found]) <= 0).all()
    assert found[:WORDS_SHOWN].tolist() == np.argsort(-phi)[:WORDS_SHOWN].tolist()
    for weight in SLIDER_GRID:
        assert set(np.argsort(-relevance(phi, p, weight))[:10]) <= set(found)


def test_ties_and_zeros_are_no_trouble():
    phi = np.zeros(200)
    phi[150] = 1.0
    found = candidates(phi, np.full(200, 0.005))
    assert found[0] == 150
    assert found.tolist() == [150, *range(len(found) - 1)]


def test_a_word_that_never_occurred_is_not_called_particular(tmp_path):
    fitted = read_run(write_run(tmp_path))
    fitted.counts = fitted.counts.copy()
    fitted.counts[::2] = 0
    shown = {word.place for topic in gather(fitted).topics for word in topic.words}
    assert shown == set(range(1, 80, 2))


def test_no_word_is_more_frequent_in_a_topic_than_in_all_of_them(tmp_path):
    for topic in gather(read_run(write_run(tmp_path))).topics:
        assert all(topic.share * word.probability <= word.frequency * (1 + 1e-6) for word in topic.words)


def test_a_document_of_two_words_is_typical_of_nothing():
    shares, lengths = np.array([[1.0, 0.0], [0.9, 0.1], [0.95, 0.05], [0.05, 0.95]]), np.array([2, 100, 400, 3000])
    assert typical(shares, lengths)[:, 0].tolist() == [2, 1, 0, -1]
    assert typical(shares, lengths)[:, 1].tolist() == [3, 1, -1, -1]
    assert typical(np.zeros((0, 2)), np.zeros(0)).shape == (0, 2)


def test_a_document_is_called_by_its_title_its_id_or_its_number():
    rows = [{"id": "a", "title": "A letter", "words": []}, {"id": "b", "title": ""}, {}]
    found = documents_of(rows, np.array([[0.7, 0.3], [0.99, 0.01], [0.5, 0.5]]))
    assert [(document.title, document.id) for document in found] == [("A letter", "a"), ("b", ""), ("Document 3", "")]
    assert [len(document.parts) for document in found] == [2, 1, 2]


@pytest.mark.parametrize(
    ("text", "precision"),
    [
        ("1999", 1), ("1999-02", 2), ("1999-02-28T12:00", 3), ("1999-02-30", None), ("19990228", None), ("", None),
        ("May 1999", None), ("0000", None), ("1999-13", None), ("٢٠٠١", None),
    ],
)  # fmt: skip
def test_a_date_is_the_beginning_of_a_date(text, precision):
    begin = begin_of(text)
    assert (begin and begin.precision) == precision


@pytest.mark.parametrize(
    ("texts", "unit", "labels"),
    [
        (["2001-03-01", "2001-03-03", "2001-03-01"], "day", ("2001-03-01", "2001-03-02", "2001-03-03")),
        (["2001-11-01", "2002-01-03", ""], "month", ("2001-11", "2001-12", "2002-01")),
        (["2001-11", "2003-01-03", "x"], "month", tuple(f"{2001 + m // 12}-{m % 12 + 1:02d}" for m in range(10, 25))),
        (["2001", "2003", "2003-01"], "year", ("2001", "2002", "2003")),
        (["1801", "1999"], "5 years", tuple(f"{y} to {y + 4}" for y in range(1800, 2000, 5))),
    ],
)
def test_times_are_days_months_or_years_by_their_range(texts, unit, labels):
    found = timeline_of(texts, np.tile([0.25, 0.75], (len(texts), 1)), np.full(len(texts), 10))
    assert (found.unit, found.labels) == (unit, labels)
    assert sum(found.documents) == sum(begin_of(text) is not None for text in texts)


def test_shares_over_time_are_of_words_and_unknown_where_there_is_no_document():
    shares, lengths = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), np.array([10, 30, 7])
    found = timeline_of(["2001", "2001", "2003"], shares, lengths)
    np.testing.assert_allclose(found.shares, [[0.25, 0.75], [np.nan, np.nan], [0.5, 0.5]])
    assert timeline_of(["2001", ""], shares[:2], lengths[:2]) is None
    assert timeline_of([], shares[:0], lengths[:0]) is None


def test_what_the_script_reads_is_what_was_found(tmp_path):
    content = gather(read_run(write_run(tmp_path)))
    data = json.loads(data_of(content, DETAIL_LEVELS[0]))
    for row, topic in zip(data["topics"], content.topics, strict=True):
        assert row["n"] == topic.number
        assert [data["words"][i] for i in row["w"]] == [word.word for word in topic.words]
        np.testing.assert_allclose(row["p"], [word.probability for word in topic.words], rtol=6e-3)
        frequencies = [data["frequencies"][i] for i in row["w"]]
        np.testing.assert_allclose(frequencies, [word.frequency for word in topic.words], rtol=6e-3)
        assert [data["documents"][place][0] for place, _ in row["d"]] == [
            content.documents[place].title for place, _ in topic.typical[:6]
        ]
    assert data["timeline"]["unit"] == "year"
    assert "NaN" not in data_of(content, DETAIL_LEVELS[-1])


def test_every_level_has_less_than_the_one_before(tmp_path):
    content = gather(read_run(write_run(tmp_path, topics=40, vocabulary=[f"word{i}" for i in range(2000)], draws=2)))
    sizes = [len(data_of(content, level)) for level in DETAIL_LEVELS]
    assert sizes == sorted(sizes, reverse=True)
    assert len(page_of(content).encode()) < LARGEST_PAGE / 10


def test_a_run_of_format_2_has_a_page_with_the_words_of_its_documents(tmp_path):
    run = write_run(tmp_path)
    shares = np.load(run / "shares.npz")["shares"]
    samples = [{"words": ["river", "moon"], "shares": row.tolist()} for row in shares[:12]]
    (run / "documents.json").unlink()
    (run / "samples.json").write_text(json.dumps(samples))
    record = json.loads((run / "run.json").read_text())
    record = {name: value for name, value in record.items() if name != seal.SEAL} | {"format": 2}
    record["files"].pop("documents.json")
    record["files"]["samples.json"] = seal.of_file(run / "samples.json")
    (run / "run.json").write_text(json.dumps(seal.sealed(record)))
    content = gather(read_run(run))
    assert [document.opening for document in content.documents] == ["river moon"] * 12
    assert "Document 12" in write_report(run).read_text("utf-8")


@pytest.mark.parametrize(
    "figures",
    [
        {"coherence": None, "checks": None, "warnings": None, "scale_check": None, "effective_draws": None},
        {"coherence": {"npmi": [0.1]}}, {"coherence": {"npmi": [None] * 8, "documents": 5}},
        {"held_out": {"perplexity": {"single": "nan"}, "unigram_perplexity": "nan", "documents": 0}},
        {"checks": [{}], "warnings": [""], "outside": "nan", "scale_check": {"ratio": 1.5}},
    ],
)  # fmt: skip
def test_whatever_a_run_lacks_there_is_a_page(tmp_path, figures):
    assert write_report(write_run(tmp_path, **figures)).stat().st_size > 10_000


def test_without_matplotlib_there_is_a_page_that_says_why_it_has_no_curve(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text = write_report(write_run(tmp_path)).read_text("utf-8")
    assert "needs matplotlib, which is not installed: pip install" in text
    assert "Map of topics" in text


def test_coherence_checks_and_warnings_are_shown(tmp_path):
    told = {
        "coherence": {"npmi": [0.25, -0.5, *[0.0] * 6], "documents": 5000},
        "warnings": ["Topic 3 is empty."], "effective_draws": 12.5, "outside": 0.031,
        "checks": [
            {"name": "Settled.", "passed": False, "text": "It still falls."},
            {"name": "Other seeds.", "passed": None, "text": "One chain was run."},
        ],
    }  # fmt: skip
    run = write_run(tmp_path, **told)
    text = write_report(run).read_text("utf-8")
    assert text.index("Topic 3 is empty.") < text.index("Map of topics")
    for part in ("NPMI 0.25", "NPMI −0.50", "worth 12.5 independent", "3.1 % have a found value outside"):
        assert part in text
    assert text.index(">failed<") < text.index("It still falls.") < text.index(">not checked<")
    assert [topic.npmi for topic in gather(read_run(run)).topics if topic.number < 2] == [0.25, -0.5]


def test_without_draws_the_page_shows_what_was_found(tmp_path):
    run = write_run(tmp_path, draws=0, found=True, band="none")
    fitted = read_run(run)
    first = gather(fitted).topics[0]
    assert first.words[0].probability == pytest.approx(fitted.found[:, first.number].max())
    assert first.words[0].low == first.words[0].high
    assert math.isnan(first.npmi)
    assert "<code>ergodica lda fit ... --bands</code> samples from here." in write_report(run).read_text("utf-8")
