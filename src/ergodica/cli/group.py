"""All commands: `ergodica COMMAND ...`."""

from importlib.metadata import EntryPoints, entry_points
from typing import Any

import click

from ergodica import __version__
from ergodica.cli.lda import lda_commands
from ergodica.cli.rebuild_curl import rebuild_curl_command
from ergodica.cli.sample import sample_command, tune_command
from ergodica.cli.verify import audit_command, certify_command, diagnose_command, plot_command
from ergodica.errors import InputError

# Another distribution adds a command by an entry point of this group, whose value is a click command.
ENTRY_POINTS = "ergodica.commands"
# How to install a command that our own pages mention.
INSTALLED_BY = {"reproduce": "pip install ergodica-paper, or in a checkout of the repository: make install"}


class _Commands(click.Group):
    """Our commands and those of other distributions. Ctrl-C ends with 130, as shells have it, and without a message.

    The others are looked up only when one of them, or the list of all, is needed: `ergodica sample` does not wait.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_added().names})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if command := super().get_command(ctx, cmd_name):
            return command
        for entry_point in _added().select(name=cmd_name):
            return entry_point.load()
        if cmd_name in INSTALLED_BY:
            raise InputError(f"{cmd_name} comes with a package that is not installed: {INSTALLED_BY[cmd_name]}")
        return None

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(130) from None


def _added() -> EntryPoints:
    return entry_points(group=ENTRY_POINTS)


@click.group(cls=_Commands)
@click.version_option(__version__, prog_name="ergodica")
@click.option("--debug", is_flag=True, help="Show the whole traceback of an error.")
def commands(debug: bool) -> None:
    """Stochastic-gradient MCMC from an energy H, a diffusion D and a curl Q."""


for command in (audit_command, certify_command, diagnose_command, lda_commands, plot_command):
    commands.add_command(command)
for command in (rebuild_curl_command, sample_command, tune_command):
    commands.add_command(command)
