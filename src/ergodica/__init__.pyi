# The public names and where they are: `__init__.py` loads a module when one of its names is first asked for.

from . import data, lda, transforms
from .diagnostics.accuracy import Accuracy
from .driver import Run, cyclical, load, polynomial, same
from .energy import Energy, Gaussian, Relativistic, Thermostat
from .errors import InputError, NonFiniteError
from .fields import Constant, Coupling, Dense, Diagonal, Elementwise, Scaled
from .gradients import ControlVariates, Known, Mode, PerExample, Svrg, find_mode, gradient_noise
from .integrators import Euler, Kernel, Leapfrog, Resampled, Splitting
from .phase import BatchPair
from .recipe import Recipe
from .samplers import (
    coordinate_sgnht,
    expanded_mean,
    fisher,
    gsgrhmc,
    hmc,
    irreversible_langevin,
    potential_scaled,
    psgld,
    relativistic_sghmc,
    riemannian_sgnht,
    sgfs,
    sghmc,
    sgld,
    sgnht,
    sgrhmc,
    sgrld,
)
from .sampling import sample
from .targets import Box, Density, External, Posterior, gallery, positive
from .tuning.settings import Settings, tune
from .verify.audit.audit_step import audit
from .verify.audit.family import audit_family
from .verify.certificate.recipe_certificate import certify
from .verify.certificate.sde_certificate import certify_sde
from .verify.completeness.rebuild import rebuild_curl
from .verify.discrete.exact import exact_law

__all__ = [
    "Accuracy",
    "BatchPair",
    "Box",
    "Constant",
    "ControlVariates",
    "Coupling",
    "Dense",
    "Density",
    "Diagonal",
    "Elementwise",
    "Energy",
    "Euler",
    "External",
    "Gaussian",
    "InputError",
    "Kernel",
    "Known",
    "Leapfrog",
    "Mode",
    "NonFiniteError",
    "PerExample",
    "Posterior",
    "Recipe",
    "Relativistic",
    "Resampled",
    "Run",
    "Scaled",
    "Settings",
    "Splitting",
    "Svrg",
    "Thermostat",
    "audit",
    "audit_family",
    "certify",
    "certify_sde",
    "coordinate_sgnht",
    "cyclical",
    "data",
    "exact_law",
    "expanded_mean",
    "find_mode",
    "fisher",
    "gallery",
    "gradient_noise",
    "gsgrhmc",
    "hmc",
    "irreversible_langevin",
    "lda",
    "load",
    "polynomial",
    "positive",
    "potential_scaled",
    "psgld",
    "rebuild_curl",
    "relativistic_sghmc",
    "riemannian_sgnht",
    "same",
    "sample",
    "sgfs",
    "sghmc",
    "sgld",
    "sgnht",
    "sgrhmc",
    "sgrld",
    "transforms",
    "tune",
]

__version__: str
