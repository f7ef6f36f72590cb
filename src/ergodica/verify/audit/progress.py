"""A bar for an audit that takes longer than two seconds; silent when nobody looks."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0  # seconds before anything is shown


@contextmanager
def shown(show: bool) -> Iterator[Callable[[float], None]]:
    """Yields a function to be told the share of the work that is done."""
    if not (show and sys.stderr.isatty()):
        yield lambda share: None
        return
    from rich.console import Console
    from rich.progress import Progress

    begin = time.monotonic()
    with Progress(console=Console(stderr=True), transient=True, disable=False) as bar:
        task = bar.add_task("auditing", total=1.0, visible=False)
        yield lambda share: bar.update(task, completed=min(share, 1.0), visible=time.monotonic() - begin > PATIENCE)
