"""Text to words, and how text is read.

Tokenisers that have a name, those that people give, and scripts that need one of these; words that say nothing about a
topic, by language; and `Reading`, the options that travel from a person to the readers as one value.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from itertools import filterfalse
from typing import Any
from unicodedata import category, normalize

from ergodica.errors import InputError

LATIN_LETTERS = b"abcdefghijklmnopqrstuvwxyz"
_HOFFMAN_GAPS = b"- \t\n\v\f\r"
_HOFFMAN_LOWER = bytes.maketrans(LATIN_LETTERS.upper() + _HOFFMAN_GAPS, LATIN_LETTERS + b" " * len(_HOFFMAN_GAPS))
_HOFFMAN_DROPPED = bytes(c for c in range(128) if c not in LATIN_LETTERS + LATIN_LETTERS.upper() + _HOFFMAN_GAPS)
# Of ASCII letters stay, in lower case, and all else is a space; bytes of other letters in UTF-8 stay as they are.
_LOWER_OR_GAP = bytes(ord(chr(c).lower()) if chr(c).isalpha() else ord(" ") for c in range(128)) + bytes(
    range(128, 256)
)
_APOSTROPHE = b"'"
_LONGEST_CACHED = 64  # bytes; a text without spaces is one long word
STOP_LANGUAGES = {
    "english": "en", "german": "de", "french": "fr", "spanish": "es", "italian": "it", "portuguese": "pt",
    "dutch": "nl", "swedish": "sv", "danish": "da", "norwegian": "no", "finnish": "fi", "polish": "pl",
    "russian": "ru", "turkish": "tr",
}  # fmt: skip
StopWordsLike = str | Iterable[str] | None


def hoffman(text: str) -> list[bytes]:
    """As Hoffman, Blei and Bach's code for online LDA (2010), with white space of any kind as a space.

    Characters are dropped, not replaced by a space: "and/or" is "andor", and letters other than a-z leave a gap.

    >>> hoffman("The well-known Poincaré map, 2nd ed.")
    [b'the', b'well', b'known', b'poincar', b'map', b'nd', b'ed']
    """
    return text.encode("ascii", "ignore").translate(_HOFFMAN_LOWER, _HOFFMAN_DROPPED).split()


def unicode_words(text: str) -> list[bytes]:
    """The words of a text as UTF-8: letters and marks of any script; see `words`."""
    if text.isascii():
        return text.encode().translate(_LOWER_OR_GAP, _APOSTROPHE).split()
    pieces = text.encode("utf-8", "replace").translate(_LOWER_OR_GAP, _APOSTROPHE).split()
    found: list[bytes] = []
    done = 0
    for piece in filterfalse(bytes.isascii, pieces):  # most words of Latin scripts are passed over by C code
        at = pieces.index(piece, done)
        found += pieces[done:at]
        found += _lettered(piece) if len(piece) <= _LONGEST_CACHED else _of_letters(piece)
        done = at + 1
    return found + pieces[done:]


def words(text: str) -> list[str]:
    """The words of a text in any language that writes spaces between them, in order; what `tokenizer="words"` gives.

    Letters with their marks make a word, in lower case and NFC form. Apostrophes, soft hyphens and joiners inside it
    are left out ("don't" is "dont"); every other character, digits too, ends it.

    >>> words("The well-known Käse and/or Poincaré's 2nd map")
    ['the', 'well', 'known', 'käse', 'and', 'or', 'poincarés', 'nd', 'map']
    """
    return [word.decode() for word in unicode_words(text)]


class _Letters(dict):
    """For `str.translate`: letters and marks stay, format characters go, all else is a space; filled as it is used."""

    def __missing__(self, code: int) -> int | None:
        kind = category(chr(code))
        self[code] = code if kind[0] in "LM" else None if kind == "Cf" else ord(" ")
        return self[code]


_LETTERS = _Letters({ord("\u2019"): None})  # the apostrophe of typesetters


def _of_letters(word: bytes) -> tuple[bytes, ...]:
    text = normalize("NFC", word.decode().lower()).replace("i\u0307", "i")  # of the Turkish capital with a dot
    if text.isalpha():
        return (text.encode(),)
    # a mark alone, as emoji have them, is no word
    return tuple(part.encode() for part in text.translate(_LETTERS).split() if any(map(str.isalpha, part)))


_lettered = lru_cache(maxsize=1 << 15)(_of_letters)


@dataclass(frozen=True)
class Tokenizer:
    """Text to words.

    Attributes:
        name: "words", "hoffman", "whitespace"; of a function, where it is defined.
        split: gives words as UTF-8 where `is_bytes`, else as strings.
        is_bytes: what is looked up as bytes need not be decoded first.
        lengths: letters of a word that is taken into a vocabulary by counting, for Latin, Greek and Cyrillic letters.
        says: what words it gives, for messages.
    """

    name: str
    split: Callable[[str], list[Any]]
    is_bytes: bool = False
    lengths: range = range(1, 1 << 30)
    says: str = ""

    @property
    def is_named(self) -> bool:
        """Whether its name is enough to have it again."""
        return self.name in TOKENIZERS

    def strings(self, text: str) -> list[str]:
        """The words as strings."""
        found = self.split(text)
        return [word.decode() for word in found] if self.is_bytes else found

    def takes(self, word: str) -> bool:
        """Whether a word is long enough for a vocabulary, and short enough; other scripts say more with a letter."""
        least = self.lengths.start
        return (least if word < "\u0590" else min(least, 2)) <= len(word) < self.lengths.stop


TOKENIZERS = {
    "words": Tokenizer("words", unicode_words, True, range(3, 41), "words of letters alone, in lower case"),
    "hoffman": Tokenizer("hoffman", hoffman, True, range(3, 21), "words of the letters a-z alone"),
    "whitespace": Tokenizer("whitespace", str.split, says="words without white space in them"),
}
TokenizerLike = Tokenizer | str | Callable[[str], Iterable[str]] | None


def tokenizer_of(given: TokenizerLike) -> Tokenizer:
    """The tokeniser that a person gave: None ("words"), a name, or a function from a text to a list of words."""
    if given is None:
        return TOKENIZERS["words"]
    if isinstance(given, Tokenizer):
        return given
    if isinstance(given, str) and given in TOKENIZERS:
        return TOKENIZERS[given]
    if isinstance(given, str) or not callable(given):
        raise InputError(
            f"tokenizer is {given!r}: expected one of {', '.join(TOKENIZERS)}, or a function from a text to a list of "
            "words, such as str.split (on the command line module:function)"
        )
    name = _place_of(given)
    return Tokenizer(name, lambda text: _checked(given, name, text))


def tokenizer_called(name: str) -> Tokenizer:
    """The tokeniser of a model that was saved; one that was a function has to be given again before it is used."""
    if name in TOKENIZERS:
        return TOKENIZERS[name]

    def refuse(text: str) -> list[str]:
        raise InputError(
            f"the words of this model came from the tokenizer {name}, which is not saved with it: give it by "
            "--tokenizer MODULE:FUNCTION (Python: tokenizer=)"
        )

    return Tokenizer(name, refuse)


def _place_of(function: Any) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    module = getattr(named, "__module__", None)
    return f"{module}.{named.__qualname__}" if module else named.__qualname__


def _checked(function: Callable[[str], Iterable[str]], name: str, text: str) -> list[str]:
    try:
        found = function(text)
        found = [found] if isinstance(found, str) else list(found)
    except Exception as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InputError(
            f"the tokenizer {name} failed on the text {text[:40]!r} with {type(error).__name__}: {reason}"
        ) from error
    for word in found:
        if not isinstance(word, str):
            raise InputError(
                f"the tokenizer {name} gave a {type(word).__name__} among the words of {text[:40]!r}: expected a list "
                "of str, as lambda text: [str(word) for word in ...] gives"
            )
    return found


# Thai and Lao, Burmese, Khmer, Japanese kana, Han characters: written without spaces between words.
_UNSPACED_RUN = re.compile(
    "[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
)
_UNSPACED_SAMPLE = 1000  # characters of a text that are looked at
_WORD_OF_UNSPACED = 5  # letters; longer on average, and spaces do not stand between words


def is_unspaced(text: str) -> bool:
    """Whether most letters are of a script without spaces between words, and nobody has put them in.

    >>> is_unspaced("東京は日本の首都です"), is_unspaced("東京 は 日本 の 首都 です"), is_unspaced("Tokyo 東京")
    (True, False, False)
    """
    if text.isascii():
        return False
    sample = text[:_UNSPACED_SAMPLE]
    runs = _UNSPACED_RUN.findall(sample)
    count = sum(map(len, runs))
    others = sum(map(str.isalpha, _UNSPACED_RUN.sub("", sample)))
    return count > others and count > _WORD_OF_UNSPACED * len(runs)


def needs_tokenizer(names: str, example: str) -> InputError:
    """For texts of which `is_unspaced` holds."""
    return InputError(
        f"{names}: most letters are of a script without spaces between words ({example[:20].strip()!r}): give a "
        "tokenizer, for Chinese --tokenizer jieba:lcut (Python: tokenizer=jieba.lcut), for Japanese "
        "tagger = fugashi.Tagger(), tokenizer=lambda text: [word.surface for word in tagger(text)]"
    )


@cache
def stop_words(language: str = "en") -> frozenset[str]:
    """The list of a language, by its name in English or its ISO code.

    >>> "und" in stop_words("german"), "und" in stop_words("en")
    (True, False)
    """
    code = STOP_LANGUAGES.get(language.lower(), language.lower())
    if code not in STOP_LANGUAGES.values():
        known = ", ".join(f"{name} ({short})" for name, short in STOP_LANGUAGES.items())
        raise InputError(
            f"stopwords is {language!r}: expected one of {known}; none for none (Python: a list of words, () for none)"
        )
    text = files("ergodica.lda.corpus").joinpath("stop_lists", f"{code}.txt").read_text("utf-8")
    return frozenset(text.split())


def stop_words_of(given: StopWordsLike) -> frozenset[str]:
    """The words that a person wants left out: None (English), a language, a list of words, or () for none."""
    if given is None or isinstance(given, str):
        return stop_words(given or "en")
    found = frozenset(given)
    for word in found:
        if not isinstance(word, str):
            raise InputError(f"stopwords has {word!r}: expected words, a language, or () for none")
    return found


@dataclass(frozen=True)
class Reading:
    """How text is read.

    Attributes:
        field: of JSON lines and tables, the one with the text; None: "text", or a table's only column of text.
        lines: a line of a text file is a document; else the file is. JSON lines, tables and dumps stay as they are.
        tokenizer: text to words: None or "words", "hoffman", "whitespace", or a function from a text to a list of str.
        stopwords: left out where a vocabulary is built: None (English), a language ("german", "de"), a list, () for
            none.
        phrases: where a vocabulary is built, pairs of words that belong together become words: "new_york".
    """

    field: str | None = None
    lines: bool = False
    tokenizer: TokenizerLike = None
    stopwords: StopWordsLike = None
    phrases: bool = False

    def __post_init__(self):
        if self.field is not None and (not isinstance(self.field, str) or not self.field):
            raise InputError(f"field is {self.field!r}: expected the name of a field or column")
        for name in ("lines", "phrases"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"{name} is {getattr(self, name)!r}: expected True or False")
        tokenizer_of(self.tokenizer)
        if self.stopwords is not None and not isinstance(self.stopwords, str):
            object.__setattr__(self, "stopwords", tuple(self.stopwords))  # an iterator is read once
        stop_words_of(self.stopwords)


PLAIN_READING = Reading()
