"""Stochastic gradients: what is known of their noise."""

from ergodica.gradients.noise import GradientNoise, Known, PerExample, as_gradient_noise, gradient_noise

__all__ = ["GradientNoise", "Known", "PerExample", "as_gradient_noise", "gradient_noise"]
