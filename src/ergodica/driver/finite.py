"""Chains that leave the finite numbers: frozen, named, with the step and what to do; never a NaN in silence."""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ergodica import structure
from ergodica.driver.chunk import Visit
from ergodica.errors import InputError, NonFiniteError
from ergodica.integrators import Kernel

ADVICE = "the step size is probably too large: try a tenth of it"
AT_ONCE = 1_000  # steps: where no chain outlives them, nothing was sampled


class NothingSampled(InputError):
    """No chain got far enough to be worth keeping."""


class Frozen(NamedTuple):
    """A chain that went no further, and the step that would have left the finite numbers."""

    chain: int
    step: int
    step_size: float

    def words(self) -> str:
        return f"chain {self.chain} left the finite numbers at step {self.step} with step size {self.step_size:g}"


def newly_frozen(
    kernel: Kernel, visits: Sequence[Visit | None], first: int, sizes: np.ndarray, known: Sequence[Frozen]
) -> list[Frozen]:
    """Those frozen in the chunk that began at step `first`; warned of, once each.

    Where a field of the recipe knows the reason (`eg.gsgrhmc`: its offset) the run stops with it.
    """
    found = []
    for chain, visit in enumerate(visits):
        if visit is None or visit.is_alive.all():
            continue
        at = int(np.argmin(visit.is_alive))
        found.append(Frozen(chain, first + at, float(sizes[at])))
        reason = _explanation(kernel, visit.potential[: at + 1])
        if reason is not None:
            raise NonFiniteError(f"{found[-1].words()}: {reason}")
    everyone = [*known, *found]
    if found and len(everyone) == len(visits) and all(frozen.step < AT_ONCE for frozen in everyone):
        steps = max(frozen.step for frozen in everyone) + 1
        example = min(everyone, key=lambda frozen: frozen.step).words()
        raise NothingSampled(f"every chain left the finite numbers within {steps} steps, as {example}: {ADVICE}")
    for frozen in found:
        warnings.warn(f"{frozen.words()} and stays at its last finite state: {ADVICE}", stacklevel=2)
    return found


def _explanation(kernel: Kernel, potentials: Any) -> str | None:
    lowest = float(np.min(potentials[np.isfinite(potentials)], initial=np.inf))
    fields = (*kernel.recipe.diffusion.values(), *kernel.recipe.curl.values())
    return next((words for field in fields if (words := structure.explanation(field, lowest))), None)
