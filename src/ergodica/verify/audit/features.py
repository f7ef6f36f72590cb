"""What is averaged along the chains: numbers whose mean under exp(-U/T) is known for any potential U.

With u = (x - m) / s, m and s the mean and deviation of the claimed law, and g = dU/dx:

    u_i             0   mean
    u_i²            1   variance
    u_i s_i g_i / T 1   equipartition: by parts, E[(x_i - m) dU/dx_j] = T if i = j, else 0
    (u_i s_j g_j + u_j s_i g_i) / 2T   0   the same for pairs i < j
    shape(u)            0 for a Gaussian, else by draws: skewness, kurtosis, and how one coordinate bends with others
    n(u_i) n(u_j) n(u_k)   the same for triples i < j < k: dependence that no pair shows; n(u) = u, cut at +-2, over its
                        deviation for a Gaussian
    U / T               no known mean: it shows slow changes of the energy

Where the domain has walls, parts leave no boundary term, and 1/x at the wall no heavy tail, if the factor of g_j
vanishes there. With w = (1 + (x-m)/(m-low)) (1 - (x-m)/(high-m)), 1 where there are none:

    v g / T + 1 - v'            1   v = x - m; x less the wall where there is one; (x - m) w between two
    u_i s_j (w_j g_j / T - w'_j)  0   for i != j

The shape is measured by bounded functions, so that heavy tails do no harm. With a = 3/2, b = 1/2 and, for a Gaussian u,
e^{a²/2} sin(a u) = a He1(u) - a³/6 He3(u) + ..., e^{a²/2} cos(a u) = 1 - a²/2 He2(u) + a⁴/24 He4(u) - ...:

    skewness  -6/(a² - b²)  [e^{a²/2} sin(a u)/a - e^{b²/2} sin(b u)/b]              = He3(u) + order 5
    kurtosis  24/(a² - b²)  [(e^{a²/2} cos(a u) - 1)/a² - (e^{b²/2} cos(b u) - 1)/b²] = He4(u) + order 6
    bend      odd(u_i) sum_{j != i} even(u_j) / sqrt(d - 1),   odd = He1 + order 3, even = He2 + order 4

Divided by their deviations sqrt(6), sqrt(24), sqrt(2). They have no part in He1 or He2: under Langevin dynamics they
are independent of mean and variance, and their tests of those.
"""

import itertools
import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.integrators.reflection import bounds
from ergodica.targets import Target
from ergodica.tree import Layout
from ergodica.verify.audit.reference import Reference

ALL_PAIRS = 12  # coordinates up to which every pair is looked at
ALL_TRIPLES = 8  # coordinates up to which every triple is
RANDOM_TRIPLES = 32  # random ones above, and as many of each coordinate with the next two
SHAPE_DEVIATIONS = np.sqrt([6.0, 24.0, 2.0])  # of He3, He4, He1 He2
CUT_AT = 2.0
CUT_DEVIATION = 0.9594  # deviation of a standard normal number cut at +-CUT_AT
WIDE_FACTOR, NARROW_FACTOR = np.exp(9 / 8), np.exp(1 / 8)  # e^{a²/2}, e^{b²/2}


class Features(NamedTuple):
    """observe(position) -> features, and where each kind is in them."""

    target: Target
    layout: Layout
    mean: Array
    deviation: Array
    temperature: Array
    pairs: tuple[Array, Array]
    triples: tuple[Array, Array, Array]
    low: Array
    high: Array

    @property
    def dim(self) -> int:
        return self.layout.size

    @property
    def has_wall(self) -> np.ndarray:
        """By coordinate."""
        return np.isfinite(np.asarray(self.low)) | np.isfinite(np.asarray(self.high))

    def _part(self, k: int) -> slice:
        # `shape`: skewness of every coordinate, kurtosis of every one, bend of every one where there are others
        d, kinds = self.dim, 3 if self.dim > 1 else 2
        sizes = (d, d, d, len(self.pairs[0]), kinds * d, len(self.triples[0]))
        return slice(sum(sizes[:k]), sum(sizes[: k + 1]))

    linear = property(lambda self: self._part(0))
    square = property(lambda self: self._part(1))
    equipartition = property(lambda self: self._part(2))
    crossed = property(lambda self: self._part(3))
    shape = property(lambda self: self._part(4))
    triple = property(lambda self: self._part(5))

    @property
    def size(self) -> int:
        return self.triple.stop + 1

    @property
    def scales(self) -> np.ndarray:
        """features @ scales are the means over coordinates of variance and equipartition, which should be 1."""
        return np.stack([self.columns(part).mean(1) for part in (self.square, self.equipartition)], axis=1)

    def columns(self, part: slice) -> np.ndarray:
        """(size, numbers in the part): features @ columns is that part of them."""
        return np.eye(self.size, part.stop - part.start, -part.start)

    def about(self, k: int, names: tuple[str, ...]) -> str:
        """What the feature number k is about."""
        if k < self.crossed.start:
            return names[k % self.dim]
        if k < self.crossed.stop:
            i, j = (int(x[k - self.crossed.start]) for x in self.pairs)
            return f"{names[i]} with {names[j]}"
        if k < self.shape.stop:
            return names[(k - self.shape.start) % self.dim]
        if k < self.triple.stop:
            three = [names[int(x[k - self.triple.start])] for x in self.triples]
            return f"the product of {three[0]}, {three[1]} and {three[2]}"
        return "the energy"

    def observe(self, x: Array) -> Array:
        potential, gradient = self.target.evaluate(self.layout.unravel(x))
        slope = self.layout.ravel(gradient).astype(jnp.float64) / self.temperature
        u = (x - self.mean) / self.deviation
        i, j = self.pairs
        even, inner = self._inside(x - self.mean, slope)
        crossed = (u[i] * inner[j] + u[j] * inner[i]) / 2
        energy = potential.astype(jnp.float64)[None] / self.temperature
        return jnp.concatenate([u, u * u, even, crossed, *_shape(u, self.triples), energy])

    def _inside(self, y: Array, slope: Array) -> tuple[Array, Array]:
        """v g / T + 1 - v' and s (w g / T - w'), for y = x - m; a wall at infinity adds 0."""
        a, b = 1 / (self.mean - self.low), 1 / (self.high - self.mean)
        below, above = 1 + a * y, 1 - b * y
        w, dw = below * above, a * above - b * below
        one = jnp.where(a > 0, y + 1 / a, jnp.where(b > 0, y - 1 / b, y)) * slope
        both = y * w * slope + 1 - w - y * dw
        return jnp.where((a > 0) & (b > 0), both, one), self.deviation * (w * slope - dw)


def _shape(u: Array, triples: tuple[Array, Array, Array]) -> list[Array]:
    s, c = jnp.sin(u / 2), jnp.cos(u / 2)
    s3, c3 = s * (3 - 4 * s * s), c * (4 * c * c - 3)  # of 3u/2
    skewness = -3 * (WIDE_FACTOR * s3 / 1.5 - NARROW_FACTOR * s / 0.5)
    kurtosis = 12 * ((WIDE_FACTOR * c3 - 1) / 2.25 - (NARROW_FACTOR * c - 1) / 0.25)
    third, fourth, bent = SHAPE_DEVIATIONS
    if len(u) == 1:
        return [skewness / third, kurtosis / fourth]
    odd, even = 2 * NARROW_FACTOR * s, 8 * (1 - NARROW_FACTOR * c)
    bend = odd * (jnp.sum(even) - even) / np.sqrt(len(u) - 1)
    i, j, k = triples
    near = jnp.clip(u, -CUT_AT, CUT_AT) / CUT_DEVIATION  # cheap: XLA computes it again for every number that is picked
    return [skewness / third, kurtosis / fourth, bend / bent, near[i] * near[j] * near[k]]


def features(target: Target, layout: Layout, law: Reference, temperature: float) -> Features:
    i, j = map(jnp.asarray, np.triu_indices(layout.size, 1) if layout.size <= ALL_PAIRS else _some_pairs(layout))
    first, second, third = map(jnp.asarray, _triples(layout.size))
    walls = bounds(target.domain, layout.unravel(jnp.zeros(layout.size)))
    known = law.mean, law.deviation, temperature, *walls
    mean, deviation, number, low, high = (jnp.asarray(x, jnp.float64) for x in known)
    return Features(target, layout, mean, deviation, number, (i, j), (first, second, third), low, high)


def _triples(dim: int) -> np.ndarray:
    """(3, triples) of coordinates i < j < k: all of them, or neighbours and some at random."""
    if dim <= ALL_TRIPLES:
        return np.array(list(itertools.combinations(range(dim), 3)), int).reshape(-1, 3).T
    rng = np.random.default_rng(1)
    chosen = {(i, i + 1, i + 2) for i in range(min(dim - 2, RANDOM_TRIPLES))}
    chosen |= {tuple(sorted(rng.choice(dim, 3, replace=False).tolist())) for _ in range(RANDOM_TRIPLES)}
    return np.array(sorted(chosen)).T


def _some_pairs(layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Each coordinate with the next, with one in the same place of the next array (one key used for both makes them
    the same), and with one at random."""
    d, sizes = layout.size, [math.prod(shape) for shape in layout.shapes]
    begins = np.cumsum([0, *sizes[:-1]])
    after = np.arange(1, d)
    pairs = set(zip((after - 1).tolist(), after.tolist(), strict=True))
    for at, size, following, other in zip(begins, sizes, begins[1:], sizes[1:], strict=False):
        pairs |= {(int(at + k), int(following + k)) for k in range(min(size, other))}
    shuffled = np.random.default_rng(0).permutation(d)
    pairs |= {(int(min(a, b)), int(max(a, b))) for a, b in zip(shuffled, np.roll(shuffled, 1), strict=True)}
    i, j = np.array(sorted(pairs)).T
    return i, j
