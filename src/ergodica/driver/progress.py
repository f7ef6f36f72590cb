"""A progress line for work that takes a while; silent when nobody looks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(total: int, show: bool) -> Iterator[Callable[[int], None]]:
    """Yields a function to be told how many steps are done."""
    if not (show and sys.stderr.isatty()):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TextColumn("steps"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("sampling", total=total)
        yield lambda done: bar.update(task, completed=done)
