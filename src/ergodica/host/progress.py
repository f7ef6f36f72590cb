"""Signs of life on stderr for work that takes a while; silent when nobody is looking."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any, Protocol

SHOWN_AFTER = 2.0  # seconds until there is a bar, whether or not it was told anything

TellShare = Callable[[float], None]


class Tell(Protocol):
    """How far the work is. `note`: what else is worth showing; `total`: where it was not known at first."""

    def __call__(self, done: int, note: str = "", total: int | None = None) -> None: ...


@contextmanager
def counting(label: str, unit: str, total: int | None, show: bool = True, done: int = 0) -> Iterator[Tell]:
    """A bar that counts `unit`s: how many are done, how many a second, the time left, and a note.

    Args:
        total: None where it is not known (yet).
        done: how many there are at the start, of work that is resumed.
    """
    if not (show and sys.stderr.isatty()):
        yield lambda done, note="", total=None: None
        return
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn

    with _bar(TextColumn(label), BarColumn(), TextColumn("{task.fields[count]}"), TextColumn("{task.fields[rate]}"),
              TimeRemainingColumn(), TextColumn("{task.fields[note]}")) as bar:  # fmt: skip
        task = bar.add_task(label, total=total, completed=done, count="", rate="", note="")

        def tell(done: int, note: str = "", total: int | None = None) -> None:
            bar.update(task, completed=done, note=note, **({} if total is None else {"total": total}))
            known, speed = bar.tasks[0].total, bar.tasks[0].speed
            count = f"{done:,} {unit}" if known is None else f"{done:,}/{known:,.0f} {unit}"
            rate = "" if speed is None else f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.2g}/s"
            bar.update(task, count=count, rate=rate)

        yield tell


@contextmanager
def waiting(words: str, show: bool = True) -> Iterator[TellShare]:
    """A bar that appears after two seconds; yields a function to be told the share of the work that is done."""
    if not (show and sys.stderr.isatty()):
        yield lambda share: None
        return
    from rich.progress import Progress, SpinnerColumn

    with _bar(SpinnerColumn(), *Progress.get_default_columns()) as bar:
        task = bar.add_task(words, total=1.0, visible=False)
        timer = Timer(SHOWN_AFTER, lambda: bar.update(task, visible=True))
        timer.daemon = True
        timer.start()
        try:
            yield lambda share: bar.update(task, completed=min(share, 1.0))
        finally:
            timer.cancel()


@contextmanager
def spinner(words: str, is_shown: bool = True) -> Iterator[None]:
    """A turning sign until the block ends, for work whose length is not known."""
    if not is_shown or not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(words):
        yield


def _bar(*columns: Any) -> Any:
    from rich.console import Console
    from rich.progress import Progress

    return Progress(*columns, console=Console(stderr=True), transient=True)
