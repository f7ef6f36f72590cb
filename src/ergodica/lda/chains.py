"""Learning from a stream: a step of the chain for every batch, evaluations on held-out documents, and the draws kept.

`Training` is all that changes while a model learns, `Learning` how the loop of ergodica/driver/loop.py drives it; the
chain itself is learner.py's.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ergodica.driver.checkpoint import Checkpoint, Saved, Snapshot
from ergodica.driver.loop import Pace, now, run_loop
from ergodica.errors import NonFiniteError
from ergodica.host.signals import noted_interrupts
from ergodica.lda.corpus import Documents, Vocabulary
from ergodica.lda.expanded_mean import ExpandedMean
from ergodica.lda.learner import learner_of
from ergodica.lda.noise import StepNoise, noise_of
from ergodica.lda.perplexity import HeldOut, HistoryRow
from ergodica.lda.run_files import TopicDrawFiles
from ergodica.lda.settings import TopicSettings
from ergodica.lda.steps import TopicChain
from ergodica.lda.stream import DocumentBatch, DocumentStream

DRAW_BYTES = 200 << 20  # of all draws held at a time
FIRST_EVALUATION = 1_000  # documents before the first evaluation on the held-out ones
EVALUATION_GROWTH = 1.3  # an evaluation comes when this many times the documents of the last one were seen,
EVALUATION_GAP = 4  # and at least this many times the number held out: they take a tenth to a fifth of the time
EVALUATION_SWEEPS = 30  # figures that are reported take more
FINDING_SHARE = 0.2  # of the documents, for finding the topics, where the steps are made small after that
LONG_STREAM = 250_000  # documents, where their number is not known
NOISE_MARGIN = 0.5  # the ratio of noises is measured, and it changes a little from one place to another
SAMPLE_DOCUMENTS = 1_000  # whose shares are reported at the end


class KeptDraws:
    """The topics after some of the steps: spread evenly over the second half of the run, however long it gets.

    After step t those of the multiples of `every` in [t/2, t] are held. When there are more than twice the number
    wanted, `every` is doubled: which are held depends on t alone. The memory of all that will be held is taken at the
    start: a run that fits then fits to its end.

    >>> draws = KeptDraws(2, (1, 1))
    >>> for step in range(1, 101):
    ...     if draws.is_due(step):
    ...         draws.add(step, np.zeros((1, 1), np.float32))
    >>> sorted(draws.held), draws.every
    ([48, 64, 80, 96], 16)
    """

    def __init__(self, wanted: int, shape: tuple[int, int]):
        self.wanted = max(1, min(wanted, DRAW_BYTES // (2 * 4 * shape[0] * shape[1])))
        self.every = 1
        self.held: dict[int, np.ndarray] = {}
        self._shape = shape
        self._spare: list[np.ndarray] = []
        self._make_spare()

    def is_due(self, step: int) -> bool:
        return step % self.every == 0

    def add(self, step: int, phi: np.ndarray) -> None:
        self.held[step] = self._spare.pop()
        np.copyto(self.held[step], phi)
        self._forget(step)
        while len(self.held) > 2 * self.wanted:
            self.every *= 2
            self._forget(step)
        self._make_spare()

    def restore(self, every: int, held: dict[int, np.ndarray]) -> None:
        self.every, self.held = every, dict(held)
        self._spare.clear()
        self._make_spare()

    def _make_spare(self) -> None:
        # New ones, as a checkpoint may be writing those that were forgotten; ones, as zeros would take no memory yet.
        while len(self._spare) + len(self.held) < 2 * self.wanted + 1:
            self._spare.append(np.ones(self._shape, np.float32))

    def _forget(self, step: int) -> None:
        self.held = {at: phi for at, phi in self.held.items() if 2 * at >= step and at % self.every == 0}

    def chosen(self, step: int) -> dict[int, np.ndarray]:
        """As many as were wanted, or fewer, of the second half of a run of `step` steps."""
        steps = [at for at in self.held if 2 * at >= step]
        places = np.unique(np.linspace(0, len(steps) - 1, min(self.wanted, len(steps))).round().astype(int))
        return {steps[place]: self.held[steps[place]] for place in places}


class Training:
    """All that changes while a model learns."""

    def __init__(self, learner: TopicChain, settings: TopicSettings):
        theta = learner.theta
        self.learner, self.settings = learner, settings
        self.draws = KeptDraws(settings.draws, theta.shape)
        self.counts = np.zeros(len(theta), np.int64)
        self.documents = 0
        self.size: float = 0  # S, at the last step
        self.sample = Documents.of([])
        self.held_out: HeldOut | None = None
        self.history: list[HistoryRow] = []
        self.seconds = {"learning": 0.0, "evaluating": 0.0}
        self._written: dict[int, str] = {}  # the SHA-256 of draws that are beside a checkpoint already

    def hold_out(self, documents: Documents) -> None:
        """Documents to be evaluated while learning, and reported at the end."""
        if len(documents):
            self.held_out = HeldOut(documents, self.learner.model.gamma, visit_seed(self.learner.seed, "held out"))
            self.sample = documents.take(range(min(SAMPLE_DOCUMENTS, len(documents))))

    def step(self, batch: DocumentBatch) -> None:
        self.learner.step(batch)
        # each once, if they are that few
        if self.held_out is None and self.documents < min(SAMPLE_DOCUMENTS, batch.size):
            missing = min(SAMPLE_DOCUMENTS - self.documents, len(batch.documents))
            self.sample = Documents.concatenate([self.sample, batch.documents.take(range(missing))])
        self.counts += np.bincount(batch.documents.words, minlength=len(self.counts))
        self.documents += len(batch.documents)
        self.size = batch.size
        if self.draws.is_due(self.learner.steps):
            self.draws.add(self.learner.steps, self.learner.phi)

    def noise(self) -> StepNoise | None:
        """At the topics as they are, from the sample documents; None where there are too few."""
        if len(self.sample) < 2:
            return None
        model, learner = replace(self.learner.model, size=self.size), self.learner
        return noise_of(
            model, learner.recipe, learner.theta, self.sample, batch_size=self.settings.batch_size,
            seed=visit_seed(learner.seed, "noise"), visit=self.documents,
        )  # fmt: skip

    def calm(self, total: int | None) -> None:
        """Once the topics are found, make the step so small that gradient noise is what the settings ask for.

        Args:
            total: the documents of the run, as far as they are known.
        """
        wanted, learner = self.settings.noise, self.learner
        if wanted is None or learner.fixed_size is not None:
            return
        if self.documents >= FINDING_SHARE * (total or LONG_STREAM):
            noise, scheduled = self.noise(), learner.step_size(learner.steps)
            learner.fixed_size = scheduled if noise is None else min(noise.step_size(NOISE_MARGIN * wanted), scheduled)

    def is_evaluation_due(self) -> bool:
        if self.held_out is None or not self.history:
            return self.held_out is not None and self.documents >= FIRST_EVALUATION
        last = self.history[-1].documents
        return self.documents >= max(EVALUATION_GROWTH * last, last + EVALUATION_GAP * len(self.held_out.documents))

    def evaluate(self) -> None:
        """On the held-out documents, unless that was done at this very place."""
        if self.held_out is None or (self.history and self.history[-1].documents == self.documents):
            return
        begin = now()
        figures = self.held_out.evaluate(self.learner.phi, EVALUATION_SWEEPS)
        self.history.append(HistoryRow(self.documents, self.seconds["learning"], *figures))
        self.seconds["evaluating"] += now() - begin

    def snapshot(self) -> Snapshot:
        """For a checkpoint; nothing in it changes later."""
        arrays = self.learner.saved() | {"counts": self.counts.copy()}
        arrays |= {"sample_starts": self.sample.starts, "sample_words": self.sample.words}
        evaluations = 0
        if self.held_out is not None:
            arrays["total"], evaluations = self.held_out.total.copy(), self.held_out.evaluations
        record = {
            "documents": self.documents, "size": self.size, "seconds": dict(self.seconds), "every": self.draws.every,
            "history": [list(row) for row in self.history], "evaluations": evaluations,
            "fixed_size": self.learner.fixed_size,
        }  # fmt: skip
        return Snapshot(arrays, record, TopicDrawFiles(dict(self.draws.held), self._written))

    def restore(self, saved: Saved, draws: dict[int, np.ndarray]) -> None:
        arrays, record = saved.arrays, saved.record
        self.learner.restore(arrays)
        self.learner.fixed_size = record["fixed_size"]
        self.counts, self.documents = arrays["counts"].copy(), int(record["documents"])
        self.size = record["size"]
        self.sample = Documents(arrays["sample_starts"], arrays["sample_words"])
        self.seconds = dict(record["seconds"])
        self.history = [HistoryRow(int(row[0]), *row[1:]) for row in record["history"]]
        self.draws.restore(int(record["every"]), draws)
        if self.held_out is not None and "total" in arrays:
            self.held_out.total, self.held_out.evaluations = arrays["total"].copy(), int(record["evaluations"])


def begin(settings: TopicSettings, parameters: dict[str, Any], vocabulary: Vocabulary) -> Training:
    """A model that has seen nothing."""
    model = ExpandedMean(
        words=len(vocabulary), topics=parameters["topics"], size=1, alpha=settings.alpha, gamma=settings.gamma,
        sweeps=settings.sweeps, burn_in=settings.burn_in, estimator=settings.estimator, start=settings.start,
        floor=settings.floor,
    )  # fmt: skip
    return Training(learner_of(model, settings.sampler, settings, parameters["seed"]), settings)


def visit_seed(seed: int, purpose: str) -> int:
    """A seed for other random numbers than those of learning."""
    return int(np.random.SeedSequence([seed, *purpose.encode()]).generate_state(1, np.uint64)[0])


class Learning:
    """What the driver's loop drives (`Work` in driver/loop.py): a batch for every step, to the end of the stream.

    Args:
        identity: what the run is made of; it goes into checkpoints.
    """

    label, unit = "learning", "documents"
    total: int | None = None  # only the stream knows its end

    def __init__(self, training: Training, stream: DocumentStream, identity: dict[str, Any]):
        self.training, self.stream, self.identity = training, stream, identity

    @property
    def step(self) -> int:
        return self.training.learner.steps

    def advance(self, count: int, following: int) -> bool:
        return all(self._learn_batch() for _ in range(count))

    def keep(self) -> None:
        """Nothing: the draws kept are in memory, and beside a checkpoint."""

    def must_save(self) -> bool:
        return False

    def announce(self) -> None:
        """Nothing: topics that are not finite end the run at once."""

    def snapshot(self) -> Snapshot:
        found = self.training.snapshot()
        more = {"identity": self.identity, "step": self.step, "cursor": self.stream.corpus.cursor}
        return found._replace(record=found.record | more)

    def reached(self) -> tuple[int, int | None, str]:
        history = self.training.history
        note = f"perplexity {history[-1].single:,.0f}" if history else ""
        return self.training.documents, self.stream.expected_total(), note

    def where(self) -> str:
        return f"stopped after {self.training.documents:,} documents, the batch is finished and saved"

    def _learn_batch(self) -> bool:
        training, begin = self.training, now()
        batch = self.stream.next()
        if batch is not None:
            training.step(batch)
            training.calm(self.stream.expected_total())
        training.seconds["learning"] += now() - begin
        if training.is_evaluation_due():
            training.evaluate()
        return batch is not None


def learn(work: Learning, folder: Path | None = None, show: bool = True) -> NonFiniteError | None:
    """To the end of the stream, or to where the topics would become non-finite: the error says where.

    Args:
        folder: where checkpoints go; None: there are none.
    """
    checkpoint = None if folder is None else Checkpoint(folder)
    try:
        if checkpoint is not None and not work.step:
            # draws never lie there without a checkpoint: whoever finds that knows that something is missing
            with checkpoint.advising():
                checkpoint.save(work.snapshot(), wait=True)
        with noted_interrupts(None if checkpoint is None else checkpoint.how_to_resume()) as interrupts:
            run_loop(work, Pace(1, None), checkpoint, interrupts, show)
    except NonFiniteError as error:
        return error
    finally:
        if checkpoint is not None:
            checkpoint.close()
    work.training.evaluate()
    return None
