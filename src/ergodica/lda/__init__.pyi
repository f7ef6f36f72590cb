# The public names and where they are: `__init__.py` loads a module when one of its names is first asked for.

from . import corpus, demo, gibbs
from .choice import TopicChoice, choose
from .corpus import Corpus, Documents, Vocabulary
from .expanded_mean import ExpandedMean
from .model import LDA
from .perplexity import Perplexity
from .topics import Coherence, Topic

__all__ = [
    "LDA",
    "Coherence",
    "Corpus",
    "Documents",
    "ExpandedMean",
    "Perplexity",
    "Topic",
    "TopicChoice",
    "Vocabulary",
    "choose",
    "corpus",
    "demo",
    "gibbs",
]
