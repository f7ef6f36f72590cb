"""Topic shares of documents that are not learnt from: Gibbs sweeps at fixed topics."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ergodica.errors import InputError
from ergodica.lda import gibbs
from ergodica.lda.corpus import Documents, Vocabulary, texts
from ergodica.lda.corpus.documents import is_csr

SWEEPS, BURN_IN = 50, 25
AT_A_TIME = 500  # documents


def shares(
    phi: np.ndarray, documents: Documents, gamma: float, seed: int, visit: int = 0, sweeps: int = SWEEPS
) -> np.ndarray:
    """(n, K) eta_dk = (A_dk + gamma) / (A_d. + K gamma), A the expected counts of the document's topics."""
    burn_in = min(BURN_IN, sweeps // 2)
    found = gibbs.expectations(
        phi, documents, gamma, sweeps=sweeps, burn_in=burn_in, seed=seed, visit=visit, want="shares"
    )
    counts = found.shares.astype(np.float64) + gamma
    return counts / counts.sum(axis=1, keepdims=True)


def numbered(given: Any, vocabulary: Vocabulary) -> Iterator[Documents]:
    """Documents of whatever a corpus is made from, some at a time; one for every text, be it empty.

    Unlike `Corpus`, which leaves short documents out: a row of shares is wanted for each.
    """
    whole = _in_memory(given, len(vocabulary))
    if whole is not None:
        for first in range(0, len(whole), AT_A_TIME):
            stop = min(first + AT_A_TIME, len(whole))
            starts = whole.starts[first : stop + 1]
            yield Documents(starts - starts[0], whole.words[starts[0] : starts[-1]])
        return
    rows: list[np.ndarray] = []
    for text in texts(given):
        rows.append(vocabulary.ids(text))
        if len(rows) == AT_A_TIME:
            yield Documents.of(rows)
            rows = []
    if rows:
        yield Documents.of(rows)


def _in_memory(given: Any, size: int) -> Documents | None:
    if is_csr(given):
        if given.shape[1] != size:
            raise InputError(
                f"the matrix has {given.shape[1]} columns: expected {size}, one for each word of the model"
            )
        return Documents.from_csr(given)
    if not isinstance(given, Documents):
        return None
    if given.tokens and not 0 <= given.words.min() <= given.words.max() < size:
        raise InputError(
            f"the documents have the word number {given.words.max()}: the model knows {size} words, from 0 on"
        )
    return given
