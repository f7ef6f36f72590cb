"""A small tuned run that tests of kills and resuming share: minibatches, a witness, an answer that is lengthened."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

import ergodica as eg
from ergodica.sampling import sample

ROWS = 8_000
LOOSE = eg.Accuracy(mean=0.2, sd=0.15)


class Line(NamedTuple):
    """Not in the order of the alphabet, in which a file has its names."""

    slope: Any
    level: Any


def log_prior(line):
    return -(jnp.sum(line.slope**2) + line.level**2) / 2


def log_likelihood(line, rows):
    return -((rows["y"] - rows["x"] @ line.slope - line.level) ** 2) / 2


def _target() -> eg.Posterior:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((ROWS, 2)).astype(np.float32) * np.array([1.0, 0.1], np.float32)
    y = (x @ np.array([1.0, 2.0], np.float32) + 3 + rng.standard_normal(ROWS)).astype(np.float32)
    start = Line(np.zeros(2, np.float32), np.zeros((), np.float32))
    return eg.Posterior(log_prior, log_likelihood, {"x": x, "y": y}, init=start)


TARGET = _target()


def run(**changes: Any) -> eg.Run:
    return sample(TARGET, **{"accuracy": LOOSE, "progress": False} | changes)


def assert_same_bytes(first: eg.Run, second: eg.Run) -> None:
    """Draws and statistics of the answer and of its witness, and what is said of them."""
    assert first.tuning.words == second.tuning.words
    for one, other in ((first, second), (first.witness, second.witness)):
        for name in ("slope", "level"):
            assert _part(one, name).tobytes() == _part(other, name).tobytes(), name
        assert one.stats.keys() == other.stats.keys()
        for name, values in one.stats.items():
            assert values.tobytes() == other.stats[name].tobytes(), name


def _part(found: eg.Run, name: str) -> np.ndarray:
    """A run from a file has a dictionary."""
    tree = found.posterior
    return np.asarray(tree[name] if isinstance(tree, dict) else getattr(tree, name))
