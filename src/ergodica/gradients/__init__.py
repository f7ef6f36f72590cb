"""Stochastic gradients: estimators with less noise, the mode they are centred at, and what is known of the noise."""

from ergodica.gradients.control import ControlVariates, Referenced, Svrg
from ergodica.gradients.mode import Mode, find_mode
from ergodica.gradients.noise import GradientNoise, Known, PerExample, as_gradient_noise, gradient_noise

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
