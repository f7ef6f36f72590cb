"""`ergodica rebuild-curl module:sde`: Theorem 2 for a hand-written SDE, with a picture."""

import json
from pathlib import Path
from typing import Any

import click
import jax
import jax.numpy as jnp
import numpy as np

from ergodica.cli.arguments import json_option, load, seed_option, show
from ergodica.errors import InputError
from ergodica.host.extras import require
from ergodica.verify.completeness.rebuild import BULK_DENSITY, NoCurlError, as_process, checked_box, rebuild_curl
from ergodica.verify.completeness.rebuilt_curl import RebuiltCurl
from ergodica.verify.hand_written import HandWritten

DEFAULT_RESOLUTION = {2: 256, 3: 64}
PICTURE_ENDINGS = (".png", ".pdf", ".svg")
PANEL_SIDE = 161  # pixels
CONTOUR_LEVELS = (1e-3, 1e-2, 0.1, 0.3, 0.5, 0.7, 0.9)


@click.command(name="rebuild-curl")
@click.argument("sde", metavar="MODULE:SDE")
@click.option("--box", help="low:high for each coordinate, as in -6:6,-6:6; by default it is found.")
@click.option(
    "--resolution", type=click.IntRange(min=1), help="Grid points a side.  [default: 256; 64 in three dimensions]"
)
@click.option("--method", type=click.Choice(["fourier", "closed form"]), default="fourier", show_default=True)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Leave a picture of Q here.")
@seed_option
@json_option("the report")
def rebuild_curl_command(
    sde: str, box: str | None, resolution: int | None, method: Any, plot: Path | None, seed: int, as_json: bool
) -> None:
    """The curl Q of a process that leaves exp(-H) invariant, from its drift; exit code 1 when it does not pass.

    MODULE:SDE is an object with drift, diffusion and hamiltonian, jnp functions of one flat vector of 2 or 3 numbers,
    and optionally a box.
    """
    if plot is not None and (plot.suffix not in PICTURE_ENDINGS or not plot.parent.is_dir()):
        raise InputError(
            f"--plot {plot}: expected a name that ends in {', '.join(PICTURE_ENDINGS)}, in a folder that exists"
        )
    if plot is not None:
        require("matplotlib", extra="plot", by="--plot")  # before the work, not after it
    process, sides = loaded(sde, box)
    try:
        points = resolution or DEFAULT_RESOLUTION[process.dim]
        q = rebuild_curl(*process.functions, sides, points, method=method, seed=seed)
    except NoCurlError as error:
        return show(error.report, as_json)
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


def draw(q: RebuiltCurl, process: HandWritten, path: Path) -> None:
    """Drift, current and Q_21 in two dimensions, slices through the mode in three."""
    from matplotlib.figure import Figure  # not pyplot: a notebook keeps its own backend

    figure = Figure(figsize=(11.4, 3.3), layout="constrained")
    axes = figure.subplots(1, 3)
    middle = mode(q, process)
    if process.dim == 2:
        streams(axes[:2], q, process, middle)
    entries = [(1, 0)] if process.dim == 2 else [(1, 0), (2, 0), (2, 1)]
    for axis, (row, col) in zip(axes[-len(entries) :], entries, strict=True):
        entry(axis, q, process, middle, row, col)
    figure.suptitle(
        f"Q by Theorem 2 ({q.method}, {q.resolution} points a side): drift within {q.error:.1e} of its size"
    )
    options: dict[str, Any] = {"pil_kwargs": {"optimize": True}} if path.suffix == ".png" else {}
    figure.savefig(path, dpi=64, **options)


def entry(axis: Any, q: RebuiltCurl, process: HandWritten, middle: np.ndarray, row: int, col: int) -> None:
    """One entry of Q where the density is in the bulk, with contours of the density."""
    x, y, points = plane(q, middle, col, row)
    density = density_at(process, points)
    with jax.enable_x64(True):
        values = np.asarray(jax.jit(jax.vmap(q.at))(jnp.asarray(points, jnp.float64)))[:, row, col]
    image = np.where(density >= BULK_DENSITY, values, np.nan).reshape(PANEL_SIDE, PANEL_SIDE)
    # in three dimensions Q p decays slower than p, and Q at the rim would drown the rest
    reach = 1.4 * float(np.abs(values[density >= 1e-2]).max()) or 1.0
    shown = axis.pcolormesh(x, y, image, cmap="RdBu_r", vmin=-reach, vmax=reach, rasterized=True)
    contours(axis, x, y, density, "0.35")
    axis.set(title=f"$Q_{{{row + 1}{col + 1}}}$", xlabel=f"$z_{col + 1}$", ylabel=f"$z_{row + 1}$")
    axis.figure.colorbar(shown, ax=axis, extend="both")


def streams(axes: Any, q: RebuiltCurl, process: HandWritten, middle: np.ndarray) -> None:
    """The drift, and the current c p that it carries round: what is left of it where D takes no part."""
    x, y, points = plane(q, middle, 0, 1)
    values = process.values(points)
    density = density_at(process, points)
    currents = values.current * density[:, None]
    for axis, field, title in zip(axes, (values.drift, currents), ("drift $f$", "current $c\\,p$"), strict=True):
        contours(axis, x, y, density, "0.7")
        if np.abs(field).max() > 1e-9:
            u, v = field.T.reshape(2, PANEL_SIDE, PANEL_SIDE)
            axis.streamplot(x, y, u, v, color="#0072B2", density=0.5, linewidth=0.8, arrowsize=0.8)
        axis.set(title=title, xlabel="$z_1$", ylabel="$z_2$", xlim=x[[0, -1]], ylim=y[[0, -1]])


def contours(axis: Any, x: np.ndarray, y: np.ndarray, density: np.ndarray, colour: str) -> None:
    on_grid = density.reshape(PANEL_SIDE, PANEL_SIDE)
    axis.contour(x, y, on_grid, levels=CONTOUR_LEVELS, colors=colour, linewidths=0.6)


def plane(q: RebuiltCurl, middle: np.ndarray, across: int, up: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The two axes of a plane through `middle`, over the bulk, and its points (n, dim), `across` fastest."""
    x, y = (np.linspace(*inside(q, i), PANEL_SIDE) for i in (across, up))
    points = np.tile(middle, (PANEL_SIDE**2, 1))
    points[:, across], points[:, up] = np.tile(x, PANEL_SIDE), np.repeat(y, PANEL_SIDE)
    return x, y, points


def inside(q: RebuiltCurl, i: int) -> tuple[float, float]:
    """The stretch of coordinate i that the bulk and the box share."""
    return max(q.bulk[i][0], q.box[i][0]), min(q.bulk[i][1], q.box[i][1])


def mode(q: RebuiltCurl, process: HandWritten) -> np.ndarray:
    """The best point of a coarse grid over the bulk."""
    axes = [np.linspace(*inside(q, i), 41) for i in range(process.dim)]
    points = np.stack([x.ravel() for x in np.meshgrid(*axes, indexing="ij")], axis=-1)
    return points[np.argmin(process.energies(points))]


def density_at(process: HandWritten, points: np.ndarray) -> np.ndarray:
    """exp(-H) over its largest value at these points."""
    energies = process.energies(points)
    return np.exp(energies.min() - energies)
