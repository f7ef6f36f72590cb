"""A corpus for first use: documents drawn from a known LDA, ten readable topics of thirty words each.

Every topic gives nine tenths of its probability to its own words, falling with their rank, and a tenth to all others,
so that no probability is zero and a band can cover it.
"""

import numpy as np

from ergodica.lda.corpus import Documents, Vocabulary

OWN_SHARE = 0.9  # of a topic's probability, on its own words
TOPIC_PRIOR = 0.1  # the documents' prior
MEAN_LENGTH = 120  # words of a document, on average
DOCUMENT_COUNT = 2_000
TOPIC_WORDS = {
    "sea": "ship sail harbour wave captain anchor tide crew voyage deck coast storm fleet port mast vessel island "
    "lighthouse sailor navy current whale reef cargo beach pilot rudder hull fisherman bay",
    "kitchen": "bread flour butter oven salt sugar recipe dough egg milk cheese pepper onion garlic sauce pan knife "
    "soup rice honey vinegar spoon bake boil taste dish cook cream lemon cinnamon",
    "music": "piano violin melody rhythm orchestra concert singer chord opera song guitar drum choir composer symphony "
    "flute tempo harmony jazz trumpet cello conductor stage album chorus organ sonata lyric band voice",
    "garden": "flower seed soil root leaf tree rose spade hedge lawn bloom bulb prune compost petal orchard apple pear "
    "blossom weed shrub greenhouse stem moss fern branch tulip ivy harvest bee",
    "railway": "train station locomotive track platform carriage ticket signal tunnel bridge engine freight timetable "
    "driver passenger line gauge junction wagon rail steam express depot porter luggage whistle boiler viaduct guard "
    "departure",
    "weather": "rain cloud wind snow thunder frost sunshine humidity temperature forecast drought flood breeze hail "
    "fog climate barometer pressure lightning winter summer autumn spring mist rainbow gale blizzard thermometer "
    "drizzle season",
    "medicine": "doctor patient hospital nurse fever surgery vaccine disease symptom blood heart lung clinic dose cure "
    "infection virus pulse bandage surgeon diagnosis therapy bone muscle cough ward pharmacy injection nerve wound",
    "court": "judge jury lawyer trial verdict witness law crime sentence evidence appeal prison police defendant "
    "prosecutor statute guilty oath testimony contract plaintiff bail theft justice clause tribunal constable fraud "
    "warrant robbery",
    "stars": "planet star galaxy telescope orbit comet moon nebula astronomer eclipse asteroid gravity universe solar "
    "meteor constellation satellite observatory rocket spacecraft light supernova dust equinox crater venus mars "
    "saturn jupiter cosmos",
    "football": "goal team player match referee stadium league coach kick penalty defender striker goalkeeper pitch "
    "supporter tackle pass score trophy fan midfield championship transfer dribble header offside squad tournament "
    "halftime corner",
}


def vocabulary() -> Vocabulary:
    """The 300 words, topic after topic."""
    return Vocabulary([word for words in TOPIC_WORDS.values() for word in words.split()])


def truth() -> np.ndarray:
    """(words, topics): the probabilities of which the documents are drawn.

    >>> truth().shape
    (300, 10)
    """
    rng = np.random.default_rng(20150917)
    own = np.concatenate([np.full(len(words.split()), k) for k, words in enumerate(TOPIC_WORDS.values())])
    phi = np.zeros((len(own), len(TOPIC_WORDS)))
    for k in range(len(TOPIC_WORDS)):
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
