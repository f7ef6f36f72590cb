"""The picture of a rebuilt curl: drift, current and Q_21 in two dimensions, slices through the mode in three."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ergodica.verify.completeness.rebuild import BULK_DENSITY
from ergodica.verify.completeness.rebuilt_curl import RebuiltCurl
from ergodica.verify.hand_written import HandWritten

PIXELS = 161  # a side of a panel
LEVELS = (1e-3, 1e-2, 0.1, 0.3, 0.5, 0.7, 0.9)


def draw(q: RebuiltCurl, process: HandWritten, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11.4, 3.3), layout="constrained")
    middle = mode(q, process)
    if process.dim == 2:
        streams(axes[:2], q, process, middle)
    entries = [(1, 0)] if process.dim == 2 else [(1, 0), (2, 0), (2, 1)]
    for axis, (row, col) in zip(axes[-len(entries) :], entries, strict=True):
        entry(axis, q, process, middle, row, col)
    figure.suptitle(
        f"Q by Theorem 2 ({q.method}, {q.resolution} points a side): drift within {q.error:.1e} of its size"
    )
    figure.savefig(path, dpi=64, pil_kwargs={"optimize": True})
    plt.close(figure)


def entry(axis: Any, q: RebuiltCurl, process: HandWritten, middle: np.ndarray, row: int, col: int) -> None:
    """One entry of Q where the density is in the bulk, with contours of the density."""
    x, y, points = plane(q, middle, col, row)
    density = density_at(process, points)
    with jax.enable_x64(True):
        values = np.asarray(jax.jit(jax.vmap(q.at))(jnp.asarray(points, jnp.float64)))[:, row, col]
    image = np.where(density >= BULK_DENSITY, values, np.nan).reshape(PIXELS, PIXELS)
    # in three dimensions Q p decays slower than p, and Q at the rim would drown the rest
    reach = 1.4 * float(np.abs(values[density >= 1e-2]).max()) or 1.0
    shown = axis.pcolormesh(x, y, image, cmap="RdBu_r", vmin=-reach, vmax=reach, rasterized=True)
    axis.contour(x, y, density.reshape(PIXELS, PIXELS), levels=LEVELS, colors="0.35", linewidths=0.6)
    axis.set(title=f"$Q_{{{row + 1}{col + 1}}}$", xlabel=f"$z_{col + 1}$", ylabel=f"$z_{row + 1}$")
    axis.figure.colorbar(shown, ax=axis, extend="both")


def streams(axes: Any, q: RebuiltCurl, process: HandWritten, middle: np.ndarray) -> None:
    """The drift, and the current c p that it carries round: what is left of it where D takes no part."""
    x, y, points = plane(q, middle, 0, 1)
    values = process.values(points)
    density = density_at(process, points)
    currents = values.current * density[:, None]
    for axis, field, title in zip(axes, (values.drift, currents), ("drift $f$", "current $c\\,p$"), strict=True):
        axis.contour(x, y, density.reshape(PIXELS, PIXELS), levels=LEVELS, colors="0.7", linewidths=0.6)
        if np.abs(field).max() > 1e-9:
            u, v = field.T.reshape(2, PIXELS, PIXELS)
            axis.streamplot(x, y, u, v, color="#0072B2", density=0.5, linewidth=0.8, arrowsize=0.8)
        axis.set(title=title, xlabel="$z_1$", ylabel="$z_2$", xlim=x[[0, -1]], ylim=y[[0, -1]])


def plane(q: RebuiltCurl, middle: np.ndarray, across: int, up: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The two axes of a plane through `middle`, over the bulk, and its points (PIXELS^2, dim), `across` fastest."""
    x, y = (np.linspace(*inside(q, i), PIXELS) for i in (across, up))
    points = np.tile(middle, (PIXELS**2, 1))
    points[:, across], points[:, up] = np.tile(x, PIXELS), np.repeat(y, PIXELS)
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
