"""Q p from the current F = c p on a periodic grid: the Fourier construction, and the closed form of two dimensions.

Both return the modes (`np.fft.rfftn`) of (Q p)_ij for the pairs i < j.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ergodica.errors import InputError
from ergodica.host.progress import TellShare
from ergodica.verify.completeness.grid import Box, Grid, holding, in_words, mass_outside
from ergodica.verify.completeness.rebuilt_curl import Spline, coefficients, pairs, refined
from ergodica.verify.hand_written import CHUNK_POINTS, HandWritten

# Shares of the maximum to which exp(-H) falls at the faces, from the widest box down. What F leaves at the faces, and
# what it holds in its highest modes, both come back in Q p; a narrower box is tried while the second is the larger.
FACE_DENSITIES = {2: (1e-16, 1e-13, 1e-10, 1e-7), 3: (1e-11, 1e-9, 1e-7)}
SMALL_TAIL = {2: 1e-13, 3: 3e-6}  # of the largest F: below it a narrower box is not looked for
MASS_CUT = 1e-5  # share of the mass that a given box may leave outside
OUTER_MODES = 0.8  # modes with a wavenumber above this share of the highest are the tail of the spectrum
# By dimension: degree of the spline, and its nodes for each grid point and axis up to so many nodes a side. Measured:
# with these it adds 1e-12 of the drift in 2-D and 1e-8 in 3-D, where degree 11 would take three times as long.
SPLINE_DEGREE = {2: 11, 3: 7}
FINER_BY = 2
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
        outer = self.grid.relative_wavenumber >= OUTER_MODES
        return max(float(2 * np.abs(component[outer]).sum()) for component in self.modes) / self.grid.size


def flow_on(grid: Grid, process: HandWritten, lowest: float, tell: TellShare) -> Flow:
    """The current on the grid, chunk by chunk; `tell` is given the share that is done."""
    density, current = np.empty(grid.size), np.empty((grid.dim, grid.size))
    for start in range(0, grid.size, CHUNK_POINTS):
        points = grid.points(start, start + CHUNK_POINTS)
        values = process.values(points)
        if not values.are_finite:
            process.check(points)
        part = slice(start, start + len(points))
        density[part] = np.exp(lowest - values.energy)
        current[:, part] = values.current.T * density[part]
        tell((start + len(points)) / grid.size)
    return Flow(grid, density.reshape(grid.shape), current.reshape((grid.dim, *grid.shape)))


def laid_flow(process: HandWritten, given: Box | None, resolution: int, lowest: float, tell: TellShare) -> Flow:
    """The current on the grid that loses least of it; `tell` is given the share that is done."""
    boxes = laid_boxes(process, given)
    best = flow_on(Grid(boxes[0], resolution), process, lowest, tell)
    for box in boxes[1:]:
        if best.tail <= max(best.edge, SMALL_TAIL[process.dim] * best.largest):
            break
        other = flow_on(Grid(box, resolution), process, lowest, tell)
        if other.edge + other.tail < best.edge + best.tail:
            best = other
    return best


def laid_boxes(process: HandWritten, given: Box | None) -> list[Box]:
    """Boxes at whose faces exp(-H) has fallen to FACE_DENSITIES, the widest first; each holds the given one."""
    densities = FACE_DENSITIES[process.dim]
    found = [holding(process.energies, process.dim, -np.log(density)) for density in densities]
    boxes = [each[0] for each in found if each is not None]
    if given is None and not boxes:
        raise InputError(
            f"exp(-H) falls off too slowly to find a box at whose faces it is {densities[-1]:g} of its maximum: give "
            "one, box=[(low, high), ...], and look at the error"
        )
    if given is None:
        return boxes
    outside = mass_outside(process.energies, given, boxes[0]) if boxes else 0.0
    if outside > MASS_CUT:
        raise InputError(
            f"the box {in_words(given)} cuts off {100 * outside:.3g} % of the mass of exp(-H): Q p must vanish at its "
            f"faces, so use one like {in_words(boxes[0])}, or leave box out"
        )
    unions = [tuple((min(a, c), max(b, d)) for (a, b), (c, d) in zip(given, box, strict=True)) for box in boxes]
    # a hamiltonian that has no value beyond the given box (a logarithm) is taken at its word
    return [box for box in dict.fromkeys(unions) if is_finite_in(process, box)] or [given]


def is_finite_in(process: HandWritten, box: Box) -> bool:
    """Whether H is finite on a coarse grid in the box."""
    coarse = Grid(box, 32)
    return bool(np.all(np.isfinite(process.energies(coarse.points(0, coarse.size)))))


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
    factor = FINER_BY if FINER_BY * grid.resolution <= MOST_NODES[grid.dim] else 1
    degree, shape = SPLINE_DEGREE[grid.dim], tuple(factor * n for n in grid.shape)
    fine = [coefficients(degree, refined(np.fft.rfftn(values), grid.shape, factor), shape) for values in curls]
    return Spline(np.stack(fine), grid.low, grid.spacing / factor, degree)
