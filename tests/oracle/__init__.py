"""The theorem in plain NumPy on flat vectors, to hold the library against. Imports nothing from the package."""

from .stationarity import fokker_planck, observables, weak_form
from .theorem import correction, drift, gradient, jacobian

__all__ = ["correction", "drift", "fokker_planck", "gradient", "jacobian", "observables", "weak_form"]
