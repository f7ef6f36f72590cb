"""What to sample: densities, posteriors over data, gradients from outside, and a gallery of known laws."""

from typing import TYPE_CHECKING

import lazy_loader

from ergodica.targets.base import DataTarget, Target, Truth
from ergodica.targets.density import Density
from ergodica.targets.domain import Box, positive
from ergodica.targets.external import External
from ergodica.targets.posterior import Posterior

if TYPE_CHECKING:
    from ergodica.targets import gallery

__getattr__, _, _ = lazy_loader.attach(__name__, ["gallery"])  # a run does not need it

__all__ = ["Box", "DataTarget", "Density", "External", "Posterior", "Target", "Truth", "gallery", "positive"]
