# The names of ergodica.gradients and where they are: `__init__.py` loads a module when one is first asked for.

from .control import ControlVariates, Referenced, Svrg
from .mode import Mode, find_mode
from .noise import GradientNoise, Known, PerExample, as_gradient_noise, gradient_noise

__all__ = [
    "ControlVariates",
    "GradientNoise",
    "Known",
    "Mode",
    "PerExample",
    "Referenced",
    "Svrg",
    "as_gradient_noise",
    "find_mode",
    "gradient_noise",
]
