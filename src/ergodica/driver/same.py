"""All chains at one place."""

from dataclasses import dataclass
from typing import Any

from jaxtyping import PyTree

from ergodica.errors import InputError


@dataclass(frozen=True, eq=False)
class Same:
    """A position that is not to be dispersed; made by `same`."""

    position: PyTree


def same(position: Any) -> Same:
    """`init=eg.same(position)`: every chain begins exactly at this position.

    A plain position is dispersed by itself (docs/explanation/diagnostics.md), because R-hat says little of chains that
    began at one place. Where they have to begin there, to compare them or to follow their way from it, say so.

    Example:
        >>> import numpy as np, ergodica as eg
        >>> run = eg.sample(eg.gallery.gaussian(2), eg.sgld(), eg.same(np.zeros(2)), steps=4, step_size=1e-12)
        >>> float(abs(run.posterior).max()) < 1e-4
        True
    """
    if isinstance(position, Same) or callable(position) or position is None:
        raise InputError("eg.same takes a position: a pytree of floating arrays")
    return Same(position)
