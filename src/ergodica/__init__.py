"""Stochastic-gradient MCMC from an energy H, a diffusion D and a curl Q: right by construction."""

from ergodica import data
from ergodica.driver import Run, cyclical, load, polynomial, sample
from ergodica.energy import Energy, Gaussian, Relativistic, Thermostat
from ergodica.errors import InputError, NonFiniteError
from ergodica.fields import Constant, Coupling, Dense, Diagonal, Elementwise, Scaled
from ergodica.gradients import ControlVariates, Known, Mode, PerExample, Svrg, find_mode, gradient_noise
from ergodica.integrators import Euler, Kernel, Leapfrog, Resampled, Splitting
from ergodica.phase import BatchPair
from ergodica.recipe import Recipe
from ergodica.samplers import (
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
from ergodica.targets import Box, Density, External, Posterior, gallery, positive
from ergodica.verify import audit, audit_family, certify, certify_sde, exact_law, rebuild_curl

__version__ = "0.1.0"

__all__ = [
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
    "load",
    "polynomial",
    "positive",
    "potential_scaled",
    "psgld",
    "rebuild_curl",
    "relativistic_sghmc",
    "riemannian_sgnht",
    "sample",
    "sgfs",
    "sghmc",
    "sgld",
    "sgnht",
    "sgrhmc",
    "sgrld",
]
