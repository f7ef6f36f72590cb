"""The command line: parse, call, print. Errors are one line on stderr, exit code 2; `--debug` shows the traceback."""

import sys
from typing import Any

import click

from ergodica import __version__
from ergodica.cli.audit import audit_command
from ergodica.cli.certify import certify
from ergodica.cli.diagnose import diagnose_command
from ergodica.cli.lda import lda_commands
from ergodica.cli.plot import plot_command
from ergodica.cli.rebuild import rebuild_curl_command
from ergodica.cli.reproduce import reproduce_command
from ergodica.cli.sample import sample_command
from ergodica.errors import InputError, NonFiniteError


class _Commands(click.Group):
    """Ctrl-C ends with 130, as shells have it, and without a word of click's."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(130) from None


@click.group(cls=_Commands)
@click.version_option(__version__, prog_name="ergodica")
@click.option("--debug", is_flag=True, help="Show the whole traceback of an error.")
def commands(debug: bool) -> None:
    """Stochastic-gradient MCMC from an energy H, a diffusion D and a curl Q."""


COMMANDS = (
    audit_command, certify, diagnose_command, lda_commands, plot_command, rebuild_curl_command,
    reproduce_command, sample_command,
)  # fmt: skip
for command in COMMANDS:
    commands.add_command(command)


def main() -> None:
    """Entry point `ergodica`. Exit codes: 0 fine, 1 a check failed or a chain is non-finite, 2 bad input."""
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
