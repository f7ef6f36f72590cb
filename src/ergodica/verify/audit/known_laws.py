"""The ladder of known laws that `audit_family` puts a sampler on: every mean, variance and draw of them is exact."""

from collections.abc import Sequence
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.targets import Density, gallery
from ergodica.targets.base import Truth

NARROWEST = 0.1  # deviation of the narrowest coordinate of a badly scaled law; the widest has 1


@dataclass(frozen=True)
class KnownLaw:
    """exp(-U/T) for a target's U. `is_plain`: a standard Gaussian, on which temperature and dimension are compared."""

    name: str
    target: Density
    temperature: float
    dim: int
    is_plain: bool


def known_laws(dims: Sequence[int], temperatures: Sequence[float]) -> list[KnownLaw]:
    """Standard and badly scaled Gaussians in each dimension and a quartic at the first temperature, then the others
    on the standard Gaussian in the middle one of the dimensions, and the second temperature on a badly scaled one."""
    first, *others = temperatures
    middle = sorted(dims)[len(dims) // 2]
    laws = [KnownLaw(f"Gaussian, {_of(d)}", gallery.gaussian(d), first, d, True) for d in dims]
    laws += [KnownLaw(f"badly scaled, {_of(d)}", badly_scaled(d), first, d, False) for d in dims if d > 1]
    laws += [KnownLaw("quartic, d = 2", quartic(), first, 2, False)]
    laws += [KnownLaw(f"Gaussian, {_of(middle)}, T = {t:g}", gallery.gaussian(middle), t, middle, True) for t in others]
    if others and middle > 1:
        name = f"badly scaled, {_of(middle)}, T = {others[0]:g}"
        laws.append(KnownLaw(name, badly_scaled(middle), others[0], middle, False))
    return laws


def _of(dim: int) -> str:
    return f"d = {dim}"


def badly_scaled(dim: int) -> Density:
    """A Gaussian with deviations spread evenly in their logarithm from NARROWEST to 1."""
    return gallery.gaussian(covariance=np.geomspace(NARROWEST, 1.0, dim) ** 2)


class QuarticPotential(eqx.Module):
    """U = |x|⁴ / 4."""

    def __call__(self, x: Array) -> Array:
        return 0.25 * jnp.sum(x * x) ** 2


class QuarticDraw(eqx.Module):
    """One exact draw in the plane.

    The radius has the density r exp(-r⁴/4); for y = r⁴/4, r dr is proportional to y^-1/2 dy, so y has the law of
    z²/2 with a standard normal z, and r = (2 z²)^1/4.
    """

    def __call__(self, key: Array) -> Array:
        *direction, z = jax.random.normal(key, (3,), jnp.float64)
        x = jnp.stack(direction)
        return (2.0 * z * z) ** 0.25 * x / jnp.sqrt(jnp.sum(x * x))


def quartic() -> Density:
    """U = |x|⁴/4 in the plane. E x_i² = E r²/2 = E|z| / sqrt(2) = 1 / sqrt(pi)."""
    variance = jnp.full(2, np.pi**-0.5, jnp.float64)
    truth = Truth(jnp.zeros(2, jnp.float64), jnp.diag(variance), QuarticDraw(), variance)
    return Density(QuarticPotential(), init=jnp.sqrt(variance), truth=truth)
