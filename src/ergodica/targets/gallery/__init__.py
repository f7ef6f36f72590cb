"""Targets whose law is known, for trying samplers on: each function returns a target with `init` and its Truth."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
