"""Rows and batches: arrays, files larger than memory, iterables, and shuffled streams from them."""

import lazy_loader

# The names are listed in __init__.pyi: a run loads only the kind of source that it has.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
