"""Topic models on a stream of documents: online LDA by the general recipe."""

import lazy_loader

# As in ergodica/__init__.py: whoever reads a corpus need not wait for JAX and Numba.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
