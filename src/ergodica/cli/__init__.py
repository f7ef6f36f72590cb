"""The command line: parse, call, print. Errors are one line on stderr, exit code 2; `--debug` shows the traceback.

Nothing is imported here that takes time: Ctrl-C while JAX is being loaded has to meet `main`, not an import.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

CTRL_C_CODE = 130  # exit code of Ctrl-C, as shells have it


def main() -> None:
    """Entry point `ergodica`. Exit codes: 0 fine, 1 a check failed or a chain is non-finite, 2 bad input."""
    with _ends_at_once():
        import click

        from ergodica.cli.group import commands
        from ergodica.errors import InputError, NonFiniteError
    try:
        commands(standalone_mode=True)
    except (InputError, NonFiniteError, OSError) as error:
        if "--debug" in sys.argv:
            raise
        click.echo(f"ergodica: {error}", err=True)
        sys.exit(1 if isinstance(error, NonFiniteError) else 2)
    except Exception as error:  # a function of the user's that fails: their mistake, in one line
        if "--debug" in sys.argv:
            raise
        first = (str(error).strip().splitlines() or [""])[0]
        click.echo(f"ergodica: {type(error).__name__}: {first} (ergodica --debug ... shows where)", err=True)
        sys.exit(2)


def __getattr__(name: str) -> Any:
    if name == "commands":
        from ergodica.cli.group import commands

        return commands
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@contextmanager
def _ends_at_once() -> Iterator[None]:
    """Ctrl-C is one line and the end. A KeyboardInterrupt would be a traceback, or be turned into an ImportError by a
    library that was being loaded."""
    try:
        before = signal.signal(signal.SIGINT, _leave)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _leave(number: int, frame: Any) -> NoReturn:
    os.write(2, b"ergodica: stopped by Ctrl-C while it was being loaded\n")
    os._exit(CTRL_C_CODE)
