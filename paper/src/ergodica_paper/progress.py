"""Which item is under way and how far it is: a bar on a terminal, else a line at the beginning of each item."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

from ergodica_paper.result import PaperItem

Report = Callable[[float, str], None]
Begin = Callable[[PaperItem, int], Report]


@contextmanager
def progress(items: Sequence[PaperItem], total: int, full: bool) -> Iterator[Begin]:
    """Yields a function to be called when an item begins, with its place among `total`; it gives what `Ask.report` is.

    Args:
        items: those that will be run, in order: their expected seconds are the lengths of their parts of the bar.
    """
    if sys.stderr.isatty():
        with _bar(items, total, full) as begin_on_bar:
            yield begin_on_bar
        return

    def begin(item: PaperItem, place: int) -> Report:
        print(f"ergodica: {item.name} ({place} of {total})", file=sys.stderr, flush=True)
        return lambda done, words: None

    with redirect_stdout(sys.stderr):
        yield begin


@contextmanager
def _bar(items: Sequence[PaperItem], total: int, full: bool) -> Iterator[Begin]:
    from rich.console import Console
    from rich.file_proxy import FileProxy
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    class Still(FileProxy):
        """What an item prints stands above the bar; and it does not take this for a terminal, with bars of its own."""

        def isatty(self) -> bool:
            return False

    lengths = {item.name: item.seconds[full] for item in items}
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.fields[place]}"), TextColumn("[bold]{task.description}"), BarColumn(bar_width=24),
        TaskProgressColumn(), TimeElapsedColumn(), TextColumn("{task.fields[words]}"),
    )  # fmt: skip
    with Progress(*columns, console=console, redirect_stdout=False, redirect_stderr=False, transient=True) as bar:
        task = bar.add_task("", total=sum(lengths.values()), place="", words="")
        before = 0.0

        def begin(item: PaperItem, place: int) -> Report:
            nonlocal before
            start, before = before, before + lengths[item.name]

            def report(done: float, words: str) -> None:
                part = start + min(max(done, 0.0), 1.0) * lengths[item.name]
                bar.update(task, completed=part, words=f"{done:.0%} of it: {words}" if words else "")

            bar.update(task, description=item.name, place=f"{place} of {total}", completed=start, words="")
            return report

        still: Any = Still(console, sys.stderr)
        with redirect_stderr(still), redirect_stdout(still):
            yield begin
