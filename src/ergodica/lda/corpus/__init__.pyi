from .corpus import Corpus
from .documents import DocumentLabel, Documents
from .mediawiki import plain_text
from .reading import numbered, texts
from .tokenizing import Reading, words
from .vocabulary import Vocabulary

__all__ = ["Corpus", "DocumentLabel", "Documents", "Reading", "Vocabulary", "numbered", "plain_text", "texts", "words"]
