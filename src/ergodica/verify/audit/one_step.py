"""Drift and diffusion from one step, and whether they balance: invariance from exact draws.

For x drawn from the claimed law and dx its one step, a step that leaves the law invariant has

    E[phi(x + dx) - phi(x)] = 0,   with phi = (x_i - m_i)²:   2 Cov(x_i, dx_i) + E[dx_i²] = 0,

the Fokker-Planck equation in weak form: what the drift pulls in, the noise pushes out. Pairs x, x' of independent draws
are moved with the *same* key: 1/2 (x - x')(dx - dx') has the mean Cov(x, dx), and noise that does not depend on x drops
out, so that the drift is seen at steps so small that there is no discretisation to speak of.

Where a coordinate has a wall, what a step does there (reflect, project, refuse) is its own business: starts within
five noise widths of it are left out, by test functions that vanish there. For a smooth g that is 0 where the wall is
felt, parts leave no boundary term, and a step that leaves the law invariant has, to first order in the step size,

    2 E[g(x_i) dx_i] + E[g'(x_i) dx_i²] = 0.

g(x) = t w(t), t the distance from the wall less five noise widths and w a smooth step from 0 at t = 0 to 1; between two
walls the distance from their middle, and a step at each.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.verify.audit.black_box import Step
from ergodica.verify.audit.features import Features
from ergodica.verify.audit.reference import Reference

SMALL_MOVE = 0.004  # mean square displacement of a small step, in units of the variance, for the fastest coordinate
BLOCK_PAIRS = 4096  # pairs moved at once
TRACED_PAIRS = 2**17  # of a JAX step
CALLED_PAIRS = 2**16  # of a NumPy step, at full effort
FEWEST_PAIRS = 2**10
MOST_REPEATS = 8  # keys for each pair, where draws are dear
MOST_HALVINGS = 30
MOST_PAIRS = 2**17  # of coordinates: above, those of the chains' features
NUMBERS_KEPT = 2**22  # kept of all clusters: fewer of them for more pairs
FEWEST_CLUSTERS = 32
WALL_WIDTHS = 5.0  # noise widths from a wall within which starts are left out

Pairs = tuple[np.ndarray, np.ndarray]  # indices i < j of coordinates


class Balance(NamedTuple):
    """One-step moments at a small step; by coordinate, then for `pairs`, last the mean over coordinates without a wall
    where there are several: a temperature, or a drift that is too weak far out, shows in all of them at once.

    `residual` = 1 - drift / (what the noise asks for): 0 where the claimed law is left invariant.
    """

    step_size: float
    residual: np.ndarray
    error: np.ndarray
    leftover: np.ndarray
    diffusion: np.ndarray
    """E[dx²] / 2h by coordinate; NaN where it has a wall, at which a step does something else."""
    diffusion_error: np.ndarray
    drift: np.ndarray
    """Cov(x, dx) / (h Var x): the slope of the drift in its own coordinate; NaN where it has a wall."""
    drift_error: np.ndarray
    clusters: int
    pairs: Pairs

    @property
    def has_mean(self) -> bool:
        """Whether the last residual is the mean over coordinates."""
        return len(self.residual) > len(self.diffusion) + len(self.pairs[0])


class Interior(NamedTuple):
    """Coordinates with a wall, and where they are away from it; in units of the deviation."""

    which: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def nothing(self) -> np.ndarray:
        """Coordinates of which nothing is away from their walls."""
        return self.which[~(self.high > self.low)]

    def products(self, moved: list[np.ndarray], clusters: int) -> np.ndarray:
        """(clusters, 2, walled): n and q with the residual (2n + q)/q that `balance` looks at, so that q is the noise
        where w is not 0 and 2n all the rest."""
        draws = moved[0].shape[0] * moved[0].shape[1] // clusters
        u, v, du, dv = (x[..., self.which].reshape(clusters, draws, len(self.which)) for x in moved)
        n, q = np.zeros((2, clusters, len(self.which)))
        for x, dx in ((u, du), (v, dv)):
            w, g, slope = self._test(x)
            size = (w * dx * dx).mean(1) / 2
            q += size
            n += (g * dx + slope * dx * dx / 2).mean(1) / 2 - size / 2
        return np.stack([n, q], axis=1)

    def _test(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """w, g and g'."""
        below, rise = _step(x - self.low)
        above, fall = _step(self.high - x)
        w, dw = below * above, rise * above - below * fall
        has_low, has_high = np.isfinite(self.low), np.isfinite(self.high)
        middle = np.where(has_low & has_high, (self.low + self.high) / 2, np.where(has_low, self.low, self.high))
        t = x - middle
        return w, t * w, w + t * dw


def _step(t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From 0 at t = 0 to 1 at t = 1, and its slope; 1 at an infinite distance."""
    s = np.clip(t, 0.0, 1.0)
    return s * s * (3 - 2 * s), 6 * s * (1 - s)


def interior(features: Features, width: np.ndarray) -> Interior:
    """For noise of this width in every coordinate, in units of the deviation."""
    which = np.flatnonzero(features.has_wall)
    deviation = np.asarray(features.deviation)[which]
    low, high = (np.asarray(wall)[which] / deviation for wall in (features.low, features.high))
    margin = WALL_WIDTHS * width[which]
    return Interior(which, low + margin, high - margin)


def balance(
    step: Step, features: Features, law: Reference, step_size: float, seed: int, effort: float
) -> Balance | None:
    """One-step moments of a step without a state of its own; None if no small step is finite and moves."""
    half = len(law.draws) // 2
    one, other = law.draws[:half], law.draws[half : 2 * half]
    pairs = _open_pairs(step.dim, features)
    move, deviation = moved_pairs if step.is_jax else _called, np.asarray(features.deviation)
    per_block = min(max((BLOCK_PAIRS if step.is_jax else FEWEST_PAIRS) // half, 1), one.shape[1])
    wanted = TRACED_PAIRS if step.is_jax else max(int(min(effort, 1) * CALLED_PAIRS), FEWEST_PAIRS)
    blocks = [slice(at, at + per_block) for at in range(0, one.shape[1] - per_block + 1, per_block)]
    blocks = blocks[: max(wanted // (half * per_block), 1)]
    repeats = int(np.clip(wanted // (half * per_block * len(blocks)), 1, MOST_REPEATS))

    def moved(h: float, k: int, r: int) -> list[np.ndarray]:
        x, y = one[:, blocks[k]], other[:, blocks[k]]
        after = move(step, x, y, np.random.SeedSequence([seed, 3, k, r]), h)
        return [z / deviation for z in (x, y, *after)]

    def moments(h: float, inside: Interior) -> np.ndarray:
        whole, walled, count = np.zeros(()), np.zeros(()), repeats * len(blocks)
        for r in range(repeats):
            for k in range(len(blocks)):
                part = moved(h, k, r)
                products = _products(part, pairs)
                whole = whole + products
                walled = walled + inside.products(part, len(products))
        whole = _picked(whole, pairs)
        whole[:, :, inside.which] = walled
        return whole / count

    def spread(h: float) -> np.ndarray:
        return np.mean(np.square(moved(h, 0, 0)[2:]), axis=(0, 1, 2))

    h = _small_step(spread, step_size)
    if h is None:
        return None
    inside = interior(features, np.sqrt(spread(h)))
    return _balance(h, moments(h, inside), moments(h / 2, inside), deviation, pairs, inside)


def _open_pairs(dim: int, features: Features) -> Pairs:
    """Pairs of coordinates without a wall."""
    i, j = np.triu_indices(dim, 1) if _all_pairs_fit(dim) else map(np.asarray, features.pairs)
    is_open = ~(features.has_wall[i] | features.has_wall[j])
    return i[is_open], j[is_open]


def _all_pairs_fit(dim: int) -> bool:
    return dim * (dim - 1) // 2 <= MOST_PAIRS


def _small_step(spread: Callable[[float], np.ndarray], step_size: float) -> float | None:
    """The largest halving of `step_size` at which the fastest coordinate moves by SMALL_MOVE; None if nothing moves."""
    h = step_size
    for _ in range(MOST_HALVINGS):
        q = spread(h)
        if np.isfinite(q).all() and q.max() <= SMALL_MOVE:
            break
        h /= 2
    else:
        h = step_size  # the step size changes nothing: a step of this kind leaves its law invariant at any
    q = spread(h)
    return h if np.isfinite(q).all() and q.min() > 0 else None


def _balance(
    h: float, whole: np.ndarray, halved: np.ndarray, deviation: np.ndarray, pairs: Pairs, inside: Interior
) -> Balance:
    d, (i, j), clusters = len(deviation), pairs, len(whole)
    root, together = np.sqrt(clusters), np.setdiff1d(np.arange(d), inside.which)

    def residual(moments: np.ndarray) -> np.ndarray:
        n, q = moments[:, 0], moments[:, 1]
        size = q[:, :d].mean(0)
        each = (2 * n + q) / np.maximum(np.concatenate([size, np.sqrt(size[i] * size[j])]), 1e-300)
        return np.concatenate([each, each[:, together].mean(1, keepdims=True)], axis=1) if len(together) > 1 else each

    at_h, at_half = residual(whole), residual(halved)
    straight, differ = 2 * at_half - at_h, at_half - at_h
    error, spread = (x.std(0, ddof=1) / root for x in (straight, differ))
    # Twice the half-step minus the step leaves 0.41 of a bias in sqrt(h), and `differ` is 0.29 of it.
    leftover = 1.5 * np.maximum(np.abs(differ.mean(0)) - 3 * spread, 0)
    error[inside.nothing] = np.inf
    scale = deviation**2 / h
    diffusion, drift = halved[:, 1, :d] * scale, 2 * halved[:, 0, :d] / h
    diffusion[:, inside.which] = drift[:, inside.which] = np.nan  # what is there is weighted by a test function
    return Balance(
        h / 2, straight.mean(0), error, leftover,
        diffusion.mean(0), diffusion.std(0, ddof=1) / root, drift.mean(0), drift.std(0, ddof=1) / root, clusters,
        pairs,
    )  # fmt: skip


def _products(moved: list[np.ndarray], pairs: Pairs) -> np.ndarray:
    """n = Cov(x, dx) and q = E[dx dx], means over clusters, from draws, other draws, and the steps of both (clusters,
    pairs of draws, d): all of them (clusters, 2, d, d), or above MOST_PAIRS (clusters, 2, d + pairs)."""
    dim = moved[0].shape[2]
    is_all = _all_pairs_fit(dim)
    affordable = NUMBERS_KEPT // (dim**2 if is_all else dim + len(pairs[0]))
    clusters = min(len(moved[0]), max(2 ** int(np.log2(max(affordable, 1))), FEWEST_CLUSTERS))
    u, v, du, dv = (x.reshape(clusters, -1, dim) for x in moved)
    count = 2 * u.shape[1]
    if is_all:
        n = np.swapaxes(u - v, 1, 2) @ (du - dv)
        q = np.swapaxes(du, 1, 2) @ du + np.swapaxes(dv, 1, 2) @ dv
        return np.stack([n, q], axis=1) / count
    i, j = (np.concatenate([np.arange(dim), side]) for side in pairs)
    x, dx = u - v, du - dv
    n = (x[..., i] * dx[..., j] + x[..., j] * dx[..., i]).sum(1) / 2
    q = (du[..., i] * du[..., j] + dv[..., i] * dv[..., j]).sum(1)
    return np.stack([n, q], axis=1) / count


def _picked(products: np.ndarray, pairs: Pairs) -> np.ndarray:
    """(clusters, 2, d + pairs)."""
    if products.ndim == 3:
        return products
    i, j = (np.concatenate([np.arange(products.shape[-1]), side]) for side in pairs)
    return (products[..., i, j] + products[..., j, i]) / 2


def moved_pairs(
    step: Step, one: np.ndarray, other: np.ndarray, seed: np.random.SeedSequence, h: float
) -> list[np.ndarray]:
    key = jax.random.wrap_key_data(jnp.asarray(seed.generate_state(2, np.uint32)))
    moved = _pairs_in_jax(step, jnp.asarray(one), jnp.asarray(other), key, jnp.asarray(h, jnp.float64))
    return [np.asarray(x) for x in moved]


@eqx.filter_jit
def _pairs_in_jax(step: Step, one: Array, other: Array, key: Array, h: Array) -> tuple[Array, Array]:
    def pair(k: Array, x: Array, y: Array) -> tuple[Array, ...]:
        return tuple(step.place(step.move(k, step.start(k, z), h)) - z for z in (x, y))

    rows = [x.reshape(-1, step.dim) for x in (one, other)]
    dx, dy = jax.vmap(pair)(jax.random.split(key, len(rows[0])), *rows)
    return dx.reshape(one.shape), dy.reshape(one.shape)


def _called(step: Step, one: np.ndarray, other: np.ndarray, seed: np.random.SeedSequence, h: float) -> np.ndarray:
    moved = np.empty((2, *one.shape))
    for index, child in zip(np.ndindex(one.shape[:2]), seed.spawn(one[..., 0].size), strict=True):
        for side, start in enumerate((one, other)):
            rng = np.random.default_rng(child)
            moved[(side, *index)] = step.place(step.move(rng, step.start(rng, start[index]), h)) - start[index]
    return moved
