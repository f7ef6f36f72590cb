"""`ergodica plot run.nc -o folder`: pictures of a run."""

from pathlib import Path

import click

from ergodica.driver.run import load


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
