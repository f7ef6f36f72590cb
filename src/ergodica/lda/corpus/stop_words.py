"""Words that say nothing about a topic, by language: what a vocabulary built from a stream leaves out."""

from collections.abc import Iterable
from functools import cache
from importlib.resources import files

from ergodica.errors import InputError

STOP_LANGUAGES = {
    "english": "en", "german": "de", "french": "fr", "spanish": "es", "italian": "it", "portuguese": "pt",
    "dutch": "nl", "swedish": "sv", "danish": "da", "norwegian": "no", "finnish": "fi", "polish": "pl",
    "russian": "ru", "turkish": "tr",
}  # fmt: skip
StopWordsLike = str | Iterable[str] | None


@cache
def stop_words(language: str = "en") -> frozenset[str]:
    """The list of a language, by its name in English or its ISO code.

    >>> "und" in stop_words("german"), "und" in stop_words("en")
    (True, False)
    """
    code = STOP_LANGUAGES.get(language.lower(), language.lower())
    if code not in STOP_LANGUAGES.values():
        known = ", ".join(f"{name} ({short})" for name, short in STOP_LANGUAGES.items())
        raise InputError(f"stopwords is {language!r}: expected one of {known}; or a list of words, or () for none")
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
