"""Stochastic-gradient MCMC from an energy H, a diffusion D and a curl Q: right by construction."""

import lazy_loader

__version__ = "0.2.0"

# The names are listed in __init__.pyi. Loading all of them would take as long as loading JAX, and nobody needs all.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
