"""Samplers with momentum: z = (position, momentum), Q_rq = I."""

from typing import Any

from ergodica.energy import Gaussian, Relativistic
from ergodica.fields import Constant
from ergodica.recipe import Recipe


def hmc(mass: Any = 1.0) -> Recipe:
    """Hamiltonian Monte Carlo (Duane et al., 1987): ergodic only with momentum resampling.

    Leaves invariant: exp(-H/T), H = U + r^T M^-1 r / 2.  D = 0, Q_rq = I.
    """
    return Recipe(energy={"momentum": Gaussian(mass)}, curl={("momentum", "position"): Constant(1.0)})


def sghmc(friction: Any = 1.0, mass: Any = 1.0) -> Recipe:
    """Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox and Guestrin, 2014).

    Leaves invariant: exp(-H/T), H = U + r^T M^-1 r / 2.  D_rr = C, Q_rq = I.

    Args:
        friction: C >= (eps/2) V, scalar, vector or matrix (docs/paper/errata.md: half of what the paper prints).
        mass: M, scalar, vector or matrix.
    """
    return Recipe(
        energy={"momentum": Gaussian(mass)},
        diffusion={"momentum": Constant(friction)},
        curl={("momentum", "position"): Constant(1.0)},
    )


def relativistic_sghmc(friction: Any = 1.0, mass: Any = 1.0, speed: Any = 1.0) -> Recipe:
    """SGHMC with a kinetic energy whose velocity never exceeds `speed` (Lu et al., 2017).

    Leaves invariant: exp(-H/T), H = U + sum m c^2 sqrt(r^2 / (m c)^2 + 1).  D_rr = C, Q_rq = I.
    """
    return Recipe(
        energy={"momentum": Relativistic(mass, speed)},
        diffusion={"momentum": Constant(friction)},
        curl={("momentum", "position"): Constant(1.0)},
    )
