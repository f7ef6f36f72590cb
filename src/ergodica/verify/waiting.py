"""A bar for work that turns out to take a while; silent when nobody looks."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds before anything is shown

Tell = Callable[[float], None]


@contextmanager
def waiting(words: str) -> Iterator[Tell]:
    """Yields a function to be told the share of the work that is done."""
    if not sys.stderr.isatty():
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import Progress

    begin = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=1.0, visible=False)
        yield lambda share: bar.update(task, completed=share, visible=time.monotonic() - begin > PATIENCE)
