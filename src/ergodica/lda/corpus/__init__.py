"""Documents for topic models, read as a stream in bounded memory: dumps, JSON lines, folders, addresses, iterables."""

from ergodica.lda.corpus.corpus import Corpus
from ergodica.lda.corpus.documents import Documents
from ergodica.lda.corpus.reading import texts
from ergodica.lda.corpus.tokens import words
from ergodica.lda.corpus.vocabulary import Vocabulary
from ergodica.lda.corpus.wikitext import plain_text

__all__ = ["Corpus", "Documents", "Vocabulary", "plain_text", "texts", "words"]
