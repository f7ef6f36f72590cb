"""Pairs of words that belong together, "new york", by normalised pointwise mutual information (NPMI).

    npmi(x, y) = log(p(x, y) / (p(x) p(y))) / -log p(x, y)

is 1 for words that occur only together and 0 for words that meet by chance (Bouma, 2009). In a vocabulary such a pair
is one word, "new_york", and whoever reads the vocabulary joins the pair again from that alone.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

PHRASE_MARK = "_"
LEAST_NPMI = 0.5
LEAST_PAIRS = 5  # occurrences of a pair
MOST_PARTS = 32_768  # words that can be part of a phrase


def find_phrases(documents: Iterable[Sequence[str]], parts: Sequence[str]) -> list[str]:
    """The pairs with NPMI above 0.5 and at least five occurrences, as words, in alphabetical order.

    Args:
        documents: each as its words.
        parts: the words that can be in a pair; not stop words, or "of the" would be one.
    """
    size = min(len(parts), MOST_PARTS)
    numbers = {word: number for number, word in enumerate(parts[:size])}
    counts, codes, tokens = np.zeros(size), [], 0
    for document in documents:
        ids = np.array([numbers.get(word, -1) for word in document], np.int64)
        tokens += len(ids)
        counts += np.bincount(ids[ids >= 0], minlength=size)
        is_pair = (ids[:-1] >= 0) & (ids[1:] >= 0)
        codes.append((ids[:-1] * size + ids[1:])[is_pair])
    if not codes:
        return []
    pairs, times = np.unique(np.concatenate(codes), return_counts=True)
    pairs, times = pairs[times >= LEAST_PAIRS], times[times >= LEAST_PAIRS]
    first, second = pairs // max(size, 1), pairs % max(size, 1)
    # a text of nothing but one pair has p = 1, and a logarithm of 0 to divide by
    together = np.minimum(times / max(tokens, 1), 1 - 1e-12)
    npmi = np.log(together * tokens * tokens / (counts[first] * counts[second])) / -np.log(together)
    chosen = (npmi > LEAST_NPMI) & (first != second)
    return sorted(f"{parts[a]}{PHRASE_MARK}{parts[b]}" for a, b in zip(first[chosen], second[chosen], strict=True))


class PhraseJoiner:
    """Joins the words of a text that make a phrase: from left to right, the longest phrase that begins at a word.

    Args:
        phrases: words with "_" between their parts, as strings or as bytes; others are left alone.
    """

    def __init__(self, phrases: Iterable[Any], mark: Any = PHRASE_MARK):
        self._by_first: dict[Any, list[tuple[list[Any], Any]]] = {}
        for phrase in phrases:
            parts = phrase.split(mark)
            if len(parts) > 1 and all(parts):
                self._by_first.setdefault(parts[0], []).append((parts, phrase))
        for found in self._by_first.values():
            found.sort(key=lambda pair: -len(pair[0]))

    def __bool__(self) -> bool:
        return bool(self._by_first)

    def joined(self, words: Sequence[Any]) -> Sequence[Any]:
        """The words of a text with its phrases as one word each."""
        found, at, known = [], 0, self._by_first
        while at < len(words):
            word, step = words[at], 1
            for parts, phrase in known.get(word, ()):
                if list(words[at : at + len(parts)]) == parts:
                    word, step = phrase, len(parts)
                    break
            found.append(word)
            at += step
        return found
