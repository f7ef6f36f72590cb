"""Where a law lives, and a grid to lay on it.

The box outside which exp(-H) is below a share of its maximum, and the mass outside a given box, are found by looking,
on grids that follow the sublevel set {H < min H + level}, so that neither scale nor start is asked of the user: enough
in two and three dimensions. The grid that Q is rebuilt on is uniform and periodic.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ergodica.errors import InputError
from ergodica.host.memory import available_memory, readable

Box = tuple[tuple[float, float], ...]
Energies = Callable[[np.ndarray], np.ndarray]  # points (n, dim) -> H (n,)

SEARCH_NODES = {2: 65, 3: 33}  # a side
SEARCH_ROUNDS = 80
FARTHEST_PLACE = 1e9
# Numbers held for each grid point when most are: seen with tracemalloc (17 to 19), and some room for JAX.
NUMBERS_PER_POINT = 24


@dataclass(frozen=True)
class Grid:
    """`resolution` points a side from the lower faces of the box on; the upper faces are the lower ones again."""

    box: Box
    resolution: int

    @property
    def dim(self) -> int:
        return len(self.box)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.resolution,) * self.dim

    @property
    def size(self) -> int:
        return self.resolution**self.dim

    @cached_property
    def low(self) -> np.ndarray:
        return np.array([side[0] for side in self.box])

    @cached_property
    def spacing(self) -> np.ndarray:
        return np.array([(high - low) / self.resolution for low, high in self.box])

    def points(self, start: int, stop: int) -> np.ndarray:
        """The points numbered start, ..., stop - 1, the last coordinate running fastest: (stop - start, dim)."""
        indices = np.unravel_index(np.arange(start, min(stop, self.size)), self.shape)
        return self.low + np.stack(indices, axis=-1) * self.spacing

    @cached_property
    def wavenumbers(self) -> tuple[np.ndarray, ...]:
        """k_1, k_2, ... of `np.fft.rfftn`, shaped to broadcast against it.

        The mode with two points a wave is the same for k and -k, so that it has no derivative: its k is put to zero.
        """
        waves = []
        for axis, width in enumerate(self.spacing):
            full = np.fft.rfftfreq if axis == self.dim - 1 else np.fft.fftfreq
            k = 2 * np.pi * full(self.resolution, width)
            if self.resolution % 2 == 0:
                k[self.resolution // 2] = 0.0
            waves.append(k.reshape([-1 if a == axis else 1 for a in range(self.dim)]))
        return tuple(waves)

    @property
    def relative_wavenumber(self) -> np.ndarray:
        """The largest |k_i| of each mode of `np.fft.rfftn`, over the highest that the grid holds."""
        line = 2 * np.abs(np.fft.fftfreq(self.resolution))
        lines = [line] * (self.dim - 1) + [line[: self.resolution // 2 + 1]]
        return np.maximum.reduce(np.meshgrid(*lines, indexing="ij"))

    @property
    def faces(self) -> np.ndarray:
        """Which points lie on a face: bool, shaped like the grid."""
        inner = np.zeros(self.shape, bool)
        inner[(slice(1, None),) * self.dim] = True
        return ~inner


def check_memory(resolution: int, dim: int) -> None:
    """Refuses, before anything is allocated, a grid that would not fit."""
    each = 8 * NUMBERS_PER_POINT
    needed, available = each * resolution**dim, available_memory()
    if needed > available:
        fits = int((available / each) ** (1 / dim))
        raise InputError(
            f"resolution {resolution} in {dim} dimensions needs about {readable(needed)} of memory and there are "
            f"{readable(available)}: use resolution={fits} or less"
        )


def in_words(box: Box) -> str:
    return " x ".join(f"({low:.4g}, {high:.4g})" for low, high in box)


def holding(energies: Energies, dim: int, level: float) -> tuple[Box, float] | None:
    """The box that holds {H < min H + level}, and min H; None where that set has no end within FARTHEST_PLACE of 0.

    Where H is not a number or infinite there is no mass. Peaks much narrower than their distance may be overlooked.
    """
    half = SEARCH_NODES[dim] // 2
    line = np.concatenate([-np.geomspace(1e-4, 1e4, half)[::-1], [0.0], np.geomspace(1e-4, 1e4, half)])
    axes, lowest = [line] * dim, np.inf
    for _ in range(SEARCH_ROUNDS):
        energy = on_tensor_grid(energies, axes)
        if not np.any(np.isfinite(energy)):
            return None
        lowest = min(lowest, float(energy.min()))
        bounds = [around(axis, energy <= lowest + level, number) for number, axis in enumerate(axes)]
        if max(abs(bound) for side in bounds for bound in side) > FARTHEST_PLACE:
            return None
        is_settled = all(
            axis[0] <= low and high <= axis[-1] and high - low > 0.8 * (axis[-1] - axis[0])
            for axis, (low, high) in zip(axes, bounds, strict=True)
        )
        if is_settled:
            return tuple(bounds), lowest
        axes = [np.linspace(low, high, SEARCH_NODES[dim]) for low, high in bounds]
    return None


def around(axis: np.ndarray, inside: np.ndarray, number: int) -> tuple[float, float]:
    """The stretch of an axis that the set covers, one node more on each side; twice as far where it reaches the end."""
    hit = np.flatnonzero(inside.any(axis=tuple(a for a in range(inside.ndim) if a != number)))
    if hit.size == 0:  # an earlier, finer look went lower: stay
        return float(axis[0]), float(axis[-1])
    width = axis[-1] - axis[0]
    low = axis[hit[0] - 1] if hit[0] > 0 else axis[0] - width
    high = axis[hit[-1] + 1] if hit[-1] < len(axis) - 1 else axis[-1] + width
    return float(low), float(high)


def on_tensor_grid(energies: Energies, axes: list[np.ndarray]) -> np.ndarray:
    """H on the tensor grid of these axes; infinite where it is not a number."""
    points = np.stack([x.ravel() for x in np.meshgrid(*axes, indexing="ij")], axis=-1)
    energy = energies(points).reshape([len(axis) for axis in axes])
    return np.where(np.isnan(energy), np.inf, energy)


def mass_outside(energies: Energies, box: Box, whole: Box) -> float:
    """The share of the mass of `whole`, which holds the law, that is outside `box`."""
    common = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, whole, strict=True))
    if any(low >= high for low, high in common):
        return 1.0
    found = holding(energies, len(box), 1.0)
    core = whole if found is None else found[0]
    return max(0.0, 1.0 - mass(energies, common, core) / mass(energies, whole, core))


def mass(energies: Energies, box: Box, core: Box) -> float:
    """The integral of exp(-H) over the box, over its value at the centre of the core.

    Gauss-Legendre in u, z = centre + half width sinh(u) in each coordinate: fine steps in the core, wide ones beyond.
    """
    nodes, weights = np.polynomial.legendre.leggauss(2 * SEARCH_NODES[len(box)])
    centre, half = centre_and_half(core)
    axes, factors = [], []
    for (low, high), middle, width in zip(box, centre, half, strict=True):
        first, last = np.arcsinh((np.array([low, high]) - middle) / width)
        u = first + (last - first) * (nodes + 1) / 2
        axes.append(middle + width * np.sinh(u))
        factors.append(weights * (last - first) / 2 * width * np.cosh(u))
    total = np.exp(energies(centre[None])[0] - on_tensor_grid(energies, axes))
    for factor in reversed(factors):
        total = total @ factor
    return float(total)


def bulk_points(energies: Energies, box: Box, ceiling: float, count: int, seed: int) -> np.ndarray:
    """Points drawn evenly from {H < ceiling} in the box: at most `count`, fewer where the set fills little of it."""
    rng = np.random.default_rng(seed)
    low, high = np.array(box).T
    kept: list[np.ndarray] = []
    for _ in range(64):
        crowd = rng.uniform(low, high, (4 * count, len(box)))
        kept.append(crowd[energies(crowd) < ceiling])
        if sum(len(points) for points in kept) >= count:
            break
    return np.concatenate(kept)[:count]


def centre_and_half(box: Box) -> tuple[np.ndarray, np.ndarray]:
    """The centre of a box and half its widths."""
    low, high = np.array(box).T
    return (low + high) / 2, (high - low) / 2
