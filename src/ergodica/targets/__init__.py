"""What to sample: densities, posteriors over data, gradients from outside, and a gallery of known laws."""

from ergodica.targets import gallery
from ergodica.targets.base import Target, Truth
from ergodica.targets.density import Density
from ergodica.targets.domain import Box, positive
from ergodica.targets.external import External
from ergodica.targets.posterior import Posterior

__all__ = ["Box", "Density", "External", "Posterior", "Target", "Truth", "gallery", "positive"]
