"""Ctrl-C and SIGTERM while a run is being saved: noted, acted on between two chunks."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}


class Interrupts:
    """Which signal has come, if any."""

    def __init__(self) -> None:
        self.received: int | None = None

    def note(self, number: int, frame: Any) -> None:
        # asked twice, it is not to be kept waiting
        if self.received is not None:
            self.stop(number)
        self.received = number

    @staticmethod
    def stop(number: int) -> NoReturn:
        """End as if the signal had come just now: KeyboardInterrupt, or exit code 143."""
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)


@contextmanager
def noted_interrupts(is_saved: bool) -> Iterator[Interrupts]:
    """Without a file to save to, or outside the main thread, signals do what they always do."""
    interrupts = Interrupts()
    if not is_saved or threading.current_thread() is not threading.main_thread():
        yield interrupts
        return
    before = {number: signal.signal(number, interrupts.note) for number in NAMES}
    try:
        yield interrupts
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
