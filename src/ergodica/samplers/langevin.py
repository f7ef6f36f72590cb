"""Samplers without momentum: z = position, H = U.

The position diffuses, so a chain needs about (length / step)^2 steps to cross a length; in return there is nothing to
tune but D and the step size.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from ergodica import tree
from ergodica.errors import InputError
from ergodica.fields import Constant, Diagonal, Field, as_number
from ergodica.phase import View
from ergodica.recipe import Recipe
from ergodica.samplers.metrics import as_field
from ergodica.samplers.preconditioned import preconditioned


def sgld(diffusion: Any = 1.0) -> Recipe:
    """Stochastic gradient Langevin dynamics: gradient descent plus noise, the simplest sampler there is.

    Use it as a baseline, and where gradients are so noisy that momentum would not survive. Otherwise `eg.sghmc` takes
    fewer steps, with a smaller bias.

        H = U,  D = diffusion,  Q = 0
        dq = -D grad U dt + sqrt(2 T D) dW

    Leaves invariant: exp(-U/T).

    Args:
        diffusion: D, a scalar, a vector shaped like the position, or a matrix, constant in the position. The covariance
            of the posterior is the best choice. For a D that depends on the position use `eg.sgrld`.

    Returns:
        The recipe, for `eg.sample`, `eg.Kernel` or `eg.certify`.

    Example:
        >>> import ergodica as eg
        >>> run = eg.sample(eg.gallery.gaussian(2), eg.sgld(), steps=50, step_size=0.1, chains=3)
        >>> run.posterior.shape
        (3, 50, 2)

    Reference:
        Welling and Teh (2011), ICML; as a recipe Ma, Chen and Fox (2015), section 3.1,
        https://arxiv.org/abs/1506.04696.
    """
    return Recipe(diffusion={"position": Constant(diffusion)})


def sgfs(gradient_noise: Any, step_size: Any, damping: Any = 1.0) -> Recipe:
    """Stochastic gradient Fisher scoring: Langevin dynamics preconditioned by the gradient noise itself.

    Use it near a mode with much data, where the noise of a minibatch's gradient has the shape of the posterior's
    precision. V is fixed before the run: far from where it was estimated the preconditioner is a poor one, though the
    law stays right.

        H = U,  D = 2 (eps V + 4 B0)^-1,  Q = 0

    Leaves invariant: exp(-U/T).

    A run with batches subtracts V from the noise that it injects. At T = 1 what is left,
    2 eps D - eps^2 D V D = eps D (4 B0) D, is positive semidefinite for every step up to eps. The recipe paper's
    variant, a constant D with noise 2D - eps B, is `eg.sgld(D)` with `gradient_noise=V`.

    Args:
        gradient_noise: V, from `eg.gradient_noise`: a scalar, a vector shaped like the position, or a matrix.
        step_size: eps, that of the run.
        damping: B0, likewise a scalar, vector or matrix.

    Returns:
        The recipe, for `eg.sample`, `eg.Kernel` or `eg.certify`.

    Example:
        >>> import ergodica as eg
        >>> recipe = eg.sgfs(gradient_noise=12.0, step_size=0.5, damping=1.0)
        >>> float(recipe.diffusion["position"].entries)  # 2 / (0.5 * 12 + 4)
        0.2

    Reference:
        Ahn, Korattikara and Welling (2012), https://arxiv.org/abs/1206.6380.
    """
    precision = _combine(step_size, gradient_noise, damping)
    if len(jax.tree.leaves(precision)) == 1 and jax.tree.leaves(precision)[0].ndim == 2:
        diffusion = 2 * jnp.linalg.inv(jax.tree.leaves(precision)[0])
        diffusion = (diffusion + diffusion.T) / 2
    else:
        diffusion = jax.tree.map(lambda p: 2 / p, precision)
    return Recipe(diffusion={"position": Constant(diffusion)}, gradient_noise=jax.tree.map(as_number, gradient_noise))


def _combine(step_size: Any, noise: Any, damping: Any) -> PyTree:
    """eps V + 4 B0 where either may be a scalar, a pytree of entries, or a matrix."""
    noise, damping = jax.tree.map(as_number, noise), jax.tree.map(as_number, damping)
    leaves = [jax.tree.leaves(x) for x in (noise, damping)]
    if any(len(x) == 1 and x[0].ndim == 2 for x in leaves):
        n = max(x[0].shape[0] for x in leaves if x[0].ndim == 2)
        v, b = (_as_matrix(x[0], n) for x in leaves)
        return step_size * v + 4 * b
    if len(leaves[1]) == 1 and leaves[1][0].ndim == 0:
        return jax.tree.map(lambda v: step_size * v + 4 * leaves[1][0], noise)
    if len(leaves[0]) == 1 and leaves[0][0].ndim == 0:
        return jax.tree.map(lambda b: step_size * leaves[0][0] + 4 * b, damping)
    if jax.tree.structure(noise) != jax.tree.structure(damping):
        raise InputError("eg.sgfs: gradient_noise and damping must be scalars, or trees like the position, or matrices")
    return jax.tree.map(lambda v, b: step_size * v + 4 * b, noise, damping)


def _as_matrix(x: Any, n: int) -> Any:
    if x.ndim == 2:
        return x
    return x * jnp.eye(n) if x.ndim == 0 else jnp.diag(jnp.asarray(x))


def sgrld(inverse_metric: Field | Any) -> Recipe:
    """Stochastic gradient Riemannian Langevin dynamics: steps whose size and direction follow a metric.

    Use it where scales differ from place to place, above all for positive parameters and probabilities with
    `eg.expanded_mean()`. With a constant metric it is `eg.sgld`; with momentum, `eg.sgrhmc`.

        H = U,  D = G^-1(q),  Q = 0
        dq = (-G^-1 grad U + T Gamma) dt + sqrt(2 T G^-1) dW,  Gamma_i = sum_j d(G^-1)_ij / dq_j

    Leaves invariant: exp(-U/T), a density with respect to dq (not to the volume of the metric).

    Args:
        inverse_metric: G^-1, a positive definite field (`eg.expanded_mean()`, `eg.fisher(...)`, your own), or a number,
            vector or matrix.

    Returns:
        The recipe, for `eg.sample`, `eg.Kernel` or `eg.certify`.

    Example:
        >>> import jax, jax.numpy as jnp, ergodica as eg
        >>> target = eg.Density(lambda q: jnp.sum(q - 3 * jnp.log(q)), init=jnp.array([2.0]), domain=eg.positive)
        >>> recipe = eg.sgrld(eg.expanded_mean())  # G^-1 = q, so that Gamma = 1
        >>> phase = recipe.init(target, target.init, jax.random.key(0))
        >>> recipe.drift(target, phase).position.tolist()  # -q (1 - 3/q) + 1
        [2.0]

    Reference:
        Patterson and Teh (2013), NeurIPS,
        https://papers.nips.cc/paper/4883-stochastic-gradient-riemannian-langevin-dynamics-on-the-probability-simplex;
        Girolami and Calderhead (2011), https://doi.org/10.1111/j.1467-9868.2010.00765.x. The sign of Gamma is that of
        docs/paper/errata.md.
    """
    return Recipe(diffusion={"position": as_field(inverse_metric)})


def psgld(second_moment: Callable[[PyTree], PyTree] | None = None, damping: Any = 1e-5) -> Recipe:
    """Preconditioned SGLD: RMSProp's scaling of each coordinate, with the correction that keeps the law.

    Use it where coordinates have very different scales and you have a cheap guess of each one's squared gradient. If a
    constant guess is enough, `eg.sgld` with a vector costs less.

        H = U,  D = diag(1 / (damping + sqrt v(q))),  Q = 0

    Leaves invariant: exp(-U/T).

    Li et al. take v from a running average along the path and drop Gamma, and so sample another law. Here v is either
    learned in the warm-up and then frozen, or a function of the position, such as a smoothed squared gradient on a
    fixed subset of the data.

    Args:
        second_moment: v(position), nonnegative, shaped like the position. None: learned in the warm-up, as
            `eg.preconditioned(eg.sgld())`.
        damping: what keeps D finite where v vanishes.

    Returns:
        The recipe, for `eg.sample`, `eg.Kernel` or `eg.certify`.

    Example:
        >>> import jax, jax.numpy as jnp, ergodica as eg
        >>> target = eg.Density(lambda q: 8 * q[0] ** 2 + q[1] ** 2 / 2, init=jnp.ones(2))
        >>> recipe = eg.psgld(lambda q: jnp.array([256.0, 1.0]), damping=0.0)
        >>> phase = recipe.init(target, target.init, jax.random.key(0))
        >>> recipe.drift(target, phase).position.tolist()  # the gradient (16, 1), each coordinate by its own scale
        [-1.0, -1.0]

    Reference:
        After Li, Chen, Carlson and Carin (2016), https://arxiv.org/abs/1512.07666.
    """
    if second_moment is None:
        return preconditioned(sgld())
    return Recipe(diffusion={"position": Diagonal(_RootPreconditioner(second_moment, damping))})


class _RootPreconditioner(eqx.Module):
    second_moment: Callable[[PyTree], PyTree]
    damping: Array

    def __init__(self, second_moment: Callable[[PyTree], PyTree], damping: Any):
        self.second_moment, self.damping = second_moment, as_number(damping)

    def __call__(self, z: View) -> PyTree:
        return jax.tree.map(lambda v: 1 / (tree.cast(self.damping, v) + jnp.sqrt(v)), self.second_moment(z.position))


def irreversible_langevin(curl: Any, diffusion: Any = 1.0) -> Recipe:
    """Langevin dynamics with a rotation: a constant skew curl that stirs the position without changing its law.

    A well-chosen curl forgets the start sooner than `eg.sgld`, at the same cost. Use it on a few strongly correlated
    coordinates, where you can choose the plane to rotate in; a large curl needs smaller steps.

        H = U,  D = diffusion,  Q = curl
        dq = -(D + Q) grad U dt + sqrt(2 T D) dW

    Leaves invariant: exp(-U/T).

    Args:
        curl: Q, a skew-symmetric matrix in the order of `jax.flatten_util.ravel_pytree`.
        diffusion: D, a scalar, a vector shaped like the position, or a matrix.

    Returns:
        The recipe, for `eg.sample`, `eg.Kernel` or `eg.certify`.

    Example:
        >>> import jax, jax.numpy as jnp, ergodica as eg
        >>> target = eg.Density(lambda q: jnp.sum(q**2) / 2, init=jnp.array([1.0, 0.0]))
        >>> recipe = eg.irreversible_langevin(curl=jnp.array([[0.0, 2.0], [-2.0, 0.0]]))
        >>> phase = recipe.init(target, target.init, jax.random.key(0))
        >>> recipe.drift(target, phase).position.tolist()  # inwards by D, round by Q
        [-1.0, 2.0]

    Reference:
        Hwang, Hwang-Ma and Sheu (1993), Annals of Applied Probability 3(3). That Q leaves the law as it is: Ma, Chen
        and Fox (2015), Theorem 1, https://arxiv.org/abs/1506.04696.
    """
    return Recipe(diffusion={"position": Constant(diffusion)}, curl={("position", "position"): Constant(curl)})
