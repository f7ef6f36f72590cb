"""Targets whose law is known, for trying samplers on: each function returns a target with `init` and its Truth."""

from ergodica.targets.gallery.densities import correlated, funnel, gaussian, one_peak, two_peaks
from ergodica.targets.gallery.logistic import logistic_regression

__all__ = ["correlated", "funnel", "gaussian", "logistic_regression", "one_peak", "two_peaks"]
