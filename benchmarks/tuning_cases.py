"""What benchmarks/tuning.py samples: targets whose means and sds are known, and some that are never to be "reached"."""

import bz2
import csv
import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg
from benchmarks import logistic, posteriordb

RARE_ROWS = 100  # features of a9a in fewer rows than that are rare
A9A_ROWS, A9A_FEATURES = 32_560, 124


class Known(NamedTuple):
    """A target, what is kept of a position, and the true mean and sd of every number of it, in its order."""

    name: str
    target: Any
    mean: np.ndarray
    sd: np.ndarray
    keep: Any = "draws"

    def off(self, run: eg.Run) -> tuple[float, float]:
        """How far the worst mean is off, in sds, and the worst sd, relatively."""
        draws = flat(run.posterior)
        means, sds = draws.mean(axis=0), draws.std(axis=0)
        return float(np.max(np.abs(means - self.mean) / self.sd)), float(np.max(np.abs(sds / self.sd - 1)))


def flat(posterior: Any) -> np.ndarray:
    """(draw of any chain, number), in the order of jax.tree.leaves."""
    leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(posterior)]
    return np.concatenate([leaf.reshape(leaf.shape[0] * leaf.shape[1], -1) for leaf in leaves], axis=1)


def regression(rows: int, spread: float) -> Known:
    """Logistic regression with 54 features."""
    data = logistic.data(rows, spread)
    target = logistic.target(data)
    mode = eg.find_mode(target)
    mean, sd = logistic.reference(data, np.asarray(mode.position, float), mode.covariance(target))
    return Known(f"logistic, {rows:,} rows, spread {spread:g}", target, mean, sd)


def student_regression(rows: int = 60_000, features: int = 21) -> Known:
    """Regression with Student-t errors (4 degrees of freedom); what is true comes from a long run with Metropolis."""
    rng = np.random.default_rng(7)
    x = rng.standard_normal((rows, features)).astype(np.float32)
    weights = rng.standard_normal(features).astype(np.float32)
    y = (x @ weights + rng.standard_t(4, rows)).astype(np.float32)

    def log_likelihood(w: Any, batch: Any) -> Any:
        return -2.5 * jnp.log1p((batch["y"] - batch["x"] @ w) ** 2 / 4)

    def log_prior(w: Any) -> Any:
        return -jnp.sum(w**2) / 2

    target = eg.Posterior(log_prior, log_likelihood, {"x": x, "y": y}, init=np.zeros(features, np.float32))
    return Known("Student-t regression", target, *long_run(target, 3_000))


def long_run(target: Any, trajectories: int) -> tuple[np.ndarray, np.ndarray]:
    """Means and sds by all data with a Metropolis test, in coordinates scaled by Laplace's covariance."""
    mode = eg.find_mode(target)
    root = np.linalg.cholesky(mode.covariance(target))
    step = 1.2 * len(root) ** -0.25
    integrator = eg.Leapfrog(math.ceil(1.57 / step))
    settings = {"steps": trajectories, "warmup": 50, "step_size": step, "integrator": integrator, "progress": False}
    run = eg.sample(target, eg.hmc(scale=jnp.asarray(root, jnp.float32)), mode.position, **settings)
    draws = flat(run.posterior)
    return draws.mean(axis=0), draws.std(axis=0)


def a9a() -> tuple[Known, np.ndarray]:
    """The Adult data with its reference, and which features are rare."""
    folder = posteriordb.data_folder().parent / "a9a"
    x, y = np.zeros((A9A_ROWS, A9A_FEATURES), np.float32), np.zeros(A9A_ROWS, np.float32)
    x[:, 0] = 1.0
    with bz2.open(folder / "a9a.bz2", "rt") as file:
        for row, line in enumerate(file):
            label, *features = line.split()
            y[row] = float(label)
            x[row, [int(feature.partition(":")[0]) for feature in features]] = 1.0
    with open(folder / "reference_summary.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    mean, sd = (np.array([float(line[name]) for line in lines]) for name in ("mean", "sd"))
    is_rare = np.array([int(line["rows_with_it"]) < RARE_ROWS for line in lines])

    def log_prior(w: Any) -> Any:
        return -jnp.sum(w**2) / 2

    target = eg.Posterior(log_prior, logistic.one_product, logistic.Data(x, y), init=np.zeros(A9A_FEATURES, np.float32))
    return Known("a9a", target, mean, sd), is_rare


def rare_regression(rows: int = 20_000, features: int = 10, seed: int = 0) -> Known:
    """Linear regression, noise of sd 1, features in 1 row of 2 down to 1 of 300: the posterior is a known Gaussian."""
    rng = np.random.default_rng(seed)
    shares = np.geomspace(0.5, 1 / 300, features)
    x = (rng.random((rows, features)) < shares).astype(np.float32) * rng.standard_normal((rows, features))
    x = x.astype(np.float32)
    y = (x @ rng.standard_normal(features) + rng.standard_normal(rows)).astype(np.float32)

    def log_likelihood(w: Any, batch: Any) -> Any:
        return -((batch["y"] - batch["x"] @ w) ** 2) / 2

    def log_prior(w: Any) -> Any:
        return -jnp.sum(w**2) / 2

    target = eg.Posterior(log_prior, log_likelihood, {"x": x, "y": y}, init=np.zeros(features, np.float32))
    covariance = np.linalg.inv(x.T.astype(float) @ x.astype(float) + np.eye(features))
    return Known("linear regression", target, covariance @ x.T.astype(float) @ y, np.sqrt(np.diag(covariance)))


def gaussian(size: int = 5) -> Known:
    """Correlated, with sds from 0.01 to 100."""
    sds = np.geomspace(0.01, 100, size)
    correlation = 0.8 ** np.abs(np.subtract.outer(np.arange(size), np.arange(size)))
    precision = jnp.asarray(np.linalg.inv(correlation * np.outer(sds, sds)))
    target = eg.Density(lambda q: q @ precision @ q / 2, init=np.ones(size))
    return Known("Gaussian", target, np.zeros(size), sds)


def shared_posterior(name: str) -> Known:
    """One of posteriordb's, with the reference's means and sds; what is kept are the parameters of the reference."""
    folder, case = posteriordb.data_folder(), posteriordb.POSTERIORS[name]
    model = case.build(json.loads((folder / "data" / f"{name}.json").read_text()))
    expected = posteriordb.references(folder, case.reference)
    pairs = np.array([expected[key] for key in sorted(expected)])  # the leaves of a dictionary come sorted
    return Known(name, model.target, pairs[:, 0], pairs[:, 1], model.parameters)


def earnings() -> Known:
    """Linear regression with flat priors: 1/sigma^2 is Gamma, and the weights are Student-t."""
    known = shared_posterior("earnings")
    x, y = (np.asarray(known.target.data[name], float) for name in ("x", "y"))
    inverse = np.linalg.inv(x.T @ x)
    weights = inverse @ x.T @ y
    squares, freedom = float(np.sum((y - x @ weights) ** 2)), len(y) - x.shape[1] - 1
    ratio = math.exp(math.lgamma((freedom - 1) / 2) - math.lgamma(freedom / 2))
    sigma, second = math.sqrt(squares / 2) * ratio, squares / (freedom - 2)
    sds = np.sqrt(np.diag(inverse) * second)
    mean, sd = np.append(weights, sigma), np.append(sds, math.sqrt(second - sigma**2))
    return known._replace(name="earnings, closed form", mean=mean, sd=sd)


def modes(centres: list[list[float]], weights: list[float], start: int) -> eg.Density:
    """A mixture of unit Gaussians, with a start at one of them."""
    places, logs = jnp.asarray(centres, jnp.float32), jnp.log(jnp.asarray(weights, jnp.float32))

    def potential(q: Any) -> Any:
        return -jax.nn.logsumexp(logs - jnp.sum((q - places) ** 2, axis=1) / 2)

    return eg.Density(potential, init=np.asarray(centres[start], np.float32))


def funnel(q: Any) -> Any:
    return q[0] ** 2 / 18 + jnp.sum(q[1:] ** 2) * jnp.exp(-q[0]) / 2 + (len(q) - 1) * q[0] / 2


HARD: dict[str, Callable[[], eg.Density]] = {
    "modes at -5 and 5 in three dimensions": lambda: modes([[-5.0] * 3, [5.0] * 3], [0.3, 0.7], 0),
    "modes 8 sds apart": lambda: modes([[-4.0], [4.0]], [0.5, 0.5], 0),
    "funnel": lambda: eg.Density(funnel, init=np.zeros(6, np.float32)),
    "flat direction": lambda: eg.Density(lambda q: q[0] ** 2 / 2, init=np.zeros(2, np.float32)),
    "Cauchy": lambda: eg.Density(lambda q: jnp.sum(jnp.log1p(q**2)), init=np.zeros(2, np.float32)),
}


def unseen_mode() -> eg.Density:
    """Two modes 50 sds apart: no search from the one meets the other."""
    return modes([[-25.0], [25.0]], [0.5, 0.5], 0)
