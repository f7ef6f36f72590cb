"""The paper's own sampler (section 3.2): momentum and a state-dependent metric together."""

from typing import Any

from ergodica.energy import Gaussian
from ergodica.fields import Field, Root
from ergodica.recipe import Recipe
from ergodica.samplers.metrics import as_field, potential_scaled


def sgrhmc(inverse_metric: Field | Any) -> Recipe:
    """Stochastic gradient Riemann Hamiltonian Monte Carlo (Ma, Chen and Fox, 2015, Algorithm 1).

    Leaves invariant: exp(-H/T), H = U + r^T r / 2.  D_rr = G^-1(position), Q_rq = G^-1/2(position).

    Args:
        inverse_metric: G^-1, a positive definite field; its root is derived.
    """
    metric = as_field(inverse_metric)
    return Recipe(
        energy={"momentum": Gaussian()},
        diffusion={"momentum": metric},
        curl={("momentum", "position"): Root(metric)},
    )


def gsgrhmc(scale: Any = 1.5, offset: Any = 1.5) -> Recipe:
    """SGRHMC with the metric of the paper's synthetic experiments, G^-1 = scale sqrt|U + offset| (supplement, E.1).

    Leaves invariant: exp(-H/T), H = U + r^T r / 2.  D_rr = G^-1(U), Q_rq = G^-1/2(U).

    Args:
        scale: D in the paper.
        offset: C in the paper; it must exceed -min U. A run that meets U + offset <= 0 stops and names one that does.
    """
    return sgrhmc(potential_scaled(scale, offset))
