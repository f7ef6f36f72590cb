"""A progress line: documents, documents per second, perplexity so far, time left where there is an end."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def progress_line(show: bool, begin: int = 0) -> Iterator[Callable[[int, int | None, float | None], None]]:
    """Yields a function to be told the documents so far, the number expected, and the last perplexity, or None."""
    if not (show and sys.stderr.isatty()):
        yield lambda done, total, perplexity: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("learning"), BarColumn(), TextColumn("{task.completed:,} documents"),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(), TextColumn("{task.fields[words]}"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("learning", total=None, completed=begin, rate="", words="")

        def tell(done: int, total: int | None, perplexity: float | None) -> None:
            speed: Any = bar.tasks[0].speed
            rate = "" if speed is None else f"{speed:,.0f} documents/s"
            words = "" if perplexity is None else f"perplexity {perplexity:,.0f}"
            bar.update(task, completed=done, total=total, rate=rate, words=words)

        yield tell
