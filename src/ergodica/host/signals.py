"""Ctrl-C and SIGTERM while a run is being saved: noted, acted on between two chunks, or when the file is written; and
while one is being planned: acted on at once, with what to do then."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class Interrupts:
    """Which signal has come, if any; `advice`: how to go on with what is saved."""

    def __init__(self, advice: str) -> None:
        self.received: signal.Signals | None = None
        self.advice = advice

    def note(self, number: int, frame: Any) -> None:
        is_second, self.received = self.received is not None, signal.Signals(number)
        if is_second:  # asked twice, it is not to be kept waiting
            self.stop(f"stopped at once; {self.advice}")

    def stop(self, words: str) -> NoReturn:
        """Say so, and end as if the signal had come just now: KeyboardInterrupt, or exit code 143."""
        assert self.received is not None
        print(f"{NAMES[self.received]}: {words}", file=sys.stderr)
        if self.received == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + self.received)


@contextmanager
def noted_interrupts(advice: str | None) -> Iterator[Interrupts]:
    """Without a file to save to (`advice=None`), or outside the main thread, signals do what they always do."""
    interrupts = Interrupts(advice or "")
    with _handled_by(None if advice is None else interrupts.note):
        yield interrupts


@contextmanager
def answered_interrupts(advice: str) -> Iterator[None]:
    """Signals do what they always do, and how to go on is said; within it signals may be noted."""

    def stop(number: int, frame: Any) -> None:
        interrupts = Interrupts(advice)
        interrupts.received = signal.Signals(number)
        interrupts.stop(f"stopped; {advice}")

    with _handled_by(stop):
        yield


@contextmanager
def _handled_by(handler: Callable[[int, Any], None] | None) -> Iterator[None]:
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in NAMES}
    try:
        yield
    finally:
        for number, other in before.items():
            signal.signal(number, other)
