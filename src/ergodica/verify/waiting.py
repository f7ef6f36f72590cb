"""Signs of life on stderr for work that takes a while; silent when nobody looks."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds before a bar is shown

Tell = Callable[[float], None]


@contextmanager
def waiting(words: str, show: bool = True) -> Iterator[Tell]:
    """A bar; yields a function to be told the share of the work that is done."""
    if not (show and sys.stderr.isatty()):
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import Progress

    begin = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(words, total=1.0, visible=False)
        yield lambda share: bar.update(task, completed=min(share, 1.0), visible=time.monotonic() - begin > PATIENCE)


@contextmanager
def spinner(words: str) -> Iterator[None]:
    """A turning sign until the block ends, for work whose length is not known."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(words):
        yield
