"""What a run leaves: the draws and what the steps met."""

from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import PyTree


class Run(eqx.Module):
    """The draws of a run.

    Attributes:
        posterior: the tree of the start, with NumPy leaves shaped (chain, draw, ...).
        stats: arrays (chain, draw) of each step kept: `potential` (of its batch), `step_size`, `accepted`.
        settings: what the run was made with.
    """

    posterior: PyTree
    stats: dict[str, np.ndarray]
    settings: dict[str, Any] = eqx.field(static=True)
