"""A sign of life on stderr for work whose length is not known; silent when nobody looks."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def spinner(words: str) -> Iterator[None]:
    """Shows `words` with a turning sign until the block ends."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(words):
        yield
