"""Step sizes: schedules of the step's number, and the numbers that a run takes from one, block by block."""

import hashlib
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica import structure
from ergodica.errors import InputError
from ergodica.host import validate

BLOCK_STEPS = 2**16  # steps whose sizes are computed at a time


class Polynomial(eqx.Module):
    """a (1 + t/b)^-c."""

    a: Array
    b: Array
    c: Array

    def __call__(self, step: Any) -> Array:
        return self.a * (1 + jnp.asarray(step, self.a.dtype) / self.b) ** -self.c


class Cyclical(eqx.Module):
    """From `largest` down to `smallest` along half a cosine, in every period."""

    largest: Array
    smallest: Array
    period: int = eqx.field(static=True)
    kept: int = eqx.field(static=True, default=0)

    def __call__(self, step: Any) -> Array:
        share = jnp.asarray(step % self.period, self.largest.dtype) / self.period
        return self.smallest + (self.largest - self.smallest) * (1 + jnp.cos(jnp.pi * share)) / 2


def polynomial(a: float, b: float, c: float) -> Polynomial:
    """Decreasing step sizes a (1 + t/b)^-c at step t (Welling and Teh, 2011: c in (0.5, 1]).

    Example:
        >>> import ergodica as eg
        >>> round(float(eg.polynomial(0.1, 10, 1)(10)), 6)
        0.05
    """
    for name, value in (("a", a), ("b", b)):
        if not (np.isfinite(value) and value > 0):
            raise InputError(f"eg.polynomial: {name} must be a positive number, got {value!r}")
    if not (np.isfinite(c) and c >= 0):
        raise InputError(f"eg.polynomial: c must be at least 0, the sizes decrease as t^-c, got {c!r}")
    return Polynomial(*(jnp.asarray(x, float) for x in (a, b, c)))


def cyclical(largest: float, period: int, smallest: float | None = None, keep: float = 0.5) -> Cyclical:
    """Step sizes that start again every `period` steps: long ones to find another mode, short ones to sample it
    (Zhang et al., 2020). `smallest` defaults to a hundredth of `largest`.

    Draws are kept of the last `keep` of each period, where steps are short. How often a period ends in which mode is
    not the posterior's doing: `run.diagnose()` says so, and leaves the weights of modes undecided.

    Example:
        >>> import ergodica as eg
        >>> float(eg.cyclical(0.5, period=100)(200))
        0.5
    """
    smallest = largest / 100 if smallest is None else smallest
    if not (np.isfinite(largest) and 0 < smallest <= largest):
        raise InputError(f"eg.cyclical needs 0 < smallest <= largest, got {smallest!r} and {largest!r}")
    period = validate.whole("eg.cyclical: period", period, 2, of="steps")
    if not 0 < keep <= 1:
        raise InputError(
            f"eg.cyclical: keep is the share of a period whose draws are kept, above 0 up to 1, got {keep!r}"
        )
    return Cyclical(jnp.asarray(largest, float), jnp.asarray(smallest, float), period, max(1, round(keep * period)))


class StepSizes:
    """The size of every step, in float64; computed in blocks that begin at fixed steps, so that a run that is resumed
    or made longer sees the same bits."""

    def __init__(self, step_size: Any, total: int):
        self.given = step_size
        self.total = total
        self._block: tuple[int, np.ndarray] | None = None
        if not callable(step_size):
            structure.check_step_size(step_size)
            self._check(np.asarray([step_size], np.float64), 0)
            return
        self.between(0, min(total, BLOCK_STEPS))
        self.between(total - 1, total)

    def between(self, first: int, stop: int) -> np.ndarray:
        """Those of steps first, ..., stop - 1."""
        if not callable(self.given):
            return np.broadcast_to(np.float64(self.given), (stop - first,))
        numbers = np.arange(first // BLOCK_STEPS, (stop - 1) // BLOCK_STEPS + 1)
        sizes = np.concatenate([self._of_block(int(number)) for number in numbers])
        sizes = sizes[first - numbers[0] * BLOCK_STEPS :][: stop - first]
        self._check(sizes, first)
        return sizes

    def _check(self, sizes: np.ndarray, first: int) -> None:
        dtype = jax.dtypes.canonicalize_dtype(float)
        is_fine = (sizes > 0) & (sizes <= float(jnp.finfo(dtype).max))
        if not is_fine.all():
            at = int(np.argmin(is_fine))
            gives = f"but the schedule gives {sizes[at]:g} at step {first + at}" if callable(self.given) else ""
            raise InputError(
                f"the step size must be a positive number that {dtype} can hold, {gives or f'got {sizes[at]:g}'}"
            )

    def _of_block(self, number: int) -> np.ndarray:
        if self._block is None or self._block[0] != number:
            # a schedule may know no steps beyond the last one: a table, say
            steps = np.minimum(np.arange(number * BLOCK_STEPS, (number + 1) * BLOCK_STEPS), self.total - 1)
            self._block = (number, _evaluated(self.given, steps))
        return self._block[1]

    def digest(self, stop: int) -> str:
        """Of the sizes before step `stop`: equal for equal prefixes."""
        if not callable(self.given):
            return repr(float(self.given))
        hashed = hashlib.sha256()
        for first in range(0, stop, BLOCK_STEPS):
            hashed.update(self.between(first, min(first + BLOCK_STEPS, stop)).tobytes())
        return hashed.hexdigest()


def _evaluated(schedule: Any, steps: np.ndarray) -> np.ndarray:
    try:
        sizes = np.asarray(jax.vmap(schedule)(jnp.asarray(steps)), float)
    except (TypeError, ValueError):  # a schedule of plain Python numbers
        sizes = np.array([schedule(int(t)) for t in steps], float)
    if sizes.shape != steps.shape:
        raise InputError(f"the schedule gives an array of shape {sizes.shape[1:]} at a step: expected a single number")
    return sizes
