"""The paper's own sampler (section 3.2): momentum and a state-dependent metric together."""

from typing import Any

from ergodica.energy import Gaussian
from ergodica.fields import Constant, Field, Root
from ergodica.recipe import Recipe
from ergodica.samplers.metrics import as_field, potential_scaled


def sgrhmc(inverse_metric: Field | Any, friction: Any = None) -> Recipe:
    """Stochastic gradient Riemann Hamiltonian Monte Carlo (Ma, Chen and Fox, 2015, Algorithm 1).

    Leaves invariant: exp(-H/T), H = U + r^T r / 2.  D_rr = G^-1(position), or C; Q_rq = G^-1/2(position).

    Args:
        inverse_metric: G^-1, a positive definite field; its root is derived.
        friction: C, scalar, vector or matrix; None: G^-1 as in the paper. Where friction is large the position moves as
            by Langevin's equation with D = Q D_rr^-1 Q^T: that of SGRLD, G^-1 / C, with a constant C, but the identity
            with D_rr = G^-1, where the metric is lost.
    """
    metric = as_field(inverse_metric)
    return Recipe(
        energy={"momentum": Gaussian()},
        diffusion={"momentum": metric if friction is None else Constant(friction)},
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
