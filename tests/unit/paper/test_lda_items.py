"""The items on topic models: how verdicts follow from runs, and the items as a whole on few documents."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.lda import demo
from ergodica.lda.training import Row
from ergodica.paper import lda_perplexity, lda_runs, lda_runtime, lda_topics
from ergodica.paper.lda_perplexity import claims
from ergodica.paper.lda_perplexity.comparison import compare, verdict_of
from ergodica.paper.lda_perplexity.comparison import conditions as conditions_of
from ergodica.paper.lda_perplexity.plan import Plan
from ergodica.paper.lda_runs import Length, Run, Setup, learn, pool_of, run
from ergodica.paper.result import Ask

TINY = Length(documents=100, topics=11, looks=2)
CLAIMS = ["expanded-mean", "lda-riemannian", "lda-momentum", "lda-schedule", "lda-priors", "lda-resampling"]


def runs_of(*ends: float) -> list[Run]:
    """Made-up runs; an infinite end is one that left the finite numbers."""
    setup = Setup("sgld", "paper")
    return [
        Run(setup, seed, (Row(10, 0.0, end, end),), "" if math.isfinite(end) else "not finite")
        for seed, end in enumerate(ends)
    ]


@pytest.mark.parametrize(
    ("first", "second", "outcome"),
    [
        ((100, 101, 102), (120, 121, 122), "yes"),
        ((120, 121, 122), (100, 101, 102), "no"),
        ((100, 101, 102), (100.1, 101.1, 102.1), "no clear difference"),  # beyond chance, but less than one per cent
        ((100, 110, 120), (101, 113, 150), "no clear difference"),  # lower in all, but not beyond chance
        ((100, 101, 102), (120, 100, 122), "no clear difference"),
        ((100, 101, 102), (120, 121, math.inf), "yes"),
        ((math.inf, 101, 102), (120, 121, 122), "no clear difference"),
        ((math.inf,) * 3, (100, 101, 102), "no"),
        ((math.inf,) * 3, (math.inf,) * 3, "no clear difference"),
    ],
)
def test_one_method_is_better_than_another_by_the_stated_rule(first, second, outcome):
    assert compare(runs_of(*first), runs_of(*second), "single", "a against b", "here").outcome == outcome


def outcomes(*words):
    ends = {"yes": (100, 101, 102), "no": (140, 141, 142), "no clear difference": (120, 121, 122)}
    return [compare(runs_of(*ends[word]), runs_of(120, 121, 122), "averaged", f"case {word}", "here") for word in words]


def test_verdicts_follow_from_comparisons():
    assert verdict_of(outcomes("yes", "yes"), is_demo=False) == ("reproduced", "")
    verdict, conditions = verdict_of(outcomes("yes", "no"), is_demo=False)
    assert verdict == "reproduced under conditions"
    assert conditions == "it holds for case yes; it is the other way round for case no"
    some = zip(outcomes("yes", "no", "no"), ("single", "averaged", "single"), ("here", "here", "there"), strict=True)
    mixed = [replace(c, what="it", metric=metric, where=where) for c, metric, where in some]
    assert conditions_of(mixed) == (
        "it holds for it (here, single); it is the other way round for it (here, averaged; there, single)"
    )
    assert verdict_of(outcomes("no", "no clear difference"), is_demo=False)[0] == "not reproduced"
    ties = outcomes("no", "no clear difference")
    assert verdict_of(ties, is_demo=False, is_tie_enough=True)[0] == "reproduced under conditions"
    assert verdict_of(outcomes("yes", "yes"), is_demo=True) == ("illustration, no verdict", "")


def timings(update_of_sgld: float):
    return [
        lda_runtime.Timing(name, preset, np.full(5, 1.0), np.full(5, update_of_sgld if name == "sgld" else 0.2))
        for preset in lda_runtime.SHOWN_PRESETS
        for name in lda_runtime.PAPER_SECONDS
    ]


@pytest.mark.parametrize(("update", "verdict"), [(0.2, "reproduced"), (0.6, "not reproduced")])
def test_runtimes_are_alike_by_the_stated_rule(update, verdict):
    assert lda_runtime.claim_of(timings(update), is_demo=False).verdict == verdict
    assert lda_runtime.claim_of(timings(update), is_demo=True).verdict == "illustration, no verdict"


def test_the_expanded_mean_is_dirichlet_and_other_gammas_are_not(monkeypatch):
    assert claims.expanded_mean(seed=0).verdict == "reproduced"
    right = np.random.default_rng
    monkeypatch.setattr(claims, "DRAWN_ALPHA", np.float64(0.1))

    class Wrong:
        def gamma(self, alpha, size):
            return right(0).gamma(2 * alpha, size=size)

    monkeypatch.setattr(claims.np.random, "default_rng", lambda seed: Wrong())
    assert claims.expanded_mean(seed=0).verdict == "not reproduced"


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


def test_same_seed_same_perplexities():
    pool = pool_of(Ask(), 200)
    first, second = (run(pool, Setup("sghmc", "paper"), TINY, seed=4) for _ in range(2))
    assert first.history == second.history
    assert [row.documents for row in first.history] == [50, 100]
    assert run(pool, Setup("sghmc", "paper"), TINY, seed=5).history != first.history


def test_a_run_that_leaves_the_finite_numbers_is_told_and_has_lost():
    pool = pool_of(Ask(), 200)
    lost = run(pool, Setup("sghmc", "paper", (("step_size", 1e30),)), TINY, seed=4)
    assert "not finite" in lost.stopped
    assert lost.final("single") == math.inf


def test_resampling_draws_the_momentum_anew_when_its_turn_comes():
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
    plan = Plan(TINY, [(0.1, 0.1)], (0.003, 1e30), 0, (2,), ("paper",))
    monkeypatch.setattr(lda_perplexity, "plan_of", lambda ask: plan)
    monkeypatch.setattr(lda_perplexity.plan, "plan_of", lambda ask: plan)
    told = []
    found = lda_perplexity.run(Ask(corpus=(str(corpus),), report=lambda done, words: told.append(done)))
    assert [claim.name for claim in found.claims] == CLAIMS
    assert "illustration, no verdict" not in {claim.verdict for claim in found.claims}
    assert {picture.table for picture in found.pictures} <= {table.name for table in found.tables}
    assert {claim.picture for claim in found.claims} - {""} <= {picture.name for picture in found.pictures}
    assert found.non_finite == {"SGRLD, paper preset, step size 1e+30": 3}
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
    monkeypatch.setattr(lda_runtime, "QUICK", 250)
    monkeypatch.setattr(lda_runtime, "DEMO_TOPICS", TINY.topics)
    found = lda_runtime.run(Ask())
    rows = next(table for table in found.tables if table.name == "runtime").rows
    assert [row[2] for row in rows] == 2 * list(lda_runtime.PAPER_SECONDS.values())
    assert all(row[3] > 0 for row in rows)
    assert [claim.verdict for claim in found.claims] == ["illustration, no verdict"]
