"""Documents of whatever a corpus is made from, one for every input in its order: for topic shares, a row for each."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ergodica.errors import InputError
from ergodica.lda.corpus.corpus import Corpus
from ergodica.lda.corpus.documents import Documents, is_csr
from ergodica.lda.corpus.formats import DOCUMENT_LIMIT
from ergodica.lda.corpus.options import PLAIN_READING, Reading
from ergodica.lda.corpus.reading import THE_BEGINNING, Rows, read
from ergodica.lda.corpus.sources import sources_of
from ergodica.lda.corpus.tally import Tally
from ergodica.lda.corpus.vocabulary import Vocabulary

AT_A_TIME = 500  # documents
NO_WORDS = np.zeros(0, np.int32)


def numbered(
    given: Any, vocabulary: Vocabulary, reading: Reading = PLAIN_READING, tally: Tally | None = None,
    limit: int = DOCUMENT_LIMIT,
) -> Iterator[Documents]:  # fmt: skip
    """Documents of whatever a corpus is made from, some at a time, with their labels; one for every input.

    Unlike `Corpus`, which leaves short documents out: a row of shares is wanted for each. What is missing (None, NaN),
    empty, not a text or a line that cannot be parsed is a document without words; of one longer than the limit the
    beginning is taken. Redirects and other pages of a dump that are no articles are no inputs.

    Args:
        given: files, texts, a table, a matrix of counts: see `Corpus`.
        vocabulary: whose words have the numbers; its tokeniser is used, unless `reading` has one.
        tally: where what was empty or cut is counted; `tally.notes()` says it in words.

    >>> (documents,) = numbered(["a river", None, ""], Vocabulary(["river"]))
    >>> [document.tolist() for document in documents], documents.labels[1].id
    ([[0], [], []], '1')
    """
    if isinstance(given, Corpus):
        raise InputError(
            "got a Corpus, which shuffles its documents and leaves short ones out: give the files or texts themselves"
        )
    vocabulary = Vocabulary.given(vocabulary, reading.tokenizer)
    if is_csr(given) or isinstance(given, Documents):
        yield from _in_parts(_checked(given, len(vocabulary)))
        return
    rows = Rows()
    for item in read(sources_of(given, reading), THE_BEGINNING, limit):
        if item.is_document:
            ids = item.ids(vocabulary)
            rows.add(NO_WORDS if ids is None else ids, item)
        if tally is not None:
            tally.merge(item.tally)
        if len(rows) == AT_A_TIME:
            yield rows.documents()
            rows = Rows()
    if len(rows):
        yield rows.documents()


def _in_parts(whole: Documents) -> Iterator[Documents]:
    for first in range(0, len(whole), AT_A_TIME):
        yield whole.take(range(first, min(first + AT_A_TIME, len(whole))))


def _checked(given: Any, size: int) -> Documents:
    if is_csr(given):
        if given.shape[1] != size:
            raise InputError(
                f"the matrix has {given.shape[1]} columns: expected {size}, one for each word of the model"
            )
        return Documents.from_csr(given)
    if given.tokens and not 0 <= given.words.min() <= given.words.max() < size:
        raise InputError(
            f"the documents have the word number {given.words.max()}: the model knows {size} words, from 0 on"
        )
    return given
