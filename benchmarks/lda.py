"""Topic models on real Wikipedia text, beside gensim, scikit-learn and tomotopy.

    python benchmarks/lda.py [ITEM...] [--seeds 5] [--json FILE]

Items: perplexity, paper, growth; all of them if none is named. 60,000 articles of ../shared/data/wikipedia (or
ERGODICA_DATA) with the vocabulary of 8,000 words, 50 topics, two cores. For every seed the articles are put in another
order, the first 1,000 are held out, and all are judged by one evaluator: document completion with every tenth token
asked for, single sample against single sample; of a peer the better figure of its own prior of topics in a document and
of ours. A peer is timed while it learns, not while its corpus is made. Ours learns from the same documents in the same
order, and continues where those of the peer end; evaluations on held-out documents are not timed. A figure counts as
reached where it holds for three evaluations. Exit code 1 if a bound is missed.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from ergodica.lda import LDA
from ergodica.lda.chains import Training, begin
from ergodica.lda.corpus import Corpus, Documents, Vocabulary
from ergodica.lda.perplexity import HeldOut
from ergodica.lda.settings import settings_of
from ergodica.lda.stream import DocumentBatch

DATA = Path(os.environ.get("ERGODICA_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")) / "wikipedia"
TOPICS, HELD_OUT = 50, 1_000
PEERS_DOCUMENTS, TOMOTOPY_DOCUMENTS, ITERATIONS = 20_000, 10_000, 100
EVALUATION_GAP = 1_000  # documents between two evaluations
EVALUATIONS_IN_A_ROW = 3  # in a row, for which a figure must hold
SWEEPS = 50  # of the evaluator
GAMMA = 0.1  # ours, of topics in a document
SAMPLERS = ("sgrhmc", "sgrld")
PAPER = {"sgld": 0.778, "sghmc": 0.815, "sgrld": 0.730, "sgrhmc": 0.806}  # its seconds per 100 documents


class Row(NamedTuple):
    """One line of the table; `figure` may be at most `bound`."""

    name: str
    figure: float
    bound: float | None = None

    @property
    def is_met(self) -> bool:
        return self.bound is None or self.figure <= self.bound

    def __str__(self) -> str:
        bound = "" if self.bound is None else f" of {self.bound:.3g}" + ("" if self.is_met else "   MISSED")
        return f"{self.name:<78}{self.figure:>9.3f}{bound}"


def articles() -> list[Path]:
    found = sorted(DATA.glob("enwiki-2014-articles-0*.jsonl.bz2"))
    if not found:
        sys.exit(f"benchmarks/lda.py: no articles in {DATA}: set ERGODICA_DATA to the folder that holds wikipedia/")
    return found


def vocabulary() -> Vocabulary:
    return Vocabulary.given(DATA / "vocab-8000.txt")


def read() -> Documents:
    """All articles as numbers of words."""
    return Documents.concatenate(list(Corpus(articles(), vocabulary(), batch_size=1_000, shuffle_buffer=1)))


class Evaluator:
    """Perplexity of held-out documents, the same for all."""

    def __init__(self, documents: Documents):
        self.documents = documents

    def __call__(self, phi: np.ndarray, *gammas: float) -> float:
        phi = np.ascontiguousarray(phi, np.float32)
        return min(HeldOut(self.documents, gamma, seed=1).evaluate(phi, SWEEPS)[0] for gamma in gammas)


class Reached(NamedTuple):
    """A perplexity after so many seconds of learning."""

    seconds: float
    perplexity: float

    def __str__(self) -> str:
        return f"{self.perplexity:,.0f} in {self.seconds:.1f} s"


# Peers ----------------------------------------------------------------------------------------------------------------


def gensim(documents: Documents, seed: int, evaluate: Evaluator) -> list[Reached]:
    """One pass with its defaults, and with those that are said to be good for online learning."""
    from gensim.models import LdaModel

    counted = [np.unique(document, return_counts=True) for document in documents]
    corpus = [list(zip(words.tolist(), counts.tolist(), strict=True)) for words, counts in counted]
    names = dict(enumerate(vocabulary().words))
    found = []
    for settings in ({}, {"chunksize": 256, "decay": 0.7, "offset": 64}):

        def learnt(settings: dict[str, Any] = settings) -> Any:  # eval_every: it would look at its own perplexity
            return LdaModel(corpus, TOPICS, id2word=names, random_state=seed, eval_every=None, **settings)

        seconds, model = timed(learnt)
        found.append(Reached(seconds, evaluate(model.get_topics().T, 1 / TOPICS, GAMMA)))
    return found


def scikit_learn(documents: Documents, seed: int, evaluate: Evaluator) -> Reached:
    """One pass, online."""
    from scipy.sparse import csr_matrix
    from sklearn.decomposition import LatentDirichletAllocation

    shape = (len(documents), len(vocabulary()))
    counts = csr_matrix((np.ones(documents.tokens), documents.words.copy(), documents.starts.copy()), shape)
    counts.sum_duplicates()
    # One process: with n_jobs=2 it took 1.8 times as long.
    model = LatentDirichletAllocation(TOPICS, learning_method="online", max_iter=1, random_state=seed)
    seconds, model = timed(lambda: model.fit(counts))
    phi = (model.components_ / model.components_.sum(1, keepdims=True)).T
    return Reached(seconds, evaluate(phi, 1 / TOPICS, GAMMA))


def tomotopy(documents: Documents, seed: int, evaluate: Evaluator) -> Reached:
    """So many iterations of collapsed Gibbs sampling."""
    import tomotopy as tp

    model = tp.LDAModel(k=TOPICS, seed=seed)
    for document in documents:
        model.add_doc([str(word) for word in document])
    model.train(0)  # gets ready
    seconds, _ = timed(lambda: model.train(ITERATIONS, workers=2))
    phi = np.full((len(vocabulary()), TOPICS), 1e-9)  # of the words that it has not seen
    for topic in range(TOPICS):
        phi[[int(word) for word in model.used_vocabs], topic] = model.get_topic_word_dist(topic)
    return Reached(seconds, evaluate(phi / phi.sum(0), 1 / TOPICS, GAMMA))


def timed(action: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = action()
    return time.perf_counter() - start, found


# Ours ----------------------------------------------------------------------------------------------------------------


def training_of(sampler: str, seed: int, preset: str = "tuned", topics: int = TOPICS, **own: Any) -> Training:
    parameters = LDA(topics, sampler, preset, seed, **own).get_params()
    return begin(settings_of(parameters), parameters, vocabulary())


def learn(training: Training, documents: Documents, size: float, first: int = 0) -> float:
    """Seconds."""
    start, step = time.perf_counter(), training.settings.batch_size
    for place in range(0, len(documents), step):
        part = documents.take(range(place, min(place + step, len(documents))))
        training.step(DocumentBatch(part, first + place, size))
    return time.perf_counter() - start


def curve(sampler: str, seed: int, documents: Documents, evaluate: Evaluator, goal: float) -> list[Reached]:
    """Seconds and perplexity at every evaluation, until it is as good as the goal or one pass is over."""
    training, seconds, evaluations = training_of(sampler, seed), 0.0, []
    learn(training_of(sampler, seed), documents.take(range(400)), len(documents))  # compiles
    for first in range(0, len(documents), EVALUATION_GAP):
        part = documents.take(range(first, min(first + EVALUATION_GAP, len(documents))))
        seconds += learn(training, part, len(documents), first)
        evaluations.append(Reached(seconds, evaluate(training.learner.phi, GAMMA)))
        if np.isfinite(time_to(goal, evaluations)):
            break
    return evaluations


def time_to(perplexity: float, evaluations: list[Reached]) -> float:
    """Seconds at the first of three evaluations in a row that are as good; infinite where there are none."""
    for place in range(len(evaluations) - EVALUATIONS_IN_A_ROW + 1):
        if all(evaluation.perplexity <= perplexity for evaluation in evaluations[place : place + EVALUATIONS_IN_A_ROW]):
            return evaluations[place].seconds
    return float("inf")


# Items ---------------------------------------------------------------------------------------------------------------


def against_peers(seeds: int) -> list[Row]:
    """Seconds to the perplexity of each peer, over the seconds that it took."""
    documents = read()
    ratios: dict[tuple[str, str], list[float]] = {}
    for seed in range(1, seeds + 1):
        order = np.random.default_rng(seed).permutation(len(documents))
        evaluate = Evaluator(documents.take(order[:HELD_OUT]))
        stream = documents.take(order[HELD_OUT:])
        some, fewer = stream.take(range(PEERS_DOCUMENTS)), stream.take(range(TOMOTOPY_DOCUMENTS))
        peers = {"gensim": min(gensim(some, seed, evaluate), key=lambda peer: peer.perplexity)}
        peers |= {"scikit-learn": scikit_learn(some, seed, evaluate), "tomotopy": tomotopy(fewer, seed, evaluate)}
        print(f"seed {seed}:", ", ".join(f"{name} {peer}" for name, peer in peers.items()), flush=True)
        for sampler in SAMPLERS:
            evaluations = curve(sampler, seed, stream, evaluate, min(peer.perplexity for peer in peers.values()))
            seconds = {name: time_to(peer.perplexity, evaluations) for name, peer in peers.items()}
            for name, peer in peers.items():
                ratios.setdefault((name, sampler), []).append(seconds[name] / peer.seconds)
            told = ", ".join(f"{name} after {value:.2f} s" for name, value in seconds.items())
            print(f"  {sampler} as good as {told}; {evaluations[-1]} at the end", flush=True)
    bounds = {"gensim": 1 / 3, "scikit-learn": 1 / 5, "tomotopy": 1.2}
    return [
        Row(f"{sampler}: seconds to the perplexity of {name}, of its seconds", float(np.median(found)), bounds[name])
        for (name, sampler), found in ratios.items()
    ]


def at_the_papers_settings(count: int = 3_000, blocks: int = 3) -> list[Row]:
    """Seconds per 100 documents, reading included; the samplers in turns."""
    seconds: dict[str, list[float]] = {sampler: [] for sampler in PAPER}
    for block in range(blocks + 1):
        for sampler in PAPER:
            with Corpus(articles(), vocabulary(), batch_size=50, shuffle_buffer=500) as corpus:
                training = training_of(sampler, block, "paper")
                first = corpus.next()
                training.step(DocumentBatch(first, 0, 3.3e6))  # compiles
                start, seen = time.perf_counter(), 0
                while seen < (count if block else 200):
                    part = corpus.next()
                    training.step(DocumentBatch(part, len(first) + seen, 3.3e6))
                    seen += len(part)
                if block:
                    seconds[sampler].append((time.perf_counter() - start) / seen * 100)
    found = {sampler: float(np.median(times)) for sampler, times in seconds.items()}
    rows = [
        Row(f"{sampler}: seconds per 100 documents at the paper's settings (paper: {PAPER[sampler]})", figure)
        for sampler, figure in found.items()
    ]
    return [
        *rows,
        Row("the slowest of the four samplers, of the fastest", max(found.values()) / min(found.values()), 1.15),
    ]


def growth() -> list[Row]:
    """Memory and time against documents, in a process of its own; time against topics."""
    with tempfile.TemporaryDirectory() as folder:
        answer = subprocess.run(
            [sys.executable, __file__, "--grow", folder], capture_output=True, text=True, check=True
        )
    evaluations = json.loads(answer.stdout.splitlines()[-1])
    early, late = evaluations[0], evaluations[-1]
    middle = evaluations[len(evaluations) // 2]
    per_document = [
        (b["seconds"] - a["seconds"]) / (b["documents"] - a["documents"]) for a, b in ((early, middle), (middle, late))
    ]
    return [
        Row(f"resident memory after {late['documents']:,} documents, of that after {early['documents']:,}",
            late["memory"] / early["memory"], 1.05),
        Row("seconds per document, second half of the stream, of the first", per_document[1] / per_document[0], 1.15),
        *by_topics(),
    ]  # fmt: skip


def grow() -> None:
    """Learns from the stream, and says in JSON how much memory and time it took by then."""
    evaluations: list[dict[str, float]] = []
    with Corpus(articles(), vocabulary(), batch_size=200, held_out=HELD_OUT) as corpus:
        training, start = training_of("sgrhmc", 0), time.perf_counter()
        for number, part in enumerate(corpus):
            training.step(DocumentBatch(part, corpus.given - len(part), 59_000))
            if number % 25 == 24 or training.documents >= 58_900:
                seconds = time.perf_counter() - start
                evaluations.append({"documents": training.documents, "seconds": seconds, "memory": resident()})
    print(json.dumps(evaluations))


def resident() -> float:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def by_topics(blocks: int = 5, count: int = 2_000) -> list[Row]:
    """A thousand topics against fifty, after so many documents that most topics are empty in a document."""
    documents = read().take(range(30_000))
    rows = []
    for name, own in (("tuned", {}), ("20 sweeps", {"sweeps": 20, "burn_in": 5})):
        trainings = {topics: training_of("sgrld", 0, topics=topics, **own) for topics in (50, 1_000)}
        for training in trainings.values():
            learn(training, documents.take(range(10_000)), 59_000)
        ratios = []
        for block in range(blocks):
            part = documents.take(range(10_000 + count * block, 10_000 + count * (block + 1)))
            few, many = (learn(trainings[topics], part, 59_000, 10_000 + count * block) for topics in (50, 1_000))
            ratios.append(many / few)
        rows.append(Row(f"seconds per document at K = 1000, of those at K = 50 ({name}, batch 200)",
                        float(np.median(ratios)), 8))  # fmt: skip
    return rows


ITEMS = {"perplexity": against_peers, "paper": at_the_papers_settings, "growth": growth}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("items", nargs="*", help=", ".join(ITEMS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--grow", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")  # of the peers
    if asked.grow:
        return grow()
    for item in asked.items:
        if item not in ITEMS:
            parser.error(f"there is no item {item!r}: there are {', '.join(ITEMS)}")
    rows = []
    for item in asked.items or ITEMS:
        print(f"== {item}", flush=True)
        made = ITEMS[item](asked.seeds) if item == "perplexity" else ITEMS[item]()
        for row in made:
            print(row, flush=True)
        rows += made
    if asked.json:
        asked.json.write_text(json.dumps([row._asdict() for row in rows], indent=1))
    sys.exit(0 if all(row.is_met for row in rows) else 1)


if __name__ == "__main__":
    main()
