"""What to sample: densities, posteriors over data, gradients from outside, and a gallery of known laws."""

import lazy_loader

# The names are listed in __init__.pyi: a run loads only the kind of target that it has.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
