"""The items on topic models: how verdicts follow from runs, and the items as a whole on few documents."""

import json
import math

import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.lda import demo
from ergodica.lda.expanded_mean import ExpandedMean
from ergodica.lda.perplexity import HistoryRow
from ergodica_paper import lda_perplexity, lda_runs, lda_runtime, lda_topics
from ergodica_paper.lda_perplexity import claims
from ergodica_paper.lda_perplexity.comparison import Question, answers, corrected, judge, p_value, told
from ergodica_paper.lda_perplexity.plan import PerplexityPlan
from ergodica_paper.lda_runs import LdaRun, Length, Setup, learn, pool_of, run
from ergodica_paper.result import Ask
from ergodica_paper.verdict import conditions, verdict

TINY = Length(documents=100, topics=11, evaluations=2)
CLAIMS = ["expanded-mean", "lda-riemannian", "lda-momentum", "lda-schedule", "lda-priors", "lda-resampling"]


def runs_of(*ends: float) -> list[LdaRun]:
    """Made-up runs; an infinite end is one that became non-finite."""
    setup = Setup("sgld", "paper")
    return [
        LdaRun(setup, seed, (HistoryRow(10, 0.0, end, end),), "" if math.isfinite(end) else "not finite")
        for seed, end in enumerate(ends)
    ]


def question(first, second, metric="single", what="a against b", where="here"):
    return Question(what, where, metric, runs_of(*first), runs_of(*second))


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        ((100, 101, 102), (120, 121, 122), "yes"),
        ((120, 121, 122), (100, 101, 102), "no"),
        ((100, 101, 102), (100.1, 101.1, 102.1), "unclear"),  # beyond chance, but less than one per cent
        ((100, 110, 120), (101, 113, 150), "unclear"),  # lower in all, but not beyond chance
        ((100, 101, 102), (120, 100, 122), "unclear"),
        ((100, 101, 102), (120, 121, math.inf), "unclear"),  # ahead in three of three: as by chance in one of four
        ((100, 101, 102) * 2, (120, 121, math.inf) * 2, "yes"),
        ((math.inf, 101, 102), (120, 121, 122), "unclear"),
        ((math.inf,) * 4, (100, 101, 102, 103), "no"),
        ((math.inf,) * 3, (math.inf,) * 3, "unclear"),
    ],
)
def test_one_method_is_better_than_another_by_the_stated_rule(first, second, outcome):
    (found,) = judge([question(first, second)])
    assert found.outcome == outcome
    assert math.isnan(found.error) == (math.inf in first + second and first != second)


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        ((100, 101, 102), (100.1, 101.1, 102.1), "yes"),  # as good is good enough
        ((100, 101, 102), (100.2, 100.8, 102.1), "yes"),
        ((120, 121, 122), (100, 101, 102), "no"),
        ((100, 110, 120), (101, 100, 150), "unclear"),
    ],
)
def test_nothing_is_better_by_the_stated_rule(first, second, outcome):
    assert judge([question(first, second)], is_as_good_enough=True)[0].outcome == outcome


@pytest.mark.parametrize(
    ("gains", "p"),
    [
        ((math.inf,) * 4, 2 / 70),  # all runs of one and none of the other: 1 of the 70 ways, and its mirror
        ((-math.inf,) * 4, 2 / 70),
        ((math.inf, 0.1, 0.2, 0.1), 1 / 8),
        ((math.inf, -0.1, 0.2), 1.0),
        ((0.1, 0.1), 0.0),
        ((0.0, 0.0), 1.0),
    ],
)
def test_p_values_with_runs_that_were_lost(gains, p):
    assert p_value(np.array(gains)) == pytest.approx(p)


def test_p_values_are_corrected_by_holms_method():
    assert corrected([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert corrected([0.6, 0.9]).tolist() == [1.0, 1.0]


def test_a_difference_that_counts_alone_does_not_count_among_many():
    close = question((100, 102, 104), (104, 104.5, 109))
    assert judge([close])[0].outcome == "yes"
    assert judge([close] * 20)[0].outcome == "unclear"


def outcomes(*words):
    ends = {"yes": (100, 101, 102), "no": (140, 141, 142), "unclear": (120, 121, 122)}
    return judge([question(ends[word], (120, 121, 122), "averaged", f"case {word}") for word in words])


def test_verdicts_follow_from_comparisons():
    assert verdict(answers(outcomes("yes", "yes"))) == "reproduced"
    mixed = answers(outcomes("yes", "no"))
    assert (verdict(mixed), conditions(mixed)) == ("reproduced under conditions", "case yes")
    assert verdict(answers(outcomes("no", "unclear"))) == "not reproduced"


def test_what_is_told_of_comparisons():
    told_of = told(outcomes("yes", "no"))
    assert told_of.startswith(
        "Of 2 ways of asking it holds in 1 and the contrary holds in 1. The perplexity is higher by "
    )
    assert "% (case no, here, averaged) to lower by " in told_of


def test_conditions_put_together_what_belongs_together():
    better, same = (100, 101, 102), (120, 121, 122)
    mixed = [
        question(better, same, metric, "it", where) if (metric, where) != ("averaged", "there")
        else question(same, same, metric, "it", where)
        for where in ("here", "there") for metric in ("single", "averaged")
    ]  # fmt: skip
    assert conditions(answers(judge(mixed))) == "it (here, single; here, averaged; there, single)"


def timings(update_of_sgld: float, waiting: float = 0.0):
    noise = 1 + 0.01 * np.arange(5) % 0.02
    parts = {name: (1.0, update_of_sgld if name == "sgld" else 0.2, waiting) for name in lda_runtime.PAPER_SECONDS}
    return [
        lda_runtime.Timing(name, preset, way, np.outer(noise, parts[name]))
        for preset in lda_runs.SHOWN_PRESETS
        for way in lda_runtime.WAYS
        for name in lda_runtime.PAPER_SECONDS
    ]


@pytest.mark.parametrize(
    ("update", "waiting", "verdicts"),
    [
        (0.21, 0.0, ["reproduced", "reproduced"]),
        (0.6, 0.0, ["not reproduced", "reproduced"]),
        (0.21, 3.0, ["reproduced", "not reproduced"]),
    ],
)
def test_runtimes_are_judged_by_the_stated_rules(update, waiting, verdicts):
    made = timings(update, waiting)
    assert [claim.verdict for claim in lda_runtime.claims_of(made, is_demo=False)] == verdicts
    assert {claim.verdict for claim in lda_runtime.claims_of(made, is_demo=True)} == {"illustration, no verdict"}


def test_who_is_slowest_is_taken_from_a_round_that_does_not_count():
    made = [lda_runtime.Timing(n, "paper", "alone", np.ones((4, 3))) for n in lda_runtime.PAPER_SECONDS]
    made[2].parts[0] = 9.0  # the slowest once, by chance
    assert lda_runtime._ratio(made).value == 1


@pytest.mark.long
def test_the_expanded_mean_is_dirichlet_in_the_library(monkeypatch):
    assert claims.expanded_mean(seed=0).verdict == "reproduced"
    gradient = ExpandedMean.gradient
    with monkeypatch.context() as patch:
        patch.setattr(
            ExpandedMean, "gradient", lambda self, theta, *rest, **more: -gradient(self, theta, *rest, **more)
        )
        assert claims.expanded_mean(seed=0).conditions == "the law of a topic"
    monkeypatch.setattr(claims, "phi_of", lambda theta: theta / theta.sum(axis=1, keepdims=True))
    assert claims.expanded_mean(seed=0).conditions == "the gradient of the prior"


@pytest.fixture(scope="module")
def texts():
    words = demo.vocabulary().words
    return [" ".join(words[word] for word in document) for document in demo.documents(330, seed=3)]


@pytest.fixture
def corpus(tmp_path, texts):
    path = tmp_path / "articles.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    (tmp_path / "vocab-300.txt").write_text("\n".join(demo.vocabulary().words))
    return path


def test_the_vocabulary_beside_a_corpus_is_taken_if_it_is_the_only_one(corpus):
    pool = pool_of(Ask(corpus=(str(corpus),)), 300)
    assert pool.vocabulary.words == demo.vocabulary().words
    assert pool.told()["vocabulary"] == "vocab-300.txt, which lies beside the corpus"
    assert (len(pool.held_out), len(pool.documents), pool.size) == (30, 300, 300)
    (corpus.parent / "vocab-other.txt").write_text("ship\n")
    lda_runs._read.cache_clear()
    assert "built from the first documents" in pool_of(Ask(corpus=(str(corpus),)), 300).told()["vocabulary"]


def test_a_corpus_of_too_few_documents_is_refused(tmp_path):
    path = tmp_path / "few.jsonl"
    path.write_text('{"text": "ship harbour ship harbour"}\n' * 5)
    (tmp_path / "vocab.txt").write_text("ship\nharbour\n")
    with pytest.raises(InputError, match="only 5 documents"):
        pool_of(Ask(corpus=(str(path),)), 300)


def test_runs_take_each_document_once_before_any_twice():
    pool = pool_of(Ask(), 200)
    order = pool.order(500, seed=1)
    assert np.bincount(order[:400], minlength=200).tolist() == [2] * 200
    assert np.array_equal(order, pool.order(500, seed=1))
    assert not np.array_equal(order, pool.order(500, seed=2))


@pytest.mark.long
def test_same_seed_same_perplexities():
    pool = pool_of(Ask(), 200)
    first, second = (run(pool, Setup("sghmc", "paper"), TINY, seed=4) for _ in range(2))
    assert first.history == second.history
    assert [row.documents for row in first.history] == [50, 100]
    assert run(pool, Setup("sghmc", "paper"), TINY, seed=5).history != first.history


def test_a_run_that_becomes_non_finite_is_reported_and_has_lost():
    pool = pool_of(Ask(), 200)
    lost = run(pool, Setup("sghmc", "paper", (("step_size", 1e30),)), TINY, seed=4)
    assert "not finite" in lost.stopped
    assert lost.final("single") == math.inf


def test_resampling_redraws_the_momentum_when_its_turn_comes():
    pool = pool_of(Ask(), 200)
    plain, _ = learn(pool, Setup("sghmc", "paper"), TINY, seed=4)
    other, _ = learn(pool, Setup("sghmc", "paper", resample_every=2), TINY, seed=4)  # after the last of two steps
    late, _ = learn(pool, Setup("sghmc", "paper", resample_every=3), TINY, seed=4)
    momentum = [np.asarray(training.learner.state.phase.momentum) for training in (plain, other, late)]
    assert np.array_equal(momentum[0], momentum[2])
    assert np.array_equal(plain.learner.theta, other.learner.theta)
    assert abs(np.std(momentum[1]) - 1) < 0.1  # of 3,300 standard normals: 8 standard errors
    assert abs(np.corrcoef(momentum[0].ravel(), momentum[1].ravel())[0, 1]) < 0.1


def test_perplexity_with_a_corpus_gives_verdicts_and_all_figures(monkeypatch, corpus):
    plan = PerplexityPlan(TINY, [(0.1, 0.1)], (0.003, 1e30), 0, (2,), ("paper",), choosing=1, runs=3)
    monkeypatch.setattr(lda_perplexity, "plan_of", lambda ask: plan)
    told = []
    found = lda_perplexity.run(Ask(corpus=(str(corpus),), report=lambda done, words: told.append(done)))
    assert [claim.name for claim in found.claims] == CLAIMS
    assert "illustration, no verdict" not in {claim.verdict for claim in found.claims}
    assert {picture.table for picture in found.pictures} <= {table.name for table in found.tables}
    assert {claim.picture for claim in found.claims} - {""} <= {picture.name for picture in found.pictures}
    assert found.non_finite == {"SGRLD, paper preset, step size 1e+30": 1}  # not chosen, so not judged
    assert told == sorted(told)
    assert len(next(table for table in found.tables if table.name == "ends").rows) == 8
    json.dumps([dict(claim.figures) for claim in found.claims], allow_nan=False)


def test_topics_of_the_demo_are_eleven_with_bands(monkeypatch):
    monkeypatch.setattr(lda_topics, "QUICK", 400)
    found = lda_topics.run(Ask())
    assert [len(table.rows) for table in found.tables] == [11, 77, 11]
    for row in next(table for table in found.tables if table.name == "words").rows:
        _, _, _, _, probability, low, high = row
        assert 0 < low <= high
        assert 0 < probability < 1
    assert not found.claims


def test_runtime_of_the_demo_has_all_parts_and_no_verdict(monkeypatch):
    monkeypatch.setattr(lda_runtime, "QUICK", lda_runtime.Amount(1_200, 3, 60))
    monkeypatch.setattr(lda_runtime, "DEMO_TOPICS", TINY.topics)
    found = lda_runtime.run(Ask())
    rows = next(table for table in found.tables if table.name == "runtime").rows
    assert [row[3] for row in rows] == 4 * list(lda_runtime.PAPER_SECONDS.values())
    rounds = next(table for table in found.tables if table.name == "rounds").rows
    assert len(rounds) == 3 * len(rows)
    for *_, way, _, gradient, update, reading in rounds:
        assert min(gradient, update, gradient + update + reading) > 0
        assert way == lda_runtime.WITH_READING or reading == 0
    assert [claim.verdict for claim in found.claims] == 2 * ["illustration, no verdict"]
