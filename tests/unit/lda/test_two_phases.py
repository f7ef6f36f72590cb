"""Topics that are found, then sampled: when each phase ends, and runs that were stopped in either, bit for bit."""

import gc
import os
import signal
import weakref

import numpy as np
import pytest

from ergodica.errors import InputError
from ergodica.lda import LDA, chains, demo, learning, stream
from ergodica.lda.corpus import Corpus
from ergodica.lda.finding import Finder
from ergodica.lda.scir import ScirLearner
from ergodica.lda.topics import NO_BAND, POSTERIOR_BAND
from tests.unit.lda.small import DOCUMENTS, assert_same_bytes, evaluate_often


@pytest.fixture
def busy(monkeypatch):
    evaluate_often(monkeypatch)


def found(**changes):
    """A run of two phases, short: both are stopped by numbers."""
    given = {"batch_size": 20, "passes": 3, "held_out": 40, "draws": 6, "progress": False, "bands": True}
    return LDA(3, seed=4, **({"vocabulary": demo.vocabulary()} | given | changes))


@pytest.fixture
def short(monkeypatch):
    """Few passes while priors are learnt, and few draws."""
    evaluate_often(monkeypatch)
    monkeypatch.setattr(chains, "MOST_SETTLING", 2)
    monkeypatch.setattr(learning, "MOST_BAND_PASSES", 4)


@pytest.mark.parametrize(("place", "number"), [(Finder, 4), (Finder, 9), (ScirLearner, 2), (ScirLearner, 15)])
def test_both_phases_are_resumed_bit_for_bit(tmp_path, short, monkeypatch, place, number):
    """In the first pass, over the store, while priors are learnt, and after they are frozen."""
    whole_run = found().fit(DOCUMENTS, out=tmp_path / "whole")
    assert whole_run.band == POSTERIOR_BAND or whole_run.figures_["scale_check"]["passed"] is not True
    original, calls = place.step, iter(range(10**9))

    def step(self, *arguments):
        if next(calls) == number:
            os.kill(os.getpid(), signal.SIGINT)
        original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(place, "step", step)
        with pytest.raises(KeyboardInterrupt):
            found().fit(DOCUMENTS, out=tmp_path / "run")
    found().fit(DOCUMENTS, out=tmp_path / "run", resume=True)
    assert_same_bytes(tmp_path / "whole", tmp_path / "run")
    assert (tmp_path / "whole/found.npz").read_bytes() == (tmp_path / "run/found.npz").read_bytes()


def test_topics_that_were_found_have_no_bands(tmp_path, busy):
    model = found(bands=False).fit(DOCUMENTS, out=tmp_path / "run")
    assert model.band == NO_BAND
    assert model.figures_["effective_draws"] is None
    with pytest.raises(InputError, match="call fit with bands=True"):
        model.bands()
    assert all(word.low is None for topic in model.topics(3) for word in topic.words)
    again = LDA.load(tmp_path / "run")
    np.testing.assert_array_equal(again.components_, model.components_)
    again.partial_fit(demo.documents(40, seed=3))
    assert again.figures_["documents"] == model.figures_["documents"] + 40


def test_finding_ends_where_perplexity_no_longer_falls(monkeypatch):
    model = found(bands=False, passes=None).fit(DOCUMENTS)
    assert model.figures_["gain"] < learning.CONVERGED_GAIN
    assert model.figures_["steps"] >= learning.FEWEST_STEPS
    assert not any("still fell" in warning for warning in model.figures_["warnings"])
    early = found(bands=False, passes=2).fit(DOCUMENTS)
    assert any("more passes may find better topics" in warning for warning in early.figures_["warnings"])


def test_priors_are_learnt_and_frozen_before_the_first_draw_or_as_given(short):
    learnt = found().fit(DOCUMENTS).figures_["priors"]
    assert len(set(learnt["gamma"])) == 3
    given = found(alpha=0.25, gamma=0.125).fit(DOCUMENTS).figures_["priors"]
    assert given == {"alpha": 0.25, "gamma": [0.125] * 3}


def test_minutes_that_run_out_while_reading_leave_what_was_found(short, monkeypatch):
    with pytest.warns(UserWarning, match="no better than word frequencies"):
        model = found(minutes=1e-9, passes=None).fit(DOCUMENTS)
    assert model.band == NO_BAND
    assert model.figures_["sampler"] == "averaged counts"
    assert np.isfinite(model.components_).all()


def test_a_run_without_held_out_documents_is_resumed_bit_for_bit(tmp_path, short, monkeypatch):
    """Convergence is then judged by documents that the sample had once, and has no more."""
    monkeypatch.setattr("ergodica.lda.perplexity.WATCHED_DOCUMENTS", 20)
    monkeypatch.setattr("ergodica.lda.store.SAMPLE_DOCUMENTS", 40)
    monkeypatch.setattr("ergodica.lda.store.Reservoir.__init__.__defaults__", (40,))
    given = {"held_out": 0, "bands": False, "passes": 6}
    found(**given).fit(DOCUMENTS, out=tmp_path / "whole")
    original, calls = Finder.step, iter(range(10**9))

    def step(self, *arguments):
        if next(calls) == 30:
            os.kill(os.getpid(), signal.SIGINT)
        original(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Finder, "step", step)
        with pytest.raises(KeyboardInterrupt):
            found(**given).fit(DOCUMENTS, out=tmp_path / "run")
    found(**given).fit(DOCUMENTS, out=tmp_path / "run", resume=True)
    assert_same_bytes(tmp_path / "whole", tmp_path / "run")


def test_more_documents_after_bands_are_learnt_from(short):
    model = found().fit(DOCUMENTS)
    before = model.figures_["documents"]
    model.partial_fit(demo.documents(40, seed=5))
    assert model.figures_["documents"] == before + 40
    assert model.band == NO_BAND


def test_a_model_does_not_hold_the_store_of_its_documents(short, monkeypatch):
    made = []

    class Watched(stream.DocumentStore):
        def __init__(self, *given):
            super().__init__(*given)
            made.append(weakref.ref(self))

    monkeypatch.setattr(stream, "DocumentStore", Watched)
    model = found().fit(DOCUMENTS)
    gc.collect()
    assert made
    assert made[0]() is None
    assert model.band != NO_BAND


def test_a_corpus_of_which_only_some_documents_are_here_is_sampled_from_batches(short):
    model = found(size=1_000.0).fit(DOCUMENTS)
    assert model.noise_ratio > 0
    assert found().fit(DOCUMENTS).noise_ratio == 0


def test_minutes_end_a_run(short):
    model = found(bands=False, minutes=0.03, passes=None).fit(DOCUMENTS)
    assert sum(model.figures_["seconds"].values()) < 30
    assert model.figures_["steps"] > 0


def test_bands_of_a_stream_that_is_not_kept_are_refused():
    with pytest.raises(InputError, match="give what the Corpus is made from"):
        found(vocabulary=None).fit(Corpus(DOCUMENTS, demo.vocabulary()))


@pytest.mark.parametrize("passes", [1, 3])
def test_as_many_passes_as_asked_for(passes):
    assert found(bands=False, passes=passes).fit(DOCUMENTS).figures_["documents"] == passes * 120


def test_bands_after_a_single_pass(short):
    assert found(passes=1).fit(DOCUMENTS).band != NO_BAND
