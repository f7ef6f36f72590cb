"""The bias of a discrete chain at eps, eps/2 and eps/4, precisely enough to see its order.

Independent chains give standard errors; control variates make them small. Two kinds of numbers have mean zero in the
stationary law of *every* Markov chain z' = step(z, x) with normals x, whatever its bias:

    p(z) h(x), h a Hermite polynomial: x is fresh, independent of z;     p(z') - p(z): z' has the law of z.

With p a polynomial they span nearly all that moves a time average about its mean, so the regression of the averages
on them leaves the mean where it is and takes most of the noise away: errors 5 to 20 times smaller in one dimension.
"""

from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array

import ergodica as eg
from tests.statistical.discrete_law import Law

ROUNDING = 1e-9  # a moment whose error is below this is known exactly: it is a combination of the controls


class Bias(NamedTuple):
    """Bias and standard error of every first and second moment of the phase: row l at the step eps / 2^l."""

    value: np.ndarray
    error: np.ndarray

    @property
    def deviation(self) -> np.ndarray:
        """The bias in standard errors."""
        return self.value / self.error


class Measured(NamedTuple):
    """A number and its standard error."""

    value: float
    error: float


def measure(
    kernel: eg.Kernel, law: dict[str, Law], key: Array, step_size: float, *,
    time: float, chains: int = 2000, burn_in: float = 10.0, temperature: float = 1.0,
) -> Bias:  # fmt: skip
    """The bias against the true law of every slot; `time` and `burn_in` in units of time, for all steps."""
    k_draw, *keys = jax.random.split(key, 4)
    positions = jax.vmap(kernel.target.truth.draw)(jax.random.split(k_draw, chains))
    truth = np.concatenate([_true_moments(*law[slot]) for slot in kernel.recipe.slots])
    rows = []
    for level, k in enumerate(keys):
        eps = step_size / 2**level
        first, last = (jnp.asarray(round(t / eps), jnp.int32) for t in (burn_in, burn_in + time))
        averages = _averages(kernel, positions, k, jnp.asarray(eps), first, last, jnp.asarray(temperature))
        moments, controls = (np.asarray(x) for x in averages)
        rows.append(mean_and_error(moments - truth, controls))
    value, error = (np.stack(x) for x in zip(*rows, strict=True))
    return Bias(value, error)


def extrapolate(bias: Bias, order: int) -> np.ndarray:
    """The bias at eps -> 0 in standard errors, from bias = c eps^p + c' eps^(p+1): Richardson."""
    steps = 0.5 ** np.arange(3)
    weights = np.linalg.inv(np.stack([np.ones(3), steps**order, steps ** (order + 1)], axis=1))[0]
    return weights @ bias.value / np.sqrt(weights**2 @ bias.error**2)


def observed_order(bias: Bias) -> Measured:
    """The order p of the moment whose bias shows best.

    log2 b(eps)/b(eps/2) = p + O(eps); from the two ratios at hand that O(eps) is extrapolated away.
    """
    best = np.argmax(np.min(np.abs(bias.deviation), axis=0))
    value, error = bias.value[:, best], bias.error[:, best]
    weights = np.array([-1.0, 3.0, -2.0])  # 2 log(b1/b2) - log(b0/b1)
    relative = error / np.abs(value) / np.log(2)
    return Measured(float(weights @ np.log2(np.abs(value))), float(np.sqrt(weights**2 @ relative**2)))


def mean_and_error(values: np.ndarray, controls: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The mean over chains of each column, and its standard error, with controls of mean zero regressed out.

    The slopes for one half of the chains come from the other half: were they from the same chains, their own noise
    would be correlated with the controls and shift the mean.
    """
    spread = controls.std(axis=0)
    controls = controls[:, spread > 0] / spread[spread > 0]
    left = np.empty_like(values)
    even, odd = slice(0, None, 2), slice(1, None, 2)
    for fit, use in ((even, odd), (odd, even)):
        # controls may be combinations of each other; the least of the equivalent fits is taken
        slopes = np.linalg.lstsq(_centred(controls[fit]), _centred(values[fit]), rcond=1e-10)[0]
        left[use] = values[use] - controls[use] @ slopes
    return left.mean(axis=0), np.maximum(left.std(axis=0, ddof=1) / np.sqrt(len(left)), ROUNDING)


def _centred(x: np.ndarray) -> np.ndarray:
    return x - x.mean(axis=0)


@eqx.filter_jit
def _averages(kernel, positions, key, step_size, first, last, temperature):
    """Time averages over steps first..last of the moments and the controls, one row a chain."""
    k_start, k_run = jax.random.split(key)
    chains = len(positions)
    start = jax.vmap(lambda q, k: kernel.init(q, k, temperature))(positions, jax.random.split(k_start, chains))

    def one(state, key):
        draws = kernel.integrator.draw(kernel.recipe, state.phase, key, None)
        return kernel.step_with(state, draws, step_size, None, temperature)[0], draws

    def observe(states, key):
        new, draws = jax.vmap(one)(states, jax.random.split(key, chains))
        z, x, z_new = (_coordinates(part) for part in (states.phase, draws, new.phase))
        return new, (_moments(new.phase), _controls(z, x, z_new))

    def body(number, carry):
        states, total = carry
        states, seen = observe(states, jax.random.fold_in(k_run, number))
        return states, jax.tree.map(lambda t, s: jnp.where(number >= first, t + s, t), total, seen)

    shapes = jax.eval_shape(observe, start, key)[1]
    zeros = jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), shapes)
    _, total = jax.lax.fori_loop(0, last, body, (start, zeros))
    return jax.tree.map(lambda t: t.T / (last - first).astype(t.dtype), total)


def _coordinates(part: Any) -> Array:
    """(numbers, chains): one row a number, so that the many products below run along the chains."""
    return jax.vmap(lambda p: ravel_pytree(p)[0], out_axes=1)(part)


def _controls(z: Array, x: Array, z_new: Array) -> Array:
    degree = {1: 4, 2: 4, 3: 3}.get(len(z), 2)  # more numbers: more products at each degree, so fewer degrees
    pairs = jnp.stack([x[i] * x[j] - float(i == j) for i, j in combinations_with_replacement(range(len(x)), 2)])
    fresh = [(x, _monomials(z, degree)), (pairs, _monomials(z, degree - 1))]
    products = [(h[:, None] * p[None]).reshape(-1, z.shape[1]) for h, p in fresh]
    return jnp.concatenate([*products, _monomials(z_new, degree + 1)[1:] - _monomials(z, degree + 1)[1:]])


def _monomials(z: Array, degree: int) -> Array:
    """1, z_i, z_i z_j, ... up to a degree, row by row."""
    levels = [[(0, jnp.ones_like(z[0]))]]
    for _ in range(degree):
        levels.append([(j, term * z[j]) for i, term in levels[-1] for j in range(i, len(z))])
    return jnp.stack([term for level in levels for _, term in level])


def _moments(phase: Any) -> Array:
    """x_i and x_i x_j, slot by slot.

    Not between slots: a product such as q r is the change of q^2 but for terms in eps, known from the others.
    """
    return jnp.concatenate([_monomials(_coordinates(slot), 2)[1:] for slot in phase])


def _true_moments(mean: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """E x_i, then E x_i x_j, in the order of `_moments`."""
    product = covariance + np.outer(mean, mean)
    return np.concatenate([mean, product[np.triu_indices(len(mean))]])
