"""`ergodica diagnose run.nc`: the verdict on a run, in words."""

import json
from pathlib import Path

import click

from ergodica.cli.loading import load_target
from ergodica.driver.run import load


@click.command(name="diagnose")
@click.argument("run", metavar="RUN.NC", type=click.Path(path_type=Path))
@click.option(
    "--halved", type=click.Path(path_type=Path), help="A run with half the step size: for the step-size bias."
)
@click.option("--target", help="module:target that was sampled: for Stein discrepancy and configurational temperature.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
def diagnose_command(run: Path, halved: Path | None, target: str | None, seed: int, as_json: bool) -> None:
    """Did the chains meet, are there enough draws, is it the law asked for?

    Exit code 1 when something is wrong, or something essential is undecided.
    """
    law = load_target(target) if target is not None else None
    diagnosis = load(run, halved).diagnose(law, seed)
    click.echo(json.dumps(diagnosis.to_dict()) if as_json else str(diagnosis))
    if not diagnosis.passed:
        raise click.exceptions.Exit(1)
