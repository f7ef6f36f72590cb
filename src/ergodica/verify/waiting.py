"""Signs of life on stderr for work that takes a while; silent when nobody looks."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer

SHOWN_AFTER = 2.0  # seconds until there is a bar, whether or not it was told anything

Tell = Callable[[float], None]


@contextmanager
def waiting(words: str, show: bool = True) -> Iterator[Tell]:
    """A bar; yields a function to be told the share of the work that is done."""
    if not (show and sys.stderr.isatty()):
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn

    with Progress(
        SpinnerColumn(), *Progress.get_default_columns(), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task(words, total=1.0, visible=False)
        timer = Timer(SHOWN_AFTER, lambda: bar.update(task, visible=True))
        timer.daemon = True
        timer.start()
        try:
            yield lambda share: bar.update(task, completed=min(share, 1.0))
        finally:
            timer.cancel()


@contextmanager
def spinner(words: str) -> Iterator[None]:
    """A turning sign until the block ends, for work whose length is not known."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(words):
        yield
