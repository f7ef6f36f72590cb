"""Documents as the numbers of their words: what the readers give and the samplers take."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from ergodica.errors import InputError

TEST_EVERY = 10


class Documents:
    """Some documents, each the numbers of its words in the vocabulary in the order of the text; never changed.

    Use it for documents that are numbers already: it is one of the things that `LDA` and `Corpus` take.

    Args:
        starts: (n + 1,) where each document begins in `words`; the last entry is where the last one ends.
        words: (tokens,) the numbers of the words.

    >>> documents = Documents.of([[3, 1, 3], [2]])
    >>> len(documents), documents.tokens, documents[0].tolist()
    (2, 4, [3, 1, 3])
    """

    __slots__ = ("starts", "words")

    def __init__(self, starts: np.ndarray, words: np.ndarray):
        self.starts = np.ascontiguousarray(starts, np.int64)
        self.words = np.ascontiguousarray(words, np.int32)
        if self.starts.ndim != 1 or self.words.ndim != 1 or len(self.starts) == 0:
            raise InputError("starts and words: expected two vectors, starts with one entry more than documents")
        if self.starts[0] != 0 or self.starts[-1] != len(self.words) or np.any(np.diff(self.starts) < 0):
            raise InputError(f"starts: expected to rise from 0 to {len(self.words)}, the number of words")
        self.starts.setflags(write=False)
        self.words.setflags(write=False)

    @classmethod
    def of(cls, documents: Iterable[Sequence[int] | np.ndarray]) -> "Documents":
        """From one sequence of word numbers per document."""
        parts = [np.asarray(part, np.int32) for part in documents]
        starts = np.zeros(len(parts) + 1, np.int64)
        np.cumsum([len(part) for part in parts], out=starts[1:])
        return cls(starts, np.concatenate(parts) if parts else np.zeros(0, np.int32))

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
        """The documents of all parts, one after another."""
        lengths = [np.diff(part.starts) for part in parts]
        starts = np.concatenate([[0], np.cumsum(np.concatenate(lengths))]) if parts else np.zeros(1, np.int64)
        return cls(starts, np.concatenate([part.words for part in parts]) if parts else np.zeros(0, np.int32))

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
        return Documents.of([self[int(index)] for index in indices])

    def split_tenth(self) -> tuple["Documents", "Documents"]:
        """(train, test): the 10th, 20th, ... word of every document is test, the others train."""
        within = np.arange(self.tokens) - np.repeat(self.starts[:-1], self.lengths)
        is_test = within % TEST_EVERY == TEST_EVERY - 1
        return self._where(~is_test), self._where(is_test)

    def to_csr(self, columns: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(counts, columns, row starts) of the matrix of counts, as `scipy.sparse.csr_matrix` takes them.

        Args:
            columns: the size of the vocabulary.
        """
        rows = np.repeat(np.arange(len(self)), self.lengths)
        cells, counts = np.unique(rows * columns + self.words, return_counts=True)
        starts = np.searchsorted(cells, np.arange(len(self) + 1) * columns)
        return counts, (cells % columns).astype(np.int32), starts

    def _where(self, chosen: np.ndarray) -> "Documents":
        until = np.concatenate([[0], np.cumsum(chosen)])
        return Documents(until[self.starts], self.words[chosen])


def is_csr(matrix: Any) -> bool:
    """Whether it has what a scipy CSR matrix has; a CSC matrix has the same, but for its row starts."""
    if not all(hasattr(matrix, name) for name in ("indptr", "indices", "data", "shape")):
        return False
    return getattr(matrix, "format", "csr") == "csr" and len(matrix.indptr) == matrix.shape[0] + 1
