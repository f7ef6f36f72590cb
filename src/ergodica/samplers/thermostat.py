"""Samplers with momentum and a thermostat, which takes up gradient noise of unknown size."""

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
    """Stochastic gradient Nose-Hoover thermostat (Ding et al., 2014).

    Leaves invariant: exp(-H/T), H = U + r^T r / 2 + (d/2) (xi - A)^2 (docs/paper/errata.md: not 1/(2d)).
    D_rr = A, Q_rq = I, Q_r,xi = r/d.
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
    """SGNHT with one thermostat for each coordinate: takes up gradient noise that differs between coordinates.

    Leaves invariant: exp(-H/T), H = U + r^T r / 2 + sum (xi_i - A)^2 / 2.  D_rr = A, Q_rq = I, Q_r,xi = diag(r).
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
    """SGNHT in a metric: gradient noise seen through G^-1/2 is met by friction xi G^-1.

    Leaves invariant: exp(-H/T), H = U + r^T r / 2 + (d/2) (xi - 1)^2.
    D_rr = G^-1(position), Q_rq = G^-1/2(position), Q_r,xi = G^-1(position) r / d.
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
