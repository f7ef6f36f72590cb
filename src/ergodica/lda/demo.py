"""A corpus for first use: documents drawn from a known LDA, ten readable topics of thirty words each.

Every topic gives nine tenths of its probability to its own words, falling with their rank, and a tenth to all others,
so that no probability is zero and a band can cover it.
"""

from functools import cache
from importlib.resources import files

import numpy as np

from ergodica.lda.corpus import Documents, Vocabulary

OWN_SHARE = 0.9  # of a topic's probability, on its own words
TOPIC_PRIOR = 0.1  # the documents' prior
MEAN_LENGTH = 120  # words of a document, on average
DOCUMENT_COUNT = 2_000


@cache
def topic_words() -> tuple[tuple[str, ...], ...]:
    """The words of each topic, most probable first: sea, kitchen, music, garden, railway, weather, ..."""
    lines = files("ergodica.lda").joinpath("demo_topics.txt").read_text("utf-8").splitlines()
    return tuple(tuple(line.split()) for line in lines)


def vocabulary() -> Vocabulary:
    """The 300 words, topic after topic."""
    return Vocabulary([word for words in topic_words() for word in words])


def truth() -> np.ndarray:
    """(words, topics): the probabilities of which the documents are drawn.

    >>> truth().shape
    (300, 10)
    """
    rng = np.random.default_rng(20150917)
    own = np.concatenate([np.full(len(words), k) for k, words in enumerate(topic_words())])
    phi = np.zeros((len(own), len(topic_words())))
    for k in range(phi.shape[1]):
        mine = own == k
        falling = 1 / np.sqrt(1 + np.arange(mine.sum())) * rng.uniform(0.8, 1.2, mine.sum())
        others = rng.uniform(0.5, 1.5, (~mine).sum())
        phi[mine, k] = OWN_SHARE * falling / falling.sum()
        phi[~mine, k] = (1 - OWN_SHARE) * others / others.sum()
    return phi


def documents(
    count: int = DOCUMENT_COUNT, seed: int = 0, phi: np.ndarray | None = None, length: int = MEAN_LENGTH
) -> Documents:
    """Documents drawn from `truth`, or other topics: shares ~ Dirichlet(0.1), words of them one by one."""
    rng, phi = np.random.default_rng((1, seed)), truth() if phi is None else phi
    rows = []
    for _ in range(count):
        shares = rng.dirichlet(np.full(phi.shape[1], TOPIC_PRIOR))
        word_law = phi @ shares
        rows.append(rng.choice(len(phi), size=max(2, rng.poisson(length)), p=word_law / word_law.sum()))
    return Documents.of(rows)
