"""The words a topic model knows, from a file or from the first documents of a stream; and text to words."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np

from ergodica.errors import InputError

WORD_GAPS = b"- \t\n\v\f\r"
WORD_LETTERS = b"abcdefghijklmnopqrstuvwxyz"
_LOWER_CASE = bytes.maketrans(WORD_LETTERS.upper() + WORD_GAPS, WORD_LETTERS + b" " * len(WORD_GAPS))
_DROPPED_CHARACTERS = bytes(code for code in range(128) if code not in WORD_LETTERS + WORD_LETTERS.upper() + WORD_GAPS)


def words(text: str) -> list[bytes]:
    """The words of a text, in order.

    As Hoffman, Blei and Bach's code for online LDA (2010) does it, with white space of any kind as a space. Characters
    are dropped, not replaced by a space: "don't" is "dont", and letters other than a-z leave a gap in their word.

    >>> words("The well-known Poincaré map, 2nd ed.")
    [b'the', b'well', b'known', b'poincar', b'map', b'nd', b'ed']
    """
    return text.encode("ascii", "ignore").translate(_LOWER_CASE, _DROPPED_CHARACTERS).split()


WORD_LENGTHS = range(3, 21)  # letters of a word that is taken into a vocabulary by counting


@cache
def stop_words() -> frozenset[bytes]:
    """English words that say nothing about a topic: what a vocabulary built from a stream leaves out."""
    return frozenset(files("ergodica.lda.corpus").joinpath("stop_words.txt").read_bytes().split())


class Vocabulary:
    """Words with their numbers 0, 1, ... in the order given: the words that a model knows, all others are dropped.

    `LDA` builds one of the first documents; give it one of your own to compare models, or for another language.

    Args:
        words: no word twice. The tokeniser gives words of the letters a-z: at least one must be such a word.

    >>> vocabulary = Vocabulary(["river", "bank"])
    >>> vocabulary.ids("A bank is no river-bank.").tolist()
    [1, 0, 1]
    """

    def __init__(self, words: Iterable[str], name: str = "the vocabulary"):
        self.words = tuple(words)
        if not self.words:
            raise InputError(f"{name} has no words: expected one word a line")
        self._numbers: dict[bytes, int] = {}
        for number, word in enumerate(self.words):
            if not isinstance(word, str) or not word or any("\ud800" <= letter <= "\udfff" for letter in word):
                raise InputError(f"{name} has {word!r} as word {number + 1}: expected a word")
            if self._numbers.setdefault(word.encode(), number) != number:
                first = self._numbers[word.encode()] + 1
                raise InputError(f"{name} has {word!r} twice, as words {first} and {number + 1}: leave one out")

    @classmethod
    def read(cls, path: str | os.PathLike) -> "Vocabulary":
        """From a file with one word a line, UTF-8. Blank lines and white space around words are skipped."""
        try:
            text = Path(path).read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not UTF-8 at byte {error.start}: save the vocabulary as UTF-8") from None
        except OSError as error:
            raise InputError(f"the vocabulary {path} could not be read: {error.strerror or error}") from None
        vocabulary = cls([word for line in text.split("\n") if (word := line.strip())], str(path))
        if not any(word.encode().strip(WORD_LETTERS) == b"" for word in vocabulary.words):
            first = vocabulary.words[0]
            raise InputError(
                f"{path} has no word of the letters a-z alone, the first is {first!r}: expected one a line"
            )
        return vocabulary

    @classmethod
    def build(
        cls, texts: Iterable[str], size: int = 8000, min_documents: int = 2, max_share: float = 0.5
    ) -> "Vocabulary":
        """The `size` words that are in most documents, by falling number of documents, ties in alphabetical order.

        Args:
            texts: documents, each looked at once.
            min_documents: a word in fewer documents is left out; and one in fewer than 1 of 2,000.
            max_share: a word in a larger share of the documents is left out.

        Left out are also words shorter than 3 or longer than 20 letters, and `stop_words`.
        """
        frequencies: Counter[bytes] = Counter()
        count = 0
        for text in texts:
            frequencies.update(set(words(text)))
            count += 1
        low, high = max(min_documents, count / 2000), max_share * count
        chosen = [
            (-times, word.decode())
            for word, times in frequencies.items()
            if low <= times <= high and len(word) in WORD_LENGTHS and word not in stop_words()
        ]
        if not chosen:
            raise InputError(
                f"no word of the first {count} documents is in at least {low:g} and at most {high:g} of them: "
                "give a vocabulary, or more documents"
            )
        return cls([word for _, word in sorted(chosen)[:size]])

    @classmethod
    def numbered(cls, size: int) -> "Vocabulary":
        """word0, word1, ...: for matrices of counts that come without names."""
        return cls([f"word{number}" for number in range(size)])

    @classmethod
    def given(cls, vocabulary: "VocabularyLike") -> "Vocabulary":
        """A vocabulary as people give it: itself, the path of a file, or a list of words."""
        if isinstance(vocabulary, Vocabulary):
            return vocabulary
        return cls.read(vocabulary) if isinstance(vocabulary, str | os.PathLike) else cls(vocabulary)

    def ids(self, text: str) -> np.ndarray:
        """The numbers of the words of a text, in order; words that are not in the vocabulary are dropped."""
        numbers = self._numbers
        # Two lookups by C code are faster than one by Python.
        return np.fromiter(map(numbers.__getitem__, filter(numbers.__contains__, words(text))), np.int32)

    def write(self, path: str | os.PathLike) -> None:
        """To a file that `read` takes."""
        Path(path).write_text("\n".join(self.words) + "\n", encoding="utf-8")

    def digest(self) -> str:
        """A short name for these words in this order."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()[:16]

    def __len__(self) -> int:
        return len(self.words)

    def __repr__(self) -> str:
        return f"Vocabulary({len(self):,} words: {', '.join(self.words[:3])}, ...)"


VocabularyLike = Vocabulary | str | os.PathLike | Sequence[str]
