"""Q p from the current F = c p on a periodic grid: the Fourier construction, and the closed form of two dimensions.

Both return the modes (`np.fft.rfftn`) of (Q p)_ij for the pairs i < j.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from ergodica.host.progress import TellShare
from ergodica.verify.completeness.grid import Grid
from ergodica.verify.completeness.spline import Spline, coefficients, refined
from ergodica.verify.functions import CHUNK, HandWritten

OUTER = 0.8  # modes with a wavenumber above this share of the highest are the tail of the spectrum
# By dimension: degree of the spline, and its nodes for each grid point and axis up to so many nodes a side. Measured:
# with these it adds 1e-12 of the drift in 2-D and 1e-8 in 3-D, where degree 11 would take three times as long.
DEGREE = {2: 11, 3: 7}
FINER = 2
MOST_NODES = {2: 1024, 3: 128}


@dataclass(frozen=True)
class Flow:
    """p = exp(lowest - H), shaped like the grid, and F = c p, (dim, ...)."""

    grid: Grid
    density: np.ndarray
    current: np.ndarray

    @cached_property
    def modes(self) -> list[np.ndarray]:
        return [np.fft.rfftn(component) for component in self.current]

    @cached_property
    def largest(self) -> float:
        """The largest |F_i|."""
        return float(np.abs(self.current).max())

    @cached_property
    def edge(self) -> float:
        """The largest |F_i| on the faces of the box, where it should have vanished."""
        return float(np.abs(self.current[:, self.grid.faces]).max())

    @cached_property
    def tail(self) -> float:
        """A bound on what the highest modes add to F_i: what lies beyond them, the grid can't hold."""
        outer = self.grid.relative_wavenumber >= OUTER
        return max(float(2 * np.abs(component[outer]).sum()) for component in self.modes) / self.grid.size


def flow_on(grid: Grid, process: HandWritten, lowest: float, tell: TellShare) -> Flow:
    """The current on the grid, chunk by chunk; `tell` is told the share that is done."""
    density, current = np.empty(grid.size), np.empty((grid.dim, grid.size))
    for start in range(0, grid.size, CHUNK):
        points = grid.points(start, start + CHUNK)
        values = process.values(points)
        if not values.are_finite:
            process.check(points)
        part = slice(start, start + len(points))
        density[part] = np.exp(lowest - values.energy)
        current[:, part] = values.current.T * density[part]
        tell((start + len(points)) / grid.size)
    return Flow(grid, density.reshape(grid.shape), current.reshape((grid.dim, *grid.shape)))


def pairs(dim: int) -> list[tuple[int, int]]:
    """The entries above the diagonal, in the order in which they are kept."""
    return list(combinations(range(dim), 2))


def fourier(flow: Flow) -> list[np.ndarray]:
    """(Q p)^_ij = (F^_i k_j - F^_j k_i) / (i |k|^2); zero at k = 0."""
    k = flow.grid.wavenumbers
    square = sum((np.square(wave) for wave in k), start=np.zeros(1))
    inverse = np.divide(-1j, square, out=np.zeros(square.shape, complex), where=square > 0)
    return [(flow.modes[i] * k[j] - flow.modes[j] * k[i]) * inverse for i, j in pairs(flow.grid.dim)]


def closed_form(flow: Flow) -> list[np.ndarray]:
    """Q_12 p = integral of F_1 over z_2 from the lower face: in Fourier space a division by i k_2.

    What F_1 holds at k_2 = 0 is its integral from face to face, the flow through a line, which is zero: the flow is
    the same through all lines (div F = 0) and vanishes through a face.
    """
    k = flow.grid.wavenumbers[1]
    inverse = np.divide(-1j, k, out=np.zeros(k.shape, complex), where=k != 0)
    values = np.fft.irfftn(flow.modes[0] * inverse, s=flow.grid.shape, axes=(0, 1))
    return [np.fft.rfftn(values - values[:, :1])]


def anchored(flow: Flow, modes: np.ndarray) -> np.ndarray:
    """The values of Q p, with the constant that the equation leaves open: zero on the faces, on average."""
    values = np.fft.irfftn(modes, s=flow.grid.shape, axes=range(flow.grid.dim))
    return values - values[flow.grid.faces].mean()


def interpolant(grid: Grid, curls: list[np.ndarray]) -> Spline:
    """The spline through the values of Q p on the grid."""
    factor = FINER if FINER * grid.resolution <= MOST_NODES[grid.dim] else 1
    degree, shape = DEGREE[grid.dim], tuple(factor * n for n in grid.shape)
    fine = [coefficients(degree, refined(np.fft.rfftn(values), grid.shape, factor), shape) for values in curls]
    return Spline(np.stack(fine), grid.low, grid.spacing / factor, degree)
