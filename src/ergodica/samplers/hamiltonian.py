"""Samplers with momentum: z = (position, momentum), Q_rq = I.

The momentum carries a chain past flat and narrow places that Langevin dynamics crosses by diffusing.
"""

from typing import Any

import jax

from ergodica.energy import Gaussian, Relativistic
from ergodica.fields import Constant
from ergodica.operators import LowRank
from ergodica.recipe import Recipe


def hmc(mass: Any = 1.0, *, scale: Any = None) -> Recipe:
    """Hamiltonian Monte Carlo: the exact full-data reference.

    Use it when every step can see all the data, and to check a stochastic-gradient sampler. With minibatches use
    `eg.sghmc`: without friction nothing removes the energy that noisy gradients put in. There is no noise either, so
    the sampler is ergodic only because `eg.Leapfrog`, which it gets by default, draws a fresh momentum for each
    trajectory.

        H = U + r^T M^-1 r / 2,  D = 0,  Q_rq = I

    Leaves invariant: exp(-H/T), exactly at every step size, thanks to the Metropolis test of `eg.Leapfrog`.

    Args:
        mass: M, a scalar, a vector shaped like the position, or a matrix. The inverse covariance of the posterior is
            the best choice.
        scale: as in `eg.sghmc`.

    Returns:
        The recipe, for `eg.sample`, `eg.Kernel` or `eg.certify`.

    Example:
        >>> import ergodica as eg
        >>> recipe = eg.hmc(mass=2.0)
        >>> recipe.slots, recipe.diffusion
        (('position', 'momentum'), {})

    Reference:
        Duane, Kennedy, Pendleton and Roweth (1987), https://doi.org/10.1016/0370-2693(87)91197-X; Neal (2011),
        https://arxiv.org/abs/1206.1901.
    """
    return Recipe(energy={"momentum": Gaussian(mass)}, curl={("momentum", "position"): _turn(scale)})


def _turn(scale: Any) -> Constant:
    """Q_rq = R^T. With q = R u and momentum r this is dq = R r dt, dr = -R^T grad U dt: Q_rq = I for the variable u."""
    if scale is None:
        return Constant(1.0)
    if isinstance(scale, LowRank):
        return Constant(scale.transpose())
    leaves = jax.tree.leaves(scale)
    return Constant(leaves[0].T if len(leaves) == 1 and getattr(leaves[0], "ndim", 0) == 2 else scale)


def sghmc(friction: Any = 1.0, mass: Any = 1.0, *, scale: Any = None) -> Recipe:
    """Stochastic gradient Hamiltonian Monte Carlo: the one to try first on a posterior with minibatches.

    It moves further in a step than `eg.sgld`, and `eg.Splitting`, its default integrator, has a bias of order 2. If you
    do not know the gradient noise and cannot estimate it, consider `eg.sgnht`; if scales differ between regions of the
    posterior, `eg.sgrhmc`.

        H = U + r^T M^-1 r / 2,  D_rr = C,  Q_rq = I
        dq = M^-1 r dt,  dr = -grad U dt - C M^-1 r dt + sqrt(2 T C) dW

    Leaves invariant: exp(-H/T).

    Args:
        friction: C, a scalar, a vector shaped like the position, or a matrix. Gradient noise V can be compensated where
            C >= (eps/2) V, half of what the paper prints (docs/paper/errata.md).
        mass: M, likewise.
        scale: R, the width of the posterior: a vector of standard deviations, or a root of its covariance,
            R R^T = Sigma (`np.linalg.cholesky(mode.covariance(target))`). Then Q_rq = R^T, which is the sampler for the
            variable u = R^-1 q: friction and step size are in units of a posterior of width 1, where friction 1 to 3
            and a step of 0.25 to 0.7 suit nearly every target. It does what a mass of Sigma^-1 with friction
            gamma Sigma^-1 does, and costs less (docs/how-to/precondition.md).

    Returns:
        The recipe, for `eg.sample`, `eg.Kernel` or `eg.certify`.

    Example:
        >>> import jax, ergodica as eg
        >>> target, recipe = eg.gallery.gaussian(1), eg.sghmc(friction=2.0)
        >>> phase = recipe.init(target, target.init, jax.random.key(0))
        >>> d, q = recipe.matrices(target, phase)  # rows and columns: position, momentum
        >>> d.tolist(), q.tolist()
        ([[0.0, 0.0], [0.0, 2.0]], [[0.0, -1.0], [1.0, 0.0]])

    Reference:
        Chen, Fox and Guestrin (2014), https://arxiv.org/abs/1402.4102.
    """
    return Recipe(
        energy={"momentum": Gaussian(mass)},
        diffusion={"momentum": Constant(friction)},
        curl={("momentum", "position"): _turn(scale)},
    )


def relativistic_sghmc(friction: Any = 1.0, mass: Any = 1.0, speed: Any = 1.0) -> Recipe:
    """SGHMC with a speed limit: no coordinate of the position moves faster than `speed`.

    Use it where gradients are sometimes so large that SGHMC's momentum runs away. On a well-scaled posterior the limit
    only slows the chain down.

        H = U + sum_i m c^2 sqrt(r_i^2 / (m c)^2 + 1),  D_rr = C,  Q_rq = I

    Leaves invariant: exp(-H/T).

    Args:
        friction: C, a scalar, a vector shaped like the position, or a matrix.
        mass: m, a positive number.
        speed: c, a positive number.

    Returns:
        The recipe, for `eg.sample`, `eg.Kernel` or `eg.certify`.

    Example:
        >>> import jax, jax.numpy as jnp, ergodica as eg
        >>> target, recipe = eg.gallery.gaussian(1), eg.relativistic_sghmc(speed=3.0)
        >>> phase = recipe.init(target, target.init, jax.random.key(0))
        >>> velocity = recipe.drift(target, phase._replace(momentum=jnp.array([1e4]))).position
        >>> round(float(velocity[0]), 3)
        3.0

    Reference:
        Lu, Perrone, Hasenclever, Teh and Vollmer (2017), https://arxiv.org/abs/1609.04388; here each coordinate has a
        speed limit of its own.
    """
    return Recipe(
        energy={"momentum": Relativistic(mass, speed)},
        diffusion={"momentum": Constant(friction)},
        curl={("momentum", "position"): Constant(1.0)},
    )
