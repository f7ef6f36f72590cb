"""The paper's section 3 as code: each sampler is a function that returns a Recipe.

Symbols are the same everywhere: q the position and d its number of entries, U the potential, r the momentum, xi the
thermostat, T the temperature, eps the step size, V the covariance of the stochastic gradient. Q_rq is the block of Q in
the rows of r and the columns of q; its mirror image, -Q_rq^T, is never written.
"""

from ergodica.samplers.hamiltonian import hmc, relativistic_sghmc, sghmc
from ergodica.samplers.langevin import irreversible_langevin, psgld, sgfs, sgld, sgrld
from ergodica.samplers.metrics import expanded_mean, fisher, potential_scaled
from ergodica.samplers.riemannian import gsgrhmc, sgrhmc
from ergodica.samplers.thermostat import coordinate_sgnht, riemannian_sgnht, sgnht

__all__ = [
    "coordinate_sgnht",
    "expanded_mean",
    "fisher",
    "gsgrhmc",
    "hmc",
    "irreversible_langevin",
    "potential_scaled",
    "psgld",
    "relativistic_sghmc",
    "riemannian_sgnht",
    "sgfs",
    "sghmc",
    "sgld",
    "sgnht",
    "sgrhmc",
    "sgrld",
]
