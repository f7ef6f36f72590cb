"""Chains that are no longer finite: frozen, named, with the step and what to do; never a NaN in silence."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ergodica import structure
from ergodica.driver.chunk import ChunkRecord
from ergodica.errors import InputError, NonFiniteError
from ergodica.integrators import Kernel

ADVICE = "the step size is probably too large: try a tenth of it"
WALL_ADVICE = "where the density is zero behind a wall, give the target a domain= (eg.Box, eg.positive)"
LOST_AT_ONCE = 1_000  # steps: where no chain outlives them, nothing was sampled


class NothingSampled(InputError):
    """No chain got far enough to be worth keeping."""


class Frozen(NamedTuple):
    """A chain that went no further, the first step whose draw does not stand, and the potential met after it where that
    was not finite."""

    chain: int
    step: int
    step_size: float
    potential: str | None = None

    def words(self) -> str:
        met = "is no longer finite" if self.potential is None else f"met a potential of {self.potential}"
        return f"chain {self.chain} {met} at step {self.step} with step size {self.step_size:g}"

    def advice(self) -> str:
        return ADVICE if self.potential is None else f"{ADVICE}; {WALL_ADVICE}"


def newly_frozen(
    kernel: Kernel, records: Sequence[ChunkRecord | None], first: int, sizes: np.ndarray, known: Sequence[Frozen]
) -> list[Frozen]:
    """Those frozen in the chunk that began at step `first`.

    `sizes`: of the step before the chunk, and of its own. Where a field of the recipe knows the reason (`eg.gsgrhmc`:
    its offset) the run stops with it.
    """
    found = []
    for chain, record in enumerate(records):
        if record is None or record.is_alive.all():
            continue
        at = int(np.argmin(record.is_alive))
        potential = _not_finite(record.potential[at]) if kernel.target.has_potential else None
        found.append(Frozen(chain, first - 1 + at, float(sizes[at]), potential))
        _refuse_start(found[-1])
        reason = _explanation(kernel, record.potential[: at + 1])
        if reason is not None:
            raise NonFiniteError(f"{found[-1].words()}: {reason}")
    everyone = [*known, *found]
    if found and len(everyone) == len(records) and all(frozen.step < LOST_AT_ONCE for frozen in everyone):
        steps = max(frozen.step for frozen in everyone) + 1
        example = min(everyone, key=lambda frozen: frozen.step)
        raise NothingSampled(
            f"no chain is finite for more than {steps} steps, as {example.words()}: {example.advice()}"
        )
    return found


def warn_of_frozen(found: Sequence[Frozen]) -> None:
    """Say so, once for each. Where warnings are errors this ends the run: what it has must be on disk by then."""
    for frozen in found:
        warnings.warn(f"{frozen.words()} and stays at its last finite state: {frozen.advice()}", stacklevel=3)


def _not_finite(potential: Any) -> str | None:
    return None if np.isfinite(potential) else f"{float(potential):g}"


def _refuse_start(frozen: Frozen) -> None:
    if frozen.step < 0:
        raise NothingSampled(
            f"chain {frozen.chain} cannot start: "
            + ("its gradient is not finite" if frozen.potential is None else f"its potential is {frozen.potential}")
            + f"; start elsewhere, and {WALL_ADVICE}"
        )


def _explanation(kernel: Kernel, potentials: Any) -> str | None:
    lowest = float(np.min(potentials[np.isfinite(potentials)], initial=np.inf))
    fields = (*kernel.recipe.diffusion.values(), *kernel.recipe.curl.values())
    return next((words for field in fields if (words := structure.explanation(field, lowest))), None)
