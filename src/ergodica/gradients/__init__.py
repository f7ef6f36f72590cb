"""Stochastic gradients: estimators with less noise, the mode they are centred at, and what is known of the noise."""

import lazy_loader

# The names are listed in __init__.pyi: a run without an estimator does not load the search for a mode.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
