"""Chains that leave the finite numbers: named, with the step and what to do, never a NaN in silence."""

import numpy as np

from ergodica import structure
from ergodica.driver.chunk import Visit
from ergodica.errors import NonFiniteError
from ergodica.integrators import Kernel


def stop_if_non_finite(kernel: Kernel, visit: Visit, chain: int, first: int, sizes: np.ndarray) -> None:
    """Raise for the first non-finite step among those of this chunk, which began at step `first`."""
    if visit.is_finite.all():
        return
    at = int(np.argmin(visit.is_finite))
    seen = visit.potential[: at + 1]
    lowest = float(np.min(seen[np.isfinite(seen)], initial=np.inf))
    fields = (*kernel.recipe.diffusion.values(), *kernel.recipe.curl.values())
    explanations = [message for field in fields if (message := structure.explanation(field, lowest))]
    advice = explanations[0] if explanations else "the step size is probably too large: try a tenth of it"
    raise NonFiniteError(
        f"chain {chain} left the finite numbers at step {first + at} with step size {sizes[first + at]:g}: {advice}"
    )
