"""Learning from a stream to the end of both phases: how the loop of ergodica/driver/loop.py drives a `Training`."""

import math
from pathlib import Path
from typing import Any

from ergodica.driver.checkpoint import Checkpoint, Snapshot
from ergodica.driver.loop import Pace, now, run_loop
from ergodica.errors import NonFiniteError
from ergodica.host.signals import noted_interrupts
from ergodica.lda.chains import CONVERGED_GAIN, FINDING, FIRST_EVALUATION, SAMPLING, Training
from ergodica.lda.stream import DocumentStream

FEWEST_PASSES = 2  # over the corpus before topics may be called found
ENOUGH_EFFECTIVE = 200  # effective draws at which sampling ends,
LEAST_EFFECTIVE = 0.25  # and at least this share of them for the topic that has fewest,
EFFECTIVE_SHARE = 0.5  # or this share of the draws kept, where memory allows fewer
MOST_BAND_PASSES = 4_000  # over the corpus while sampling
# before topics may be called found: at first all are similar, and perplexity may stand still; where the rate no longer
# falls (finding.LEAST_RATE_FROM) it may rise for a while
FEWEST_STEPS = 1_200
MOST_UNJUDGED = 50  # passes, where no document is long enough to judge by


class Learning:
    """What the driver's loop drives (`Work` in driver/loop.py): a batch for every step, to the end of both phases.

    Args:
        identity: what the run is made of; it goes into checkpoints.
    """

    unit = "documents"
    total: int | None = None  # only the stream knows its end

    def __init__(self, training: Training, stream: DocumentStream, identity: dict[str, Any]):
        self.training, self.stream, self.identity = training, stream, identity

    @property
    def label(self) -> str:
        return "finding topics" if self.training.phase == FINDING else "sampling"

    @property
    def step(self) -> int:
        return self.training.steps

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
        more = {"identity": self.identity, "step": self.step, "cursor": self.stream.cursor}
        store = {} if self.stream.store is None else self.stream.store.saved()
        return found._replace(arrays=found.arrays | store, record=found.record | more)

    def reached(self) -> tuple[int, int | None, str]:
        training = self.training
        note = f"perplexity {training.history[-1].single:,.0f}" if training.history else ""
        if training.phase == SAMPLING and training.finder is not None:
            note = f"sampling, {len(training.draws.held)} draws"
        return training.documents, self.stream.expected_total(), note

    def where(self) -> str:
        return f"stopped after {self.training.documents:,} documents, the batch is finished and saved"

    def _learn_batch(self) -> bool:
        training, begin = self.training, now()
        if training.finder is not None and training.phase == FINDING and self._is_found():
            # a chain needs all documents, and time
            if not training.settings.samples or self._is_late() or not self.stream.is_read:
                return False
            training.begin_sampling(self.stream)
        elif training.finder is not None and training.phase == SAMPLING:
            if not training.is_frozen and training.documents - training.sampled_from >= self.stream.stored_count:
                training.settle(self.stream)
            if self._is_sampled():
                return False
        batch = self.stream.next()
        if batch is not None:
            training.step(batch, self.stream.store)
        training.seconds["learning"] += now() - begin
        if training.is_evaluation_due():
            training.evaluate()
        return batch is not None

    def _is_late(self) -> bool:
        minutes = self.training.settings.minutes
        return minutes is not None and sum(self.training.seconds.values()) >= 60 * minutes

    def _is_found(self) -> bool:
        """Whether finding is over: by the passes asked for, else where perplexity no longer falls."""
        training, stream, passes = self.training, self.stream, self.training.settings.passes
        if not stream.is_read or self._is_late():
            return self._is_late() and training.steps > 0
        if passes is not None:
            return stream.documents >= passes * stream.stored_count
        if training.history and training.history[-1].documents != training.documents:
            return False  # judged at evaluations alone
        if not training.history and stream.lap >= MOST_UNJUDGED:
            return training.documents >= FIRST_EVALUATION
        is_young = stream.lap < FEWEST_PASSES or training.steps < FEWEST_STEPS
        return not is_young and training.gain() < CONVERGED_GAIN and training.is_best(stream)

    def _is_sampled(self) -> bool:
        """Whether there are draws enough."""
        training, store = self.training, self.stream.store
        sampled = training.documents - training.sampled_from
        if self._is_late() or (store is not None and sampled >= MOST_BAND_PASSES * len(store)):
            return True
        if training.settings.minutes is not None or not training.is_frozen or not _is_look(training.learner.steps):
            return False
        wanted, found = min(ENOUGH_EFFECTIVE, EFFECTIVE_SHARE * training.draws.wanted), training.effective()
        return found.median >= wanted and found.least >= LEAST_EFFECTIVE * wanted


def _is_look(step: int) -> bool:
    """Whether effective draws are counted at this step: they grow by a quarter in between, in a resumed run too.

    >>> [step for step in range(1, 30) if _is_look(step)]
    [2, 3, 4, 5, 6, 8, 10, 12, 15, 19, 23, 29]
    """
    return step > 1 and int(math.log(step, 1.25)) != int(math.log(step - 1, 1.25))


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
    if not (work.training.settings.finds and work.training.phase == SAMPLING):
        work.training.evaluate()
    return None
