from .corpus import Corpus
from .documents import Documents
from .labels import DocumentLabel
from .numbering import numbered
from .options import Reading
from .reading import texts
from .tokenizing import words
from .vocabulary import Vocabulary
from .wikitext import plain_text

__all__ = ["Corpus", "DocumentLabel", "Documents", "Reading", "Vocabulary", "numbered", "plain_text", "texts", "words"]
