"""The claimed law exp(-U/T): draws to start chains from, and what the features of a right sampler average to.

Exact where it can be: a Gaussian is drawn as such at any temperature, a target of the gallery by its own `draw` at
temperature 1. Else by Metropolis-corrected leapfrog trajectories, which are exact but have to settle.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ergodica.errors import InputError
from ergodica.integrators import Kernel, Leapfrog
from ergodica.samplers import hmc
from ergodica.targets import Target, Truth
from ergodica.tree import Layout
from ergodica.verify.audit.black_box import work_of_gradient
from ergodica.verify.discrete.quadratic import quadratic_of

MOST_NUMBERS = 400  # numbers in a position up to which a Gaussian is looked for
CHAIN_COUNT = 512  # of leapfrog trajectories
DRAWS_KEPT = 128  # draws kept of each chain
LEAPFROG_STEPS = 16
ADAPTING_ROUNDS = 40  # of adapting the trajectories' step and mass
MOST_APART = 8  # trajectories between draws that are kept
REFERENCE_WORK = 2e9  # as `work` counts it
HOPELESS_RHAT = 2.0
SETTLED_RHAT = 1.05  # the largest R-hat of a reference that counts as settled

# Where its chains begin when a target has no draw of its own: far apart, then downhill, so that modes are found that
# chains from one point would never see.
NEAREST_START, FARTHEST_START = 0.1, 30.0  # distances from the position, in deviations as its Hessian tells them
HESSIAN_PROBES = 8  # random directions in which the Hessian is looked at
DESCENT_STEPS = 200
DEEP_ENOUGH = 10.0  # energy above the lowest, in units of the temperature and for each coordinate, that is deep enough
LOST_BEYOND = 100.0  # times the distance of the farthest starts
NEAR_POSITION = 0.1  # deviations around the position, where nothing else is finite

MOST_DRAWN = 4  # laws whose draws are kept

_DRAWN: dict[Any, tuple[Any, "Reference"]] = {}


class Reference(NamedTuple):
    """Draws (clusters, draws, dim): clusters are independent, draws within one need not be."""

    draws: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray
    mean_error: np.ndarray
    """Standard error of `mean` in units of `deviation`; zero where it is exact."""
    variance_error: np.ndarray
    """Relative standard error of deviation²; zero where it is exact."""
    words: str
    rhat: float = 1.0
    is_gaussian: bool = False
    is_exact: bool = True
    """Whether draws are independent draws of the law itself, with all of its modes."""

    @property
    def is_settled(self) -> bool:
        return self.rhat <= SETTLED_RHAT


def reference(
    target: Target, position: PyTree, temperature: float, key: Array, draws: int, effort: float = 1.0
) -> Reference:
    """What is known of exp(-U/T), in the order of `ravel_pytree`, with about `draws` draws where they are exact."""
    layout = Layout.of(position)
    gaussian = _gaussian(target, position, temperature, layout, key, draws)
    if gaussian is not None:
        return gaussian
    draw = None if target.truth is None else target.truth.draw
    if target.truth is not None and draw is not None and temperature == 1.0:
        return _drawn(target.truth, draw, layout, key, draws)
    # The same law again, for another step, need not be drawn again. The target is kept with its draws, so that no other
    # one can come by its id.
    name = (id(target), layout, temperature, effort, tuple(np.asarray(jax.random.key_data(key)).tolist()))
    if name not in _DRAWN:
        while len(_DRAWN) >= MOST_DRAWN:
            _DRAWN.pop(next(iter(_DRAWN)))
        starts = _starts(target, draw, position, temperature, layout, key)
        _DRAWN[name] = target, _leapfrog(target, layout, starts, temperature, key, effort)
    return _DRAWN[name][1]


def _gaussian(
    target: Target, position: PyTree, temperature: float, layout: Layout, key: Array, draws: int
) -> Reference | None:
    if target.domain is not None or layout.size > MOST_NUMBERS:
        return None
    try:
        law = quadratic_of(target, position)
    except InputError:
        return None
    covariance = temperature * np.linalg.inv(law.precision)
    root = np.linalg.cholesky(covariance)
    # NumPy's normals are five times faster than JAX's; the key is only a seed
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    normals = rng.standard_normal((CHAIN_COUNT, max(draws // CHAIN_COUNT, 1), layout.size))
    exact = np.zeros(layout.size)
    deviation = np.sqrt(np.diag(covariance))
    x = law.mean + normals @ root.T
    return Reference(x, law.mean, deviation, exact, exact, "exact draws of a Gaussian", is_gaussian=True)


def _drawn(truth: Truth, one: Callable[[Array], PyTree], layout: Layout, key: Array, draws: int) -> Reference:
    block = 8192
    draw = jax.jit(jax.vmap(lambda k: layout.ravel(one(k)).astype(jnp.float64)))
    rows = [np.asarray(draw(jax.random.split(k, block))) for k in jax.random.split(key, max(draws // block, 1))]
    x = np.concatenate(rows).reshape(CHAIN_COUNT, -1, layout.size)
    mean, mean_error, deviation, variance_error = _moments(x)
    exact = np.zeros(layout.size)
    if truth.mean is not None:
        mean, mean_error = np.asarray(layout.ravel(truth.mean), float), exact
    if truth.variance is not None:
        deviation, variance_error = np.sqrt(np.asarray(layout.ravel(truth.variance), float)), exact
    return Reference(x, mean, deviation, mean_error, variance_error, "exact draws of the target's own")


def _moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean and deviation over all draws, with errors from clusters: in units of deviation, relative for its square."""
    mean, root = x.mean((0, 1)), np.sqrt(x.shape[0])
    deviation = x.std((0, 1))
    u = (x - mean) / deviation
    return mean, u.mean(1).std(0, ddof=1) / root, deviation, (u * u).mean(1).std(0, ddof=1) / root


def _starts(target: Target, draw: Any, position: PyTree, temperature: float, layout: Layout, key: Array) -> np.ndarray:
    if draw is not None:
        return np.asarray(jax.jit(jax.vmap(lambda k: layout.ravel(draw(k))))(jax.random.split(key, CHAIN_COUNT)), float)
    start = np.asarray(layout.ravel(position), float)
    if target.domain is not None:  # far starts may be outside
        return np.broadcast_to(start, (CHAIN_COUNT, layout.size))
    return spread_starts(target, layout, start, temperature, CHAIN_COUNT, np.asarray(jax.random.key_data(key)).tolist())


def _leapfrog(
    target: Target, layout: Layout, starts: np.ndarray, temperature: float, key: Array, effort: float
) -> Reference:
    """HMC with a step that follows acceptance and a mass that follows the spread, both frozen before draws are kept."""
    each = work_of_gradient(target, layout) * LEAPFROG_STEPS * CHAIN_COUNT * (ADAPTING_ROUNDS + DRAWS_KEPT)
    apart = int(np.clip(min(effort, 1) * REFERENCE_WORK / each, 1, MOST_APART))
    x, step_size, mass = jnp.asarray(starts), jnp.asarray(0.1, jnp.float64), jnp.ones(layout.size, jnp.float64)
    number, kept, shares = jnp.asarray(temperature, jnp.float64), [], []
    for n in range(ADAPTING_ROUNDS + DRAWS_KEPT):
        x, accepted = _trajectories(target, layout, x, step_size, mass, number, jax.random.fold_in(key, n), apart)
        if n >= ADAPTING_ROUNDS:
            kept.append(np.asarray(x))
            shares.append(float(accepted))
            continue
        step_size = step_size * jnp.exp(2 * (accepted - 0.8))
        # mass T/variance: every coordinate moves its own deviation per unit of time
        if n in (ADAPTING_ROUNDS // 4, ADAPTING_ROUNDS // 2):
            spread = jnp.var(x, axis=0)
            mass, step_size = number / jnp.maximum(spread, 1e-12 * jnp.max(spread)), jnp.asarray(0.3, jnp.float64)
    draws = np.swapaxes(np.stack(kept), 0, 1)
    rhat = _rhat(draws)
    if not rhat < HOPELESS_RHAT:  # NaN where draws are not finite, or none moved
        raise InputError(
            f"reference draws of exp(-U/T) do not settle (R-hat {rhat:.3g}): is the law normalisable, has it modes "
            "between which chains do not cross? Give a target whose truth has a draw, or position= near its mode"
        )
    mean, mean_error, deviation, variance_error = _moments(draws)
    share = 100 * np.mean(shares)
    words = f"reference draws by Metropolis-corrected leapfrog (R-hat {rhat:.3f}, {share:.0f} % accepted)"
    return Reference(draws, mean, deviation, mean_error, variance_error, words, rhat, is_exact=False)


@eqx.filter_jit
def _trajectories(
    target: Target, layout: Layout, x: Array, step_size: Array, mass: Array, temperature: Array, key: Array, count: int
) -> tuple[Array, Array]:
    """Positions after `count` trajectories, and the share of trajectories accepted."""
    kernel = Kernel(target, hmc(mass=layout.unravel(mass)), Leapfrog(LEAPFROG_STEPS))

    def one(vector: Array, k: Array) -> tuple[Array, Array]:
        state = kernel.init(layout.unravel(vector), k, temperature)
        after, info = kernel.step(state, jax.random.fold_in(k, 1), step_size, None, temperature)
        return layout.ravel(after.phase.position), info.accepted

    def body(x: Array, k: Array) -> tuple[Array, Array]:
        x, accepted = jax.vmap(one)(x, jax.random.split(k, len(x)))
        return x, accepted.astype(jnp.float64).mean()

    x, accepted = jax.lax.scan(body, x, jax.random.split(key, count))
    return x, accepted.mean()


def _rhat(draws: np.ndarray) -> float:
    """The largest split R-hat over coordinates: spread of halves' means against the spread within."""
    halves = np.concatenate(np.split(draws, 2, axis=1))
    within, between = halves.var(1, ddof=1).mean(0), halves.mean(1).var(0, ddof=1)
    return float(np.sqrt(1 - 1 / halves.shape[1] + between / within).max())


def spread_starts(
    target: Target, layout: Layout, position: np.ndarray, temperature: float, count: int, seed: list[int]
) -> np.ndarray:
    """(count, dim): about the position and about its mirror image, at distances of every order, after a descent.

    Those that do not come down are replaced by others that did.
    """
    rng = np.random.default_rng(seed)
    directions = rng.choice([-1.0, 1.0], size=(HESSIAN_PROBES, layout.size))
    curvature = np.abs(np.asarray(_diagonal(target, layout, jnp.asarray(position), jnp.asarray(directions))))
    curvature = np.where(np.isfinite(curvature) & (curvature > 0), curvature, 1.0)
    deviation = np.sqrt(temperature / np.maximum(curvature, 1e-6 * curvature.max()))
    reach = np.exp(rng.uniform(np.log(NEAREST_START), np.log(FARTHEST_START), size=(count, 1)))
    side = rng.choice([-1.0, 1.0], size=(count, 1))
    far = side * position + reach * deviation * rng.standard_normal((count, layout.size))
    x, energy = (np.array(part) for part in _descended(target, layout, jnp.asarray(far)))
    # a potential without a floor has no modes: chains from the position will show it
    is_lost = np.max(np.abs(x) / (np.abs(position) + FARTHEST_START * deviation), axis=1) > LOST_BEYOND
    energy = np.where(is_lost, np.inf, energy)
    bound = np.min(energy, initial=np.inf, where=np.isfinite(energy)) + DEEP_ENOUGH * temperature * (1 + layout.size)
    low = np.flatnonzero(energy < bound)
    if not len(low):
        return position + NEAR_POSITION * deviation * rng.standard_normal((count, layout.size))
    lost = np.flatnonzero(~(energy < bound))
    x[lost] = x[rng.choice(low, size=len(lost))]
    return x


@eqx.filter_jit
def _diagonal(target: Target, layout: Layout, x: Array, directions: Array) -> Array:
    """Hutchinson's estimate of the Hessian's diagonal."""

    def slope(x: Array) -> Array:
        return jax.grad(lambda x: target.potential(layout.unravel(x)))(x)

    along = jax.linearize(slope, x)[1]
    return jnp.mean(directions * jax.vmap(along)(directions), axis=0)


@eqx.filter_jit
def _descended(target: Target, layout: Layout, x: Array) -> tuple[Array, Array]:
    """Points after gradient descent with a step of their own, and their energies."""

    def evaluate(x: Array) -> tuple[Array, Array]:
        energy, gradient = target.evaluate(layout.unravel(x))
        return energy.astype(jnp.float64), layout.ravel(gradient).astype(jnp.float64)

    def body(_: Array, carry: tuple[Array, ...]) -> tuple[Array, ...]:
        x, energy, gradient, step = carry
        moved = x - step * gradient
        lower, slope = evaluate(moved)
        is_lower = lower < energy
        picked = jax.tree.map(
            lambda new, old: jnp.where(is_lower, new, old), (moved, lower, slope), (x, energy, gradient)
        )
        return *picked, jnp.where(is_lower, 1.5 * step, step / 4)

    def one(x: Array) -> tuple[Array, Array]:
        energy, gradient = evaluate(x)
        # the first step goes about as far as the point is from 0
        step = (1 + jnp.linalg.norm(x)) / jnp.maximum(jnp.linalg.norm(gradient), 1e-30)
        end = jax.lax.fori_loop(0, DESCENT_STEPS, body, (x, energy, gradient, step))
        return end[0], end[1]

    return jax.vmap(one)(x)
