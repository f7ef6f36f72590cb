"""Verdicts on draws: did the chains meet, how many draws are they worth, and is it the right law?"""

import lazy_loader

# The names are listed in __init__.pyi: a run needs no verdict before it is asked for one.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
