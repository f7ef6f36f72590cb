from .corpus import Corpus
from .documents import Documents
from .reading import texts
from .vocabulary import Vocabulary, words
from .wikitext import plain_text

__all__ = ["Corpus", "Documents", "Vocabulary", "plain_text", "texts", "words"]
