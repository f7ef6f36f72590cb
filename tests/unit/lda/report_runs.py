"""A run folder made by hand, with topics that a person can read."""

import numpy as np

from ergodica.lda.corpus import Vocabulary
from ergodica.lda.perplexity import HistoryRow
from ergodica.lda.run_files import Fitted
from ergodica.lda.run_files import write_run as write_files

THEMES = {
    "water": "river lake bridge water flood boat dam canal harbour stream",
    "music": "song album band guitar chart singer record label concert melody",
    "war": "army battle war soldiers regiment siege troops general fleet retreat",
    "school": "school university students college campus teacher degree faculty exam library",
    "football": "league season goal club cup match coach striker stadium penalty",
    "law": "court judge law trial appeal statute verdict jury lawyer crime",
    "plants": "leaf species flower tree seed forest genus moss root bark",
    "space": "orbit planet star moon telescope rocket galaxy comet satellite crater",
}
WORDS = tuple(word for theme in THEMES.values() for word in theme.split())


def documents_of(rng, vocabulary, count):
    """Titles, links and dates for most of them: what is known of documents is seldom known of all."""
    return [
        {
            "id": f"doc-{i:03d}", "title": f"Letter {i} about the {vocabulary[i % len(vocabulary)]}" if i % 5 else "",
            "url": f"https://example.org/letters/{i}" if i % 4 else "", "date": f"{1990 + i % 12}-05" if i % 3 else "",
            "words": rng.choice(vocabulary, 60).tolist(),
        }
        for i in range(count)
    ]  # fmt: skip


def write_run(folder, topics=8, vocabulary=WORDS, draws=20, documents=None, lengths=40, found=False, **figures):
    """Each topic has ten words that lead it.

    documents: as `Fitted.documents`; how many there are by `lengths`. found: whether averaged counts found phi.
    """
    rng, size = np.random.default_rng(7), len(vocabulary)
    mean = np.full((size, topics), 0.02)
    for k in range(topics):
        mean[(10 * k + np.arange(10)) % size, k] = 40 / np.sqrt(1 + np.arange(10))
    theta = rng.gamma(mean, size=(max(draws, 1), size, topics)).astype(np.float32) + np.float32(1e-10)
    shares = rng.dirichlet(np.linspace(1.5, 0.1, topics), size=40)[:lengths]
    documents = documents_of(rng, vocabulary, len(shares)) if documents is None else documents
    history = [HistoryRow(d, d / 4000, 2000 + 1e6 / d, 1900 + 12e5 / d) for d in (1000, 2000, 4000, 8000, 16000)]
    held_out = {"perplexity": {"single": 2062.5, "averaged": 1975.0}, "unigram_perplexity": 4331.0, "documents": 1000}
    told = {
        "topics": topics, "words": size, "sampler": "sgrhmc", "preset": "tuned", "seed": 3, "documents": 16000,
        "settings": {"alpha": 0.01, "gamma": 0.1, "step": {"a": 0.01, "b": 100}}, "versions": {"numpy": "2.0"},
        "held_out": held_out, "noise_ratio": 3512.7, "band": "sampler spread",
        "seconds": {"learning": 8.5, "evaluating": 1.5},
    }  # fmt: skip
    phi = theta / theta.sum(axis=1, keepdims=True)
    counts = rng.integers(1, 2000, size)
    fitted = Fitted(
        Vocabulary(vocabulary), {}, {"position": theta[-1], "steps": np.asarray(20)}, counts,
        dict(enumerate(phi[:draws])), 1, shares, rng.integers(20, 300, 40)[:lengths], documents, history,
        told | figures, phi[0] if found else None,
    )  # fmt: skip
    folder.mkdir(exist_ok=True)
    write_files(folder, fitted, [])
    return folder
