from .densities import correlated, funnel, gaussian, one_peak, two_peaks
from .logistic import logistic_regression

__all__ = ["correlated", "funnel", "gaussian", "logistic_regression", "one_peak", "two_peaks"]
