"""Documents for topic models, read as a stream in bounded memory: files, addresses, tables, texts, counts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
