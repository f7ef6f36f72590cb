"""The paper's section 3 as code: each sampler is a function that returns a Recipe.

Symbols are the same everywhere: q the position and d its number of entries, U the potential, r the momentum, xi the
thermostat, T the temperature, eps the step size, V the covariance of the stochastic gradient. Q_rq is the block of Q in
the rows of r and the columns of q; its mirror image, -Q_rq^T, is never written.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
