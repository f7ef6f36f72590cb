"""A metric that reads the potential of a minibatch: of the gradient's own batch, or of another one.

The mean of skewed data under a Gaussian likelihood has an exact posterior N(mean of the data, 1/N). With D = scale
sqrt(U~) and one batch for both, the drift is off by -Cov(D(U~), grad U~), which the skewness makes positive.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.phase import Evaluation
from ergodica_paper.verdict import Measurement

ROWS, BATCH = 2_000, 50
# as a share of the time in which the posterior forgets: gradient noise enters as ROWS / BATCH times that
STEPS = (0.02, 0.01, 0.005)


class Shift(NamedTuple):
    """How far the chains' mean is from the posterior's, in posterior sds, with the metric of either batch."""

    step_size: float
    own: Measurement
    crossed: Measurement


def log_prior(position):
    return jnp.zeros_like(position)


def log_likelihood(position, batch):
    return -((batch - position) ** 2) / 2


def shifts(chains: int, times: float, seed: int, report: Callable[[str], None]) -> list[Shift]:
    """The mean's shift at each step, from `chains` chains over so many forgetting times after five to settle."""
    rng = np.random.default_rng([seed, 17])
    data = rng.exponential(size=ROWS).astype(np.float32)
    middle = data.mean(dtype=np.float64)
    target = eg.Posterior(log_prior, log_likelihood, jnp.asarray(data))
    # D = scale sqrt(U) is 1/N where the posterior lies, so that step 0.01 forgets at 0.01 a step
    level = float(np.sum((data - middle) ** 2) / 2)
    recipe = eg.sgrld(eg.potential_scaled(scale=1 / (ROWS * np.sqrt(level)), offset=0.0))
    start = jnp.full(chains, middle, jnp.float32)

    def shift(step_size: float, own: bool) -> Measurement:
        report(f"a metric from {'its own' if own else 'another'} batch, step {step_size:g}")
        key = jax.random.key(int(rng.integers(2**31)))
        settling, counted = (jnp.asarray(round(t / step_size), jnp.int32) for t in (5.0, times))
        means = _means(target, recipe, start, key, jnp.asarray(step_size, jnp.float32), settling, counted, own)
        return Measurement.of((np.asarray(means, float) - middle) * np.sqrt(ROWS))

    return [Shift(step_size, shift(step_size, True), shift(step_size, False)) for step_size in STEPS]


@eqx.filter_jit
def _means(target, recipe, starts, key, step_size, settling, counted, own: bool):
    """Each chain's mean, with steps that see BATCH rows: one batch for gradient and metric, or two halves crossed."""
    kernel = eg.Kernel(target, recipe, integrator=eg.Euler())
    key_start, key = jax.random.split(key)
    states = jax.vmap(kernel.init)(starts, jax.random.split(key_start, len(starts)))

    def step(state, rows, normal):
        draws = {"position": normal}
        if not own:
            return kernel.step_with(state, draws, step_size, eg.BatchPair(*jnp.split(rows, 2)))[0]
        potential, gradient = target.evaluate(state.phase.position, rows)
        return kernel.finish(state, (Evaluation(gradient, potential, gradient),), draws, step_size)[0]

    def move(_, carry):
        states, key, total = carry
        key, key_rows, key_noise = jax.random.split(key, 3)
        # with replacement: the halves of one draw are independent
        rows = target.data[jax.random.randint(key_rows, (len(starts), BATCH), 0, ROWS)]
        states = jax.vmap(step)(states, rows, jax.random.normal(key_noise, (len(starts),), jnp.float32))
        return states, key, total + states.phase.position

    states, key, _ = jax.lax.fori_loop(0, settling, move, (states, key, jnp.zeros_like(starts)))
    *_, total = jax.lax.fori_loop(0, counted, move, (states, key, jnp.zeros_like(starts)))
    return total / counted.astype(starts.dtype)
