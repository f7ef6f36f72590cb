"""Documents as the numbers of their words, what the readers give and the samplers take; and what each is called."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ergodica.errors import InputError

LONGEST_LABEL = 500  # characters of a part of a label
DATE_NAMES = ("date", "timestamp", "created", "published")
LABEL_NAMES = ("id", "title", "url", *DATE_NAMES)
TEST_EVERY = 10
LARGEST_BAG = 1 << 40  # the sum of all numbers and counts of a document: larger ones are no counts


class DocumentLabel(NamedTuple):
    """What a document is called; "" where its source does not say.

    Use it to tell which document a row of topic shares belongs to: `documents.labels[row]`. A date is as it was found.

    >>> DocumentLabel(id="7", title="Oslo")
    DocumentLabel(id='7', title='Oslo', url='', date='')
    """

    id: str = ""
    title: str = ""
    url: str = ""
    date: str = ""


NO_LABEL = DocumentLabel()


def label_of(fields: Mapping[str, Any], id: str = "") -> DocumentLabel:
    """The label in the fields of a record.

    Args:
        fields: with names in lower case.
        id: where the record has none.
    """
    found, date = fields.get, ""
    for name in DATE_NAMES:
        if name in fields:
            date = date or _told(found(name))
    return DocumentLabel(_told(found("id")) or id, _told(found("title")), _told(found("url")), date)


def label_columns(columns: Iterable[str]) -> dict[str, str]:
    """The columns of a table that are part of labels: the name that `label_of` knows, by the column's own."""
    return {column: column.lower() for column in columns if column.lower() in LABEL_NAMES}


def is_missing(value: Any) -> bool:
    """Whether it stands for no value: None, NaN, pandas' NA and NaT."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def _told(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value[:LONGEST_LABEL]
    if type(value) is int:
        return str(value)[:LONGEST_LABEL]
    if is_missing(value) or isinstance(value, list | tuple | dict | bytes):
        return ""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)[:LONGEST_LABEL]


class Documents:
    """Some documents, each the numbers of its words in the vocabulary in the order of the text; never changed.

    Use it for documents that are numbers already: it is one of the things that `LDA` and `Corpus` take.

    Args:
        starts: (n + 1,) where each document begins in `words`; the last entry is where the last one ends.
        words: (tokens,) the numbers of the words.
        labels: what each document is called, a `DocumentLabel` each; None where nothing is known.

    >>> documents = Documents.of([[3, 1, 3], [2]])
    >>> len(documents), documents.tokens, documents[0].tolist()
    (2, 4, [3, 1, 3])
    """

    __slots__ = ("labels", "starts", "words")

    def __init__(self, starts: np.ndarray, words: np.ndarray, labels: Sequence[DocumentLabel] | None = None):
        self.starts = np.ascontiguousarray(starts, np.int64)
        self.words = np.ascontiguousarray(words, np.int32)
        if self.starts.ndim != 1 or self.words.ndim != 1 or len(self.starts) == 0:
            raise InputError("starts and words: expected two vectors, starts with one entry more than documents")
        if self.starts[0] != 0 or self.starts[-1] != len(self.words) or np.any(np.diff(self.starts) < 0):
            raise InputError(f"starts: expected to rise from 0 to {len(self.words)}, the number of words")
        self.labels = None if labels is None else tuple(labels)
        if self.labels is not None and len(self.labels) != len(self):
            raise InputError(f"there are {len(self.labels)} labels: expected {len(self)}, one for each document")
        self.starts.setflags(write=False)
        self.words.setflags(write=False)

    @classmethod
    def of(
        cls, documents: Iterable[Sequence[int] | np.ndarray], labels: Sequence[DocumentLabel] | None = None
    ) -> "Documents":
        """From one sequence of word numbers per document, and its label."""
        parts = [np.asarray(part, np.int32) for part in documents]
        starts = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=starts[1:])
        return cls(starts, np.concatenate(parts) if parts else np.zeros(0, np.int32), labels)

    @classmethod
    def from_csr(cls, matrix: Any) -> "Documents":
        """From a matrix of counts (documents x words) in CSR form; the words of a document come in the row's order."""
        if not is_csr(matrix):
            raise InputError(f"got {type(matrix).__name__}: expected a CSR matrix of counts; matrix.tocsr() makes one")
        counts = np.asarray(matrix.data)
        if counts.dtype.kind not in "iufb" or np.any((counts < 0) | ~np.isfinite(counts) | (counts != np.rint(counts))):
            raise InputError("the CSR matrix has entries that are no counts: expected whole numbers, not weights")
        counts = counts.astype(np.int64)
        until = np.concatenate([[0], np.cumsum(counts)])
        return cls(until[np.asarray(matrix.indptr)], np.repeat(np.asarray(matrix.indices), counts))

    @classmethod
    def concatenate(cls, parts: Sequence["Documents"]) -> "Documents":
        """The documents of all parts, one after another; where only some parts have labels, the others' are empty."""
        lengths = [np.diff(part.starts) for part in parts]
        starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]) if parts else np.zeros(1, np.int64)
        words = np.concatenate([part.words for part in parts]) if parts else np.zeros(0, np.int32)
        if all(part.labels is None for part in parts):
            return cls(starts, words)
        labels = [label for part in parts for label in part.labels or (NO_LABEL,) * len(part)]
        return cls(starts, words, labels)

    @property
    def tokens(self) -> int:
        """How many words there are in all."""
        return len(self.words)

    @property
    def lengths(self) -> np.ndarray:
        """(n,) the number of words of each document."""
        return np.diff(self.starts)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        index = range(len(self))[index]
        return self.words[self.starts[index] : self.starts[index + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        return f"Documents({len(self):,} documents, {self.tokens:,} tokens)"

    def take(self, indices: Sequence[int] | np.ndarray) -> "Documents":
        """The documents with these numbers, in this order."""
        chosen = [int(index) for index in indices]
        labels = None if self.labels is None else [self.labels[index] for index in chosen]
        return Documents.of([self[index] for index in chosen], labels)

    def split_tenth(self) -> tuple["Documents", "Documents"]:
        """(train, test): the 10th, 20th, ... word of every document is test, the others train."""
        within = np.arange(self.tokens) - np.repeat(self.starts[:-1], self.lengths)
        is_test = within % TEST_EVERY == TEST_EVERY - 1
        return self.tokens_where(~is_test), self.tokens_where(is_test)

    def to_csr(self, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(counts, columns, row starts) of the matrix of counts, as `scipy.sparse.csr_matrix` takes them.

        Args:
            columns: the size of the vocabulary.
        """
        rows = np.repeat(np.arange(len(self)), self.lengths)
        cells, counts = np.unique(rows * columns + self.words, return_counts=True)
        starts = np.searchsorted(cells, np.arange(len(self) + 1) * columns)
        return counts, (cells % columns).astype(np.int32), starts

    def tokens_where(self, chosen: np.ndarray) -> "Documents":
        """The same documents with only the tokens for which `chosen`, (tokens,), is True."""
        until = np.concatenate([[0], np.cumsum(chosen)])
        return Documents(until[self.starts], self.words[chosen], self.labels)


def is_csr(matrix: Any) -> bool:
    """Whether it has what a scipy CSR matrix has; a CSC matrix has the same, but for its row starts."""
    if not all(hasattr(matrix, name) for name in ("indptr", "indices", "data", "shape")):
        return False
    return getattr(matrix, "format", "csr") == "csr" and len(matrix.indptr) == matrix.shape[0] + 1


def words_of_bag(pairs: Sequence[Sequence[Any]]) -> np.ndarray:
    """The word numbers of a document that is given as (number, count) pairs, as gensim has them.

    >>> words_of_bag([(3, 2), (0, 1)]).tolist()
    [3, 3, 0]
    """
    try:
        found = np.asarray(pairs, np.float64).reshape(len(pairs), 2)
    except (TypeError, ValueError):
        found = np.full((1, 2), np.nan)
    if np.any((found < 0) | ~np.isfinite(found) | (found != np.rint(found))) or found.sum(initial=0) > LARGEST_BAG:
        raise InputError(f"a document has the pairs {str(list(pairs))[:60]}: expected (number, count), not weights")
    numbers, counts = found.astype(np.int64).T
    return np.repeat(numbers, counts)
