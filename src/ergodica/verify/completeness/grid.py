"""A uniform periodic grid on a box: its points, its wavenumbers, and whether it fits in memory."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ergodica.errors import InputError
from ergodica.host.memory import available_memory, readable

Box = tuple[tuple[float, float], ...]

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
