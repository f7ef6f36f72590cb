"""`ergodica rebuild-curl module:sde`: Theorem 2 for a hand-written SDE, with a picture."""

import json
from pathlib import Path
from typing import Any

import click

from ergodica.cli.curl_picture import draw
from ergodica.cli.loading import load
from ergodica.errors import InputError
from ergodica.host.extras import require
from ergodica.verify.completeness.rebuild import NoCurlError, as_process, checked_box, rebuild_curl
from ergodica.verify.hand_written import HandWritten

RESOLUTION = {2: 256, 3: 64}
PICTURES = (".png", ".pdf", ".svg")


@click.command(name="rebuild-curl")
@click.argument("sde", metavar="MODULE:SDE")
@click.option("--box", help="low:high for each coordinate, as in -6:6,-6:6; by default it is found.")
@click.option(
    "--resolution", type=click.IntRange(min=1), help="Grid points a side.  [default: 256; 64 in three dimensions]"
)
@click.option("--method", type=click.Choice(["fourier", "closed form"]), default="fourier", show_default=True)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Leave a picture of Q here.")
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def rebuild_curl_command(
    sde: str, box: str | None, resolution: int | None, method: Any, plot: Path | None, seed: int, as_json: bool
) -> None:
    """The curl Q of a process that leaves exp(-H) invariant, from its drift; exit code 1 when it does not pass.

    MODULE:SDE is an object with drift, diffusion and hamiltonian, jnp functions of one flat vector of 2 or 3 numbers,
    and optionally a box.
    """
    if plot is not None and (plot.suffix not in PICTURES or not plot.parent.is_dir()):
        raise InputError(f"--plot {plot}: expected a name that ends in {', '.join(PICTURES)}, in a folder that exists")
    if plot is not None:
        require("matplotlib", extra="plot", by="--plot")  # before the work, not after it
    process, sides = loaded(sde, box)
    try:
        q = rebuild_curl(*process.functions, sides, resolution or RESOLUTION[process.dim], method=method, seed=seed)
    except NoCurlError as error:
        click.echo(json.dumps(error.report.to_dict()) if as_json else str(error.report))
        raise click.exceptions.Exit(1) from None
    click.echo(json.dumps(q.report.to_dict()) if as_json else str(q))
    if plot is not None:
        draw(q, process, plot)
    if not q.passed:
        raise click.exceptions.Exit(1)


def loaded(spec: str, box: str | None) -> tuple[HandWritten, Any]:
    """The process that `spec` names, and its box: the one typed, or else the object's own."""
    sde = load(spec)
    names = ("drift", "diffusion", "hamiltonian")
    missing = [name for name in names if not hasattr(sde, name)]
    if missing:
        raise InputError(f"{spec} has no {' and no '.join(missing)}: expected an object with {', '.join(names)}")
    sides = getattr(sde, "box", None) if box is None else parsed(box)
    sides = None if sides is None else checked_box(sides)
    return as_process(sde.drift, sde.diffusion, sde.hamiltonian, None if sides is None else len(sides)), sides


def parsed(box: str) -> list[tuple[float, float]]:
    try:
        sides = [tuple(float(end) for end in side.split(":")) for side in box.split(",")]
        return [(low, high) for low, high in sides]
    except ValueError:
        raise InputError(f"--box is {box!r}: expected low:high for each coordinate, as in -6:6,-6:6") from None
