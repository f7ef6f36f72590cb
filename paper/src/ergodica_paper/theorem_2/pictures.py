"""The pictures of a rebuilt Q, of the errors of random processes, and of a current that does not end."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ergodica.verify.completeness.rebuild import BULK_DENSITY, CURL_TOLERANCE
from ergodica.verify.hand_written import hand_written
from ergodica_paper import style
from ergodica_paper.processes import Process, of
from ergodica_paper.result import Picture, Table
from ergodica_paper.style import LABELS
from ergodica_paper.theorem_2.processes import NOT_INTEGRABLE, named
from ergodica_paper.theorem_2.random_processes import KINDS, RandomProcess
from ergodica_paper.theorem_2.rebuilt import PIXELS, Rebuilt

LEVELS = (1e-3, 1e-2, 0.1, 0.3, 0.5, 0.7, 0.9)
DOUBLINGS = 13


def pictured(r: Rebuilt) -> tuple[Picture, Table]:
    """The drift, the rebuilt Q_21, and how far it, or the drift through it, is off."""
    plane = r.plane
    shape = (PIXELS, PIXELS)
    bulk = (plane.density >= BULK_DENSITY).reshape(shape)
    entry = plane.curl[:, 1, 0].reshape(shape)
    off = (np.abs(plane.curl[:, 1, 0] - 1) if r.gap is not None else plane.error).reshape(shape)
    label = "log10 |$Q_{21}$ − 1|" if r.gap is not None else "log10 of the drift's error over its size"
    figure, axes = style.new_figure(1, 3, size=(9.0, 3.1))
    u, v = plane.drift[:, :2].T.reshape(2, *shape)
    axes[0].streamplot(plane.x, plane.y, u, v, color=style.COLOURS[r.name], density=0.6, linewidth=0.9, arrowsize=0.9)
    axes[0].set_title("drift, given", fontsize=10)
    reach = float(np.abs(entry[bulk & (plane.density.reshape(shape) >= 0.1)]).max()) or 1.0
    _field(axes[1], plane, np.where(bulk, entry, np.nan), "RdBu_r", (-1.2 * reach, 1.2 * reach))
    axes[1].set_title("$Q_{21}$, rebuilt", fontsize=10)
    logs = np.log10(np.maximum(np.where(bulk, off, np.nan), 1e-16))
    _field(axes[2], plane, logs, "viridis", (-16, -8) if r.gap is not None else (-12, -2))
    axes[2].set_title(label, fontsize=10)
    for axis in axes:
        axis.contour(plane.x, plane.y, plane.density.reshape(shape), levels=LEVELS, colors="0.5", linewidths=0.5)
        axis.set(xlabel="position θ", ylabel="momentum r", xlim=plane.x[[0, -1]], ylim=plane.y[[0, -1]])
        axis.grid(False)
    kept = np.flatnonzero(bulk.reshape(-1))[::7]
    grid = np.stack([np.tile(plane.x, PIXELS), np.repeat(plane.y, PIXELS)], axis=-1)
    rows = [
        tuple(float(a) for a in (*grid[i], plane.density[i], *plane.drift[i, :2], entry.flat[i], plane.error[i]))
        for i in kept
    ]
    columns = (
        "position",
        "momentum",
        "density over its peak",
        "drift of position",
        "drift of momentum",
        "Q_21",
        "error",
    )
    name = f"curl-{r.name}"
    where = "" if r.dim == 2 else ", in the plane of the thermostat's mode"
    caption = (
        f"{LABELS[r.name]} on two wells{where}: its drift, the Q_21 that Theorem 2 gives, and how far off it is. "
        f"Lines: density. Largest error of the drift {r.curl.error:.1e} of its size"
        + (
            f", of Q {r.gap:.1e}."
            if r.gap is not None
            else f"; |Q| up to {r.curl.largest:.3g}, as it is not unique here."
        )
    )
    table = Table(name, f"{LABELS[r.name]}: every seventh point of the picture in the bulk.", columns, rows)
    return Picture(name, caption, figure, name), table


def _field(axis: Any, plane: Any, image: np.ndarray, colours: str, limits: tuple[float, float]) -> None:
    shown = axis.pcolormesh(plane.x, plane.y, image, cmap=colours, vmin=limits[0], vmax=limits[1], rasterized=True)
    axis.figure.colorbar(shown, ax=axis, extend="both", shrink=0.9)


def errors_of(found: list[RandomProcess]) -> Picture:
    """Of the drift of every random process, by kind."""
    figure, ((axis,),) = style.new_figure(squeeze=False, size=(7.0, 2.8))
    for row, (kind, mark) in enumerate(zip(KINDS, ("o", "s", "^"), strict=True)):
        errors = [r.error for r in found if r.kind is kind]
        axis.plot(errors, row + np.linspace(-0.25, 0.25, len(errors)), mark, color="#0072B2", markersize=4, alpha=0.6)
    axis.axvline(CURL_TOLERANCE, color="#000000", linestyle="--", linewidth=1)
    axis.text(CURL_TOLERANCE * 0.8, len(KINDS) - 1.0, "tolerance", ha="right", va="center", fontsize=9)
    axis.set(
        xscale="log",
        ylim=(-0.6, len(KINDS) - 0.4),
        xlabel="largest error of the drift through the rebuilt Q, over its size (no unit)",
        yticks=range(len(KINDS)),
        yticklabels=[kind.name.replace(", ", ",\n") for kind in KINDS],
    )
    refused = sum(bool(r.refused) for r in found)
    caption = f"Random processes, by how they were made: a mark for each of {len(found) - refused}; refused: {refused}."
    return Picture("random", caption, figure, "random")


def shells() -> tuple[Picture, Table]:
    """The integral of |c p| over shells of doubling radius."""
    cases = {"HMC, two wells": of(named()["hmc"]), "constant current, Cauchy law": NOT_INTEGRABLE}
    radii = 2.0 ** np.arange(-2, DOUBLINGS)
    values = {name: [_shell(process, r) for r in radii] for name, process in cases.items()}
    figure, ((axis,),) = style.new_figure(squeeze=False, size=(7.0, 3.4))
    for (name, numbers), colour, mark in zip(
        values.items(), (style.COLOURS["hmc"], "#D55E00"), ("o", "X"), strict=True
    ):
        seen = np.array(numbers) > 1e-16
        axis.plot(radii[seen], np.array(numbers)[seen], marker=mark, color=colour, label=name)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="inner radius of the shell (a shell is twice as wide outside)",
        ylabel="integral of |current| (1 / time)",
    )
    axis.legend()
    rows = [(float(r), *(numbers[i] for numbers in values.values())) for i, r in enumerate(radii)]
    caption = "Current in shells of doubling radius, densities scaled to 1 at the origin; below 1e-16 nothing is drawn."
    table = Table("shells", "The numbers of the picture of the same name.", ("inner radius", *values), rows)
    return Picture("shells", caption, figure, "shells"), table


def _shell(process: Process, radius: float, nodes: int = 48) -> float:
    """By Gauss-Legendre in the radius and equal angles."""
    x, weights = np.polynomial.legendre.leggauss(nodes)
    r = radius * (1.5 + 0.5 * x)
    angles = 2 * np.pi * np.arange(nodes) / nodes
    points = np.stack([np.outer(r, np.cos(angles)), np.outer(r, np.sin(angles))], axis=-1).reshape(-1, 2)
    values = hand_written(*process, 2).values(points)
    with jax.enable_x64(True):
        base = float(process.hamiltonian(jnp.zeros(2)))
    density = np.exp(base - hand_written(*process, 2).energies(points))
    size = (np.linalg.norm(values.current, axis=1) * density).reshape(nodes, nodes)
    return float(np.sum(size.mean(axis=1) * 2 * np.pi * r * weights) * 0.5 * radius)
