"""A progress bar for a loop that turns out to be long; silent when nobody looks."""

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

PATIENCE = 2.0  # seconds before anything is shown

T = TypeVar("T")


def waiting(items: Sequence[T], words: str) -> Iterator[T]:
    """The items; after PATIENCE seconds, with a bar on stderr."""
    start = time.monotonic()
    rest = iter(items)
    for done, item in enumerate(rest, start=1):
        yield item
        if time.monotonic() - start > PATIENCE and sys.stderr.isatty():
            yield from _with_bar(rest, words, done, len(items))


def _with_bar(rest: Iterator[T], words: str, done: int, total: int) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=total, completed=done)
        for item in rest:
            yield item
            bar.advance(task)
