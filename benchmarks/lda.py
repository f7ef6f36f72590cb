"""Topic models on real Wikipedia text, beside tomotopy, gensim and scikit-learn.

    python benchmarks/lda.py [ITEM...] [--seeds 5] [--cells 1000x50,9500x200] [--json FILE]

Items: cells (tomotopy), peers (gensim, scikit-learn), token, steps, coverage, memory; all of them if none is named.

Articles of ../shared/data/wikipedia (or ERGODICA_DATA), vocabulary of 8,000 words, two threads each. For 1,000 and
9,500 documents seed i reads file 03, 04 or 05 in turn, another order of it each time, the first 500 of it held out;
rates and priors were chosen on files 00 to 02, numbers of passes by the time they take. 59,500: all files but the first
500 articles of 03. One evaluator for all: document completion, every tenth word asked for, shares by 50 sweeps at the
prior that goes with the model. Ours is the averaged-count estimate, an average, and so is compared with the better of
tomotopy's last state and of its average. CPU seconds of all threads, of finding alone: compiled, without reading and
evaluations. NPMI is measured on articles that nobody learnt from. Exit code 1 if a bound is missed.
"""

import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("NUMBA_NUM_THREADS", "2")

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from functools import cache
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks import _lda_peers as lda_peers
from benchmarks._lda_coverage import coverage_rows
from ergodica.lda import LDA
from ergodica.lda.chains import Training, begin
from ergodica.lda.corpus import Corpus, Documents, Vocabulary
from ergodica.lda.gibbs import expectations
from ergodica.lda.learning import Learning
from ergodica.lda.perplexity import HeldOut
from ergodica.lda.settings import settings_of
from ergodica.lda.stream import DocumentBatch, DocumentStream
from ergodica.lda.topics import coherence, top_words

DATA = Path(os.environ.get("ERGODICA_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")) / "wikipedia"
HELD_OUT, WORDS, TOP = 500, 8_000, 10
# passes for a third of the time of 100 iterations, and for a fifth of 1,000 (300 for 59,500), by the time they take
QUICK = {1_000: 12, 9_500: 12, 59_500: 10}
FEW_TOPICS = {1_000: 9, 9_500: 11}  # the same for 20 topics
MANY_TOPICS = 5  # and for 1,000
LONG = {1_000: 60, 9_500: 60, 59_500: 25}
SLOW_CELL = 14  # for 59,500 x 200, which is compared with 200 iterations
CELLS = {
    "1000x20": 5, "1000x50": 5, "1000x200": 5, "9500x20": 5, "9500x50": 5, "9500x200": 5, "9500x1000": 1,
    "59500x50": 1, "59500x200": 1,
}  # fmt: skip


class Row(NamedTuple):
    """One line of the table; `figure` may be at most `bound`, or at least, where that is negative."""

    name: str
    figure: float
    bound: float | None = None

    @property
    def is_met(self) -> bool:
        return self.bound is None or (self.figure <= self.bound if self.bound >= 0 else self.figure >= -self.bound)

    def __str__(self) -> str:
        bound = "" if self.bound is None else f" of {self.bound:.4g}" + ("" if self.is_met else "   MISSED")
        return f"{self.name:<84}{self.figure:>9.3f}{bound}"


@cache
def vocabulary() -> Vocabulary:
    return Vocabulary.given(DATA / "vocab-8000.txt")


@cache
def articles(file: int) -> Documents:
    path = DATA / f"enwiki-2014-articles-0{file}.jsonl.bz2"
    if not path.exists():
        sys.exit(f"benchmarks/lda.py: there is no {path}: set ERGODICA_DATA to the folder that holds wikipedia/")
    return Documents.concatenate(list(Corpus(path, vocabulary(), batch_size=1_000, shuffle_buffer=1)))


def corpus(count: int, seed: int) -> tuple[Documents, Documents, Documents]:
    """(learnt from, held out, for NPMI)."""
    file = 3 + seed % 3
    own = articles(file)
    if count > len(own):
        others = [articles(number) for number in range(6) if number != 3]
        first = articles(3)
        everything = Documents.concatenate([*others, first.take(range(HELD_OUT, len(first)))])
        return everything.take(range(count)), first.take(range(HELD_OUT)), first.take(range(HELD_OUT))
    held = own.take(range(HELD_OUT))
    order = HELD_OUT + np.random.default_rng(seed).permutation(len(own) - HELD_OUT)[:count]
    return own.take(order), held, articles(3 + (seed + 1) % 3).take(range(2_000))


def perplexity(phi: np.ndarray, gamma: float | np.ndarray, held: Documents) -> float:
    prior = np.asarray(gamma, np.float32) if np.ndim(gamma) else float(gamma)
    return HeldOut(held, seed=1).evaluate(np.ascontiguousarray(phi, np.float32), prior)[0]


def npmi(phi: np.ndarray, documents: Documents) -> float:
    return float(coherence(top_words(phi, TOP), [documents], len(phi)).npmi.mean())


class Found(NamedTuple):
    """Ours."""

    phi: np.ndarray
    gamma: np.ndarray
    cpu: float


def find(documents: Documents, topics: int, seed: int, passes: tuple[int, ...]) -> list[Found]:
    """The estimate after each of these numbers of passes."""
    parameters = LDA(topics, seed=seed, passes=passes[-1], progress=False).get_params()
    settings, marks = settings_of(parameters), list(passes)
    training = begin(settings, parameters, vocabulary())
    stream = DocumentStream(
        documents, vocabulary(), held_out=0, batch_size=None, passes=None, size=None, seed=seed, stored=True
    )
    cpu, found = 0.0, []
    while marks:
        begun = time.process_time()
        batch = stream.next()
        assert batch is not None
        training.step(batch, stream.store)
        cpu += time.process_time() - begun
        if stream.documents >= marks[0] * len(documents):
            marks.pop(0)
            found.append(Found(training.phi, np.asarray(training.gamma), cpu))
    stream.close()
    return found


def cell(name: str, seeds: int) -> list[Row]:
    count, topics = (int(number) for number in name.split("x"))
    marks = (100, 1_000) if count <= 9_500 else (100, 300) if topics == 50 else (100, 200)
    marks = (100, 200) if topics == 1_000 else marks
    find(corpus(count, 0)[0].take(range(300)), topics, 0, (2,))  # compiles
    ratios: dict[str, list[float]] = {}
    for seed in range(seeds):
        documents, held, others = corpus(count, seed)
        quick = MANY_TOPICS if topics == 1_000 else FEW_TOPICS[count] if topics == 20 else QUICK[count]
        long = 2 * MANY_TOPICS if topics == 1_000 else SLOW_CELL if name == "59500x200" else LONG[count]
        ours = find(documents, topics, seed, (quick, long))
        mine = [(perplexity(one.phi, one.gamma, held), one.cpu, npmi(one.phi, others)) for one in ours]
        peers: dict[int, list[tuple[float, float, float]]] = {mark: [] for mark in marks}
        for eta in (0.01, 0.05):
            for mark, peer in zip(marks, lda_peers.tomotopy(documents, WORDS, topics, eta, seed, marks), strict=True):
                best = min(perplexity(phi, peer.gamma, held) for phi in (peer.single, peer.mean))
                peers[mark].append((best, peer.cpu, npmi(peer.mean, others)))
        best = {mark: min(rows) for mark, rows in peers.items()}  # the better eta
        told = "; ".join(f"{mark}: {p:,.0f} in {cpu:.2f} s, NPMI {n:.3f}" for mark, (p, cpu, n) in best.items())
        own = "; ".join(f"{p:,.0f} in {cpu:.2f} s, NPMI {n:.3f}" for p, cpu, n in mine)
        print(f"{name} seed {seed}: ours {own}; tomotopy {told}", flush=True)
        for label, mark, (p, cpu, n) in zip(("quick", "long"), (marks[0], marks[-1]), mine, strict=True):
            theirs = best[mark]
            ratios.setdefault(f"{label} {mark} perplexity", []).append(p / theirs[0])
            ratios.setdefault(f"{label} {mark} CPU", []).append(cpu / theirs[1])
            ratios.setdefault(f"{label} {mark} NPMI", []).append(n - theirs[2])
    return [_row(name, what, float(np.mean(values))) for what, values in ratios.items()]


def _row(name: str, what: str, figure: float) -> Row:
    label, mark, kind = what.split()
    bounds = {
        "perplexity": 1.0 if label == "quick" else 1.005,
        "CPU": 1 / 3 if label == "quick" else 1 / 5,
        "NPMI": None,
    }
    if label == "quick" and name == "1000x200":
        bounds |= {"perplexity": 1.01, "CPU": 1.0}
    if kind == "NPMI":
        return Row(f"{name} {label}: NPMI less that of tomotopy's {mark} iterations", figure)
    return Row(f"{name} {label}: {kind} of that of tomotopy's {mark} iterations", figure, bounds[kind])


def cells(seeds: int, names: list[str]) -> list[Row]:
    return [row for name in names for row in cell(name, min(seeds, CELLS[name]))]


def peers(seeds: int, names: list[str]) -> list[Row]:
    """gensim and scikit-learn, K <= 50: better, in at most a fifth of the time."""
    rows = []
    for name in names:
        count, topics = (int(number) for number in name.split("x"))
        if topics > 50 or count > 9_500:
            continue
        find(corpus(count, 0)[0].take(range(300)), topics, 0, (2,))
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(min(seeds, 2)):
            documents, held, _ = corpus(count, seed)
            (ours,) = find(documents, topics, seed, (QUICK[count] // 2,))
            mine = perplexity(ours.phi, ours.gamma, held)
            for learn in (lda_peers.gensim, lda_peers.scikit_learn):
                peer = learn(documents, WORDS, topics, seed)
                theirs = min(perplexity(peer.single, gamma, held) for gamma in (peer.gamma, 0.1))
                print(
                    f"{name}: ours {mine:,.0f} in {ours.cpu:.2f} s, {peer.name} {theirs:,.0f} in {peer.cpu:.2f} s",
                    flush=True,
                )
                found.setdefault(peer.name, []).append((mine / theirs, ours.cpu / peer.cpu))
        for peer_name, values in found.items():
            better, faster = np.mean(values, axis=0)
            rows += [Row(f"{name}: perplexity of that of {peer_name}", better, 1.0)]
            rows += [Row(f"{name}: CPU of that of {peer_name}", faster, 0.2)]
    return rows


def token(seeds: int, names: list[str]) -> list[Row]:
    """A token and sweep at K = 1,000, topics carried on, as in finding by the sparse kernel; tomotopy's beside it."""
    import tomotopy as tp

    documents, _, _ = corpus(9_500, 0)
    model = tp.LDAModel(k=1_000, eta=0.05, alpha=0.1, seed=1)
    for document in documents:
        model.add_doc([str(word) for word in document])
    model.train(30, workers=2)
    known = np.array([int(word) for word in model.used_vocabs])
    phi = lda_peers._smoothed(model, known, WORDS, 1_000, 0.05).astype(np.float32)
    phi /= phi.sum(0)
    gamma = np.asarray(model.alpha, np.float32)
    topics = np.zeros(documents.tokens, np.uint16)
    ratios = []
    for turn in range(4):
        begun = time.process_time()
        model.train(5, workers=2)
        theirs = (time.process_time() - begun) / 5
        begun = time.process_time()
        for first in range(0, len(documents), 200):
            part = documents.take(range(first, min(first + 200, len(documents))))
            at = slice(int(documents.starts[first]), int(documents.starts[min(first + 200, len(documents))]))
            own = topics[at].copy()
            expectations(phi, part, gamma, sweeps=2, burn_in=0, seed=0, visit=first, want="counts", topics=own,
                         start="given" if turn else "phi")  # fmt: skip
            topics[at] = own
        if turn:
            ratios.append((time.process_time() - begun) / 2 / theirs)
    return [Row("CPU of a token and sweep at K = 1,000, of tomotopy's", float(np.median(ratios)), 1.0)]


def steps(seeds: int, names: list[str]) -> list[Row]:
    """A step of SCIR beside SGRLD's, batch 200, K = 50, V = 8,000, in turns."""
    documents = articles(0)

    def training(sampler: str) -> Training:
        parameters = LDA(50, sampler, progress=False).get_params()
        return begin(settings_of(parameters), parameters, vocabulary())

    pair, ratios = [training("scir"), training("sgrld")], []
    for number in range(40):
        part = DocumentBatch(documents.take(range(200 * number, 200 * number + 200)), 200 * number, 9_500)
        cpu = []
        for one in pair if number % 2 else pair[::-1]:
            begun = time.process_time()
            one.step(part)
            cpu.append(time.process_time() - begun)
        if number >= 4:
            ratios.append(cpu[0] / cpu[1] if number % 2 else cpu[1] / cpu[0])
    return [Row("CPU of a step of SCIR, of SGRLD's", float(np.median(ratios)), 2.0)]


def coverage(seeds: int, names: list[str]) -> list[Row]:
    return [Row(*row) for row in coverage_rows(2 * seeds)]


def memory(seeds: int, names: list[str]) -> list[Row]:
    answer = subprocess.run([sys.executable, __file__, "--grow"], capture_output=True, text=True, check=True)
    early, late = json.loads(answer.stdout.splitlines()[-1])
    return [Row("resident memory at 59,500 documents, of that at 5,000", late / early, 1.05)]


def grow() -> None:
    """Reads and learns from all articles, and says in JSON how much memory it took after 5,000 and at the end."""
    files = [DATA / f"enwiki-2014-articles-0{number}.jsonl.bz2" for number in range(6)]
    parameters = LDA(50, progress=False).get_params()
    training = begin(settings_of(parameters), parameters, vocabulary())
    stream = DocumentStream(
        files, vocabulary(), held_out=500, batch_size=None, passes=None, size=None, seed=0, stored=True, topics=50
    )
    work, sizes = Learning(training, stream, {}), []
    for mark in (5_000, 59_500, 119_000):
        while training.documents < mark:
            work.advance(1, 0)
        sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize())
    print(json.dumps([sizes[0], max(sizes[1:])]))


ITEMS = {"cells": cells, "peers": peers, "token": token, "steps": steps, "coverage": coverage, "memory": memory}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("items", nargs="*", help=", ".join(ITEMS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--grow", action="store_true", help=argparse.SUPPRESS)
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
        for row in ITEMS[item](asked.seeds, asked.cells.split(",")):
            print(row, flush=True)
            rows.append(row)
    if asked.json:
        asked.json.write_text(json.dumps([row._asdict() for row in rows], indent=1))
    sys.exit(0 if all(row.is_met for row in rows) else 1)


if __name__ == "__main__":
    main()
