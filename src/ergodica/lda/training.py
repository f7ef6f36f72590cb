"""Learning from a stream: a step for every batch, looks at held-out documents, draws kept, checkpoints by the clock."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ergodica.driver.loop import now
from ergodica.errors import NonFiniteError
from ergodica.host.signals import Interrupts, noted_interrupts
from ergodica.lda.checkpoints import Checkpoints, Saved
from ergodica.lda.corpus import Documents, Vocabulary
from ergodica.lda.draws import Draws
from ergodica.lda.expanded_mean import ExpandedMean
from ergodica.lda.learner import Learner
from ergodica.lda.noise import Noise, noise_of
from ergodica.lda.perplexity import HeldOut
from ergodica.lda.progress import progress_line
from ergodica.lda.settings import Settings
from ergodica.lda.stream import Batch, Stream

FIRST_LOOK = 1_000  # documents before the first look at the held-out ones
LATER = 1.3  # a look comes when this many times the documents of the last one were seen,
APART = 4  # and at least this many times the number held out: looking takes a tenth to a fifth of the time
LOOK_SWEEPS = 30  # of the looks; figures that are reported take more
FINDING = 0.2  # of the documents, for finding the topics, where the steps are made small after that
LONG = 250_000  # documents, where their number is not known
MARGIN = 0.5  # the ratio of noises is measured, and it changes a little from one place to another
SAMPLED = 1_000  # documents whose shares are reported at the end


class Row(NamedTuple):
    """A look at the held-out documents. `seconds`: of learning, without the looks."""

    documents: int
    seconds: float
    single: float
    averaged: float


class Training:
    """All that changes while a model learns."""

    def __init__(self, learner: Learner, settings: Settings):
        theta = learner.theta
        self.learner, self.settings = learner, settings
        self.draws = Draws(settings.draws, theta.shape)
        self.counts = np.zeros(len(theta), np.int64)
        self.documents = 0
        self.size: float = 0  # S, at the last step
        self.sample = Documents.of([])
        self.held_out: HeldOut | None = None
        self.history: list[Row] = []
        self.seconds = {"learning": 0.0, "evaluating": 0.0}

    def hold_out(self, documents: Documents) -> None:
        """Documents to be looked at while learning, and reported at the end."""
        if len(documents):
            self.held_out = HeldOut(documents, self.learner.model.gamma, visit_seed(self.learner.seed, "held out"))
            self.sample = documents.take(range(min(SAMPLED, len(documents))))

    def step(self, batch: Batch) -> None:
        self.learner.step(batch)
        if self.held_out is None and self.documents < min(SAMPLED, batch.size):  # each once, if they are that few
            missing = min(SAMPLED - self.documents, len(batch.documents))
            self.sample = Documents.concatenate([self.sample, batch.documents.take(range(missing))])
        self.counts += np.bincount(batch.documents.words, minlength=len(self.counts))
        self.documents += len(batch.documents)
        self.size = batch.size
        if self.draws.is_due(self.learner.steps):
            self.draws.add(self.learner.steps, self.learner.phi)

    def noise(self) -> Noise | None:
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
        if self.documents >= FINDING * (total or LONG):
            noise, scheduled = self.noise(), learner.step_size(learner.steps)
            learner.fixed_size = scheduled if noise is None else min(noise.step_size(MARGIN * wanted), scheduled)

    def is_look_due(self) -> bool:
        if self.held_out is None or not self.history:
            return self.held_out is not None and self.documents >= FIRST_LOOK
        last = self.history[-1].documents
        return self.documents >= max(LATER * last, last + APART * len(self.held_out.documents))

    def look(self) -> None:
        """At the held-out documents, unless that was done at this very place."""
        if self.held_out is None or (self.history and self.history[-1].documents == self.documents):
            return
        begin = now()
        figures = self.held_out.evaluate(self.learner.phi, LOOK_SWEEPS)
        self.history.append(Row(self.documents, self.seconds["learning"], *figures))
        self.seconds["evaluating"] += now() - begin

    def saved(self, cursor: Any) -> Saved:
        """For a checkpoint; nothing in it changes later."""
        arrays = self.learner.saved() | {"counts": self.counts.copy()}
        arrays |= {"sample_starts": self.sample.starts, "sample_words": self.sample.words}
        looks = 0
        if self.held_out is not None:
            arrays["total"], looks = self.held_out.total.copy(), self.held_out.evaluations
        plain = {
            "cursor": cursor, "documents": self.documents, "size": self.size, "seconds": dict(self.seconds),
            "every": self.draws.every, "history": [list(row) for row in self.history], "looks": looks,
            "fixed_size": self.learner.fixed_size,
        }  # fmt: skip
        return Saved(arrays, plain, dict(self.draws.held))

    def restore(self, saved: Saved) -> None:
        arrays, plain = saved.arrays, saved.plain
        self.learner.restore(arrays)
        self.learner.fixed_size = plain["fixed_size"]
        self.counts, self.documents = arrays["counts"].copy(), int(plain["documents"])
        self.size = plain["size"]
        self.sample = Documents(arrays["sample_starts"], arrays["sample_words"])
        self.seconds = dict(plain["seconds"])
        self.history = [Row(int(row[0]), *row[1:]) for row in plain["history"]]
        self.draws.restore(int(plain["every"]), saved.draws)
        if self.held_out is not None and "total" in arrays:
            self.held_out.total, self.held_out.evaluations = arrays["total"].copy(), int(plain["looks"])


def begin(settings: Settings, parameters: dict[str, Any], vocabulary: Vocabulary) -> Training:
    """A model that has seen nothing."""
    model = ExpandedMean(
        words=len(vocabulary), topics=parameters["topics"], size=1, alpha=settings.alpha, gamma=settings.gamma,
        sweeps=settings.sweeps, burn_in=settings.burn_in, estimator=settings.estimator, start=settings.start,
        floor=settings.floor,
    )  # fmt: skip
    method = settings.method(settings.sampler)
    return Training(Learner(model, method, settings.schedule(), parameters["seed"], settings.evenness), settings)


def visit_seed(seed: int, purpose: str) -> int:
    """A seed for other random numbers than those of learning."""
    return int(np.random.SeedSequence([seed, *purpose.encode()]).generate_state(1, np.uint64)[0])


def learn(
    training: Training, stream: Stream, identity: dict[str, Any], folder: Path | None = None, show: bool = True
) -> NonFiniteError | None:
    """To the end of the stream, or to where the topics would leave the finite numbers: the error says where.

    Args:
        identity: what the run is made of; it goes into checkpoints.
        folder: where checkpoints go; None: there are none.
    """
    with _saving(folder) as (interrupts, checkpoints), progress_line(show, training.documents) as tell:

        def saved() -> Saved:
            found = training.saved(stream.corpus.cursor)
            return found._replace(plain=found.plain | {"identity": identity})

        try:
            while _one_batch(training, stream):
                tell(
                    training.documents,
                    stream.expected_total(),
                    training.history[-1].single if training.history else None,
                )
                if checkpoints is not None:
                    checkpoints.save_if_due(saved, is_urgent=interrupts.received is not None)
                if interrupts.received is not None:
                    interrupts.stop(f"the batch is finished and saved; {interrupts.advice}")
            if checkpoints is not None:
                checkpoints.save_if_none(saved)
        except NonFiniteError as error:
            return error
        finally:
            if checkpoints is not None:
                checkpoints.close()
        training.look()
    return None


def _one_batch(training: Training, stream: Stream) -> bool:
    begin = now()
    batch = stream.next()
    if batch is not None:
        training.step(batch)
        training.calm(stream.expected_total())
    training.seconds["learning"] += now() - begin
    if training.is_look_due():
        training.look()
    return batch is not None


@contextmanager
def _saving(folder: Path | None) -> Iterator[tuple[Interrupts, Checkpoints | None]]:
    advice = (
        None if folder is None else f"the same with --resume (Python: resume=True) goes on from what {folder} holds"
    )
    with noted_interrupts(advice) as interrupts:
        yield interrupts, None if folder is None else Checkpoints(folder)
