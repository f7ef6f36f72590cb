"""Samplers with momentum and a thermostat: a friction xi that adapts until the momentum has temperature T.

Gradient noise of unknown size heats the momentum; xi rises until friction takes that heat away again. Unlike
compensation (`gradient_noise=V`), this needs no estimate of V.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from ergodica.energy import Gaussian, Thermostat
from ergodica.fields import Constant, Coupling, Dense, Elementwise, Field, Root
from ergodica.phase import View
from ergodica.recipe import Recipe
from ergodica.samplers.metrics import as_field
from ergodica.tree import Layout


def sgnht(diffusion: Any = 1.0) -> Recipe:
    """Stochastic gradient Nose-Hoover thermostat: SGHMC whose friction adapts to gradient noise of unknown size.

    Use it where you cannot estimate the gradient noise. It corrects only noise that is equal in all coordinates; where
    it differs use `eg.coordinate_sgnht`, and where it can be estimated `eg.sghmc` with `eg.PerExample()`.

        H = U + r^T r / 2 + (d/2) (xi - A)^2,  D_rr = A,  Q_rq = I,  Q_r,xi = r/d
        dr = -grad U dt - xi r dt + sqrt(2 T A) dW,  dxi = (r^T r / d - T) dt

    Leaves invariant: exp(-H/T). The paper prints 1/(2d) instead of d/2 (docs/paper/errata.md).

    Args:
        diffusion: A, a scalar, a vector shaped like the position, or a matrix: the noise that is injected, and
            the average friction when gradients are exact.

    Returns:
        The recipe, for `eg.sample`, `eg.Kernel` or `eg.certify`.

    Example:
        >>> import jax, jax.numpy as jnp, ergodica as eg
        >>> target, recipe = eg.gallery.gaussian(2), eg.sgnht()
        >>> phase = recipe.init(target, target.init, jax.random.key(0))
        >>> hot = phase._replace(momentum=jnp.array([2.0, 2.0]))
        >>> float(recipe.drift(target, hot).thermostat)  # r^T r / 2 - 1: friction rises
        3.0

    Reference:
        Ding, Fang, Babbush, Chen, Skeel and Neven (2014), NeurIPS,
        https://papers.nips.cc/paper/5592-bayesian-sampling-using-stochastic-gradient-thermostats; as a recipe Ma, Chen
        and Fox (2015), section 3.1, https://arxiv.org/abs/1506.04696.
    """
    return Recipe(
        energy={"momentum": Gaussian(), "thermostat": Thermostat(_level(diffusion))},
        diffusion={"momentum": Constant(diffusion)},
        curl={
            ("momentum", "position"): Constant(1.0),
            ("momentum", "thermostat"): Coupling(_Momentum(), elementwise=True, shared=True),
        },
    )


def coordinate_sgnht(diffusion: Any = 1.0) -> Recipe:
    """SGNHT with one thermostat for each coordinate, for gradient noise that differs between coordinates.

    Use it instead of `eg.sgnht` where some parameters see much noisier gradients than others. Noise that is correlated
    between coordinates is corrected only in its diagonal.

        H = U + r^T r / 2 + sum_i (xi_i - A)^2 / 2,  D_rr = A,  Q_rq = I,  Q_r,xi = diag(r)
        dr_i = -dU/dq_i dt - xi_i r_i dt + sqrt(2 T A) dW_i,  dxi_i = (r_i^2 - T) dt

    Leaves invariant: exp(-H/T).

    Args:
        diffusion: A, as in `eg.sgnht`.

    Returns:
        The recipe, for `eg.sample`, `eg.Kernel` or `eg.certify`.

    Example:
        >>> import jax, ergodica as eg
        >>> target = eg.gallery.gaussian(3)
        >>> eg.coordinate_sgnht().init(target, target.init, jax.random.key(0)).thermostat.shape
        (3,)

    Reference:
        After Li, Chen, Fan and Carin (2016), https://arxiv.org/abs/1512.07662.
    """
    return Recipe(
        energy={"momentum": Gaussian(), "thermostat": Thermostat(_level(diffusion), per_coordinate=True)},
        diffusion={"momentum": Constant(diffusion)},
        curl={
            ("momentum", "position"): Constant(1.0),
            ("momentum", "thermostat"): Elementwise(_Momentum()),
        },
    )


def riemannian_sgnht(inverse_metric: Field | Any) -> Recipe:
    """SGNHT in a metric: gradient noise that arrives through G^-1/2 meets the friction xi G^-1.

    Use it where you would use `eg.sgrhmc` but do not know the gradient noise.

        H = U + r^T r / 2 + (d/2) (xi - 1)^2,  D_rr = G^-1(q),  Q_rq = G^-1/2(q),  Q_r,xi = G^-1(q) r / d

    Leaves invariant: exp(-H/T).

    Args:
        inverse_metric: G^-1, a positive definite field, or a number, vector or matrix.

    Returns:
        The recipe, for `eg.sample`, `eg.Kernel` or `eg.certify`.

    Example:
        >>> import ergodica as eg
        >>> recipe = eg.riemannian_sgnht(eg.potential_scaled())
        >>> recipe.slots
        ('position', 'momentum', 'thermostat')

    Reference:
        Made by the recipe of Ma, Chen and Fox (2015), https://arxiv.org/abs/1506.04696, from SGRHMC and SGNHT.
    """
    metric = as_field(inverse_metric)
    return Recipe(
        energy={"momentum": Gaussian(), "thermostat": Thermostat(1.0)},
        diffusion={"momentum": metric},
        curl={
            ("momentum", "position"): Root(metric),
            ("momentum", "thermostat"): Coupling(_MetricMomentum(metric), not _may_mix(metric), shared=True),
        },
    )


class _Momentum(eqx.Module):
    """r."""

    def __call__(self, z: View) -> PyTree:
        return z.momentum


class _MetricMomentum(eqx.Module):
    """G^-1 r."""

    metric: Field

    def __call__(self, z: View) -> PyTree:
        layout = Layout.of(z.momentum)
        inverse = self.metric.operator(self.metric.value(z, layout, layout), layout, layout)
        return inverse.apply(z.momentum)


def _may_mix(metric: Field) -> bool:
    """Whether G^-1 may be a matrix, which mixes coordinates."""
    return isinstance(metric, Dense) or (isinstance(metric, Constant) and metric.root_entries is not None)


def _level(diffusion: Any) -> Any:
    """A number for the thermostat's mean: the scalar A itself, else the mean over coordinates."""
    leaves = [jnp.asarray(leaf) for leaf in jax.tree.leaves(diffusion)]
    diagonals = [jnp.diag(leaf) if leaf.ndim == 2 and leaf.shape[0] == leaf.shape[1] else leaf for leaf in leaves]
    return jnp.mean(jnp.concatenate([leaf.reshape(-1) for leaf in diagonals])) if leaves[0].ndim else diffusion
