"""`ergodica diagnose run.nc`: the verdict on a run, in words. `ergodica plot run.nc -o folder`: pictures of it."""

from pathlib import Path

import click

from ergodica.cli.arguments import json_option, load_target, seed_option, show
from ergodica.driver.run import load


@click.command(name="diagnose")
@click.argument("run", metavar="RUN.NC", type=click.Path(path_type=Path))
@click.option(
    "--halved", type=click.Path(path_type=Path), help="A run with half the step size: for the step-size bias."
)
@click.option("--target", help="module:target that was sampled: for Stein discrepancy and configurational temperature.")
@seed_option
@json_option("the verdict")
def diagnose_command(run: Path, halved: Path | None, target: str | None, seed: int, as_json: bool) -> None:
    """Did the chains meet, are there enough draws, is it the law asked for?

    Exit code 1 when something is wrong, or something essential is undecided.
    """
    law = load_target(target) if target is not None else None
    show(load(run, halved).diagnose(law, seed), as_json)


@click.command(name="plot")
@click.argument("run", metavar="RUN.NC", type=click.Path(path_type=Path))
@click.option("-o", "--out", "folder", required=True, type=click.Path(path_type=Path), help="Folder for the pictures.")
@click.option("--halved", type=click.Path(path_type=Path), help="A run with half the step size, for bias against step.")
def plot_command(run: Path, folder: Path, halved: Path | None) -> None:
    """Trace, marginals, pairs, running mean with its error and, where the step was halved, bias against step: PNG."""
    found = load(run, halved)
    for path in found.plot(folder):
        click.echo(path)
    if found.halved is None:
        click.echo("no bias against step: give --halved, a run with half the step size", err=True)
