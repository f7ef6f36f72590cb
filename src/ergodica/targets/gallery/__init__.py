"""Targets whose law is known, for trying samplers on: each function returns a target with `init` and its Truth."""

from ergodica.targets.gallery.funnel import funnel
from ergodica.targets.gallery.gaussian import gaussian
from ergodica.targets.gallery.logistic import logistic_regression
from ergodica.targets.gallery.synthetic import correlated, one_peak, two_peaks

__all__ = ["correlated", "funnel", "gaussian", "logistic_regression", "one_peak", "two_peaks"]
