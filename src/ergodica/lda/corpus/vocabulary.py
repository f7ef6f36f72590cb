"""The words a topic model knows, from a file, from another library, or from the first documents of a stream.

Phrases are pairs of words that belong together, "new york", by normalised pointwise mutual information (NPMI).

    npmi(x, y) = log(p(x, y) / (p(x) p(y))) / -log p(x, y)

is 1 for words that occur only together and 0 for words that meet by chance (Bouma, 2009). In a vocabulary such a pair
is one word, "new_york", and whoever reads the vocabulary joins the pair again from that alone.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ergodica.errors import InputError
from ergodica.lda.corpus.tokenizing import StopWordsLike, Tokenizer, TokenizerLike, stop_words_of, tokenizer_of

Content = str | Sequence[str]  # a document: text, or its words
LISTED_WORDS = 5  # of those that can never match, in a note
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


class Vocabulary:
    """Words with their numbers 0, 1, ... in the order given: the words that a model knows, all others are dropped.

    `LDA` builds one of the first documents; give it one of your own to compare models.

    Args:
        words: no word twice. A word with "_" inside is a phrase: its parts are joined where a text has them in a row.
        name: for messages.
        tokenizer: how a text becomes words: None or "words" (any language with spaces between words), "hoffman",
            "whitespace", or a function from a text to a list of str.

    >>> vocabulary = Vocabulary(["river", "bank", "new_york"])
    >>> vocabulary.ids("A bank is no river-bank in New York.").tolist()
    [1, 0, 1, 2]
    """

    def __init__(self, words: Iterable[str], name: str = "the vocabulary", *, tokenizer: TokenizerLike = None):
        self.words = tuple(words)
        self.tokenizer: Tokenizer = tokenizer_of(tokenizer)
        if not self.words:
            raise InputError(f"{name} has no words: expected one word a line")
        self._by_word: dict[Any, int] = {}
        for number, word in enumerate(self.words):
            if not isinstance(word, str) or not _is_writable(word):
                raise InputError(f"{name} has {word!r} as word {number + 1}: expected a word")
            if self._by_word.setdefault(word, number) != number:
                first = self._by_word[word] + 1
                raise InputError(f"{name} has {word!r} twice, as words {first} and {number + 1}: leave one out")
        self._joiner = PhraseJoiner(word for word in self.words if PHRASE_MARK in word)
        # What the tokeniser gives as bytes is looked up as bytes: to decode it would take longer than to look it up.
        self._numbers, self._text_joiner = self._by_word, self._joiner
        if self.tokenizer.is_bytes:
            self._numbers = {word.encode(): number for word, number in self._by_word.items()}
            phrases = (word.encode() for word in self.words if PHRASE_MARK in word)
            self._text_joiner = PhraseJoiner(phrases, PHRASE_MARK.encode())

    @classmethod
    def read(cls, path: str | os.PathLike, tokenizer: TokenizerLike = None) -> "Vocabulary":
        """From a file with one word a line, UTF-8. Blank lines and white space around words are skipped."""
        try:
            text = Path(path).read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not UTF-8 at byte {error.start}: save the vocabulary as UTF-8") from None
        except OSError as error:
            raise InputError(f"the vocabulary {path} could not be read: {error.strerror or error}") from None
        vocabulary = cls([word for line in text.split("\n") if (word := line.strip())], str(path), tokenizer=tokenizer)
        vocabulary.check_words(str(path))
        return vocabulary

    @classmethod
    def build(
        cls, texts: Iterable[Content], size: int = 8000, min_documents: int = 2, max_share: float = 0.5, *,
        tokenizer: TokenizerLike = None, stopwords: StopWordsLike = None, phrases: bool = False,
    ) -> "Vocabulary":  # fmt: skip
        """The `size` words that are in most documents, by falling number of documents, ties in alphabetical order.

        Args:
            texts: documents, as text or as lists of words, each looked at once (with `phrases`, three times).
            min_documents: a word in fewer documents is left out; and one in fewer than 1 of 2,000.
            max_share: a word in a larger share of the documents is left out.
            tokenizer: how texts become words; lists of words are taken as they are.
            stopwords: left out: None (English), a language, a list of words, or () for none.
            phrases: pairs that belong together (`find_phrases`) become words, as "new_york".

        Left out are also words shorter than 3 letters or longer than 40 (of scripts beyond Latin, Greek and Cyrillic
        shorter than 2), unless the tokeniser is a function or the documents are lists of words.
        """
        found = tokenizer_of(tokenizer)
        stopped = stop_words_of(stopwords)
        documents = list(texts) if phrases else texts
        count, frequencies, is_text = _document_frequencies(documents, found)
        low, high = max(min_documents, count / 2000), max_share * count

        def chosen(counted: Counter[str], most: float) -> list[str]:
            falling = [
                (-times, word) for word, times in counted.items()
                if low <= times <= most and word not in stopped and (found.takes(word) if is_text else _is_word(word))
            ]  # fmt: skip
            return [word for _, word in sorted(falling)]

        words = chosen(frequencies, high)
        if phrases:
            parts = chosen(frequencies, count)
            joiner = PhraseJoiner(find_phrases((_words_of(document, found) for document in documents), parts))
            words = chosen(_document_frequencies(documents, found, joiner)[1], high)
        if not words:
            raise InputError(_no_words(count, frequencies, low, high, found))
        return cls(words[:size], tokenizer=found)

    @classmethod
    def numbered(cls, size: int) -> "Vocabulary":
        """word0, word1, ...: for matrices of counts that come without names."""
        return cls([f"word{number}" for number in range(size)])

    @classmethod
    def given(cls, vocabulary: "VocabularyLike | Any", tokenizer: TokenizerLike = None) -> "Vocabulary":
        """A vocabulary as people give it.

        Args:
            vocabulary: itself, the path of a file, a list or an array of words, a scikit-learn vectorizer, a gensim
                `Dictionary`, or the number of every word.
            tokenizer: None: that of the vocabulary, or "words".
        """
        if isinstance(vocabulary, Vocabulary):
            if tokenizer is None or tokenizer_of(tokenizer).name == vocabulary.tokenizer.name:
                return vocabulary
            return cls(vocabulary.words, tokenizer=tokenizer)
        if isinstance(vocabulary, str | os.PathLike):
            return cls.read(vocabulary, tokenizer)
        found: Any = vocabulary
        if hasattr(found, "get_feature_names_out"):
            found = found.get_feature_names_out()
        found = getattr(found, "token2id", found)
        if isinstance(found, Mapping):
            found = _in_order(found)
        if not isinstance(found, Iterable) or isinstance(found, set | frozenset):  # a set has no order
            raise InputError(
                f"vocabulary is a {type(vocabulary).__name__}: expected a list of words, the path of a file with one "
                "word a line, a scikit-learn vectorizer or a gensim Dictionary"
            )
        return cls([str(word) if isinstance(word, np.str_) else word for word in found], tokenizer=tokenizer)

    def ids(self, document: Content) -> np.ndarray:
        """The numbers of the words of a text (or of words), in order; words not in the vocabulary are dropped."""
        if isinstance(document, str):
            found, numbers, joiner = self.tokenizer.split(document), self._numbers, self._text_joiner
        else:
            found, numbers, joiner = document, self._by_word, self._joiner
        if joiner:
            found = joiner.joined(found)
        # Two lookups by C code are faster than one by Python.
        return np.fromiter(map(numbers.__getitem__, filter(numbers.__contains__, found)), np.int32)

    def unmatched(self) -> list[str]:
        """The words that no text can have, as the tokeniser gives others; none is known of a function's words."""
        if not self.tokenizer.is_named or self.tokenizer.strings(" ".join(self.words)) == list(self.words):
            return []
        return [word for word in self.words if not self._can_match(word)]

    def check_words(self, name: str = "the vocabulary") -> list[str]:
        """`unmatched`; InputError where that is all of them."""
        found = self.unmatched()
        if len(found) == len(self.words):
            raise InputError(
                f"{name} has no word that a text can have, the first is {found[0]!r}: the tokenizer "
                f"{self.tokenizer.name!r} gives {self.tokenizer.says}; give such words, or a tokenizer of your own"
            )
        return found

    def notes(self) -> list[str]:
        """One line where some words can never match."""
        found = self.unmatched()
        if not found:
            return []
        listed = ", ".join(map(repr, found[:LISTED_WORDS])) + (", ..." if len(found) > LISTED_WORDS else "")
        return [
            f"words of the vocabulary that can never match, as the tokenizer {self.tokenizer.name!r} gives "
            f"{self.tokenizer.says}: {len(found):,}; first: {listed}"
        ]

    def write(self, path: str | os.PathLike) -> None:
        """To a file that `read` takes."""
        Path(path).write_text("\n".join(self.words) + "\n", encoding="utf-8")

    def digest(self) -> str:
        """A short name for these words in this order, and for the tokeniser."""
        return hashlib.sha256("\n".join([self.tokenizer.name, *self.words]).encode()).hexdigest()[:16]

    def _can_match(self, word: str) -> bool:
        parts = word.split(PHRASE_MARK)
        return self.tokenizer.strings(word) in ([word], parts) and all(parts)

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} words: {', '.join(self.words[:3])}, ...)"


VocabularyLike = Vocabulary | str | os.PathLike | Sequence[str] | np.ndarray | Mapping[str, int]


def _words_of(document: Content, tokenizer: Tokenizer) -> Sequence[str]:
    return tokenizer.strings(document) if isinstance(document, str) else document


def _document_frequencies(
    documents: Iterable[Content], tokenizer: Tokenizer, joiner: PhraseJoiner | None = None
) -> tuple[int, Counter[str], bool]:
    """(documents, in how many of them each word is, whether a tokeniser with a name made the words)."""
    counted: Counter[Any] = Counter()
    count, is_text = 0, tokenizer.is_named
    for document in documents:
        count += 1
        is_text = is_text and isinstance(document, str)
        if joiner is not None:
            counted.update(set(joiner.joined(_words_of(document, tokenizer))))
        else:
            counted.update(set(tokenizer.split(document) if isinstance(document, str) else document))
    found: Counter[str] = Counter()
    for word, times in counted.items():
        found[word.decode() if isinstance(word, bytes) else word] += times
    return count, found, is_text


def _is_writable(word: str) -> bool:
    """Whether it can stand on a line of a file: not empty, no ends of lines, no halves of letters."""
    return bool(word) and not any(letter in "\n\r" or "\ud800" <= letter <= "\udfff" for letter in word)


def _is_word(word: str) -> bool:
    """Whether what a person's own tokeniser gives is a word, not punctuation or white space."""
    return _is_writable(word) and word == word.strip() and any(map(str.isalnum, word))


def _in_order(numbers: Mapping[str, int]) -> list[str]:
    """The words of a gensim Dictionary, or of a vectorizer's `vocabulary_`, in the order of their numbers."""
    words = sorted(numbers, key=lambda word: numbers[word])
    for place, word in enumerate(words):
        if numbers[word] != place:
            raise InputError(
                f"the vocabulary gives {word!r} the number {numbers[word]}: expected 0, 1, ... without gaps; "
                "dictionary.compactify() of gensim closes them"
            )
    return words


def _no_words(count: int, frequencies: Counter[str], low: float, high: float, tokenizer: Tokenizer) -> str:
    """Why a vocabulary has no words."""
    if not frequencies:
        return (
            f"the first {count:,} documents have no words: they are empty, or in letters that the tokenizer "
            f"{tokenizer.name!r} does not know; it gives {tokenizer.says or 'none'}"
        )
    if count == 1:
        return (
            "there is only one document, and topics are words that come together in some documents and not in others: "
            "give more; where every line of a file is a document, say --lines (Python: lines=True)"
        )
    return (
        f"no word of the first {count:,} documents is in at least {low:g} and at most {high:g} of them, has three "
        "letters, and is not a stop word: give a vocabulary, or more documents"
    )
