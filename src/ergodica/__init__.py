"""Stochastic-gradient MCMC from an energy H, a diffusion D and a curl Q: right by construction."""

from ergodica.energy import Energy, Gaussian, Relativistic, Thermostat
from ergodica.errors import InputError
from ergodica.fields import Constant, Coupling, Dense, Diagonal, Elementwise, Scaled
from ergodica.gradients import Known, PerExample, gradient_noise
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

__version__ = "0.1.0"
