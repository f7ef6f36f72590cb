"""The class LDA: scikit-learn's manners on counts, learning in parts, and one clear line for every mistake."""

from functools import cache

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import ergodica as eg
from ergodica.errors import InputError
from ergodica.lda import LDA, demo
from ergodica.lda.corpus import Corpus, Documents
from ergodica.lda.topics import POSTERIOR_BAND, SPREAD_BAND, band_words
from tests.unit.lda.small import DOCUMENTS, learnt, model

WORDS = demo.vocabulary().words
COUNTS = csr_matrix(DOCUMENTS.to_csr(300), shape=(160, 300))
TEXTS = [" ".join(WORDS[number] for number in document) for document in DOCUMENTS]


@pytest.fixture
def fitted():
    return learnt()


@cache
def found_topics():
    """By averaged counts, as the default is."""
    return LDA(3, vocabulary=demo.vocabulary(), held_out=40, passes=5, progress=False).fit(DOCUMENTS)


def test_parameters_are_kept_as_given_and_cloned():
    given = {"topics": 7, "sampler": "no such sampler", "vocabulary": ["a"], "step_size": (0.1, 1, 0.5)}
    made = LDA(**given)
    told = made.get_params()
    assert all(told[name] is value for name, value in given.items())
    twin = LDA(**made.get_params(deep=False))
    assert all(twin.get_params()[name] is value for name, value in told.items())
    assert made.set_params(topics=3).get_params()["topics"] == 3
    assert repr(LDA(topics=7)) == "LDA(topics=7)"
    assert repr(LDA(preset="".join(["tu", "ned"]))) == "LDA()"  # as read from a file: equal, not the same object
    with pytest.raises(InputError, match="no parameter 'topic'"):
        made.set_params(topic=3)


def test_a_matrix_of_counts(fitted):
    learning = model(held_out=0)
    found = learning.fit_transform(COUNTS, None)
    assert found.shape == (160, 3)
    np.testing.assert_allclose(found.sum(1), 1)
    assert learning.n_features_in_ == 300
    assert learning.components_.shape == (3, 300)
    np.testing.assert_allclose(learning.components_.sum(1), 1, rtol=1e-5)
    assert learning.get_feature_names_out().tolist() == ["lda0", "lda1", "lda2"]
    np.testing.assert_array_equal(learning.transform(COUNTS.toarray()), found)
    np.testing.assert_array_equal(learning.transform(COUNTS[:3].tocsc()), found[:3])
    for method in (learning.transform, learning.perplexity, learning.score, learning.partial_fit):
        with pytest.raises(InputError, match="has 200 features, but LDA is expecting 300"):
            method(COUNTS[:, :200])


def test_whatever_a_corpus_is_made_from(fitted, tmp_path):
    """Texts, files and a Corpus of the same documents in the same order give the same topics."""
    for number, text in enumerate(TEXTS):
        (tmp_path / f"{number:03}.txt").write_text(text)
    sources = (TEXTS, tmp_path, [str(tmp_path)])
    for given in sources:
        np.testing.assert_array_equal(model().fit(given).components_, fitted.components_)
    corpus = Corpus(DOCUMENTS, demo.vocabulary(), held_out=40, batch_size=20, passes=3, seed=0)
    assert model().fit(corpus).figures_["documents"] == 360
    assert model(passes=1).fit(iter(TEXTS)).figures_["documents"] == 120


def test_topics_with_bands(fitted):
    topics = fitted.topics(5)
    assert [topic.number for topic in topics] == [0, 1, 2]
    np.testing.assert_allclose(sum(topic.share for topic in topics), 1, rtol=1e-5)
    for topic in topics:
        assert len(topic.words) == 5
        assert all(word.low <= word.probability <= word.high for word in topic.words)
        assert sorted((word.probability for word in topic.words), reverse=True) == [w.probability for w in topic.words]
    assert fitted.band == SPREAD_BAND
    assert fitted.noise_ratio > 0.1
    assert "no posterior interval" in band_words(SPREAD_BAND, 3500)
    assert "3,500" in band_words(SPREAD_BAND, 3500)
    assert "too few effective draws" in band_words(SPREAD_BAND, 0.0)  # as of a run with bands that was stopped early
    assert "90 % posterior intervals" in band_words(POSTERIOR_BAND, 0.05)


def test_perplexity_coherence_and_pictures(fitted):
    held = DOCUMENTS.take(range(40))
    found = fitted.perplexity(held)
    told = dict(fitted.figures_["held_out"])
    assert told.pop("found_perplexity") is None
    assert found.to_dict() == told
    assert fitted.score(held) == -np.log(found.averaged)
    assert found.single < found.unigram
    assert fitted.perplexity(TEXTS[:40]).to_dict() == told
    assert fitted.coherence(held, 5).npmi.shape == (3,)
    arrays = fitted.to_pyldavis()
    assert arrays["topic_term_dists"].shape == (3, 300)
    assert arrays["doc_topic_dists"].shape == (len(arrays["doc_lengths"]), 3)
    assert len(arrays["vocab"]) == len(arrays["term_frequency"]) == 300
    assert fitted.to_pyldavis(held)["doc_lengths"].tolist() == held.lengths.tolist()
    np.testing.assert_allclose(arrays["doc_topic_dists"].sum(1), 1, rtol=1e-5)
    assert fitted.to_pyldavis(TEXTS[:7])["doc_topic_dists"].shape == (7, 3)


def test_short_documents_are_scored(fitted):
    score = fitted.score(["ship sail harbour", "bread butter", "", "nothing known"])
    assert -10 < score < 0
    assert fitted.score(["ship"]) < 0
    with pytest.raises(InputError, match="none of the 2 documents has a word of the vocabulary"):
        fitted.score(["nothing known", ""])


def test_a_document_without_words_gets_the_prior():
    found = found_topics()
    gamma = np.array(found.figures_["priors"]["gamma"])
    assert len(set(gamma)) > 1  # learnt, one for each topic
    shares, deviations = found.transform(["nothing known", TEXTS[0], ""], return_sd=True)
    np.testing.assert_allclose(shares[[0, 2]], [gamma / gamma.sum()] * 2, rtol=1e-5)
    np.testing.assert_array_equal(found.transform(["nothing known", TEXTS[0], ""]), shares)
    prior = gamma / gamma.sum()
    np.testing.assert_allclose(deviations[0], np.sqrt(prior * (1 - prior) / (gamma.sum() + 1)), rtol=1e-5)
    assert (deviations[1] < deviations[0]).all()


def test_topics_that_were_found_have_no_bands():
    found = found_topics()
    assert found.band == "none"
    assert all(word.low is None for topic in found.topics(3) for word in topic.words)
    assert found.figures_["held_out"]["found_perplexity"] == found.figures_["held_out"]["perplexity"]["single"]
    with pytest.raises(InputError, match="fit with bands=True"):
        found.bands()


def test_tables_of_pandas(fitted):
    pandas = pytest.importorskip("pandas")
    words = fitted.to_pandas(count=4)
    assert words.columns.tolist() == ["topic", "share", "rank", "word", "probability", "low", "high"]
    assert len(words) == 12
    texts = pandas.DataFrame({"id": ["a", "b", "c"], "text": TEXTS[:3]})
    shares = fitted.to_pandas(texts)
    assert (shares.index.tolist(), shares.columns.tolist()) == (["a", "b", "c"], ["lda0", "lda1", "lda2"])
    np.testing.assert_array_equal(shares.to_numpy(), fitted.transform(TEXTS[:3]))
    assert fitted.to_pandas(DOCUMENTS.take(range(2))).index.tolist() == ["0", "1"]

    counts = pandas.DataFrame(COUNTS.toarray(), columns=list(WORDS))
    learning = model(vocabulary=None, held_out=0, passes=1).fit(counts)
    assert learning.vocabulary_.words == WORDS
    np.testing.assert_array_equal(learning.transform(counts), learning.transform(COUNTS))
    with pytest.raises(InputError, match=r"column 0 of the table is .*: expected 'ship'"):
        learning.transform(counts[list(WORDS[::-1])])


def test_a_tokenizer_is_given_again(tmp_path):
    found = model(tokenizer=str.split, held_out=0, passes=1).fit(TEXTS)
    found.save(tmp_path / "run")
    with pytest.raises(InputError, match=r"came from the tokenizer str\.split"):
        LDA.load(tmp_path / "run").transform(TEXTS[:2])
    again = LDA.load(tmp_path / "run", tokenizer=str.split)
    np.testing.assert_array_equal(again.transform(TEXTS[:2]), found.transform(TEXTS[:2]))
    model(held_out=0, passes=1).fit(TEXTS).save(tmp_path / "named")
    with pytest.raises(InputError, match=r"was learnt with the tokenizer 'words', and got str\.split"):
        LDA.load(tmp_path / "named", tokenizer=str.split)


def test_in_parts(tmp_path):
    learning = model(held_out=0, vocabulary=None)
    learning.partial_fit(COUNTS[:100])
    assert learning.figures_["documents"] == learning.figures_["size"] == 100
    learning.save(tmp_path / "part")
    learning.partial_fit(COUNTS[100:])
    assert (learning.figures_["documents"], learning.figures_["size"], learning.figures_["steps"]) == (160, 160, 8)
    loaded = LDA.load(tmp_path / "part").partial_fit(COUNTS[100:])
    np.testing.assert_array_equal(loaded.components_, learning.components_)
    np.testing.assert_array_equal(loaded.to_pyldavis()["term_frequency"], COUNTS.sum(0).A1)
    with pytest.raises(InputError, match="X has 301 features, but LDA is expecting 300"):
        learning.partial_fit(csr_matrix(np.ones((3, 301))))


def test_same_seed_same_bytes(fitted):
    np.testing.assert_array_equal(model().fit(DOCUMENTS).components_, fitted.components_)
    other = model().set_params(seed=5).fit(DOCUMENTS)
    assert not np.array_equal(other.components_, fitted.components_)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sampler": "hmc"}, "sampler is 'hmc'"),
        ({"preset": "fast"}, "preset is 'fast'"),
        ({"topics": 0}, "topics is 0"),
        ({"alpha": -1.0}, "alpha is -1"),
        ({"sweeps": 5, "burn_in": 5}, "burn_in"),
        ({"estimator": "best"}, "estimator is 'best'"),
        ({"step_size": "large"}, "step_size is 'large'"),
        ({"step_size": (1.0, 2.0)}, "step_size"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"passes": 0}, "passes is 0"),
        ({"held_out": 160}, "all 160 documents of .* are held out"),
        ({"held_out": 1000}, "only 160 documents"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 0.5}, "seed is 0.5"),
        ({"draws": 0}, "draws is 0"),
        ({"size": 0}, "size is 0"),
        ({"vocabulary": ["ship", "sail", "ship"]}, "twice"),
    ],
)
def test_bad_parameters(changes, message):
    with pytest.raises(InputError, match=message) as raised:
        model().set_params(**changes).fit(DOCUMENTS if "vocabulary" not in changes else TEXTS)
    assert "\n" not in str(raised.value)


def test_bad_documents(fitted, tmp_path):
    with pytest.raises(InputError, match="has learnt nothing yet"):
        model().transform(DOCUMENTS)
    with pytest.raises(InputError, match="there are no documents"):
        model(held_out=0).fit([])
    with pytest.raises(InputError, match=r"none of the 3 documents .* has two words of the vocabulary"):
        model(held_out=0).fit(["no word here"] * 3)
    with pytest.raises(InputError, match="there is no file or folder"):
        fitted.transform("no_such_file.txt")
    with pytest.raises(InputError, match="none of the 1 documents has ten words"):
        fitted.perplexity(["ship sail"])
    with pytest.raises(InputError, match="no counts"):
        fitted.transform(COUNTS * 0.5)
    assert fitted.transform([]).shape == (0, 3)
    assert fitted.transform(Documents.of([[], [1]])).shape == (2, 3)
    assert eg.lda.LDA is LDA
