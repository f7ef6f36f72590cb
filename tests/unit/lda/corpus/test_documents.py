"""Batches of word numbers: the split, the matrix of counts and back."""

import numpy as np
import pytest
from scipy import sparse

from ergodica.errors import InputError
from ergodica.lda.corpus import Documents

SOME = Documents.of([[3, 1, 3], [], list(range(25))])


def test_documents_by_number_and_by_iteration():
    assert (len(SOME), SOME.tokens, SOME.lengths.tolist()) == (3, 28, [3, 0, 25])
    assert [document.tolist() for document in SOME] == [[3, 1, 3], [], list(range(25))]
    assert SOME[-1].tolist() == list(range(25))
    assert (SOME.starts.dtype, SOME.words.dtype) == (np.int64, np.int32)
    with pytest.raises(IndexError):
        SOME[3]


def test_nothing_can_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        SOME.words[0] = 1


def test_take_and_concatenate():
    both = Documents.concatenate([SOME.take([2, 0]), SOME.take([1])])
    assert [len(document) for document in both] == [25, 3, 0]
    assert both[1].tolist() == [3, 1, 3]
    assert len(Documents.concatenate([])) == len(Documents.of([])) == 0


def test_every_tenth_word_of_each_document_is_test():
    train, test = SOME.split_tenth()
    assert [document.tolist() for document in test] == [[], [], [9, 19]]
    assert [document.tolist() for document in train] == [[3, 1, 3], [], [k for k in range(25) if k not in (9, 19)]]


def test_csr_and_back():
    counts, columns, starts = SOME.to_csr(30)
    matrix = sparse.csr_matrix((counts, columns, starts), shape=(3, 30))
    np.testing.assert_array_equal(matrix.toarray(), [np.bincount(document, minlength=30) for document in SOME])
    for kind in (sparse.csr_matrix, sparse.csr_array):
        again = Documents.from_csr(kind(matrix, dtype=np.float32))
        assert [document.tolist() for document in again] == [[1, 3, 3], [], list(range(25))]


@pytest.mark.parametrize("value", [0.5, -1.0, np.nan, np.inf])
def test_csr_of_weights_is_refused(value):
    with pytest.raises(InputError, match="no counts"):
        Documents.from_csr(sparse.csr_matrix([[1.0, value]]))


def test_csc_is_refused():
    with pytest.raises(InputError, match="tocsr"):
        Documents.from_csr(sparse.csc_matrix(np.eye(3)))


@pytest.mark.parametrize(("starts", "words"), [([0, 2], [1]), ([1, 1], [1]), ([0, 2, 1, 3], [1, 1, 1]), ([], [])])
def test_starts_that_do_not_fit(starts, words):
    with pytest.raises(InputError, match="starts"):
        Documents(np.array(starts), np.array(words))
