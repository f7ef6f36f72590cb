"""The paper's own sampler (section 3.2): momentum and a state-dependent metric together."""

from typing import Any

from ergodica.energy import Gaussian
from ergodica.fields import Constant, Field, Root
from ergodica.recipe import Recipe
from ergodica.samplers.metrics import as_field, potential_scaled


def sgrhmc(inverse_metric: Field | Any, friction: Any = None) -> Recipe:
    """Stochastic gradient Riemann Hamiltonian Monte Carlo: momentum in a metric that changes with the position.

    Use it where the scale of the posterior differs from place to place and you can write down a metric that knows it.
    Where one scale fits all, `eg.sghmc` with a mass does the same for less.

        H = U + r^T r / 2,  D_rr = G^-1(q), or C,  Q_rq = G^-1/2(q)
        dq = G^-1/2 r dt,  dr = (-G^-1/2 grad U + T Gamma_r - D_rr r) dt + sqrt(2 T D_rr) dW

    Leaves invariant: exp(-H/T). Without Gamma_r = div G^-1/2, which is derived, the law would be another one.

    Args:
        inverse_metric: G^-1, a positive definite field (`eg.expanded_mean()`, `eg.fisher(...)`, your own), or a number,
            vector or matrix. Its root is derived.
        friction: C, a scalar, vector or matrix; None takes G^-1, as the paper does. Under strong friction the position
            follows Langevin dynamics with diffusion Q D_rr^-1 Q^T. That is G^-1/C, the metric of SGRLD, for a constant
            C, but the identity for D_rr = G^-1: the metric is lost.

    Returns:
        The recipe, for `eg.sample`, `eg.Kernel` or `eg.certify`.

    Example:
        >>> import jax, jax.numpy as jnp, ergodica as eg
        >>> target = eg.Density(lambda q: jnp.sum(q - 3 * jnp.log(q)), init=jnp.array([4.0]), domain=eg.positive)
        >>> recipe = eg.sgrhmc(eg.expanded_mean())  # G^-1 = q, so that Gamma_r = d sqrt(q) / dq
        >>> phase = recipe.init(target, target.init, jax.random.key(0))
        >>> recipe.correction(target, phase).momentum.tolist()
        [0.25]

    Reference:
        Ma, Chen and Fox (2015), Algorithm 1, https://arxiv.org/abs/1506.04696.
    """
    metric = as_field(inverse_metric)
    return Recipe(
        energy={"momentum": Gaussian()},
        diffusion={"momentum": metric if friction is None else Constant(friction)},
        curl={("momentum", "position"): Root(metric)},
    )


def gsgrhmc(scale: Any = 1.5, offset: Any = 1.5) -> Recipe:
    """SGRHMC with the metric of the paper's synthetic experiments, which needs nothing but the potential.

    It moves fast where the density is low, and so crosses between modes. It is a scalar metric: it does not help with
    directions of different scale. Minibatches must come in pairs (`eg.BatchPair`), which `eg.sample` takes care of.

        H = U + r^T r / 2,  D_rr = G^-1,  Q_rq = G^-1/2,  G^-1 = scale sqrt|U + offset| I

    Leaves invariant: exp(-H/T).

    Args:
        scale: D in the paper, a positive number.
        offset: C in the paper. It must exceed -min U; a run that meets U + offset <= 0 stops and suggests a value.

    Returns:
        The recipe, for `eg.sample`, `eg.Kernel` or `eg.certify`.

    Example:
        >>> import jax, jax.numpy as jnp, ergodica as eg
        >>> target = eg.Density(lambda q: jnp.sum(q**2) / 2, init=jnp.zeros(1))
        >>> recipe = eg.gsgrhmc(scale=2.0, offset=4.0)
        >>> phase = recipe.init(target, target.init, jax.random.key(0))
        >>> d, q = recipe.matrices(target, phase)  # at U = 0, where G^-1 = 2 sqrt(4)
        >>> d.tolist(), q.tolist()
        ([[0.0, 0.0], [0.0, 4.0]], [[0.0, -2.0], [2.0, 0.0]])

    Reference:
        Ma, Chen and Fox (2015), supplement, section E.1, https://arxiv.org/abs/1506.04696.
    """
    return sgrhmc(potential_scaled(scale, offset))
