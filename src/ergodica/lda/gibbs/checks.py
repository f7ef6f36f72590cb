"""What `expectations` refuses, and with which words."""

from typing import Any

import numpy as np

from ergodica.errors import InputError
from ergodica.host.validate import positive_number
from ergodica.lda.corpus.documents import Documents
from ergodica.lda.gibbs.layout import aligned_zeros, padded

MOST_TOPICS = 65_535  # numbers of topics are uint16


def check_input(phi: Any, documents: Any, sweeps: int, burn_in: int, visit: int) -> None:
    """Types, shapes and ranges; the numbers in phi are checked by `refuse_row`, for the words that occur."""
    if not isinstance(phi, np.ndarray) or phi.dtype != np.float32 or phi.ndim != 2 or not phi.flags.c_contiguous:
        raise InputError(
            f"phi is {_got(phi)}: expected float32 of shape (words, topics) in C order; "
            "np.ascontiguousarray(phi, np.float32)"
        )
    if phi.shape[1] > MOST_TOPICS:
        raise InputError(f"phi has {phi.shape[1]:,} topics: expected at most {MOST_TOPICS:,}")
    if not isinstance(documents, Documents):
        raise InputError(f"documents is {type(documents).__name__}: expected Documents, as Documents.of makes them")
    least, most = (documents.words.min(), documents.words.max()) if documents.tokens else (0, -1)
    if least < 0 or most >= len(phi):
        bad = least if least < 0 else most
        raise InputError(f"documents have the word number {bad}, but phi has {len(phi)} words: 0 to {len(phi) - 1}")
    if not 0 <= burn_in < sweeps:
        raise InputError(f"sweeps is {sweeps} and burn_in {burn_in}: expected 0 <= burn_in < sweeps")
    if visit < 0:
        raise InputError(f"visit is {visit}: expected the number of the first document in the stream, from 0")


def prior_of(gamma: float | np.ndarray, topics: int) -> np.ndarray:
    """(K padded,) the prior of every topic."""
    prior = aligned_zeros(padded(topics))
    if np.ndim(gamma) == 0:
        prior[:topics] = positive_number("gamma", gamma)
        return prior
    vector = np.asarray(gamma, np.float32)
    if vector.shape != (topics,) or not (np.isfinite(vector).all() and (vector > 0).all()):
        raise InputError(f"gamma is an array of shape {vector.shape}: expected {topics} finite numbers above 0")
    prior[:topics] = vector
    return prior


def check_topics(given: Any, is_start: bool, tokens: int, topics: int) -> None:
    """The topics of the tokens, if they are given; `is_start`: as those of the first sweep."""
    if given is None:
        if is_start:
            raise InputError('start is "given", and topics is None: expected the topic of every token')
        return
    if not isinstance(given, np.ndarray) or given.dtype != np.uint16 or given.shape != (tokens,):
        raise InputError(f"topics is {_got(given)}: expected uint16 of shape ({tokens},), one for each token")
    if not (given.flags.c_contiguous and given.flags.writeable):
        raise InputError("topics is read-only or has gaps: expected an array in C order, as the topics are left in it")
    if is_start and tokens and given.max() >= topics:
        raise InputError(f"topics has the number {given.max()}, but phi has {topics} topics: 0 to {topics - 1}")


def check_own(own: Any, documents: Documents, sweeps: int, start: str, topics: int) -> None:
    """What is taken out of phi, if anything is."""
    if own is None:
        return
    if start != "given" or sweeps != 1:
        raise InputError(f"own is given with start={start!r} and {sweeps} sweeps: expected topics given and one sweep")
    if own.weights.shape != (len(documents),) or own.unit.shape != (topics,):
        raise InputError(
            f"own has weights of shape {own.weights.shape} and a unit of {own.unit.shape}: expected "
            f"({len(documents)},), one for each document, and ({topics},)"
        )


def refuse_row(phi: np.ndarray, bad: int) -> None:
    """`bad` is a word whose row cannot be drawn from, or -1."""
    if bad < 0:
        return
    strange = np.flatnonzero(~np.isfinite(phi[bad]))
    if len(strange):
        raise InputError(f"phi[{bad}, {strange[0]}] is {phi[bad, strange[0]]}: expected finite probabilities")
    raise InputError(
        f"phi[{bad}] is negative somewhere or zero in every topic: expected a probability above 0 for every word "
        "that occurs"
    )


def _got(value: Any) -> str:
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
