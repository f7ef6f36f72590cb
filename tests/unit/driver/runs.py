"""Small runs that the driver's tests share: one model, so that it is compiled once."""

import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.sampling import sample

ROWS = np.random.default_rng(8).normal(0.5, 1.0, (60, 2))


def log_prior(q):
    return -jnp.sum(q["mean"] ** 2) / 2


def log_likelihood(q, rows):
    return -jnp.sum((rows - q["mean"][None]) ** 2, axis=1) / 2


TARGET = eg.Posterior(log_prior, log_likelihood, ROWS, init={"mean": np.zeros(2)})
PLAIN = {"steps": 60, "step_size": 1e-2, "batch_size": 6, "chains": 2, "progress": False}


def run(recipe=None, target=TARGET, **changes):
    return sample(target, eg.sghmc() if recipe is None else recipe, **PLAIN | changes)


def assert_same_bytes(first, second):
    assert first.posterior["mean"].tobytes() == second.posterior["mean"].tobytes()
    assert first.stats.keys() == second.stats.keys()
    for name, values in first.stats.items():
        assert values.tobytes() == second.stats[name].tobytes(), name
    assert (first.temperatures is None) == (second.temperatures is None)
    for one, other in zip(first.temperatures or (), second.temperatures or (), strict=True):
        assert one.tobytes() == other.tobytes()
