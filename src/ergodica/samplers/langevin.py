"""Samplers without momentum: z = position, H = U."""

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


def sgld(diffusion: Any = 1.0) -> Recipe:
    """Stochastic gradient Langevin dynamics (Welling and Teh, 2011).

    Leaves invariant: exp(-U/T).  H = U, D = diffusion, Q = 0.
    """
    return Recipe(diffusion={"position": Constant(diffusion)})


def sgfs(gradient_noise: Any, step_size: Any, damping: Any = 1.0) -> Recipe:
    """Stochastic gradient Fisher scoring (Ahn, Korattikara and Welling, 2012).

    Leaves invariant: exp(-U/T).  H = U, D = 2 (eps V + 4 B0)^-1, Q = 0.

    With V compensated, the injected noise 2 eps D - eps^2 D V D = eps D (4 B0) D is admissible at T = 1 for every
    step up to eps. The paper's variant, a constant D with noise 2D - eps B, is `sgld(D)` with `gradient_noise=V`.

    Args:
        gradient_noise: V, estimated in warm-up and then frozen (`eg.gradient_noise`): scalar, vector or matrix.
        step_size: eps, that of the run.
        damping: B0, scalar, vector or matrix.
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
    """Stochastic gradient Riemannian Langevin dynamics (Patterson and Teh, 2013; sign as in docs/paper/errata.md).

    Leaves invariant: exp(-U/T).  H = U, D = G^-1(position), Q = 0.
    """
    return Recipe(diffusion={"position": as_field(inverse_metric)})


def psgld(second_moment: Callable[[PyTree], PyTree], damping: Any = 1e-5) -> Recipe:
    """Preconditioned SGLD (after Li et al., 2016), the metric a function of the position, with its correction.

    Leaves invariant: exp(-U/T).  H = U, D = diag(1 / (damping + sqrt v(position))), Q = 0.

    Li et al. take v from a running mean along the path and drop Gamma, which leaves another law invariant; here v is a
    function of the position, such as a smoothed squared gradient on a fixed subset of the data.
    """
    return Recipe(diffusion={"position": Diagonal(_RootPreconditioner(second_moment, damping))})


class _RootPreconditioner(eqx.Module):
    second_moment: Callable[[PyTree], PyTree]
    damping: Array

    def __init__(self, second_moment: Callable[[PyTree], PyTree], damping: Any):
        self.second_moment, self.damping = second_moment, as_number(damping)

    def __call__(self, z: View) -> PyTree:
        return jax.tree.map(lambda v: 1 / (tree.cast(self.damping, v) + jnp.sqrt(v)), self.second_moment(z.position))


def irreversible_langevin(curl: Any, diffusion: Any = 1.0) -> Recipe:
    """Langevin dynamics with a constant skew curl on the position (Hwang, Hwang-Ma and Sheu, 1993).

    Leaves invariant: exp(-U/T).  H = U, D = diffusion, Q = curl, a skew-symmetric matrix.
    """
    return Recipe(diffusion={"position": Constant(diffusion)}, curl={("position", "position"): Constant(curl)})
