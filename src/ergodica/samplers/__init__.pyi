# Where each sampler is: `__init__.py` loads a family when one of its names is first used.

from .hamiltonian import hmc, relativistic_sghmc, sghmc
from .langevin import irreversible_langevin, psgld, sgfs, sgld, sgrld
from .metrics import expanded_mean, fisher, potential_scaled
from .preconditioned import preconditioned
from .riemannian import gsgrhmc, sgrhmc
from .thermostat import coordinate_sgnht, riemannian_sgnht, sgnht

__all__ = [
    "coordinate_sgnht",
    "expanded_mean",
    "fisher",
    "gsgrhmc",
    "hmc",
    "irreversible_langevin",
    "potential_scaled",
    "preconditioned",
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
