"""A progress line: steps per second, time left, kinetic temperature, chains frozen; silent when nobody looks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


@contextmanager
def progress_bar(total: int, show: bool, begin: int = 0) -> Iterator[Callable[..., None]]:
    """Yields a function to be told how many steps are done, the kinetic temperature, and how many chains are frozen."""
    if not (show and sys.stderr.isatty()):
        yield lambda done, temperature=np.nan, frozen=0: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("sampling"), BarColumn(), MofNCompleteColumn(), TextColumn("steps"),
        TextColumn("{task.fields[rate]}"), TimeRemainingColumn(), TextColumn("{task.fields[words]}"),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("sampling", total=total, completed=begin, rate="", words="")

        def tell(done: int, temperature: float = np.nan, frozen: int = 0) -> None:
            speed: Any = bar.tasks[0].speed
            words = f"kinetic temperature {temperature:.3g}" if np.isfinite(temperature) else ""
            if frozen:
                words += f" [red]{frozen} chain{'s' if frozen > 1 else ''} non-finite[/red]"
            rate = "" if speed is None else f"{speed:,.0f} steps/s" if speed >= 10 else f"{speed:.2g} steps/s"
            bar.update(task, completed=done, rate=rate, words=words)

        yield tell
