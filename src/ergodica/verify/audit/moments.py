"""Drift and diffusion from one step, and whether they balance: invariance from exact draws.

For x drawn from the claimed law and dx its one step, a step that leaves the law invariant has

    E[phi(x + dx) - phi(x)] = 0,   with phi = (x_i - m_i)²:   2 Cov(x_i, dx_i) + E[dx_i²] = 0,

the Fokker-Planck equation in weak form: what the drift pulls in, the noise pushes out. Pairs x, x' of independent draws
are moved with the *same* key: 1/2 (x - x')(dx - dx') has the mean Cov(x, dx), and noise that does not depend on x drops
out, so that the drift is seen at steps so small that there is no discretisation to speak of.

Where a coordinate has a wall, what a step does there (reflect, project, refuse) is its own business: starts within
five noise widths of it are left out, by test functions that vanish there, see `interior`.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ergodica.verify.audit.features import Features, all_pairs
from ergodica.verify.audit.interior import Interior, interior
from ergodica.verify.audit.reference import Reference
from ergodica.verify.audit.steps import Step

SMALL = 0.004  # mean square displacement of a small step, in units of the variance, for the fastest coordinate
BLOCK = 4096  # pairs moved at once
PAIRS = 2**17  # of a JAX step
CALLED_PAIRS = 2**16  # of a NumPy step, at full effort
FEWEST_PAIRS = 2**10
REPEATS = 8  # keys for each pair, where draws are dear
HALVINGS = 30
MOST_PAIRS = 2**17  # of coordinates: above, those of the chains' features
NUMBERS = 2**22  # kept of all clusters: fewer of them for more pairs
FEWEST_CLUSTERS = 32

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


def balance(
    step: Step, features: Features, law: Reference, step_size: float, seed: int, effort: float
) -> Balance | None:
    """One-step moments of a step without a state of its own; None if no small step is finite and moves."""
    half = len(law.draws) // 2
    one, other = law.draws[:half], law.draws[half : 2 * half]
    pairs = _open_pairs(step.dim, features)
    move, deviation = moved_pairs if step.is_jax else _called, np.asarray(features.deviation)
    per_block = min(max((BLOCK if step.is_jax else FEWEST_PAIRS) // half, 1), one.shape[1])
    wanted = PAIRS if step.is_jax else max(int(min(effort, 1) * CALLED_PAIRS), FEWEST_PAIRS)
    blocks = [slice(at, at + per_block) for at in range(0, one.shape[1] - per_block + 1, per_block)]
    blocks = blocks[: max(wanted // (half * per_block), 1)]
    repeats = int(np.clip(wanted // (half * per_block * len(blocks)), 1, REPEATS))

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
    i, j = all_pairs(dim) if _count_of_pairs(dim) <= MOST_PAIRS else _own_pairs(features)
    is_open = ~(features.has_wall[i] | features.has_wall[j])
    return i[is_open], j[is_open]


def _own_pairs(features: Features) -> Pairs:
    return np.asarray(features.pairs[0]), np.asarray(features.pairs[1])


def _small_step(spread: Callable[[float], np.ndarray], step_size: float) -> float | None:
    """The largest halving of `step_size` at which the fastest coordinate moves by SMALL; None if nothing moves."""
    h = step_size
    for _ in range(HALVINGS):
        q = spread(h)
        if np.isfinite(q).all() and q.max() <= SMALL:
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
    is_all = _count_of_pairs(dim) <= MOST_PAIRS
    affordable = NUMBERS // (dim**2 if is_all else dim + len(pairs[0]))
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


def _count_of_pairs(dim: int) -> int:
    return dim * (dim - 1) // 2


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
