from . import gallery
from .base import DataTarget, Target, Truth
from .density import Density
from .domain import Box, positive
from .external import External
from .posterior import Posterior

__all__ = ["Box", "DataTarget", "Density", "External", "Posterior", "Target", "Truth", "gallery", "positive"]
