"""All commands: `ergodica COMMAND ...`."""

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
