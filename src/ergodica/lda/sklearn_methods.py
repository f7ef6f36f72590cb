"""What makes a model one of scikit-learn's estimators, without a need for scikit-learn: parameters, tags, tables in."""

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from ergodica.errors import InputError
from ergodica.lda.chains import visit_seed
from ergodica.lda.corpus import Corpus, Documents, Vocabulary
from ergodica.lda.corpus.documents import NO_LABEL, TEST_EVERY, is_csr
from ergodica.lda.corpus.tally import Tally
from ergodica.lda.outcome import averaged_draws
from ergodica.lda.perplexity import Perplexity, shares, word_probabilities
from ergodica.lda.run_files import Fitted
from ergodica.lda.topics import Topic, TopicWord


class EstimatorMethods(ABC):
    """The part of `LDA` that scikit-learn's pipelines, searches and checks ask for."""

    _parameters: dict[str, Any]
    _fitted: Fitted | None

    @classmethod
    @abstractmethod
    def _defaults(cls) -> dict[str, Any]:
        """The parameters and their defaults."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """What the model was made with."""
        return dict(self._parameters)

    def set_params(self, **parameters: Any) -> Self:
        known = self._defaults()
        for name in parameters:
            if name not in known:
                raise InputError(f"LDA has no parameter {name!r}: it has {', '.join(known)}")
        self._parameters |= parameters
        return self

    def __repr__(self) -> str:
        defaults = self._defaults()
        given = ((name, repr(value), repr(defaults[name])) for name, value in self._parameters.items())
        changed = [f"{name}={value}" for name, value, default in given if value != default]
        return f"{type(self).__name__}({', '.join(changed)})"

    @property
    @abstractmethod
    def components_(self) -> np.ndarray: ...

    @abstractmethod
    def topics(self, count: int = 10) -> list[Topic]: ...

    @abstractmethod
    def transform(self, corpus: Any) -> np.ndarray: ...

    @abstractmethod
    def infer_labelled(self, corpus: Any, tally: Tally | None = None) -> Iterator[tuple[Documents, np.ndarray]]: ...

    @abstractmethod
    def perplexity(self, corpus: Any) -> Perplexity: ...

    @abstractmethod
    def _numbered(self, given: Any, tally: Tally | None = None) -> Iterator[Documents]: ...

    def score(self, corpus: Any, y: Any = None) -> float:
        """Mean log likelihood of a held-out word by document completion, -log perplexity: higher is better.

        Where no document has ten words, one word of each is predicted from its others.
        """
        given = corpus if isinstance(corpus, Corpus) else Documents.concatenate(list(self._numbered(corpus)))
        if isinstance(given, Documents) and given.lengths.max(initial=0) < TEST_EVERY:
            return self._score_short(given)
        return -math.log(self.perplexity(given).averaged)

    def _score_short(self, documents: Documents) -> float:
        if documents.tokens == 0:
            raise InputError(
                f"none of the {len(documents)} documents has a word of the vocabulary: there is nothing to score"
            )
        fitted, seed = self._known, visit_seed(self._parameters["seed"], "perplexity")
        train, test = split_one(documents)
        draws = averaged_draws(fitted) or [fitted.mean]
        p = [word_probabilities(phi, shares(phi, train, fitted.gamma, seed), test) for phi in draws]
        return float(np.log(np.mean(p, axis=0)).mean())

    def to_pandas(self, corpus: Any = None, count: int = 10) -> Any:
        """A DataFrame of pandas: the top words of every topic; with a corpus, its topic shares instead.

        Args:
            corpus: a row for each of its documents, named by its id, a column for each topic.
            count: words of a topic.
        """
        pandas = require_pandas("to_pandas")
        if corpus is None:
            rows = [
                (topic.number, topic.share, rank, *word)
                for topic in self.topics(count)
                for rank, word in enumerate(topic.words, 1)
            ]
            return pandas.DataFrame(rows, columns=["topic", "share", "rank", *TopicWord._fields])
        ids, rows = [], [np.zeros((0, self._known.mean.shape[1]))]
        for documents, found in self.infer_labelled(corpus):
            first = len(ids)
            labels = documents.labels or [NO_LABEL] * len(documents)
            ids += [label.id or str(first + place) for place, label in enumerate(labels)]
            rows.append(found)
        return pandas.DataFrame(np.concatenate(rows), pandas.Index(ids, name="id"), self.get_feature_names_out())

    def to_pyldavis(self, corpus: Any = None) -> dict[str, Any]:
        """The arguments of `pyLDAvis.prepare`, as plain arrays; of the sample documents, or of those given."""
        fitted = self._known
        found, lengths = fitted.shares, fitted.lengths
        if corpus is not None:
            documents = Documents.concatenate(list(self._numbered(corpus)))
            found, lengths = self.transform(documents), documents.lengths
        return {
            "topic_term_dists": self.components_, "doc_topic_dists": found, "doc_lengths": lengths,
            "vocab": list(fitted.vocabulary.words), "term_frequency": fitted.counts,
        }  # fmt: skip

    @property
    def n_features_in_(self) -> int:
        """Words of the vocabulary: columns of a matrix of counts."""
        return len(self._known.vocabulary)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The words of the vocabulary."""
        return np.array(self._known.vocabulary.words, dtype=object)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """lda0, lda1, ...: the columns of what `transform` gives."""
        return np.array([f"lda{k}" for k in range(self._known.phi.shape[1])], dtype=object)

    def __sklearn_tags__(self) -> Any:
        made = sys.modules["sklearn.utils"]  # scikit-learn alone asks for this, so that it is loaded
        return made.Tags(
            estimator_type=None, target_tags=made.TargetTags(required=False), transformer_tags=made.TransformerTags(),
            input_tags=made.InputTags(sparse=True, positive_only=True),
        )  # fmt: skip

    def __sklearn_is_fitted__(self) -> bool:
        return self._fitted is not None

    @property
    def _known(self) -> Fitted:
        if self._fitted is None:
            raise _not_fitted("this model has learnt nothing yet: call fit(corpus) first, or LDA.load(folder)")
        return self._fitted


class NotFittedInput(InputError, AttributeError):
    """A model that has learnt nothing is asked for what it learnt; `hasattr` then says False."""


def _not_fitted(message: str) -> InputError:
    """Also of scikit-learn's own kind, where scikit-learn is in use."""
    kinds = sys.modules.get("sklearn.exceptions")
    if kinds is None:
        return NotFittedInput(message)
    return type("NotFittedInput", (NotFittedInput, kinds.NotFittedError), {})(message)


def require_pandas(by: str) -> Any:
    try:
        import pandas
    except ModuleNotFoundError:
        raise InputError(f"{by} needs pandas, which is not installed: pip install pandas") from None
    return pandas


def as_counts(given: Any) -> Any:
    """A matrix of counts, or a table with nothing but numbers in it, in CSR form; all else as it is."""
    if hasattr(given, "tocsr"):
        return _checked_counts(given.tocsr())
    if is_count_table(given) or _is_array_like(given):
        given = np.asarray(given)
    if not isinstance(given, np.ndarray) or (given.dtype.kind in "USTO" and given.ndim == 1):
        return given
    if given.dtype.kind == "c":
        raise InputError("Complex data not supported: expected counts of words")
    if given.ndim != 2:
        raise InputError(
            f"got an array of numbers of shape {given.shape}: expected (documents, words), counts of the words; "
            "Reshape your data by array.reshape(1, -1) if it is one document"
        )
    from scipy.sparse import csr_matrix

    return _checked_counts(csr_matrix(_numbers(given)))


def _is_array_like(given: Any) -> bool:
    """Whether it is an array by its protocol alone: no table, column or list, which are read otherwise."""
    return type(given) not in (list, tuple) and hasattr(given, "__array__") and not hasattr(given, "__iter__")


def _numbers(array: np.ndarray) -> np.ndarray:
    """As numbers, also where NumPy holds them as objects."""
    if array.dtype.kind in "biuf":
        return array
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"got an array of shape {array.shape} with entries that are no numbers ({error}; argument must be a string "
            "or a number): expected counts of words, or texts in one dimension"
        ) from None


def _checked_counts(matrix: Any) -> Any:
    """InputError for what no counts can be; with the words that scikit-learn has for it."""
    if 0 in matrix.shape:
        what = "sample(s)" if matrix.shape[0] == 0 else "feature(s)"
        raise InputError(
            f"got 0 {what} (shape={tuple(matrix.shape)}) while a minimum of 1 is required: there are no "
            f"{'documents' if matrix.shape[0] == 0 else 'words'}"
        )
    values = matrix.data
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError("Input contains NaN or infinity: expected counts of words; a word that is not there counts 0")
    if values.dtype.kind in "if" and values.min(initial=0) < 0:
        raise InputError(f"Negative values in data, {values.min():g} is one: expected counts of words")
    return matrix


def is_count_table(given: Any) -> bool:
    """Whether it is a DataFrame of pandas with numbers in every column."""
    if not (hasattr(given, "columns") and hasattr(given, "dtypes") and hasattr(given, "to_numpy")):
        return False
    kinds = [getattr(kind, "kind", "O") for kind in given.dtypes]
    return bool(kinds) and all(kind in "biuf" for kind in kinds)


def column_names(given: Any) -> list[str] | None:
    """The words that the columns of a table of counts are named by; None where they have no names."""
    if not is_count_table(given) or not all(isinstance(name, str) for name in given.columns):
        return None
    return list(given.columns)


def as_known_counts(given: Any, vocabulary: Vocabulary) -> Any:
    """`as_counts` of documents for a model with these words; InputError where the columns are others."""
    names, counts = column_names(given), as_counts(given)
    if is_csr(counts) and counts.shape[1] != len(vocabulary):
        raise InputError(
            f"X has {counts.shape[1]} features, but LDA is expecting {len(vocabulary)} features as input: "
            "the columns must be the words of the model"
        )
    is_named = vocabulary.words != Vocabulary.numbered(len(vocabulary)).words
    if names is not None and is_named and tuple(names) != vocabulary.words:
        at = next(i for i, (name, word) in enumerate(zip(names, vocabulary.words, strict=True)) if name != word)
        raise InputError(
            f"column {at} of the table is {names[at]!r}: expected {vocabulary.words[at]!r}, as the model has learnt; "
            "table[list(model.vocabulary_.words)] has them in order"
        )
    return counts


def split_one(documents: Documents) -> tuple[Documents, Documents]:
    """(train, test): one word of every document is test, the others train; for documents shorter than ten words.

    Not always the last one, which in a row of counts is a word with a large number.
    """
    lengths = documents.lengths
    has_words = lengths > 0
    places = documents.starts[:-1] + np.arange(len(documents)) % np.maximum(lengths, 1)
    is_test = np.zeros(documents.tokens, bool)
    is_test[places[has_words]] = True
    return documents.tokens_where(~is_test), documents.tokens_where(is_test)
