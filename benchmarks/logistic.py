"""Bayesian logistic regression as the benchmarks use it: data, the likelihood written in two ways, a reference."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ergodica as eg

FEATURES = 54
PRIOR_VARIANCE = 10.0


class Data(NamedTuple):
    """Features (n, 54) and labels 0 or 1, float32."""

    x: np.ndarray
    y: np.ndarray


def data(rows: int, spread: float = 1.0, seed: int = 0) -> Data:
    """Gaussian features; `spread` is the ratio of the largest to the smallest eigenvalue of their covariance."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((FEATURES, FEATURES)))[0]
    scales = np.geomspace(1.0, spread, FEATURES) ** -0.5
    root = (turn * scales * np.sqrt(FEATURES / np.sum(scales**2))) @ turn.T
    weights = rng.standard_normal(FEATURES) / np.sqrt(FEATURES)
    x = rng.standard_normal((rows, FEATURES)).astype(np.float32) @ root.astype(np.float32)
    y = (rng.random(rows) < 1 / (1 + np.exp(-x @ weights))).astype(np.float32)
    return Data(x, y)


def log_prior(weights: Any) -> Any:
    return -jnp.sum(weights**2) / (2 * PRIOR_VARIANCE)


def one_product(weights: Any, batch: Data) -> Any:
    logits = batch.x @ weights
    return batch.y * logits - jax.nn.softplus(logits)


def two_products(weights: Any, batch: Data) -> Any:
    """The same numbers, as people also write it; the gradient then takes two products with the features."""
    return batch.y * (batch.x @ weights) - jax.nn.softplus(batch.x @ weights)


def target(rows: Data, log_likelihood: Any = one_product) -> eg.Posterior:
    return eg.Posterior(log_prior, log_likelihood, rows, init=np.zeros(FEATURES, np.float32))
