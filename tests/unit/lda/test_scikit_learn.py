"""LDA among scikit-learn's estimators: its own checks, pipelines, a search over the number of topics."""

import copy
import warnings

import numpy as np
import pytest
from scipy.sparse import csr_matrix, issparse

from ergodica.errors import InputError
from ergodica.lda import LDA, demo
from ergodica.lda.sklearn_methods import as_counts
from tests.unit.lda.small import DOCUMENTS

pytest.importorskip("sklearn", minversion="1.6")
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import check_is_fitted

WORDS = list(demo.vocabulary().words)
TEXTS = [" ".join(WORDS[number] for number in document) for document in DOCUMENTS]
COUNTS = csr_matrix(DOCUMENTS.to_csr(300), shape=(160, 300))

NOT_FOR_US = {
    "check_dtype_object": "what is no number is refused by an InputError, a ValueError; the check wants a TypeError",
    "check_transformer_data_not_an_array": "a list of lists is one of documents and their words, not of rows",
    "check_methods_sample_order_invariance": "shares are sampled, and the random numbers are those of the place",
    "check_methods_subset_invariance": "shares are sampled, and the random numbers are those of the place",
    "check_array_api_input": "it is skipped unless SCIPY_ARRAY_API is set",
}


def rounded(given):
    """Whole numbers of the weights that scikit-learn's checks have."""
    given = as_counts(given)
    if issparse(given) and given.dtype.kind == "f":
        given = given.copy()
        given.data = np.rint(3 * given.data)
    return given


class RoundedLDA(LDA):
    """LDA for the checks, which know no counts."""

    def fit(self, corpus, y=None):
        return super().fit(rounded(corpus))

    def partial_fit(self, corpus, y=None):
        return super().partial_fit(rounded(corpus))

    def _numbered(self, given, tally=None):
        return super()._numbered(rounded(given), tally)


with warnings.catch_warnings(action="ignore"):  # that it is no BaseEstimator: it does without scikit-learn
    checked = parametrize_with_checks(
        [RoundedLDA(topics=2, passes=2, progress=False)], expected_failed_checks=lambda estimator: NOT_FOR_US
    )


@pytest.mark.filterwarnings("ignore")
@checked
def test_estimator_checks(estimator, check):
    check(estimator)


def test_weights_are_refused():
    with pytest.raises(InputError, match="no counts: expected whole numbers"):
        LDA(2, passes=1, progress=False).fit(COUNTS * 0.5)


def test_pipeline():
    made = LDA(3, passes=2, progress=False)
    assert clone(made).get_params() == made.get_params()
    pipeline = make_pipeline(CountVectorizer(vocabulary=WORDS), made)
    assert pipeline.fit_transform(TEXTS).shape == (160, 3)
    check_is_fitted(made)
    assert pipeline.get_feature_names_out().tolist() == ["lda0", "lda1", "lda2"]
    assert pipeline.score(TEXTS[:40]) == made.score(COUNTS[:40])
    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(clone(made))


def test_words_of_a_vectorizer():
    vectorizer = CountVectorizer(vocabulary=WORDS)
    found = LDA(3, passes=2, progress=False, vocabulary=vectorizer).fit(vectorizer.transform(TEXTS))
    assert list(found.vocabulary_.words) == WORDS
    assert found.feature_names_in_.tolist() == WORDS


def test_search_over_the_number_of_topics():
    search = GridSearchCV(LDA(passes=8, progress=False), {"topics": [1, 10]}, cv=2)
    search.fit(COUNTS)
    assert search.best_params_ == {"topics": 10}
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert (
        GridSearchCV(LDA(vocabulary=WORDS, passes=2, progress=False), {"topics": [2]}, cv=2).fit(TEXTS).best_score_ < 0
    )


def test_a_copy_goes_on_as_the_model_does():
    found = LDA(3, passes=2, progress=False).fit(COUNTS[:100])
    twin = copy.deepcopy(found)
    np.testing.assert_array_equal(
        twin.partial_fit(COUNTS[100:]).components_, found.partial_fit(COUNTS[100:]).components_
    )
