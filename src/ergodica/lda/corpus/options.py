"""How text is read: the options that travel from a person to the readers, as one value."""

from dataclasses import dataclass

from ergodica.errors import InputError
from ergodica.lda.corpus.stop_words import StopWordsLike, stop_words_of
from ergodica.lda.corpus.tokenizing import TokenizerLike, tokenizer_of


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
