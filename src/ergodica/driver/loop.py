"""The loop: some steps, then a look up; for the chains of `eg.sample`, and for topic models that learn from a stream.

What happens between two stretches of steps is decided in one place, `Decisions`: how many steps come next, whether to
write a checkpoint, whether to stop. The work itself decides nothing, so that with several processes one of them can
decide for all.
"""

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ergodica.host.progress import counting

if TYPE_CHECKING:
    from ergodica.driver.checkpoint import Checkpoint, Snapshot
    from ergodica.host.signals import Interrupts

STRETCH_SECONDS = 1.5
FIRST_COUNTS = (2, 2, 16)  # the first stretch compiles, the second is measured, the third is announced before that
REMEMBERED_RATES = 256  # programs whose speed is known from earlier runs in this process


class Work(Protocol):
    """What the loop asks of whoever does the work."""

    unit: str
    """What the progress display counts: "steps"."""

    @property
    def label(self) -> str:
        """For the progress display: "sampling"."""
        ...

    @property
    def step(self) -> int:
        """How many steps are done."""
        ...

    @property
    def total(self) -> int | None:
        """How many there will be; None where only the work knows its end, as at the end of a stream."""
        ...

    def advance(self, count: int, following: int) -> bool:
        """Make `count` steps; False where there was nothing left to do. `following`: how many come after them, so that
        their data can be read ahead."""
        ...

    def keep(self) -> None:
        """Hand over what the last steps gave: what is written to disk is written here."""
        ...

    def must_save(self) -> bool:
        """Whether to save at once: a draw was withdrawn that the checkpoint before knows of, or `announce` will
        speak."""
        ...

    def announce(self) -> None:
        """Warn of what the last steps met, after it was saved: where warnings are errors, this ends the run."""
        ...

    def snapshot(self) -> "Snapshot":
        """All that a checkpoint must hold; nothing in it changes later."""
        ...

    def reached(self) -> tuple[int, int | None, str]:
        """For the progress display: units done, units in all (None: not known), and a note."""
        ...

    def where(self) -> str:
        """Where it stands, for the message of a run that was stopped: "stopped at step 3 of 10"."""
        ...


class Border(NamedTuple):
    """What was decided between two stretches."""

    steps: int
    """Those that come next; 0 at the end."""
    following: int
    """Steps after those."""
    save: bool
    is_urgent: bool
    """Not to go on before the checkpoint is written."""
    stop: bool
    """A signal has come."""


class Pace:
    """How many steps to make before looking up: about a second and a half, at most three, whatever a step takes.

    Stretches end at multiples of `length` (and of `refresh`), so that what happens there happens at the same steps in
    every run; in between a slow chain may be looked at more often.
    """

    def __init__(self, length: int, total: int | None, refresh: int | None = None, program: int | None = None):
        self.length, self.total, self.refresh, self.program = length, total, refresh, program
        self.rate = _rates.get(program)  # steps per second
        self._planned, self._made = 0, 0

    def count(self, step: int) -> int:
        """The number of steps of the stretch that begins at `step`; 0 where there is nothing to do."""
        if self.total is not None and step >= self.total:
            return 0
        stops = [(step // self.length + 1) * self.length]
        if self.total is not None:
            stops.append(self.total)
        if self.refresh is not None:
            stops.append((step // self.refresh + 1) * self.refresh)
        first = FIRST_COUNTS[min(self._planned, len(FIRST_COUNTS) - 1)]
        wanted = first if self.rate is None else int(STRETCH_SECONDS * self.rate)
        self._planned += 1
        rest = min(stops) - step
        # random numbers are drawn for a whole length whatever is made of it: better at once than in two parts
        return rest if rest <= 2 * wanted else max(1, wanted)

    def made(self, count: int, seconds: float) -> None:
        """Told what a stretch took."""
        self._made += 1
        if self._made > 1 or self.rate is not None:
            self.rate = count / max(seconds, 1e-9)
            if self.program is not None:
                _rates.pop(self.program, None)
                _rates[self.program] = self.rate
                while len(_rates) > REMEMBERED_RATES:
                    _rates.pop(next(iter(_rates)), None)


_rates: dict[int | None, float] = {}


class Decisions:
    """Everything that is decided between two stretches."""

    def __init__(self, pace: Pace, checkpoint: "Checkpoint | None", interrupts: "Interrupts | None"):
        self.pace, self.checkpoint, self.interrupts = pace, checkpoint, interrupts

    def first(self, work: Work) -> Border:
        count = self.pace.count(work.step)
        return Border(count, self.pace.count(work.step + count) if count else 0, False, False, False)

    def after(self, work: Work, made: Border, seconds: float, is_over: bool) -> Border:
        """`made`: the stretch that ended just now."""
        self.pace.made(made.steps, seconds)
        count = 0 if is_over else made.following
        following = self.pace.count(work.step + count) if count else 0
        is_stopped = self.interrupts is not None and self.interrupts.received is not None
        is_urgent = is_stopped or work.must_save() or count == 0
        save = self.checkpoint is not None and (is_urgent or self.checkpoint.is_due())
        return Border(count, following, save, is_urgent, is_stopped and count > 0)


def run_loop(
    work: Work, pace: Pace, checkpoint: "Checkpoint | None", interrupts: "Interrupts | None", show: bool = True
) -> None:
    """The work to its end, or to where a signal stops it; what it needs to be resumed is saved as it goes.

    Without a checkpoint there is nothing to save first (`interrupts=None`): signals do what they always do.
    """
    decisions = Decisions(pace, checkpoint, interrupts)
    done, expected, _ = work.reached()
    with counting(work.label, work.unit, expected, show, done) as tell:
        border = decisions.first(work)
        while border.steps:
            begin = now()
            is_more = work.advance(border.steps, border.following)
            seconds = now() - begin
            with nullcontext() if checkpoint is None else checkpoint.advising():
                work.keep()
                border = decisions.after(work, border, seconds, is_over=not is_more)
                done, expected, note = work.reached()
                tell(done, note, expected)
                if border.save and checkpoint is not None:
                    checkpoint.save(work.snapshot(), wait=border.is_urgent)
            if border.steps:
                work.announce()
            if border.stop and interrupts is not None:
                interrupts.stop(f"{work.where()}; {interrupts.advice}")


def now() -> float:
    return time.monotonic()
