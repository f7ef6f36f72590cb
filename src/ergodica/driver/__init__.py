"""From a request to a run: chains in compiled chunks, draws, checkpoints, resuming.

request -> build (a Plan) -> execute: loop over chunks (work, engine, chunk) -> run
"""

import lazy_loader

# Topic models use the loop and the checkpoints alone: they need not wait for the rest.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
