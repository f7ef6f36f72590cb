"""One step of size eps: Euler (the paper's), symmetric splittings, Metropolis-corrected leapfrog."""

from ergodica.integrators.base import Integrator, Resampled, Setting
from ergodica.integrators.euler import Euler
from ergodica.integrators.kernel import Kernel, State, StepInfo, default_integrator
from ergodica.integrators.leapfrog import Leapfrog
from ergodica.integrators.splitting import Splitting

__all__ = [
    "Euler",
    "Integrator",
    "Kernel",
    "Leapfrog",
    "Resampled",
    "Setting",
    "Splitting",
    "State",
    "StepInfo",
    "default_integrator",
]
