"""What is averaged along the chains: numbers whose mean under exp(-U/T) is known for any potential U.

With u = (x - m) / s, m and s the mean and deviation of the claimed law, and g = dU/dx:

    u_i             0   mean
    u_i²            1   variance
    u_i s_i g_i / T 1   equipartition: by parts, E[(x_i - m) dU/dx_j] = T if i = j, else 0, where the density vanishes
                        at the boundary
    (u_i s_j g_j + u_j s_i g_i) / 2T   0   the same for pairs i < j
    U / T               no known mean: it shows slow changes of the energy
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.tree import Layout
from ergodica.verify.audit.reference import Reference

ALL_PAIRS = 12  # coordinates up to which every pair is looked at; above, each with the next


class Features(NamedTuple):
    """observe(position) -> features, and where each kind is in them."""

    target: Any
    layout: Layout
    mean: Array
    deviation: Array
    temperature: Array
    pairs: tuple[Array, Array]

    @property
    def dim(self) -> int:
        return self.layout.size

    @property
    def linear(self) -> slice:
        return slice(0, self.dim)

    @property
    def square(self) -> slice:
        return slice(self.dim, 2 * self.dim)

    @property
    def equipartition(self) -> slice:
        return slice(2 * self.dim, 3 * self.dim)

    @property
    def crossed(self) -> slice:
        return slice(3 * self.dim, 3 * self.dim + len(self.pairs[0]))

    @property
    def size(self) -> int:
        return 3 * self.dim + len(self.pairs[0]) + 1

    def observe(self, x: Array) -> Array:
        potential, gradient = self.target.evaluate(self.layout.unravel(x))
        slope = self.layout.ravel(gradient).astype(jnp.float64) * self.deviation / self.temperature
        u = (x - self.mean) / self.deviation
        i, j = self.pairs
        crossed = (u[i] * slope[j] + u[j] * slope[i]) / 2
        return jnp.concatenate([u, u * u, u * slope, crossed, potential.astype(jnp.float64)[None] / self.temperature])


def features(target: Any, layout: Layout, law: Reference, temperature: float) -> Features:
    d = layout.size
    pairs = np.triu_indices(d, 1) if d <= ALL_PAIRS else (np.arange(d - 1), np.arange(1, d))
    mean, deviation, number = (jnp.asarray(x, jnp.float64) for x in (law.mean, law.deviation, temperature))
    return Features(target, layout, mean, deviation, number, (jnp.asarray(pairs[0]), jnp.asarray(pairs[1])))
